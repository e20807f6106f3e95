"""The tables behind the diagnoses: rules (data/rules/*.toml) and the real stack's known codes."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

DEFAULT_CANN = "8.1"
CANN_VERSIONS = ("8.1", "current")


def cann_version() -> str:
    """The CANN version that the emulation answers with: ``CANNLAB_CANN``, 8.1 by default."""
    value = os.environ.get("CANNLAB_CANN", DEFAULT_CANN)
    return value if value in CANN_VERSIONS else DEFAULT_CANN


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of data/rules. ``codes`` maps a CANN version to the code that it gives."""

    id: str
    codes: Mapping[str, str]
    title: str
    what: str
    rule: str
    remedy: str
    causes: tuple[str, ...]
    lesson: str
    source: str

    def code_for(self, cann: str) -> str:
        """The code under one CANN version ("" if the real stack has none for this)."""
        return self.codes.get(cann) or self.codes.get(DEFAULT_CANN, "")


def _rule(identifier: str, entry: Mapping[str, object]) -> Rule:
    code = entry.get("code", "")
    codes = dict(code) if isinstance(code, Mapping) else {DEFAULT_CANN: str(code)}
    causes = entry["causes"]
    assert isinstance(causes, list)
    return Rule(
        id=identifier,
        codes={version: str(value) for version, value in codes.items()},
        title=str(entry["title"]),
        what=str(entry["what"]),
        rule=str(entry["rule"]),
        remedy=str(entry["remedy"]),
        causes=tuple(str(cause) for cause in causes),
        lesson=str(entry["lesson"]),
        source=str(entry["source"]),
    )


@cache
def rules() -> Mapping[str, Rule]:
    """All rules by id. An id is ``<table>.<name>`` in one of the files of data/rules."""
    found: dict[str, Rule] = {}
    folder = resources.files("cannlab.errors") / "data" / "rules"
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if not file.name.endswith(".toml"):
            continue
        for area, entries in tomllib.loads(file.read_text(encoding="utf-8")).items():
            for name, entry in entries.items():
                identifier = f"{area}.{name}"
                if identifier in found:
                    raise ValueError(f"rule {identifier} stands twice: remove it from {file.name}")
                found[identifier] = _rule(identifier, entry)
    return found


def rule(identifier: str) -> Rule:
    """One rule; KeyError if there is none."""
    return rules()[identifier]


@dataclass(frozen=True, slots=True)
class KnownCode:
    """A code of the real stack: its name or title and its class. Not every one is emulated."""

    code: str
    title: str
    kind: str


@cache
def known_codes() -> Mapping[str, KnownCode]:
    """Every code of the real stack that the tables know (aclError numbers; ATC and GE codes)."""
    folder = resources.files("cannlab.errors") / "data"
    found: dict[str, KnownCode] = {}
    for name in ("acl_codes.json", "atc_codes.json"):
        for entry in json.loads((folder / name).read_text(encoding="utf-8")):
            found[entry["code"]] = KnownCode(entry["code"], entry["title"], entry["kind"])
    return found
