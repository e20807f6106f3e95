"""Pipes, hard events and the local buffers of an AI core.

Source: ascend-c 1.2 (types), 2.2 (capacities), pyasc 6 (enumerations).
"""

from __future__ import annotations

from enum import IntEnum

from cannlab.soc.soc import Soc


class Pipe(IntEnum):
    """The pipes of a core, each in order."""

    S = 0
    V = 1
    M = 2
    MTE1 = 3
    MTE2 = 4
    MTE3 = 5
    FIXP = 6


PIPES = len(Pipe)
ALL_PIPES = -1
"""What a barrier over every pipe names instead of a pipe."""


class HardEvent(IntEnum):
    """An event from one pipe to another; the numbers are those of the toolkit."""

    MTE2_MTE1 = 0
    MTE1_MTE2 = 1
    MTE1_M = 2
    M_MTE1 = 3
    MTE2_V = 4
    V_MTE2 = 5
    MTE3_V = 6
    V_MTE3 = 7
    M_V = 8
    V_M = 9
    V_V = 10
    MTE3_MTE1 = 11
    MTE1_MTE3 = 12
    MTE1_V = 13
    MTE2_M = 14
    M_MTE2 = 15
    V_MTE1 = 16
    M_FIX = 17
    FIX_M = 18
    MTE3_MTE2 = 19
    MTE2_MTE3 = 20
    S_V = 21
    V_S = 22
    S_MTE2 = 23
    MTE2_S = 24
    S_MTE3 = 25
    MTE3_S = 26
    MTE2_FIX = 27
    FIX_MTE2 = 28
    FIX_S = 29
    M_S = 30
    FIX_MTE3 = 31
    MTE1_FIX = 32
    FIX_MTE1 = 33
    FIX_FIX = 34


def _pipe(name: str) -> Pipe:
    return Pipe.FIXP if name == "FIX" else Pipe[name]


EVENT_PIPES: tuple[tuple[Pipe, Pipe], ...] = tuple(
    (_pipe(event.name.split("_")[0]), _pipe(event.name.split("_")[1])) for event in HardEvent
)
"""(pipe that sets, pipe that waits) of every event, by its number."""

RESERVED_EVENT_IDS = (6, 7)
"""Used by the compiler's own synchronisation; 0 to 5 are for the programmer. Source: ascend-c 2.3."""


class Space(IntEnum):
    """Local buffers of a core, as allocations of an operand (all below 0)."""

    UB = -1
    L1 = -2
    L0A = -3
    L0B = -4
    L0C = -5
    BIAS = -6
    FIXBUF = -7
    INDEX = -8
    """Beside L0B, a quarter of its size: the index of a sparse matrix. No position names it; byte b of L0B has byte
    b / 4 here."""


GM = 0
"""Global memory among the spaces: an operand's allocation is its argument's number, 0 and up."""

ALIGN: dict[int, int] = {
    Space.UB: 32,
    Space.L1: 32,
    Space.L0A: 512,
    Space.L0B: 512,
    Space.L0C: 64,
    Space.BIAS: 64,
    Space.FIXBUF: 64,
    Space.INDEX: 128,
}
"""What an address in a local buffer is a multiple of. Source: ascend-c 2.2."""

PATHS: dict[tuple[int, int], Pipe] = {
    (GM, Space.UB): Pipe.MTE2,
    (GM, Space.L1): Pipe.MTE2,
    (Space.UB, GM): Pipe.MTE3,
    (Space.UB, Space.UB): Pipe.V,
    (Space.UB, Space.L1): Pipe.MTE3,
    (Space.L1, Space.UB): Pipe.MTE1,
    (Space.L1, Space.BIAS): Pipe.MTE1,
    (Space.L1, Space.L0C): Pipe.V,
    (Space.L1, Space.FIXBUF): Pipe.FIXP,
}
"""(from, to) -> the pipe that copies: data_copy has no other way. L1 to L0C carries the bias where the chip has no
bias table. Source: ascend-c 1.2; pyasc 6; the pipes of the last two are inferred."""

VECTOR_CORE, CUBE_CORE = "AIV", "AIC"
CORES = (VECTOR_CORE, CUBE_CORE)
"""Kinds of cores of a split chip. On the others every core is both."""


def capacity(soc: Soc, space: Space) -> int:
    """Bytes of a local buffer that an address may name; 0 where the chip lacks it. Source: ascend-c 2.2."""
    sizes = {
        Space.UB: soc.ub_bytes,
        Space.L1: soc.l1_usable_bytes,
        Space.L0A: soc.l0a_bytes,
        Space.L0B: soc.l0b_bytes,
        Space.L0C: soc.l0c_bytes,
        Space.BIAS: soc.bt_bytes,
        Space.FIXBUF: soc.fb_bytes,
        Space.INDEX: soc.l0b_bytes // 4 if soc.sparse else 0,
    }
    return sizes[space]


def usable(soc: Soc, space: Space) -> int:
    """Bytes of a local buffer that a TPipe or an allocator hands out."""
    return soc.ub_usable_bytes if space is Space.UB else capacity(soc, space)


def spaces(soc: Soc, cores: str) -> frozenset[Space]:
    """Local buffers that a core has: on split chips the UB belongs to the vector core, the others to the cube core."""
    there = frozenset(space for space in Space if capacity(soc, space))
    if not soc.split:
        return there
    vector = frozenset({Space.UB})
    return there & vector if cores == VECTOR_CORE else there - vector


_POSITIONS: dict[str, Space] = {
    "VECIN": Space.UB,
    "VECOUT": Space.UB,
    "VECCALC": Space.UB,
    "A1": Space.L1,
    "B1": Space.L1,
    "A2": Space.L0A,
    "B2": Space.L0B,
    "CO1": Space.L0C,
}


def position_space(soc: Soc, position: str) -> Space | None:
    """The local buffer in which a TPosition lies on a chip; None for global memory. Source: ascend-c 1.2."""
    if position == "C1":
        return Space.L1 if soc.bt_bytes else Space.UB
    if position == "C2":
        return Space.BIAS if soc.bt_bytes else Space.L0C
    if position == "CO2":
        return None if soc.bt_bytes else Space.UB
    return _POSITIONS.get(position)


BLOCK = 32
"""Bytes of a data block: the unit of strides and of alignment in the UB."""
REPEAT = 256
"""Bytes that a vector instruction handles per repeat: 8 blocks."""
MAX_REPEAT = 255
GM_SLACK = 512
"""Spare bytes behind every kernel argument in device memory. Source: pyasc 1.3."""
