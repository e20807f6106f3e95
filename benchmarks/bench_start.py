"""How long the commands take to start, each in a process of its own.

    python benchmarks/bench_start.py [runs]

The targets are those of the project: `import cannlab` 300 ms, `cannlab check-env` 2 s. Exit code 1 if one is missed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

CASES: list[tuple[str, list[str], float | None]] = [
    ("python -c pass", ["-c", "pass"], None),
    ("import cannlab", ["-c", "import cannlab"], 0.3),
    ("cannlab.activate()", ["-c", "import cannlab; cannlab.activate()"], None),
    ("cannlab --help", ["-m", "cannlab", "--help"], None),
    ("cannlab env", ["-m", "cannlab", "env"], None),
    ("cannlab explain 107002", ["-m", "cannlab", "explain", "107002"], None),
    ("cannlab npu-smi info", ["-m", "cannlab", "npu-smi", "info"], None),
    ("cannlab check-env", ["-m", "cannlab", "check-env"], 2.0),
]


def seconds(words: list[str], runs: int) -> list[float]:
    """Wall-clock times of ``runs`` processes, after one that warms the caches."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return times[1:]


def main() -> int:
    """Print one line for each case."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    missed = False
    print(f"{'case':<26}{'median':>10}{'worst':>10}{'target':>10}")
    for name, words, target in CASES:
        times = seconds(words, runs)
        median = statistics.median(times)
        missed |= target is not None and median > target
        shown = f"{target * 1000:.0f} ms" if target else ""
        print(f"{name:<26}{median * 1000:>7.0f} ms{max(times) * 1000:>7.0f} ms{shown:>10}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
