"""``--mode=5``: a dumped graph (ge_proto_*.txt, protobuf as text) as JSON; and the dump itself (``DUMP_GE_GRAPH``).

Source: documentation of --mode.
"""

from __future__ import annotations

import json
import os
from typing import Any

from cannlab.atc.errors import atc_error
from cannlab.atc.prototxt import Message, TextError, Word, parse
from cannlab.atc.source import read_file

_LISTS = frozenset(("graph", "op", "attr", "input", "output", "input_desc", "output_desc", "dim", "s", "i", "f", "b"))
"""Fields that may be repeated: lists in the JSON even if they stand once."""


def to_json(path: str) -> str:
    """The JSON of a dumped graph.

    Raises:
        AtcError: rules of :func:`source.read_file`, and ``atc.text_graph``.
    """
    try:
        message = parse(read_file(path, "--om").decode("utf-8"))
    except (UnicodeDecodeError, TextError) as problem:
        raise atc_error("text_graph", path=path, reason=str(problem)) from problem
    if not any(name == "graph" for name, _, _ in message):
        raise atc_error("text_graph", path=path, reason="there is no graph in it")
    return json.dumps(_plain(message, inside_list=False), indent=2) + "\n"


def _plain(message: Message, *, inside_list: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value, _ in message:
        made: Any = _plain(value, inside_list=name == "list") if isinstance(value, Message) else _scalar(value)
        repeated = name in _LISTS and (isinstance(value, Message) or inside_list or name in ("input", "output", "dim"))
        if repeated or name in found:
            known = found.setdefault(name, [])
            if not isinstance(known, list):
                known = found[name] = [known]
            known.append(made)
        else:
            found[name] = made
    return found


def _scalar(value: int | float | str | Word | Message) -> Any:
    if isinstance(value, Word):
        return {"true": True, "false": False}.get(value.text, value.text)
    return value


def of_json(content: dict[str, Any], depth: int = 0) -> str:
    """A message given as plain data, as text."""
    lines: list[str] = []
    pad = "  " * depth
    for name, value in content.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                lines += [f"{pad}{name} {{", of_json(item, depth + 1).rstrip("\n"), f"{pad}}}"]
            elif isinstance(item, bool):
                lines.append(f"{pad}{name}: {'true' if item else 'false'}")
            elif isinstance(item, str):
                lines.append(f"{pad}{name}: {json.dumps(item)}")
            else:
                lines.append(f"{pad}{name}: {item}")
    return "\n".join(line for line in lines if line) + "\n"


def wanted() -> bool:
    """True if ``DUMP_GE_GRAPH`` asks for dumps (1, 2 or 3)."""
    return os.environ.get("DUMP_GE_GRAPH", "") in ("1", "2", "3")
