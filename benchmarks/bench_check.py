"""How long a check takes once the checking process is warm: the target is under 200 ms.

Run: python benchmarks/bench_check.py [EXERCISE] [--course DIR] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from cannlab.course import bundle, layout
from cannlab.course.client import Client

TARGET_MS = 200.0
_TINY = Path(__file__).parents[1] / "tests" / "course" / "fixtures" / "tiny"


def main() -> None:
    """Time the first check and then N warm ones of one exercise's solution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exercise", nargs="?", default="01_tiny.pad")
    parser.add_argument("--course", type=Path, default=None)
    parser.add_argument("--rounds", type=int, default=30)
    chosen = parser.parse_args()
    course = chosen.course or (_TINY if chosen.exercise.startswith("01_tiny.") else None)
    found = layout.find(course)
    solution = bundle.load(found, chosen.exercise).part.solution
    client = Client()
    times = []
    for _ in range(chosen.rounds + 1):
        started = time.perf_counter()
        result = client.check(found.root, chosen.exercise, solution)
        times.append(1000 * (time.perf_counter() - started))
        assert result.passed, result.text()
    client.close()
    warm = sorted(times[1:])
    print(f"{chosen.exercise}: {result.cases} cases, layers: {', '.join(f'{k} {v}' for k, v in result.layers.items())}")
    print(f"first check, with the start of the checking process: {times[0]:.0f} ms")
    p95 = warm[int(0.95 * (len(warm) - 1))]
    print(f"warm: median {statistics.median(warm):.0f} ms, 95th percentile {p95:.0f} ms, target {TARGET_MS:.0f} ms")


if __name__ == "__main__":
    main()
