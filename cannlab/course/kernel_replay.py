"""The seam between the judge and the machine: replaying a kernel's record on the judge's own inputs.

A kernel answer is not believed: its process hands over the record of the launch, and the result, the checks and the
time come from running that record again here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cannlab.errors import Diagnosis
from cannlab.trace import KernelTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay gives: every argument in global memory after the run, the broken rules, and simulated ns."""

    arguments: tuple[NDArray[Any], ...]
    diagnoses: tuple[Diagnosis, ...]
    ns: int


Replay = Callable[[KernelTrace, Sequence["NDArray[Any]"]], Replayed]


def machine_replay(trace: KernelTrace, inputs: Sequence[NDArray[Any]]) -> Replayed:
    """Replay on the simulated AI Core. ValueError if the trace does not fit the inputs or is damaged."""
    from cannlab.machine import core

    try:
        found = core.replay(trace, list(inputs))
    except core.KernelFault as stop:
        return Replayed(tuple(inputs), (stop.diagnosis,), 0)
    pairs = zip(found.outputs, inputs, strict=True)
    arguments = tuple(out[: array.nbytes].view(array.dtype).reshape(array.shape) for out, array in pairs)
    return Replayed(arguments, tuple(found.diagnoses), found.timing.ns)
