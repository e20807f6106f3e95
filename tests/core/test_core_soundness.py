"""Records that no launch makes are refused before anything is computed from them."""

import contextlib
import time

import pytest

from cannlab.machine.core import soundness
from cannlab.machine.core.opcodes import ROWS, Kind
from cannlab.trace.kernel import Instruction, KernelTrace

WORKING = [row for row in ROWS.values() if row.kind in (Kind.VECTOR, Kind.LOAD, Kind.CUBE, Kind.FIX) and row.types]


def trace(*entries, cores="AIV"):
    made = KernelTrace(
        {
            "name": "k",
            "blocks": 1,
            "soc": "Ascend910B1",
            "sync": "auto",
            "cores": cores,
            "arguments": [{"dtype": "float32", "shape": [1024], "bytes": 4096}],
            "scalars": [],
            "files": [],
        }
    )
    made.add(200, 0, 0, 0, 0, 0, (0, 1), ())
    for entry in entries:
        made.append(entry)
    return made


def entry(row, imm, sizes=None):
    dtype = sorted(row.types)[0]
    spaces = [min(each) for each in row.spaces] or [-1] * len(row.roles)
    operands = tuple((space, 0, sizes[place] if sizes else 0) for place, space in enumerate(spaces))
    return Instruction(row.number, 0, int(row.pipe), dtype, 0, 0, imm, operands)


@pytest.mark.parametrize("row", WORKING, ids=lambda row: row.name)
def test_absurd_numbers_cost_nothing(row):
    """Most are refused; what passes (nothing to do, with any stride) has no effect. No memory and no time is taken."""
    start = time.process_time()
    for value in (1 << 62, -1, 1 << 20):
        for length in (2, 5, 7, 8, 13, 19):
            for form in (0, 1, 2, value):
                with contextlib.suppress(soundness.Unsound):
                    soundness.check(trace(entry(row, (form, *[value] * (length - 1)))))
    assert time.process_time() - start < 5


def test_cores_are_of_a_known_kind():
    with pytest.raises(soundness.Unsound, match="cores"):
        soundness.check(trace(cores="GPU"))
    old = trace()
    del old.meta["cores"]
    soundness.check(old)
