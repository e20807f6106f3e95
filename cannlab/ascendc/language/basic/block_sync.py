"""set_flag, wait_flag, pipe_barrier. Source: pyasc 7.10."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.enums import HardEvent, MemDsbT, PipeID
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.pipes import ALL_PIPES, EVENT_PIPES, Pipe

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
    number = int(event)
    d.state("set_flag").launch.issue(_SET, _SETS[number], 0, (number, int(raw(event_id))))


def wait_flag(event: HardEvent, event_id: Any = 0) -> None:
    """The event's second pipe waits for the flag and lowers it."""
    number = int(event)
    d.state("wait_flag").launch.issue(_WAIT, _WAITS[number], 0, (number, int(raw(event_id))))


def pipe_barrier(pipe: PipeID) -> None:
    """The pipe (or all) finishes what it has before it goes on.

    Raises:
        ValueError: a pipe that this chip does not have.
    """
    state = d.state("pipe_barrier")
    which = _PIPES.get(int(pipe))
    if which is None:
        raise ValueError(f"pipe_barrier: {PipeID(int(pipe)).name} does not exist on {state.launch.soc.name}")
    state.launch.issue(d.row("pipe_barrier").number, max(int(which), 0), 0, (int(which),))


def data_sync_barrier(arg0: MemDsbT) -> None:
    """Scalar accesses before it are done; the emulation runs them in order anyway."""
    d.state("data_sync_barrier")


__getattr__ = names_of(__name__)
