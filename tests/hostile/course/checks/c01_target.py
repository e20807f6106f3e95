"""Checks of 01_target: one plain function, one program of pyACL, one kernel, and two neighbours that nobody attacks."""

import numpy as np

from cannlab.course.spec import Check, Cost, call, copies, everything_freed, exact, kernel


def _floats(rng, n):
    return rng.standard_normal(n).astype(np.float32)


CHECKS = [
    Check(
        "01_target.before",
        run=call("total"),
        draw=lambda rng, n: {"values": [int(v) for v in rng.integers(1, 1000, n)]},
        sizes=(1, 5),
        reference=lambda values: sum(values),
        grading_rounds=1,
    ),
    Check(
        "01_target.scale",
        run=call("scale"),
        draw=lambda rng, n: {"x": _floats(rng, n)},
        sizes=(1, 7, 100),
        reference=lambda x: 3 * x + 1,
        compare=exact(),
        grading_rounds=1,
    ),
    Check(
        "01_target.round_trip",
        run=call("round_trip"),
        draw=lambda rng, n: {"data": _floats(rng, n)},
        sizes=(3, 64),
        reference=lambda data: data,
        must=(copies("h2d", at_least=1, at_most=1), copies("d2h", at_least=1, at_most=1), everything_freed()),
        cost=Cost(1.1),
        grading_rounds=1,
    ),
    Check(
        "01_target.kernel",
        run=kernel("launch", out="z"),
        draw=lambda rng, n: {"x": _floats(rng, n), "y": _floats(rng, n), "z": np.full(n, -1, np.float32)},
        sizes=(8, 1000),
        reference=lambda x, y, z: x + y,
        cost=Cost(1.2),
        grading_rounds=1,
    ),
    Check(
        "01_target.after",
        run=call("product"),
        draw=lambda rng, n: {"values": [int(v) for v in rng.integers(1, 9, n)]},
        sizes=(2, 6),
        reference=lambda values: int(np.prod(values)),
        grading_rounds=1,
    ),
]
