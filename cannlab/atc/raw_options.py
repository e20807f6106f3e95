"""``--raw_ge_options``: a JSON file with options under the names that the graph engine (GE) has for them.

The file is ``{"compile options": {"global": {...}, "session": {...}, "graph": {...}}}``; where a name stands at several
levels the graph's counts, and what the command line says comes before all. Source: the converter's own reading of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from cannlab.atc.errors import atc_error
from cannlab.atc.source import read_file

OPTION = "--raw_ge_options"
SECTION = "compile options"
LEVELS = ("global", "session", "graph")
"""From the one that counts least."""

COMMAND_ONLY = frozenset(("model", "output", "framework", "soc_version"))
"""Options that must stand on the command line."""


def read(path: str, known: Mapping[str, str], given: Mapping[str, str], *, ignore: bool) -> dict[str, str]:
    """The options that a file sets.

    Args:
        known: GE's name of an option -> its name on the command line.
        given: options of the command line: the file does not change them.
        ignore: pass over names that are not known (``--raw_ge_options_ignore_unsupported``).

    Returns:
        Values by the names of the command line, unchecked.

    Raises:
        AtcError: rules of :func:`source.read_file`, and ``atc.raw_options``, ``atc.raw_option_unknown``,
            ``atc.raw_option_command``.
    """
    try:
        content = json.loads(read_file(path, OPTION))
    except ValueError as problem:
        raise atc_error("raw_options", path=path, reason=f"it is no JSON ({problem})") from problem
    levels = content.get(SECTION) if isinstance(content, dict) else None
    if not isinstance(levels, dict):
        raise atc_error("raw_options", path=path, reason=f"it holds no object {SECTION!r}")
    found: dict[str, str] = {}
    for level in (*LEVELS, *levels):
        if level not in LEVELS:
            raise atc_error("raw_options", path=path, reason=f"{level!r} is no level of options")
        values = levels.get(level, {})
        if not isinstance(values, dict) or not all(name and isinstance(values[name], str) for name in values):
            raise atc_error("raw_options", path=path, reason=f"{level!r} is no object of names and texts")
    for level in LEVELS:
        for name, value in levels.get(level, {}).items():
            option = known.get(name)
            if option is None and not ignore:
                raise atc_error("raw_option_unknown", name=name, value=value, level=level)
            if option is None or option in given:
                continue
            if option in COMMAND_ONLY:
                raise atc_error("raw_option_command", option=f"--{option}", value=value)
            found[option] = value
    return found
