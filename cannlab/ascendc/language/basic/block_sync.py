"""Synchronisation of pipes and of cores. Source: pyasc 7.10; documentation of SyncAll, IBSet, CrossCoreSetFlag."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.builder import BlockState, GlobalBuilder
from cannlab.ascendc.language.core.enums import HardEvent, MemDsbT, PipeID
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.language.core.tensor import GlobalTensor, LocalTensor
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.crossing import MODES, slot
from cannlab.machine.core.pipes import ALL_PIPES, BLOCK, CUBE_CORE, EVENT_PIPES, VECTOR_CORE, Pipe

_PIPES: dict[int, int] = {
    PipeID.PIPE_S: Pipe.S,
    PipeID.PIPE_V: Pipe.V,
    PipeID.PIPE_M: Pipe.M,
    PipeID.PIPE_MTE1: Pipe.MTE1,
    PipeID.PIPE_MTE2: Pipe.MTE2,
    PipeID.PIPE_MTE3: Pipe.MTE3,
    PipeID.PIPE_FIX: Pipe.FIXP,
    PipeID.PIPE_ALL: ALL_PIPES,
}


_SET, _WAIT = d.row("set_flag").number, d.row("wait_flag").number
_SETS = [int(source) for source, _ in EVENT_PIPES]
_WAITS = [int(waits) for _, waits in EVENT_PIPES]


def set_flag(event: HardEvent, event_id: Any = 0) -> None:
    """The event's first pipe raises the flag when it has done everything before."""
    launch = d.state("set_flag").launch
    if launch.sync == "inserted":
        return
    number = event._value_ if type(event) is HardEvent else int(event)
    launch.issue(_SET, _SETS[number], 0, (number, event_id if type(event_id) is int else int(raw(event_id))))


def wait_flag(event: HardEvent, event_id: Any = 0) -> None:
    """The event's second pipe waits for the flag and lowers it."""
    launch = d.state("wait_flag").launch
    if launch.sync == "inserted":
        return
    number = event._value_ if type(event) is HardEvent else int(event)
    launch.issue(_WAIT, _WAITS[number], 0, (number, event_id if type(event_id) is int else int(raw(event_id))))


def pipe_barrier(pipe: PipeID) -> None:
    """The pipe (or all) finishes what it has before it goes on.

    Raises:
        ValueError: a pipe that this chip does not have.
    """
    state = d.state("pipe_barrier")
    which = _PIPES.get(int(pipe))
    if which is None:
        raise ValueError(f"pipe_barrier: {PipeID(int(pipe)).name} does not exist on {state.launch.soc.name}")
    if state.launch.sync == "inserted":
        return
    state.launch.issue(d.row("pipe_barrier").number, max(int(which), 0), 0, (int(which),))


def data_sync_barrier(arg0: MemDsbT) -> None:
    """Scalar accesses before it are done; the emulation runs them in order anyway."""
    d.state("data_sync_barrier")


def cross(state: BlockState, name: str, pipe: int, imm: tuple[int, ...], operands: Any = ()) -> None:
    """An instruction between cores. Others may run meanwhile: the running block is this one again afterwards."""
    state.launch.cross(d.row(name).number, pipe, imm, operands)
    GlobalBuilder.state = state


def vector_cores(state: BlockState) -> int:
    """How many vector cores the launch has."""
    return sum(unit.kind == VECTOR_CORE for unit in state.launch.units)


def workspace(state: BlockState, name: str, gm: Any, ub: Any, sizes: tuple[int, int], start: int = 0) -> Any:
    """The operands of a synchronisation through global memory: its flags and its scratch, of so many bytes.

    Raises:
        TypeError: no tensors.
    """
    if not isinstance(gm, GlobalTensor) or not isinstance(ub, LocalTensor):
        raise TypeError(f"{name} takes a GlobalTensor and a LocalTensor, got {type(gm).__name__}, {type(ub).__name__}")
    both: tuple[Any, Any] = (gm, ub)
    for place, tensor in enumerate(both):
        if tensor.dtype.name != "int32":
            state.launch.stop(
                "kernel.dtype", name=name, types=tensor.dtype.name, legal="int32", soc=state.launch.soc.name
            )
        have = tensor.size * tensor.dtype.sizeof()
        wanted = sizes[place] + (0 if place else start)
        if wanted > have and (place or tensor.size):
            d.over(state, name, place, tensor, wanted)
    return ((gm.allocation, gm.offset + start, sizes[0]), (ub.space, ub.offset, sizes[1]))


def _aiv_only(name: str, is_aiv_only: Any) -> None:
    if not is_aiv_only:
        raise TypeError(f"{name}: pyasc 1.1.1 cannot pass is_aiv_only=False on: its binding has no such keyword")


def sync_all(gm_workspace: Any = None, ub_workspace: Any = None, used_cores: Any = 0, is_aiv_only: Any = True) -> None:
    """All cores of a kind meet: what any of them did before is done for all of them afterwards.

    Without workspaces the hardware's flags are used. With them the vector cores count in global memory: 32 bytes
    per core in both workspaces, zeros before the kernel; ``used_cores`` (0: all) says how many take part.

    Raises:
        TypeError: ``is_aiv_only=False``, which pyasc 1.1.1 fails at too.
    """
    state = d.state("sync_all")
    _aiv_only("sync_all", is_aiv_only)
    if gm_workspace is None or ub_workspace is None:
        cross(state, "sync_all", int(Pipe.MTE3), ())
        cross(state, "sync_all_wait", int(Pipe.S), ())
        return
    used, cores = int(raw(used_cores)), vector_cores(state)
    size = BLOCK * cores
    operands = workspace(state, "sync_all", gm_workspace, ub_workspace, (size, size))
    if state.launch.cores == CUBE_CORE:
        return
    if not 0 <= used <= cores:
        state.launch.stop("kernel.sync_cores", used=used, cores=cores)
    cross(state, "sync_all_soft", int(Pipe.S), (used, state.launch.block), operands)
    cross(state, "sync_all_soft_wait", int(Pipe.S), (used, state.launch.block), operands)


def _ib(name: str, gm: Any, ub: Any, block_idx: Any, event_id: Any, is_aiv_only: Any) -> None:
    state = d.state(name)
    block, event = int(raw(block_idx)), int(raw(event_id))
    _aiv_only(name, is_aiv_only)
    at = slot(vector_cores(state), block, event)
    cross(state, name, int(Pipe.S), (block, event), workspace(state, name, gm, ub, (BLOCK, BLOCK), at))


def ib_set(gm_workspace: Any, ub_workspace: Any, block_idx: Any, event_id: Any, is_aiv_only: Any = True) -> None:
    """What this core did before is done for whoever passes ib_wait of the same block and event.

    The flag lies in global memory, 32 bytes per block and event, zeros before the kernel; a flag that is still set
    is waited for.
    """
    _ib("ib_set", gm_workspace, ub_workspace, block_idx, event_id, is_aiv_only)


def ib_wait(gm_workspace: Any, ub_workspace: Any, block_idx: Any, event_id: Any, is_aiv_only: Any = True) -> None:
    """Wait for ib_set of the same block and event, and take the flag down."""
    _ib("ib_wait", gm_workspace, ub_workspace, block_idx, event_id, is_aiv_only)


def _flag(name: str, flag_id: Any, mode_id: Any, pipe: PipeID, waits: bool) -> None:
    state = d.state(name)
    which = _PIPES.get(int(pipe), ALL_PIPES)
    if which == ALL_PIPES:
        raise ValueError(f"{name}: {PipeID(int(pipe)).name} cannot carry a flag between cores")
    if not isinstance(mode_id, int) or mode_id not in MODES:
        raise ValueError(f"{name}: mode_id is 0, 1 or 2, known when the kernel is compiled; got {mode_id}")
    cross(state, name, int(Pipe.S) if waits else int(which), (int(raw(flag_id)), mode_id, int(which)))


def cross_core_set_flag(flag_id: Any, mode_id: int, pipe: PipeID) -> None:
    """When the pipe has done what it was given, this core's part of a flag is set.

    Mode 0: the flag is up for all cores of a kind once each of them has set it; 1: the same among the vector cores of
    an AI core; 2: from the cube core to its vector cores, or from all of these to it.
    """
    _flag("cross_core_set_flag", flag_id, mode_id, pipe, False)


def cross_core_wait_flag(flag_id: Any, mode_id: int, pipe: PipeID) -> None:
    """The core goes on when the flag is up, and takes it down; everything behind it waits, on all pipes."""
    _flag("cross_core_wait_flag", flag_id, mode_id, pipe, True)


__getattr__ = names_of(__name__)
