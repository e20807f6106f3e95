"""Which functions of pyACL are emulated: docs/pyacl.md, made from the code.

``python -m cannlab.acl.surface FILE`` writes the page; tests/pyacl/test_surface.py fails when the page is stale.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent

from cannlab.acl.binding import is_emulated
from cannlab.acl.signatures import Signature, modules, signatures
from cannlab.machine import requested_faults
from cannlab.trace.whole_file import write_whole

_HEAD = """\
# pyACL: what is emulated

Made from the code by `python -m cannlab.acl.surface docs/pyacl.md`; do not edit. Every function of the published pyACL
exists, with its real signature: {total} in all. {emulated} are emulated. Each of the others checks its arguments as
the real one does and then raises `NotEmulatedError`, which names the function.

| module | functions | emulated |
|---|---|---|
{rows}

Video (VDEC and VENC of acl.media) is decoded and encoded by PyAV, an optional extra: `pip install 'cannlab[video]'`.
The descriptions of channels work without it; creating a channel then raises an error that says the same.

## Faults on request

{faults}
"""


def counts() -> dict[str, tuple[int, int]]:
    """By module: how many functions there are, and how many are emulated."""
    import_module("cannlab.acl")
    return {
        module: (len(names), sum(is_emulated(f"{module}.{name}") for name in names))
        for module, names in modules().items()
    }


def _call(signature: Signature) -> str:
    """A call of the function as the reader writes it, with its results."""
    given = list(signature.arguments)
    given = [name if at < signature.least else f"[{name}]" for at, name in enumerate(given)]
    results = ", ".join(signature.results) or "None"
    return f"`{signature.name}({', '.join(given)})` -> {results}"


def page() -> str:
    """The text of docs/pyacl.md."""
    found = counts()
    rows = [f"| {module} | {total} | {emulated} |" for module, (total, emulated) in found.items()]
    parts = [
        _HEAD.format(
            total=sum(total for total, _ in found.values()),
            emulated=sum(emulated for _, emulated in found.values()),
            rows="\n".join(rows),
            faults=dedent((requested_faults.__doc__ or "").replace("``", "`").replace("::\n", ":\n")).strip(),
        )
    ]
    for module, names in modules().items():
        every = [signatures()[f"{module}.{name}"] for name in names]
        parts.append(f"## {module}\n")
        for title, chosen in (
            ("Emulated", [entry for entry in every if is_emulated(entry.name)]),
            ("Not emulated", [entry for entry in every if not is_emulated(entry.name)]),
        ):
            if chosen:
                parts.append(f"{title}:\n\n" + "\n".join(f"- {_call(entry)}" for entry in chosen) + "\n")
    return "\n".join(parts)


def main(words: list[str]) -> int:
    """Write the page to the file named, or print it."""
    text = page()
    if words:
        write_whole(Path(words[0]), text.encode())
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
