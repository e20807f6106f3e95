"""The same instructions again and again, on other parts of global memory, without the code that issued them.

A face that knows that the next turns of a loop go as the last ones did has them executed and recorded here. The record
is the one that the code would have left. Only for launches that are judged when they are over (see fold): what the
turns do to one another is judged from the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cannlab.machine.core.opcodes import ROWS, Kind

if TYPE_CHECKING:
    from cannlab.machine.core.launch import Launch

_HEAD = 8
_AT_ONCE = 1 << 22
"""Words of the record that are made at once."""


def repeat(launch: Launch, first: int, moves: dict[tuple[int, int], int], count: int) -> int:
    """Execute and record the instructions from number ``first`` on again.

    Args:
        launch: judged later.
        first: the first of them; all that follow it so far belong to them.
        moves: (instruction, operand) -> bytes by which an operand in global memory moves each time.
        count: how often.

    Returns:
        How often it was done: as long as every operand stays within its argument.

    Raises:
        KernelFault: a rule at which the core stops; the record ends with that instruction.
    """
    trace, memory = launch.trace, launch.memory
    last = len(trace.starts)
    begin = trace.starts[first]
    words = np.frombuffer(trace.words, dtype=np.int64)[begin:].copy()
    starts = np.frombuffer(trace.starts, dtype=np.int64)[first:] - begin
    steps = np.zeros(len(words), dtype=np.int64)
    program: list[tuple[Any, int, tuple[int, ...], tuple[tuple[int, int, int], ...], tuple[int, ...] | None]] = []
    ends: list[int] = []
    for number, (op, _, _, dtype, _, _, imm, operands) in enumerate(trace.part(first, last), start=first):
        slopes = tuple(moves.get((number, place), 0) for place in range(len(operands)))
        at = int(starts[number - first]) + _HEAD + len(imm) + 1
        for place, slope in enumerate(slopes):
            if not slope:
                continue
            steps[at + 3 * place] = slope
            allocation, offset, size = operands[place]
            room = memory.limit(allocation) - offset - size if slope > 0 else offset
            count = min(count, room // abs(slope))
        if ROWS[op].kind <= Kind.SCALAR:
            program.append((ROWS[op].execute, dtype, imm, operands, slopes if any(slopes) else None))
            ends.append(number - first)
    if count <= 0:
        return 0
    done, many = 0, max(_AT_ONCE // max(len(words), 1), 1)
    while done < count:
        some = min(many, count - done)
        turns = np.arange(done + 1, done + some + 1)[:, None]
        where = trace.extend((words + turns * steps).ravel(), (starts + (turns - done - 1) * len(words)).ravel())
        if launch.data:
            step = 0
            try:
                for turn in range(done + 1, done + some + 1):
                    for step, (execute, dtype, imm, operands, slopes) in enumerate(program):  # noqa: B007
                        if slopes is not None:
                            there = zip(operands, slopes, strict=True)
                            operands = tuple([(a, offset + turn * slope, size) for (a, offset, size), slope in there])
                        execute(memory, dtype, imm, operands)
            except BaseException:
                trace.cut(where + (turn - done - 1) * len(starts) + ends[step] + 1)
                raise
        done += some
    for queue in launch.queues:
        for buffer in queue.buffers:
            if buffer.since >= first:
                buffer.since += done * len(starts)
    return done
