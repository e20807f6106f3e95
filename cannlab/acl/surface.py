"""Which functions of pyACL are emulated: docs/pyacl.md, made from the code.

``python -m cannlab.acl.surface FILE`` writes the page; tests/pyacl/test_surface.py fails when the page is stale.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent

from cannlab.acl.binding import is_emulated
from cannlab.acl.not_emulated import reason
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

## Profiling

`acl.prof` and the part `profiler` of the file of `acl.init` write a `PROF_NUMBER_TIME_LETTERS` folder with `host`,
`device_N` and `mindstudio_profiler_output`. The tables of the last (op_summary, op_statistic, task_time,
api_statistic, memory_record, msprof_tx, step_trace) and its timeline are written at once: no `msprof --export=on` is
needed. What differs from hardware: times are simulated; `data` holds the record of the emulated machine and not the
binary data of real collectors, whose format is not published; columns that the emulation has no value for say N/A (of
the AI Core metrics the time and the cycles are filled; shapes, types and formats are those of the activations of
models with fixed shapes); samples of the host and of the system are not collected, their settings are checked and
kept in sample.json. Without `output` the folder is made in the current directory. `acl.prof.model_subscribe` writes a
block for each operator into the pipe, from a thread of its own.

## Dumps

The part `dump` of the file of `acl.init`, or `acl.mdl.init_dump` and `set_dump`, write one file for each operator, as
`PATH/TIME/DEVICE/MODEL/MODEL_ID/RUN/TYPE.NAME.TASK.STREAM.TIMESTAMP` (single operators: without model and run;
operators that failed: `PATH/extra-info/data-dump/DEVICE/...`). A file is the length of its description (8 bytes), the
description (DumpData of dump_data.proto) and the data; with `dump_data` "stats" it is a CSV table. NC1HWC0 is written
as the chip stores it. What differs from hardware: operators inside the branches of an If are left out; `dump_debug`
writes the operators that left their range, and no file of the overflow detector; `dump_scene` "aic_err_detail_dump"
writes what the brief one does; "watcher" and `dump_kernel_data` have no effect, which is said.
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
        groups = {"Emulated": [entry for entry in every if is_emulated(entry.name)]}
        for entry in every:
            if not is_emulated(entry.name):
                why = reason(entry.name)
                groups.setdefault(f"Not emulated ({why})" if why else "Not emulated", []).append(entry)
        for title, chosen in groups.items():
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
