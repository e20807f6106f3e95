"""Kernels here against the same work in Triton's interpreter: processor time, medians of one run, and their ratios.

Triton is no dependency of cannlab. To compare: ``pip install --no-deps --target DIR triton==3.4.0`` (Linux), then
``PYTHONPATH=DIR python benchmarks/bench_triton.py``. Without it only the times here are shown.

The bars: with all checks 10 times as fast for the vector add and softmax, 5 times for the matmul; 20 times for add and
softmax without checks (``CANNLAB_KERNEL_CHECKS=off``). ``--large`` adds two launches of a size that nobody interprets:
an add of 2^24 float16 over 48 cores (under 10 s), and an 8192^3 matmul over 24 cube cores, timed without computing it
(``CANNLAB_KERNEL_DATA=off``, under 60 s).
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import triton_kernels
from bench_kernels import baseline

from cannlab.machine import machine, reset_machine
from cannlab.machine.core.modes import CHECKS, DATA

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "ascendc"))

import large_kernels
from add_flags import add_flags
from add_queues import add_queues
from cube_kernels import matmul

TURNS = 5
ADD, ROWS, SIDE = 1 << 20, 1024, 512
"""Elements of the add, rows and columns of the softmax, sides of the matmul."""


def here(kernel: Any, blocks: int, *arguments: Any) -> Callable[[], int]:
    """A launch on a machine of its own; it gives the instructions."""

    def run() -> int:
        reset_machine("Ascend910B1", 1)
        kernel[blocks](*arguments)
        return len(machine().record.kernels[-1])

    return run


def timed(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median processor time of each; they take turns, so that a busy machine is busy for all of them."""
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(TURNS + 1):
        for name, run in runs.items():
            unchecked = name.endswith("without checks")
            os.environ[CHECKS] = "off" if unchecked else "on"
            start = time.process_time()
            run()
            if turn:
                # The first turn compiles and imports.
                spent[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in spent.items()}


def compare(title: str, bars: dict[str, float], runs: dict[str, Callable[[], Any]]) -> None:
    """Print the times of one piece of work, and how many times as fast as Triton's interpreter each is."""
    found = timed(runs)
    other = found.pop("triton", None)
    print(f"{title}" + (f": Triton's interpreter {other * 1e3:.0f} ms" if other else ""))
    for name, spent in found.items():
        line = f"  {name:32} {spent * 1e3:7.0f} ms"
        if other:
            bar = next((value for kind, value in bars.items() if name.endswith(kind)), 0)
            line += f"  {other / spent:5.1f} times as fast (bar {bar:g})"
        count = runs[name]()
        print(f"{line}  {count} instructions, {spent / count * 1e6:.1f} us each")


def both(name: str, run: Callable[[], int]) -> dict[str, Callable[[], int]]:
    """With and without checks."""
    return {f"{name}, checked": run, f"{name}, without checks": run}


def large() -> None:
    """The launches that are only bounded in time."""
    x = np.ones(1 << 24, np.float16)
    z = np.zeros_like(x)
    start = time.process_time()
    count = here(large_kernels.add, 48, x, x, z, len(x))()
    print(f"2^24 float16 added over 48 cores, tiles of 4096: {time.process_time() - start:.1f} s, {count} instructions")
    assert (z == 2).all()
    side = large_kernels.SIDE
    x, y, z = np.zeros((side, side), np.float16), np.zeros((side, side), np.float16), np.zeros((side, side), np.float16)
    os.environ[DATA] = "off"
    for checks in ("on", "off"):
        os.environ[CHECKS] = checks
        start = time.process_time()
        count = here(large_kernels.matmul, 24, x, y, z)()
        spent = time.process_time() - start
        print(f"{side}^3 float16 matmul timed on 24 cores, checks {checks}: {spent:.0f} s, {count} instructions")
    os.environ[DATA] = os.environ[CHECKS] = "on"


def main() -> None:
    """All comparisons."""
    os.environ[DATA] = "on"
    rng = np.random.default_rng(0)
    print(f"an empty loop turn takes {baseline():.0f} ns here")
    other = triton_kernels.runs(ADD, ROWS, SIDE)
    x, y = rng.random(ADD, dtype="f4"), rng.random(ADD, dtype="f4")
    z = np.zeros_like(x)
    runs: dict[str, Callable[[], Any]] = {}
    for kernel in (add_queues, add_flags):
        runs |= both(kernel.name, here(kernel, 8, x, y, z, ADD // 8))
    compare("vector add of 2^20 float32, tiles of 1024", {"checked": 10, "checks": 20}, runs | other["add"])
    assert np.array_equal(z, x + y)

    from real_kernels import softmax

    a, b = rng.standard_normal((ROWS, ROWS), dtype="f4"), np.zeros((ROWS, ROWS), "f4")
    runs = both("softmax", here(softmax, 8, a, b, ROWS, ROWS))
    compare("softmax of 1024 x 1024 float32", {"checked": 10, "checks": 20}, runs | other["softmax"])

    m, n = (rng.standard_normal((SIDE, SIDE)).astype(np.float16) for _ in range(2))
    bias, c = np.zeros(SIDE, np.float32), np.zeros((SIDE, SIDE), np.float32)
    runs = both("matmul", here(large_kernels.matmul_512, 16, m, n, c))
    compare("matmul of 512^3 float16, blocks of 128", {"checked": 5}, runs | other["matmul"])
    assert np.allclose(c, m.astype("f4") @ n.astype("f4").T, atol=1e-3)
    runs = {"matmul, 128 base tiles, checked": here(matmul, 128, m, n, bias, c, False)}
    compare("the same in base tiles of 32 x 64", {}, runs)
    if "--large" in sys.argv[1:]:
        large()


if __name__ == "__main__":
    main()
