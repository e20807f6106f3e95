"""Faults of tasks and of accesses: exceptions that carry the diagnosis and so the code."""

from __future__ import annotations

from cannlab.errors import Diagnosis


class TaskFault(Exception):
    """A task failed on the device. The stream keeps the code until the next synchronisation."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.text())
        self.diagnosis = diagnosis

    @property
    def code(self) -> int:
        """The code as a number; 507000 (inner error) if the rule has none."""
        text = self.diagnosis.code
        return int(text) if text.removeprefix("-").isdecimal() and text != "0" else 507000


class MemoryFault(TaskFault):
    """An access to memory that the memory map refuses."""
