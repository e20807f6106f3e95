"""``--fusion_switch_file``: which passes are on."""

from __future__ import annotations

import json

from cannlab.atc.errors import atc_error
from cannlab.atc.passes.registry import GRAPH, UB, Pass, kept_on, known, on_by_default
from cannlab.atc.source import read_file


class Switches:
    """What a switch file says. ``ALL`` counts for the passes that are not named themselves; ``ALL: off`` leaves those
    on without which models may not work. Source: pyacl-and-atc 5.

    Attributes:
        named: passes by name. everything: ``ALL`` by kind.
        misplaced: what is said of passes that stand in the section of the other kind: it has no effect.
    """

    def __init__(
        self,
        named: dict[str, bool] | None = None,
        everything: dict[str, bool] | None = None,
        misplaced: tuple[str, ...] = (),
    ) -> None:
        self.named = named or {}
        self.everything = everything or {}
        self.misplaced = misplaced

    def enabled(self, item: Pass) -> bool:
        """True if a pass is to run."""
        if item.name in self.named:
            return self.named[item.name]
        everything = self.everything.get(item.kind)
        if everything is None:
            return on_by_default(item.kind, item.name)
        return everything or (item.name in kept_on() and on_by_default(item.kind, item.name))


OFF = Switches(everything={GRAPH: False, UB: False})
"""Only what models need runs (``--oo_level=O1``)."""


def inline(text: str) -> Switches:
    """What ``--optimization_switch`` says: ``name1:on;name2:off``.

    Raises:
        AtcError: rule ``atc.switch_text``.
    """
    named = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, value = part.rpartition(":")
        if value not in ("on", "off") or not any(name in names for names in known().values()):
            raise atc_error("switch_text", text=part)
        named[name] = value == "on"
    return Switches(named)


def read(path: str) -> Switches:
    """Read a switch file: JSON (``{"Switch": {"GraphFusion": {...}, "UBFusion": {...}}}``) or lines ``name:off``.

    Raises:
        AtcError: rules of :func:`source.read_file`, and ``atc.switch_file``.
    """
    if not path:
        return Switches()
    try:
        text = read_file(path, "--fusion_switch_file").decode("utf-8")
    except UnicodeDecodeError as problem:
        raise atc_error("switch_file", path=path, reason="it is not a text file") from problem
    return _json(path, text) if text.lstrip().startswith("{") else _lines(path, text)


def _state(path: str, name: str, value: object) -> bool:
    if value not in ("on", "off"):
        raise atc_error("switch_file", path=path, reason=f"{name} is {value!r}, not on or off")
    return value == "on"


def _known(path: str, name: str) -> None:
    if not any(name in names for names in known().values()):
        raise atc_error("switch_file", path=path, reason=f"there is no pass {name}")


def _json(path: str, text: str) -> Switches:
    try:
        switch = json.loads(text)["Switch"]
        sections = {kind: dict(switch.get(kind, {})) for kind in (GRAPH, UB)}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        reason = 'it is not {"Switch": {"GraphFusion": {...}, "UBFusion": {...}}}'
        raise atc_error("switch_file", path=path, reason=reason) from problem
    named: dict[str, bool] = {}
    everything: dict[str, bool] = {}
    misplaced: list[str] = []
    for kind, entries in sections.items():
        for name, value in entries.items():
            if name == "ALL":
                everything[kind] = _state(path, f"{kind}.ALL", value)
            else:
                _known(path, name)
                state = _state(path, name, value)
                if name in known()[kind]:
                    named[name] = state
                else:
                    misplaced.append(f"{name} stands under {kind}, where nothing looks for it")
    return Switches(named, everything, tuple(misplaced))


def _lines(path: str, text: str) -> Switches:
    named: dict[str, bool] = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, value = (part.strip() for part in line.partition(":"))
        _known(path, name)
        named[name] = _state(path, name, value)
    return Switches(named)
