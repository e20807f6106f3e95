"""The same instructions again and again, on other parts of global memory, without the code that issued them.

A face that knows that the next turns of a loop go as the last ones did has them executed and recorded here. The record
is the one that the code would have left. Only for launches that are judged when they are over (see fold): what the
turns do to one another is judged from the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core.opcodes import BY_NAME, ROWS, Kind

if TYPE_CHECKING:
    from cannlab.machine.core.launch import Launch

_BLOCK_START = BY_NAME["block_start"].number
_CORE, _IMMEDIATES, _HEAD = 1, 6, 8
_AT_ONCE = 1 << 22
"""Words of the record that are made at once."""
Notes = NDArray[np.int64]
"""(n, 3): instruction, operand, bytes by which it moves in global memory each time."""
_Operands = tuple[tuple[int, int, int], ...]


def repeat(launch: Launch, first: int, notes: Notes, count: int, blocks: int = 0) -> int:
    """Execute and record the instructions from number ``first`` on again.

    Args:
        launch: judged later.
        first: the first of them; all that follow it so far belong to them.
        notes: the operands that move.
        count: how often.
        blocks: 0 within a block; else the instructions are those of so many whole blocks, and the next ones follow.

    Returns:
        How often it was done: as long as every operand stays within its argument.

    Raises:
        KernelFault: a rule at which the core stops; the record ends with that instruction.
    """
    trace = launch.trace
    if not 0 <= first < len(trace.starts):
        # Turns without instructions.
        return 0 if blocks else max(count, 0)
    words = np.frombuffer(trace.words, dtype=np.int64)[trace.starts[first] :].copy()
    starts = np.frombuffer(trace.starts, dtype=np.int64)[first:] - trace.starts[first]
    steps = np.zeros(len(words), dtype=np.int64)
    begins = starts[notes[:, 0] - first]
    at = begins + _HEAD + words[begins + _IMMEDIATES] + 3 * notes[:, 1] + 1
    slopes = notes[:, 2]
    steps[at] = slopes
    limits = np.array([*launch.memory.sizes, 0])[words[at - 1]]
    room = np.where(slopes > 0, limits - words[at] - words[at + 1], words[at])
    if len(room):
        count = min(count, int((room // np.maximum(np.abs(slopes), 1)).min()))
    if count <= 0:
        return 0
    if blocks:
        steps[starts + _CORE] = blocks
        steps[starts[words[starts] == _BLOCK_START] + _HEAD] = blocks
    program = _program(launch, first, notes) if launch.data else []
    done, many = 0, max(_AT_ONCE // max(len(words), 1), 1)
    while done < count:
        turns = np.arange(done + 1, min(done + many, count) + 1)
        number = trace.extend(
            (words + turns[:, None] * steps).ravel(), (starts + (turns - turns[0])[:, None] * len(words)).ravel()
        )
        for turn in turns.tolist():
            _execute(launch, program, turn, number + (turn - done - 1) * len(starts))
        done += len(turns)
    if blocks:
        launch.took_over(done * blocks)
    for queue in launch.queues:
        for buffer in queue.buffers:
            if buffer.since >= first:
                buffer.since += done * len(starts)
    return done


_Step = tuple[Callable[..., Any] | None, int, tuple[int, ...], _Operands, tuple[int, ...], int]
"""What executes an instruction (None: a block begins), its type, immediates, operands, how they move, its number."""


def _program(launch: Launch, first: int, notes: Notes) -> list[_Step]:
    """What there is to execute."""
    moving: dict[int, dict[int, int]] = {}
    for number, place, slope in notes.tolist():
        moving.setdefault(number, {})[place] = slope
    program: list[_Step] = []
    trace = launch.trace
    for number, (op, _, _, dtype, _, _, imm, operands) in enumerate(trace.part(first, len(trace.starts)), start=first):
        slopes = moving.get(number, {})
        each = tuple(slopes.get(place, 0) for place in range(len(operands))) if slopes else ()
        if op == _BLOCK_START:
            program.append((None, 0, (), (), (), number - first))
        elif ROWS[op].kind <= Kind.SCALAR:
            program.append((ROWS[op].execute, dtype, imm, operands, each, number - first))
    return program


def _execute(launch: Launch, program: list[_Step], turn: int, number: int) -> None:
    """One repetition; ``number`` is that of its first instruction."""
    memory = launch.memory
    at = 0
    try:
        for execute, dtype, imm, operands, slopes, here in program:
            at = here
            if slopes:
                there = zip(operands, slopes, strict=True)
                operands = tuple([(a, offset + turn * slope, size) for (a, offset, size), slope in there])
            if execute is None:
                memory.start_block()
            else:
                execute(memory, dtype, imm, operands)
    except BaseException:
        launch.trace.cut(number + at + 1)
        raise
