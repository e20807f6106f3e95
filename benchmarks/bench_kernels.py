"""Host time per instruction of kernels, with every check on.

Run: ``python benchmarks/bench_kernels.py`` (prints a table); not a test, since it measures this machine.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from cannlab.machine import core, machine, reset_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "ascendc"))

from add_flags import add_flags
from add_queues import add_queues

ELEMENTS = 1 << 20
BLOCKS = 8
TURNS = 5


def baseline() -> float:
    """Nanoseconds of one turn of an empty Python loop: what the machine does now."""
    start = time.process_time()
    for _ in range(2_000_000):
        pass
    return (time.process_time() - start) / 2_000_000 * 1e9


def main() -> None:
    """Vector add of 2^20 float32 in tiles of 1024, on 8 blocks; the best of five runs."""
    x = np.random.default_rng(0).random(ELEMENTS, dtype="f4")
    y = np.random.default_rng(1).random(ELEMENTS, dtype="f4")
    print(f"an empty loop turn takes {baseline():.0f} ns here")
    for kernel in (add_queues, add_flags):
        best = replayed = float("inf")
        for _ in range(TURNS):
            reset_machine("Ascend910B1", 1)
            z = np.zeros(ELEMENTS, "f4")
            start = time.process_time()
            kernel[BLOCKS](x, y, z, ELEMENTS // BLOCKS)
            best = min(best, time.process_time() - start)
            trace = machine().record.kernels[-1]
            start = time.process_time()
            core.replay(trace, [x, y, z])
            replayed = min(replayed, time.process_time() - start)
        count = len(trace)
        print(
            f"{kernel.name}: {count} instructions, live {best / count * 1e6:.1f} us each ({best:.2f} s), "
            f"replay {replayed / count * 1e6:.1f} us each"
        )


if __name__ == "__main__":
    main()
