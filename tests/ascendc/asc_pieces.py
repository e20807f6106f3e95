"""Running pieces of kernels on the core, without the front end and without a machine."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import cannlab.ascendc as asc
from cannlab.ascendc.language.core.builder import BlockState, GlobalBuilder
from cannlab.ascendc.language.core.ir_value import GlobalAddress
from cannlab.machine import core
from cannlab.machine.core.dtypes import CODES
from cannlab.machine.core.soundness import check
from cannlab.soc import soc as chips


def run_on_core(
    body: Callable[..., None],
    *arrays: np.ndarray,
    blocks: int = 1,
    sync: str = "auto",
    cores: str = "AIV",
    soc: str | None = None,
) -> core.Result:
    """Call ``body`` with the addresses of the arrays, once per block.

    Whatever comes of it has to come of it too when blocks that go alike are judged once.
    """
    chip = chips.get(soc) if soc else None

    def block(launch):
        GlobalBuilder.state = BlockState(launch)
        try:
            addresses = [GlobalAddress(n, asc.DataType(a.dtype.name)) for n, a in enumerate(arrays)]
            body(*addresses)
        finally:
            GlobalBuilder.state = None

    def run(apart: bool) -> core.Result | core.KernelFault:
        try:
            return core.run("piece", block, list(arrays), blocks, soc=chip, sync=sync, cores=cores, apart=apart)
        except core.KernelFault as fault:
            return fault

    found, again = run(False), run(True)
    same_launch(again, found)
    if isinstance(found, core.KernelFault):
        raise found
    return found


def same_launch(result: core.Result | core.KernelFault, other: core.Result | core.KernelFault) -> None:
    """The two came to the same, in every part."""
    assert type(result) is type(other), (result, other)
    if isinstance(result, core.KernelFault) or isinstance(other, core.KernelFault):
        assert isinstance(result, core.KernelFault)
        assert isinstance(other, core.KernelFault)
        assert result.diagnosis == other.diagnosis
        return
    assert result.diagnoses == other.diagnoses
    assert result.warnings == other.warnings
    for mine, theirs in zip(result.outputs, other.outputs, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(result.timing.spans, other.timing.spans)
    assert replace(result.timing, spans=other.timing.spans) == other.timing
    assert list(result.trace) == list(other.trace)


def rules(result: core.Result) -> list[str]:
    """Ids of the broken rules, without the area."""
    return [found.rule.removeprefix("kernel.") for found in result.diagnoses]


def data(seed, dtype, count):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return (rng.standard_normal(count) * 3).astype(dtype)
    return rng.integers(-300, 300, count).astype(dtype)


def apply(name, dst, sources, call):
    """Copy everything into the UB, call the operation on the tensors, copy the result out."""
    arrays = [dst, *sources]

    def body(*addresses):
        bytes_ = [-(-a.nbytes // 32) * 32 for a in arrays]
        tensors, at = [], 0
        for number, array in enumerate(arrays):
            kind = asc.DataType(array.dtype.name)
            gm = asc.GlobalTensor()
            gm.set_global_buffer(addresses[number])
            ub = asc.LocalTensor(kind, asc.TPosition.VECIN, at, array.size)
            asc.data_copy(ub, gm, count=array.size)
            tensors.append(ub)
            at += bytes_[number]
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        call(tensors)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        out = asc.GlobalTensor()
        out.set_global_buffer(addresses[0])
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(out, tensors[0], count=dst.size)

    result = run_on_core(body, *arrays)
    assert rules(result) == []
    return result.outputs[0].view(dst.dtype)


def same(got, wanted):
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def replayed(result: core.Result, *arrays: np.ndarray) -> core.Result:
    """The record passes the audit and gives the same outputs, rules and time on its inputs."""
    check(result.trace)
    second = core.replay(result.trace, list(arrays))
    for first, other in zip(result.outputs, second.outputs, strict=True):
        np.testing.assert_array_equal(first, other)
    assert rules(second) == rules(result)
    assert second.timing.ns == result.timing.ns == core.timing(result.trace).ns
    return result


def peek(tensor, count):
    """What a local tensor holds, without an instruction."""
    launch = GlobalBuilder.state.launch
    size = count * tensor.dtype.sizeof()
    return launch.memory.view((tensor.space, tensor.offset, size), CODES[tensor.dtype.name]).copy()


def view(address):
    """A GlobalTensor over an argument."""
    gm = asc.GlobalTensor()
    gm.set_global_buffer(address)
    return gm


def ordered(event, identity=0):
    """set_flag and wait_flag."""
    asc.set_flag(event, identity)
    asc.wait_flag(event, identity)
