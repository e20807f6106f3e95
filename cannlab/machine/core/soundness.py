"""Is a record one that a launch can have made? Asked before the record of an untrusted process is replayed.

:func:`~cannlab.machine.core.launch.replay` judges what a program did: it trusts that pipes, sizes and block numbers
are those that a face writes. A fabricated record could lie there (a copy on the vector pipe costs nothing, an
operand shorter than its count hides an overlap), so every such number is checked here against the table of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.machine.core import crossing, layout
from cannlab.machine.core.access import extents
from cannlab.machine.core.dtypes import SIZES, unpack
from cannlab.machine.core.fractals import MAX_EXTENT
from cannlab.machine.core.opcodes import BY_NAME, ROWS, Kind, Row
from cannlab.machine.core.ordering import SYNCS
from cannlab.machine.core.pipes import ALL_PIPES, EVENT_PIPES, GM, MAX_REPEAT, PATHS, VECTOR_CORE, Pipe, Space
from cannlab.machine.core.units import LAYOUTS, Unit, units
from cannlab.trace.kernel import Instruction, KernelTrace

MOST_BLOCKS = 65535
_KEYS = {"name": str, "blocks": int, "soc": str, "sync": str, "arguments": list, "scalars": list, "files": list}
_BLOCK_START, _BLOCK_PAUSE = BY_NAME["block_start"].number, BY_NAME["block_pause"].number
_FLAGS = {BY_NAME["set_flag"].number: 0, BY_NAME["wait_flag"].number: 1}
_BARRIER = BY_NAME["pipe_barrier"].number
_INIT = BY_NAME["queue_init"].number


class Unsound(ValueError):
    """A record that no launch makes; the message says which instruction and why."""


def check(trace: KernelTrace) -> None:
    """Go through a record once.

    Raises:
        Unsound: it is damaged, or no launch makes it.
    """
    _head(trace)
    _bounds(trace)
    every = units(trace.meta["blocks"], trace.meta.get("cores", VECTOR_CORE))
    turns = _Turns(every, trace.meta["blocks"])
    arguments = len(trace.meta["arguments"])
    files = len(trace.meta["files"])
    for number, instruction in enumerate(trace):
        try:
            if not 0 <= instruction.file <= files:
                raise Unsound("it names a file that the record does not have")
            if turns.take(instruction):
                continue
            _instruction(instruction, arguments)
            if ROWS[instruction.op].kind == Kind.CROSS:
                _cross(instruction, every[instruction.core], every)
        except Unsound as problem:
            raise Unsound(f"instruction {number}: {problem}") from None
        except (IndexError, KeyError, TypeError, ValueError, OverflowError, ArithmeticError) as problem:
            raise Unsound(f"instruction {number} cannot be read: {type(problem).__name__}: {problem}") from problem
    turns.end()


class _Turns:
    """Which unit's instructions may come next: units begin in order, and come back only where they paused."""

    def __init__(self, every: tuple[Unit, ...], blocks: int) -> None:
        self._every, self._blocks = every, blocks
        self._mixed = len(every) > blocks
        self._begun = 0
        self._now = -1
        self._paused: set[int] = set()

    def take(self, entry: Instruction) -> bool:
        """True for the beginning of a unit and for a pause, which need no other look."""
        if entry.op == _BLOCK_START:
            unit = self._every[self._begun] if self._begun < len(self._every) else None
            if unit is None:
                raise Unsound(f"all {len(self._every)} blocks have begun before")
            wanted = (unit.block, self._blocks, *((unit.number,) if self._mixed else ()))
            if entry.immediates != wanted or entry.core != unit.number or entry.operands:
                raise Unsound(f"block {unit.block} of {self._blocks} should begin here")
            self._begun += 1
            self._now = unit.number
            return True
        if entry.core != self._now:
            if entry.core not in self._paused:
                raise Unsound(f"it belongs to block {entry.core}, inside block {self._now}")
            self._now = entry.core
        self._paused.discard(self._now)
        if entry.op == _BLOCK_PAUSE:
            if entry.immediates or entry.operands or entry.pipe:
                raise Unsound("a pause has no operands")
            self._paused.add(self._now)
            self._now = -1
            return True
        return False

    def end(self) -> None:
        """Everything has begun, and nothing waits."""
        if self._begun != len(self._every):
            raise Unsound(f"it has {self._begun} blocks, and says {len(self._every)}")
        if self._paused:
            raise Unsound(f"block {min(self._paused)} waits for ever")


def _cross(entry: Instruction, unit: Unit, every: tuple[Unit, ...]) -> None:
    """An instruction between cores says who it is for and where its flags lie as a face does."""
    imm, op = entry.immediates, entry.op
    vectors = sum(each.kind == VECTOR_CORE for each in every)
    if op in (crossing.SET, crossing.WAIT):
        flag, mode, pipe = imm
        if not 0 <= flag <= crossing.MOST_FLAG or mode not in crossing.MODES or pipe not in frozenset(Pipe):
            raise Unsound("there is no such flag between cores")
    elif op in (crossing.ALL, crossing.ALL_WAIT):
        if imm:
            raise Unsound("sync_all has no numbers")
    elif op == crossing.SEND:
        to, pipe = imm
        partners = [each.number for each in every if each.group == unit.group and each.kind != unit.kind]
        if to not in partners or pipe not in (ALL_PIPES, *Pipe):
            raise Unsound("a request or an answer goes to a core of the same group")
    elif op == crossing.RECEIVE:
        if imm:
            raise Unsound("waiting for a request or an answer has no numbers")
    elif op in (crossing.IB_SET, crossing.IB_WAIT):
        block, event = imm
        if block < 0 or event < 0 or [operand[2] for operand in entry.operands] != [32, 32]:
            raise Unsound("a flag in global memory has 32 bytes")
    else:
        used, block = imm
        turn = op in (crossing.NOTIFY, crossing.WAIT_PRE)
        sizes = [32 * vectors, 32 * vectors + (32 if turn else 0)]
        if not 0 <= used <= (0 if turn else vectors) or block != unit.block or unit.kind != VECTOR_CORE:
            raise Unsound("it is told in another core's name")
        if [operand[2] for operand in entry.operands] != sizes:
            raise Unsound("the workspaces have 32 bytes for each vector core")


def _head(trace: KernelTrace) -> None:
    meta = trace.meta
    if not isinstance(meta, dict):
        raise Unsound("it has no description")
    for key, kind in _KEYS.items():
        if type(meta.get(key)) is not kind:
            raise Unsound(f"its {key!r} is missing or no {kind.__name__}")
    if not 1 <= meta["blocks"] <= MOST_BLOCKS:
        raise Unsound(f"it has {meta['blocks']} blocks")
    if meta["sync"] not in SYNCS:
        raise Unsound(f"its 'sync' is {meta['sync']!r}")
    if meta.get("cores", VECTOR_CORE) not in LAYOUTS:
        raise Unsound(f"its 'cores' is {meta['cores']!r}")
    if meta.get("data", "on") != "on":
        raise Unsound("it was made without data (CANNLAB_KERNEL_DATA=off), so it computes nothing")
    if not all(type(label) is str for label in meta["files"]):
        raise Unsound("its files have no names")
    for argument in meta["arguments"]:
        _argument(argument)


def _argument(argument: Any) -> None:
    if not isinstance(argument, dict) or type(argument.get("dtype")) is not str:
        raise Unsound("an argument has no dtype")
    shape = argument.get("shape")
    if type(argument.get("bytes")) is not int or type(shape) is not list or not all(type(n) is int for n in shape):
        raise Unsound("an argument has no size")


def _bounds(trace: KernelTrace) -> None:
    """Instructions follow one another without gaps, and their lengths fit."""
    words, at = trace.words, 0
    for start in trace.starts:
        if start != at or start + 8 > len(words):
            raise Unsound("its instructions do not follow one another")
        immediates, operands = words[start + 6], words[start + 7]
        if immediates < 0 or operands < 0:
            raise Unsound("an instruction has a negative length")
        at = start + 8 + immediates + 3 * operands
    if at != len(words):
        raise Unsound("it ends inside an instruction")


def _instruction(entry: Instruction, arguments: int) -> None:
    row = ROWS.get(entry.op)
    if row is None:
        raise Unsound(f"there is no operation {entry.op}")
    if entry.pipe != _pipe(row, entry):
        raise Unsound(f"{row.name} does not run on pipe {entry.pipe}")
    if row.number != _INIT and len(entry.operands) != len(row.roles):
        raise Unsound(f"{row.name} has {len(row.roles)} operands, not {len(entry.operands)}")
    for allocation, offset, size in entry.operands:
        if not int(min(Space)) <= allocation < arguments or offset < 0 or size < 0:
            raise Unsound(f"{row.name} has an operand that cannot be ({allocation}, {offset}, {size})")
    if row.spaces:
        for place, (allocation, _, _) in enumerate(entry.operands):
            if min(allocation, GM) not in row.spaces[place]:
                raise Unsound(f"operand {place} of {row.name} cannot lie there")
    if row.kind in (Kind.VECTOR, Kind.LOAD, Kind.CUBE, Kind.FIX):
        _types(row, entry.dtype)
        _exact(row, entry)
    elif row.kind == Kind.MOVE:
        _types(row, entry.dtype)
        _move(row, entry)
    elif row.kind == Kind.SCALAR and row.roles:
        codes = unpack(entry.dtype)
        if len(codes) != 1 or entry.operands[0][2] != SIZES[codes[0]]:
            raise Unsound(f"{row.name} reaches one element")


def _types(row: Row, dtype: int) -> None:
    if row.types and dtype not in row.types:
        raise Unsound(f"{row.name} has no such element types")
    if any(not 0 < code < len(SIZES) for code in unpack(dtype)):
        raise Unsound(f"{row.name} has unknown element types")


def _pipe(row: Row, entry: Instruction) -> int:
    """The pipe on which a face issues this instruction."""
    if row.kind == Kind.MOVE:
        (to, _, _), (source, _, _) = entry.operands
        found = PATHS.get((min(source, GM), min(to, GM)))
        if found is None:
            raise Unsound(f"{row.name} has no way from {source} to {to}")
        return int(found)
    if row.number in _FLAGS:
        return int(EVENT_PIPES[entry.immediates[0]][_FLAGS[row.number]])
    if row.number == _BARRIER:
        which = entry.immediates[0]
        if which != ALL_PIPES and which not in frozenset(Pipe):
            raise Unsound(f"there is no pipe {which}")
        return max(which, 0)
    if row.number == crossing.SET:
        return entry.immediates[2]
    return int(Pipe.MTE3) if row.number == crossing.ALL else int(row.pipe)


def _exact(row: Row, entry: Instruction) -> None:
    """Each operand has exactly the bytes that its immediates reach: they decide what is computed, judged and paid."""
    _bounded(row, entry.immediates)
    for place, reach in enumerate(extents(row.number, entry.dtype, entry.immediates)):
        if reach is not None and entry.operands[place][2] != reach:
            raise Unsound(f"operand {place} of {row.name} has {entry.operands[place][2]} bytes, it reaches {reach}")


_MOST = 1 << 21
"""More elements than any local buffer has bytes: what goes beyond would only cost time and memory."""
_MOST_LANES = 1 << 18
"""Elements of a vector instruction: the UB has fewer bytes."""
_MOST_STRIDE = 1 << 16
_BITS = {
    "load_data_3d": (18,),
    "init_const_value": (4,),
    "fixpipe": (5,),
    "fixpipe_vector": (5,),
    "bilinear_interpolation": (0, 1),
    "rmsnorm": (3, 4),
}
"""Immediates that are bits, not numbers."""
_VOLUME: dict[str, Callable[[tuple[int, ...]], int]] = {
    **dict.fromkeys(("data_copy_nd2nz", "data_copy_nz2nd"), lambda imm: imm[0] * imm[1] * (imm[2] + 32)),
    **dict.fromkeys(("load_data", "load_data_gm"), lambda imm: imm[1] * 512),
    **dict.fromkeys(("load_data_with_sparse", "load_sparse_index"), lambda imm: imm[1] * 512),
    "load_data_with_transpose": lambda imm: imm[1] * 1024,
    "load_data_3d": lambda imm: (imm[8] + 16) * (imm[7] + 32),
    "init_const_value": lambda imm: imm[0] * imm[1] * imm[3],
    **dict.fromkeys(("mmad", "mmad_accumulate", "mmad_bias"), lambda imm: imm[0] * imm[1] // 8),
    **dict.fromkeys(("mmad_sparse", "mmad_sparse_accumulate", "mmad_sparse_bias"), lambda imm: imm[0] * imm[1] // 8),
    **dict.fromkeys(("load_image", "load_image_yuv"), lambda imm: imm[5] * (imm[4] + imm[6] + imm[7]) * 32),
    **dict.fromkeys(("fixpipe", "fixpipe_vector"), lambda imm: imm[0] * imm[1] * imm[6]),
    **dict.fromkeys(("mrg_sort_2", "mrg_sort_3", "mrg_sort_4"), lambda imm: sum(imm[:4]) * 8 * imm[4]),
    **dict.fromkeys(("sort32", "sort", "extract"), lambda imm: imm[0] * 256),
    **dict.fromkeys(("transpose", "transpose_ext"), lambda imm: imm[1] * imm[2] * imm[3] * imm[4]),
    "trans_data_to_5hd": lambda imm: imm[0] * 512,
    **dict.fromkeys(("softmax", "rmsnorm"), lambda imm: imm[0] * imm[1]),
    "bilinear_interpolation": lambda imm: max(imm[2], 1) * imm[6] * 128,
    **dict.fromkeys(("brcb", "gatherb"), lambda imm: imm[0] * 256),
    **dict.fromkeys(("gather_mask", "gather_mask_tensor"), lambda imm: max(imm[2], 256) * imm[4]),
}
"""Elements (or bytes) that an instruction without a count or mask form handles."""


def _bounded(row: Row, imm: tuple[int, ...]) -> None:
    """Counts, repeats and strides are what the hardware's fields hold: asked before anything is computed from them."""
    volume = _VOLUME.get(row.name)
    if volume is not None:
        bits = _BITS.get(row.name, ())
        if any(not 0 <= value <= _MOST for place, value in enumerate(imm) if place not in bits):
            raise Unsound(f"{row.name} has immediates that no face writes")
        if volume(tuple(value if value > 1 else 1 for value in imm)) > _MOST:
            raise Unsound(f"{row.name} handles more than any buffer holds")
        if row.kind == Kind.CUBE and max(imm) > MAX_EXTENT:
            raise Unsound(f"{row.name} has an extent beyond {MAX_EXTENT}")
        return
    if imm[0] == layout.MASK and not 0 <= imm[1] <= MAX_REPEAT:
        raise Unsound(f"{row.name} repeats {imm[1]} times")
    if imm[0] not in (layout.COUNT, layout.MASK, layout.COUNTER) or not 0 <= imm[1] <= _MOST_LANES:
        raise Unsound(f"{row.name} has a form that no face writes")
    if imm[0] != layout.COUNT and any(not 0 <= stride <= _MOST_STRIDE for stride in imm[4:10]):
        raise Unsound(f"{row.name} has strides that no face writes")


def _move(row: Row, entry: Instruction) -> None:
    count, length = entry.immediates[:2]
    if count < 1 or length < 1 or any(gap < 0 for gap in entry.immediates[2:4]):
        raise Unsound(f"{row.name} moves {count} times {length} bytes")
    for place, reach in enumerate(extents(row.number, entry.dtype, entry.immediates)):
        size = entry.operands[place][2]
        if reach is not None and (size < reach or (count == 1 and len(entry.immediates) == 5 and size != reach)):
            raise Unsound(f"operand {place} of {row.name} has {size} bytes, it reaches {reach}")
