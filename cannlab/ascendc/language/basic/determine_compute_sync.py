"""Cores that take turns in the order of their numbers, so that sums come out the same. Source: pyasc 7.10."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.basic.block_sync import cross, vector_cores, workspace
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.pipes import BLOCK, CUBE_CORE, Pipe


def _turn(name: str, gm_workspace: Any, ub_workspace: Any) -> None:
    state = d.state(name)
    size = BLOCK * vector_cores(state)
    operands = workspace(state, name, gm_workspace, ub_workspace, (size, size + BLOCK))
    if state.launch.cores != CUBE_CORE:
        cross(state, name, int(Pipe.S), (0, state.launch.block), operands)


def wait_pre_block(gm_workspace: Any, ub_workspace: Any) -> None:
    """Wait until all blocks before this one have called notify_next_block in this turn, and all others in the last.

    The workspaces are int32: 32 bytes per vector core in global memory, zeros before the kernel, and 32 more in the UB.
    """
    _turn("wait_pre_block", gm_workspace, ub_workspace)


def notify_next_block(gm_workspace: Any, ub_workspace: Any) -> None:
    """This block's turn is over; every block calls it equally often."""
    _turn("notify_next_block", gm_workspace, ub_workspace)


__getattr__ = names_of(__name__)
