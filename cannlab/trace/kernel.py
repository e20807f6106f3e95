"""The instruction trace of one kernel launch, in flat numbers.

An instruction is (opcode, core, pipe, dtype, file, line, immediates, operands). An operand is (allocation,
byte offset, bytes): allocation 0 and above is a kernel argument in global memory, below 0 a local buffer of
the core. Floats among the immediates are kept as the bits of a float64. ``core`` is the block's number:
which physical core a block lands on is a result of the time model. ``file`` counts from 1 in
``meta["files"]``; 0 means that no line of the learner's led to it.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray


_FLUSH = 1 << 16


class Instruction(NamedTuple):
    """One instruction of one core, in program order."""

    op: int
    core: int
    pipe: int
    dtype: int
    file: int
    line: int
    immediates: tuple[int, ...]
    operands: tuple[tuple[int, int, int], ...]


class KernelTrace:
    """All instructions of a launch, core after core in program order.

    ``meta`` holds plain JSON: the kernel's name, block count, SoC, argument descriptors (dtype, bytes, shape),
    launch options and the names of source files. ``words`` holds the instructions one after another, ``starts``
    where each begins in it.
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self.meta = meta
        self.starts = array("q")
        self._words = array("q")
        self._new: list[int] = []
        self._length = 0

    @property
    def words(self) -> array[int]:
        """All instructions as one flat array of int64."""
        if self._new:
            self._flush()
        return self._words

    def _flush(self) -> None:
        self._words.fromlist(self._new)
        self._length += len(self._new)
        self._new.clear()

    def add(
        self,
        op: int,
        core: int,
        pipe: int,
        dtype: int,
        file: int,
        line: int,
        immediates: tuple[int, ...],
        operands: tuple[tuple[int, int, int], ...],
    ) -> None:
        """Add an instruction by its parts."""
        # A plain list takes an instruction in a third of the time that an array does; it is emptied now and then.
        new = self._new
        self.starts.append(self._length + len(new))
        count = len(operands)
        if not count:
            new += (op, core, pipe, dtype, file, line, len(immediates), 0, *immediates)
        elif count == 2:
            first, second = operands
            new += (op, core, pipe, dtype, file, line, len(immediates), 2, *immediates, *first, *second)
        else:
            new += (op, core, pipe, dtype, file, line, len(immediates), count, *immediates)
            for operand in operands:
                new += operand
        if len(new) > _FLUSH:
            self._flush()

    def append(self, instruction: Instruction) -> None:
        """Add an instruction."""
        self.add(*instruction)

    def extend(self, words: NDArray[Any], starts: NDArray[Any]) -> int:
        """Add many instructions: their words one after another, and where each begins in them (both int64).

        Gives the number of the first of them.
        """
        number = len(self.starts)
        self.words.frombytes(words.tobytes())
        self.starts.frombytes((starts + self._length).tobytes())
        self._length = len(self._words)
        return number

    def cut(self, number: int) -> None:
        """Forget the instructions from a number on."""
        if number < len(self.starts):
            del self.words[self.starts[number] :]
            del self.starts[number:]
            self._length = len(self._words)

    def place(self, number: int) -> tuple[int, int]:
        """(file, line) of an instruction; (0, 0) for a number that the trace does not have."""
        if not 0 <= number < len(self.starts):
            return (0, 0)
        start = self.starts[number]
        return (self.words[start + 4], self.words[start + 5])

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Instruction]:
        return self.part(0, len(self.starts))

    def part(self, first: int, last: int) -> Iterator[Instruction]:
        """The instructions from one number on, up to another."""
        words = self.words
        for start in self.starts[first:last]:
            op, core, pipe, dtype, file, line, n_imm, n_operands = words[start : start + 8]
            first = start + 8
            immediates = tuple(words[first : first + n_imm])
            at = first + n_imm
            operands = tuple((words[i], words[i + 1], words[i + 2]) for i in range(at, at + 3 * n_operands, 3))
            yield Instruction(op, core, pipe, dtype, file, line, immediates, operands)

    def with_meta(self, meta: dict[str, Any]) -> KernelTrace:
        """The same instructions under other launch options."""
        trace = KernelTrace(meta)
        trace._words, trace.starts, trace._length = self.words, self.starts, self._length
        return trace

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Flat arrays: meta (JSON bytes), words, starts."""
        import numpy as np

        return {
            "meta": np.frombuffer(json.dumps(self.meta, sort_keys=True).encode(), dtype=np.uint8),
            "words": np.array(self.words, dtype=np.int64),
            "starts": np.array(self.starts, dtype=np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> KernelTrace:
        """The inverse of :meth:`to_arrays`."""
        trace = cls(json.loads(bytes(arrays["meta"]).decode()))
        trace._words = array("q", arrays["words"].astype("<i8").tobytes())
        trace._length = len(trace._words)
        trace.starts = array("q", arrays["starts"].astype("<i8").tobytes())
        return trace
