"""Launcher: arguments to the device, the kernel, arguments back. Source: pyasc 1.2, 1.3."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cannlab.ascendc.lib.placeholders import missing_names
from cannlab.ascendc.runtime.config import Chosen, chip
from cannlab.errors import Diagnosis
from cannlab.machine import core
from cannlab.machine.core.pipes import CUBE_CORE, VECTOR_CORE

if TYPE_CHECKING:
    from cannlab.machine import Machine, Stream, Work
    from cannlab.machine.core import Launch, Result
    from cannlab.soc import Soc


class KernelError(RuntimeError):
    """A kernel broke a rule of the hardware. The text begins as pyasc's driver errors do.

    Attributes:
        diagnosis: the first broken rule. diagnoses: all of them.
    """

    def __init__(self, diagnoses: list[Diagnosis]) -> None:
        self.diagnoses = diagnoses
        self.diagnosis = diagnoses[0]
        code = self.diagnosis.code
        head = f"Function rtStreamSynchronize returned {code}" if code else "The kernel's result cannot be relied on"
        more = f"\n({len(diagnoses) - 1} more in .diagnoses)" if len(diagnoses) > 1 else ""
        super().__init__(f"{head}\n{self.diagnosis.text()}{more}")


@dataclass(frozen=True)
class LaunchOptions:
    """``kernel[core_num, stream]``."""

    core_num: int = 0
    stream: Any = None


class _Detached(threading.local):
    """Per thread: where launches go that are not the machine's."""

    into: Detached | None = None


@dataclass
class Detached:
    """Launches without a machine: they run on the arrays, and no copy, call or task is recorded.

    Attributes:
        soc: the chip. results: what each launch came to, in order.
    """

    soc: Soc
    results: list[Result] = field(default_factory=list)


_detached = _Detached()


@contextmanager
def detached(soc: Soc) -> Iterator[Detached]:
    """Let this thread's launches run on a chip without a machine."""
    before, _detached.into = _detached.into, Detached(soc)
    try:
        yield _detached.into
    finally:
        _detached.into = before


class HostArray:
    """An array argument: its bytes for the device, and the way back."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.array: NDArray[Any] = value if isinstance(value, np.ndarray) else value.detach().contiguous().numpy()

    def copy_back(self, data: NDArray[np.uint8]) -> None:
        """The device's bytes into the argument, flat over its memory."""
        new = data.view(self.array.dtype).reshape(self.array.shape)
        if isinstance(self.value, np.ndarray):
            self.value[...] = new
        else:
            import torch

            with torch.no_grad():
                self.value.copy_(torch.from_numpy(new.copy()))


class Scratch(HostArray):
    """Global memory that a launch keeps for itself: nothing goes there or comes back."""

    def __init__(self, size: int) -> None:
        super().__init__(np.zeros(size, dtype=np.uint8))

    def copy_back(self, data: NDArray[np.uint8]) -> None:
        """Nothing."""


CHAOS = "CANNLAB_CHAOS"
"""Names a seed: launches give what another order of their instructions gives that the synchronisation allows, and a
race is told but does not end the launch: it shows as wrong numbers, as on a chip."""


def _chaos() -> int | None:
    """The seed that CANNLAB_CHAOS names.

    Raises:
        ValueError: it names no number.
    """
    said = os.environ.get(CHAOS, "")
    if not said:
        return None
    try:
        return int(said)
    except ValueError:
        raise ValueError(f"{CHAOS} is {said!r}: set it to a whole number, the seed of the order") from None


def run(
    name: str,
    body: Callable[[Launch], None],
    arrays: list[HostArray],
    scalars: list[Any],
    options: LaunchOptions,
    sync: str,
    cores: str,
    apart: bool,
) -> Result | None:
    """Copy in, run, copy back; the call is over when everything is done.

    Raises:
        ValueError: core_num is not positive. KernelError: the kernel broke a rule.
    """
    if os.environ.get("DRY_RUN"):
        return None
    if options.core_num <= 0:
        raise ValueError("Core number should be large than 0")
    if _detached.into is not None:
        return _run_detached(_detached.into, name, body, arrays, scalars, options, sync, cores, apart)
    from cannlab.ascendc.lib import runtime as rt
    from cannlab.machine import TaskFault, Work, machine

    node = machine()
    stream = rt.resolve(node, options.stream, Chosen.device)
    inputs = [array.array for array in arrays]
    found: list[Diagnosis] = []
    result: Result | None = None
    try:
        result = core.run(
            name, body, inputs, options.core_num, soc=chip(), sync=sync, scalars=scalars, cores=cores, apart=apart
        )
        found = result.diagnoses
    except core.KernelFault as fault:
        found = [fault.diagnosis]
    seed = _chaos()
    if result is not None and seed is not None:
        for each in found:
            node.report(each)
        found = []
        result = replace(result, outputs=core.shuffled(result.trace, inputs, seed))
    for each in [*found[1:], *(result.warnings if result is not None else ())]:
        node.report(each)

    def kernel() -> Work:
        if found:
            raise TaskFault(found[0])
        assert result is not None
        return Work(result.timing.ns, kernel=result.trace)

    given = [array.array for array in arrays if not isinstance(array, Scratch)]
    code = _submit(node, stream, name, given, options, kernel, cores)
    if found:
        raise KernelError(found)
    if code:
        raise RuntimeError(f"Function rtStreamSynchronize returned {code}")
    assert result is not None
    _copy_back(arrays, result)
    return result


def _copy_back(arrays: list[HostArray], result: Result) -> None:
    """What the kernel computed, into its arguments; a launch without data leaves them as they were."""
    if result.outputs:
        for array, data in zip(arrays, result.outputs, strict=True):
            array.copy_back(data)


def _run_detached(
    into: Detached,
    name: str,
    body: Callable[[Launch], None],
    arrays: list[HostArray],
    scalars: list[Any],
    options: LaunchOptions,
    sync: str,
    cores: str,
    apart: bool,
) -> Result:
    inputs = [array.array for array in arrays]
    try:
        result = core.run(
            name, body, inputs, options.core_num, soc=into.soc, sync=sync, scalars=scalars, cores=cores, apart=apart
        )
    except core.KernelFault as fault:
        raise KernelError([fault.diagnosis]) from fault
    if result.diagnoses:
        raise KernelError(result.diagnoses)
    _copy_back(arrays, result)
    into.results.append(result)
    return result


def _copies(node: Machine, stream: Stream, inputs: list[NDArray[Any]], back: bool) -> None:
    from cannlab.machine import Engine, Work
    from cannlab.machine.api_costs import transfer_ns
    from cannlab.trace import TaskKind

    kind, engine = (TaskKind.COPY_D2H, Engine.D2H) if back else (TaskKind.COPY_H2D, Engine.H2D)
    for array in inputs:
        work = Work(transfer_ns(int(array.nbytes), pinned=False))
        stream.submit(kind, "rtMemcpy", lambda work=work: work, engine=engine, bytes=int(array.nbytes))  # type: ignore[misc]


def _submit(
    node: Machine,
    stream: Stream,
    name: str,
    inputs: list[NDArray[Any]],
    options: LaunchOptions,
    kernel: Callable[[], Work],
    cores: str,
) -> int:
    """The tasks of one launch: arguments in, the kernel, arguments back; waits for all. Gives the code."""
    from cannlab.machine import Engine
    from cannlab.machine.api_costs import KERNEL_LAUNCH
    from cannlab.trace import TaskKind

    with node.call("rtKernelLaunch") as call:
        _copies(node, stream, inputs, False)
        node.thread.now += KERNEL_LAUNCH
        stream.submit(
            TaskKind.KERNEL,
            name,
            kernel,
            engine=Engine.COMPUTE,
            op_type=name,
            core_type={VECTOR_CORE: "AI_VECTOR_CORE", CUBE_CORE: "AI_CORE"}.get(cores, "MIX_AIC"),
            bytes=sum(int(array.nbytes) for array in inputs),
            blocks=options.core_num,
        )
        code = stream.synchronize()
        if not code:
            _copies(node, stream, inputs, True)
            code = stream.synchronize()
        call.code = code
    return code


def __getattr__(name: str) -> Any:
    return missing_names("asc.runtime.launcher", name)
