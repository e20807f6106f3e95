"""The cores that a launch runs on, as the kernel counts them.

A split chip has a cube core (AIC) and two vector cores (AIV) in each AI core. A kernel of one kind runs one block on
each core of that kind; a mixed kernel runs its body on the cube core and on one or two vector cores of as many AI
cores as it has blocks. Source: pyasc 1.5.
"""

from __future__ import annotations

from typing import NamedTuple

from cannlab.machine.core.pipes import CUBE_CORE, VECTOR_CORE
from cannlab.soc.soc import Soc

MIXED = {"MIX_1_1": 1, "MIX_1_2": 2}
"""Mixed launches, and the vector cores of each cube core."""
LAYOUTS = (VECTOR_CORE, CUBE_CORE, *MIXED)


class Unit(NamedTuple):
    """One core's run of the kernel.

    Attributes:
        number: its number in the record.
        block: what get_block_idx says there.
        kind: "AIV" or "AIC".
        group: the AI core that it belongs to; of a launch of one kind every unit is its own.
        sub: which vector core of the group.
    """

    number: int
    block: int
    kind: str
    group: int
    sub: int

    @property
    def named(self) -> str:
        """For a person."""
        return f"block {self.block} ({self.kind})"


def units(blocks: int, layout: str) -> tuple[Unit, ...]:
    """The units of a launch, in the order in which they begin."""
    ratio = MIXED.get(layout)
    if ratio is None:
        return tuple(Unit(block, block, layout, block, 0) for block in range(blocks))
    found = []
    for group in range(blocks):
        first = group * (1 + ratio)
        found.append(Unit(first, group, CUBE_CORE, group, 0))
        found += [Unit(first + 1 + sub, group * ratio + sub, VECTOR_CORE, group, sub) for sub in range(ratio)]
    return tuple(found)


def at_once(soc: Soc, layout: str) -> int:
    """How many groups of a launch the chip runs at the same time."""
    return soc.kernel_cores if layout == VECTOR_CORE else soc.matrix_cores
