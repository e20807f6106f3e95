"""Mistakes that stop a conversion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cannlab.errors import CannlabError, Diagnosis, diagnose


class AtcError(CannlabError):
    """A conversion that failed. ``diagnoses`` holds every finding; the first one names the error."""

    def __init__(self, diagnoses: Sequence[Diagnosis]) -> None:
        super().__init__(diagnoses[0])
        self.diagnoses = tuple(diagnoses)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.diagnoses,))


def atc_error(rule: str, **facts: Any) -> AtcError:
    """The error of the broken rule ``atc.<rule>``."""
    return AtcError([diagnose(f"atc.{rule}", **facts)])
