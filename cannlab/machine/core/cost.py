"""What an instruction costs, in cycles of the core.

Measured on Atlas A2 (1.85 GHz): a vector add takes 22 cycles and one per repeat, two when both sources lie
in the same bank group, 1.75 when the result meets a source in one bank; a scalar loop over elements takes
34 cycles per element (two loads, one store); 128-B copies are issued every 21 cycles; copies of 8 and
32 KB fit a latency of about 250 cycles that overlaps between copies of one pipe. Source: ascend-c 2.5, 2.6
and the published add ladder. Marked assumed: the rest.
"""

from __future__ import annotations

import math

from cannlab.machine.core import layout
from cannlab.machine.core.cube import is_sparse
from cannlab.machine.core.dtypes import SIZES, unpack, widest
from cannlab.machine.core.images import CHANNELS
from cannlab.machine.core.opcodes import Kind, Row
from cannlab.machine.core.pipes import BLOCK, REPEAT, Space
from cannlab.soc.soc import Soc

VECTOR_HEAD = 22
READ_LATENCY = 250
WRITE_LATENCY = 160
LOCAL_LATENCY = 30
"""UB to UB: assumed."""
COPY_ISSUE = 21
BURST_ISSUE = 4
"""Each further block of a strided copy: assumed (2-KB rows reach the full rate, 128-B rows nine tenths)."""
ISSUE = 2
"""Scalar cycles to send one instruction to its pipe: assumed."""
QUEUE_CALL = 4
"""Scalar cycles of alloc, enque, deque, free: assumed."""
SCALAR_LOCAL = 10
SCALAR_GLOBAL = 200
"""A scalar access that goes out to global memory: assumed, data cache not modelled."""
CROSS_FLAG = 200
"""From the last set of a flag between cores to the first instruction behind the wait: assumed."""
CROSS_MEMORY = WRITE_LATENCY + READ_LATENCY + 2 * COPY_ISSUE
"""The same through a flag in global memory: one write, and the read that finds it (derived)."""
QUEUE_DEPTH = 32
"""Instructions that wait in front of a pipe before the scalar unit has to. Source: ascend-c 2.2."""

# Empty kernels by block count (measured on 950PR; taken for all chips). Source: ascend-c 2.6, kernel timings.
_LAUNCH_NS = ((1, 1455), (32, 1589), (64, 2160), (128, 3373), (1024, 15996))


def launch_ns(blocks: int) -> int:
    """What a launch costs before its first instruction, in ns, by the number of blocks."""
    low = _LAUNCH_NS[0]
    if blocks <= low[0]:
        return low[1]
    for high in _LAUNCH_NS[1:]:
        if blocks <= high[0]:
            break
        low = high
    else:
        low, high = _LAUNCH_NS[-2], _LAUNCH_NS[-1]
    return low[1] + (blocks - low[0]) * (high[1] - low[1]) // (high[0] - low[0])


def conflict(operands: tuple[tuple[int, int, int], ...], roles: str) -> float:
    """How much longer a dense vector instruction takes because of banks of the UB. Source: ascend-c 2.5."""
    sources = [operand[1] >> 5 for operand, role in zip(operands, roles, strict=True) if role == "r"]
    worst = 1.0
    if len(sources) > 1 and (sources[0] - sources[1]) % 16 != 8:
        worst = 2.0
    target = operands[0][1] >> 5
    for source in sources:
        if worst < 1.75 and target >> 11 == source >> 11 and (target - source) % 16 not in (0, 8):
            worst = 1.75
    return worst


def vector_cycles(row: Row, dtype: int, imm: tuple[int, ...], operands: tuple[tuple[int, int, int], ...]) -> int:
    """Cycles of a vector instruction."""
    if not dtype:
        return VECTOR_HEAD
    if row.repeats is not None:
        count = row.repeats(dtype, imm)
    elif imm[0] == layout.COUNT:
        count = -(-imm[1] * widest(dtype) // REPEAT)
    elif len(imm) >= 10:
        count = layout.repeats(widest(dtype), imm)
    else:
        count = imm[0]
    factor = row.cycles
    if row.lanewise and len(operands) > 1:
        factor *= conflict(operands, row.roles)
    return VECTOR_HEAD + math.ceil(count * factor)


MMAD_HEAD = 10
"""Published matmuls lie within 2 % of m * n * k / 4096: about this much for each 128 x 256 x 64."""
LOAD_LATENCY = 30
"""L1 to L0: assumed."""
FIX_LATENCY = 160
"""L0C to global memory: assumed as that of a write."""


def cube_cycles(dtype: int, imm: tuple[int, ...]) -> int:
    """Cycles of an mmad: one per 16 x 16 x 32 bytes of k (16 x 16 x 16 half, 32 int8); float32 runs at a quarter of
    half's rate. A sparse product takes the steps of the half of k that it keeps. Source: ascend-c 2.3, 2.6."""
    m, n, k = imm
    if is_sparse(dtype):
        k = -(-k // 2)
    size = SIZES[unpack(dtype)[1]]
    steps = -(-k * size // BLOCK) * (2 if size == 4 else 1)
    return MMAD_HEAD + -(-m // 16) * -(-n // 16) * steps


def load_size(row: Row, dtype: int, imm: tuple[int, ...]) -> tuple[int, int]:
    """Bytes that a rearranging copy moves, and in how many rows it reads or writes global memory."""
    size = SIZES[unpack(dtype)[0]]
    name = row.name
    if name in ("data_copy_nd2nz", "data_copy_nz2nd"):
        return imm[0] * imm[1] * imm[2] * size, imm[0] * imm[1]
    if name == "load_data_with_transpose":
        return imm[1] * (1024 if size != 2 else 512), 1
    if name == "load_data_3d":
        return -(-imm[8] // 16) * 16 * -(-imm[7] * size // BLOCK) * BLOCK, 1
    if name == "init_const_value":
        return imm[0] * imm[1] * imm[3], 1
    if name == "load_sparse_index":
        return imm[1] * 128, 1
    if name in ("load_image", "load_image_yuv"):
        return imm[4] * imm[5] * CHANNELS[imm[0]], imm[5]
    return imm[1] * 512, 1


def fix_size(dtype: int, imm: tuple[int, ...]) -> tuple[int, int, int]:
    """Bytes that a fixpipe reads, bytes that it writes, rows that it writes."""
    n, m, count = imm[0], imm[1], imm[6] if imm[10] else 1
    to, source = unpack(dtype)[:2]
    return count * m * n * SIZES[source], count * m * n * SIZES[to], count * m if imm[10] else 1


class Rates:
    """Bytes per cycle of a core when so many are at work.

    Args:
        soc: the chip.
        active: cores that run blocks at the same time.
    """

    def __init__(self, soc: Soc, active: int) -> None:
        bandwidth = soc.ddr_gbps * 1000.0 / soc.vector_mhz
        self.share = bandwidth / active
        """Global memory's bandwidth, shared evenly; reads and writes together."""
        self.read = bandwidth / soc.ai_cores
        self.write = float(soc.ub_to_ddr_rate)
        self.local = float(REPEAT)
        self.load = {int(Space.L0A): float(soc.l1_to_l0a_rate), int(Space.L0B): float(soc.l1_to_l0b_rate)}
        self.fix = float(soc.l0c_to_ub_rate)


def is_global(row: Row, operands: tuple[tuple[int, int, int], ...]) -> bool:
    """True when a copy or scalar access goes to global memory."""
    return row.kind in (Kind.MOVE, Kind.SCALAR) and any(operand[0] > Space.UB for operand in operands)
