"""The demo, warm: bar 30 s on 2 cores.

python -m pytest benchmarks/bench_demo.py -p no:xdist --benchmark-only
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture


def test_demo(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    def demo() -> None:
        command = [sys.executable, "-m", "cannlab", "demo", "--out", str(tmp_path / "out")]
        subprocess.run(command, check=True, capture_output=True)

    benchmark.pedantic(demo, rounds=3, iterations=1, warmup_rounds=1)
