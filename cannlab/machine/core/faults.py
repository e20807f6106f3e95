"""How the machine says that a kernel cannot go on."""

from __future__ import annotations

from cannlab.errors import Diagnosis


class KernelFault(Exception):
    """The kernel broke a rule at which the core stops.

    Attributes:
        diagnosis: what was done, where, and the code of the real stack ("507015", "507014").
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.text())
        self.diagnosis = diagnosis
