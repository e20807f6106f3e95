"""The seam between the judge and the machine: replaying a kernel's record on the judge's own inputs.

A kernel answer is not believed: its process hands over the record of the launch, and the result, the checks and the
time come from running that record again here, on the inputs of the case and once more on other values of the same
shapes. A record that no launch makes, or whose result does not come from its inputs, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cannlab.errors import Diagnosis, diagnose
from cannlab.trace import KernelTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cannlab.course.spec.kernels import KernelFacts

Inputs = Mapping[str, Any]
_DAMAGED = (ValueError, KeyError, IndexError, TypeError, OverflowError, AttributeError, MemoryError)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay gives: every argument by its input's name, the broken rules, simulated ns, facts of the launch."""

    arguments: Mapping[str, NDArray[Any]]
    diagnoses: tuple[Diagnosis, ...]
    ns: int
    facts: KernelFacts | None


class Refused(Exception):
    """A record that is not replayed; ``diagnosis`` says why."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.what)
        self.diagnosis = diagnosis


Replay = Callable[[KernelTrace, Inputs, str, str], Replayed]
"""(record, inputs, chip, synchronisation) -> what the launch gives; raises Refused."""


def arrays(inputs: Inputs) -> dict[str, NDArray[Any]]:
    """The inputs that are the kernel's arguments in global memory: the arrays, in their order."""
    return {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}


def machine_replay(trace: KernelTrace, inputs: Inputs, soc: str, sync: str = "") -> Replayed:
    """Replay a launch on the simulated AI Core.

    Args:
        trace: the record of the launch, from an untrusted process.
        inputs: the case's inputs; the arrays among them are the kernel's arguments, in order.
        soc: the chip that the exercise is for.
        sync: which synchronisation is assumed, whatever the record says; "" takes the record's word.

    Raises:
        Refused: the record is damaged, is for other arguments or another chip, or is none that a launch makes.
    """
    from cannlab.course.spec.kernels import KernelFacts
    from cannlab.machine import core
    from cannlab.machine.core import soundness

    given = arrays(inputs)
    try:
        soundness.check(trace)
    except _DAMAGED as problem:
        raise Refused(diagnose("course.kernel_record", message=str(problem))) from None
    _fits(trace, given, soc)
    meta = dict(trace.meta)
    if sync:
        meta["sync"] = sync
    copy = trace.with_meta(meta)
    try:
        found = core.replay(copy, list(given.values()))
    except core.KernelFault as stop:
        return Replayed(dict(given), (stop.diagnosis,), 0, None)
    except _DAMAGED as problem:
        message = f"{type(problem).__name__}: {problem}"
        raise Refused(diagnose("course.kernel_record", message=message)) from None
    after = {
        name: out[: array.nbytes].view(array.dtype).reshape(array.shape)
        for (name, array), out in zip(given.items(), found.outputs, strict=True)
    }
    return Replayed(after, tuple(found.diagnoses), found.timing.ns, KernelFacts(copy, found.timing))


def _fits(trace: KernelTrace, given: Mapping[str, NDArray[Any]], soc: str) -> None:
    """The launch was made with these arguments, on this chip."""
    recorded = [f"{a['dtype']}[{', '.join(map(str, a['shape']))}]" for a in trace.meta["arguments"]]
    wanted = [f"{array.dtype.name}{list(array.shape)}" for array in given.values()]
    have = [(a["dtype"], a["bytes"]) for a in trace.meta["arguments"]]
    if have != [(array.dtype.name, int(array.nbytes)) for array in given.values()]:
        raise Refused(
            diagnose(
                "course.kernel_arguments",
                wanted=", ".join(wanted),
                got=", ".join(recorded) or "none",
                names=", ".join(given),
            )
        )
    if trace.meta["soc"] != soc:
        raise Refused(diagnose("course.kernel_chip", got=trace.meta["soc"], wanted=soc))


def other_values(inputs: Inputs, drawn: Inputs, rng: np.random.Generator, keep: Sequence[str]) -> dict[str, Any]:
    """Inputs of the same shapes with other values: what tells a computation from its recorded result.

    Args:
        inputs: the case's inputs.
        drawn: the same case drawn from another seed.
        rng: shuffles the case's own values where the other draw has another shape.
        keep: the kernel's outputs, which stay as they are.
    """
    fresh = arrays(drawn)
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        other = fresh.get(name)
        if not isinstance(value, np.ndarray) or name in keep:
            found[name] = value
        elif other is not None and other.shape == value.shape and other.dtype == value.dtype:
            found[name] = other
        else:
            found[name] = rng.permutation(value.reshape(-1)).reshape(value.shape)
    return found
