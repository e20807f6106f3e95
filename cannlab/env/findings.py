"""What check-env found: one finding for each check, and the report that holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cannlab.errors import Diagnosis, diagnose

SCHEMA = 1
"""Version of the JSON form; it changes when a key changes its meaning or goes away."""


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"
    """Nothing to do, but good to know."""
    WARN = "warn"
    """Works, with a limit that the message names."""
    FAIL = "fail"
    """Broken: the exit code is 1."""


class State(StrEnum):
    """Which stack a program gets on this machine."""

    REAL = "real"
    """A real toolkit and a real driver."""
    NO_DRIVER = "no_driver"
    """A real toolkit without a driver: models convert, nothing runs on a device."""
    EMULATED = "emulated"
    """cannlab's emulation."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        check: its stable id (``real.driver``).
        status: how it ended.
        text: one line: what was found.
        fix: a command that repairs it ("" if nothing is to be done).
        rule: id of the broken rule in the error tables ("" if none).
        code: the code that the real stack gives for it ("" if none).
    """

    check: str
    status: Status
    text: str
    fix: str = ""
    rule: str = ""
    code: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain data."""
        return {
            "check": self.check,
            "status": self.status.value,
            "text": self.text,
            "fix": self.fix,
            "rule": self.rule,
            "code": self.code,
        }


def ok(check: str, text: str) -> Finding:
    """A check that passed."""
    return Finding(check, Status.OK, text)


def note(check: str, text: str) -> Finding:
    """Something to know."""
    return Finding(check, Status.NOTE, text)


def of_diagnosis(check: str, status: Status, diagnosis: Diagnosis) -> Finding:
    """A check that found a broken rule; its wording is the rule's."""
    return Finding(check, status, diagnosis.what, diagnosis.remedy, diagnosis.rule, diagnosis.code)


def broken(check: str, rule: str, **facts: Any) -> Finding:
    """A check that failed."""
    return of_diagnosis(check, Status.FAIL, diagnose(rule, **facts))


def warned(check: str, rule: str, **facts: Any) -> Finding:
    """A check that found a limit: things work as far as the rule's text says."""
    return of_diagnosis(check, Status.WARN, diagnose(rule, **facts))


@dataclass(frozen=True, slots=True)
class Report:
    """All findings.

    Attributes:
        state: which stack answers.
        summary: lines for a person: what this machine has, what is emulated.
        versions: name -> {"version", "emulated"}: CANN, driver, firmware, torch, torch_npu, Python.
        findings: in the order of the checks.
    """

    state: State
    summary: tuple[str, ...]
    versions: dict[str, dict[str, Any]]
    findings: tuple[Finding, ...] = field(default_factory=tuple)

    @property
    def fine(self) -> bool:
        """True if nothing failed."""
        return all(finding.status is not Status.FAIL for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form (docs/check-env.md)."""
        return {
            "schema": SCHEMA,
            "state": self.state.value,
            "ok": self.fine,
            "summary": list(self.summary),
            "versions": self.versions,
            "checks": [finding.to_dict() for finding in self.findings],
        }
