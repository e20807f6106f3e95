"""What the sandbox costs, and how long a check takes while it is attacked.

Run: python benchmarks/bench_defences.py [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "hostile"))

import attacks

from cannlab.course import nursery, server
from cannlab.course.client import Client
from cannlab.course.job import make
from cannlab.course.manifest import Limits
from cannlab.course.runner import ForkRunner, serve
from cannlab.course.sandbox import Sandbox
from cannlab.course.spec import call

JOB = make("a.b", (), "def f():\n    return 1", call("f"), [{}], Limits())


def _times(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Best and median, in ms: on a busy machine only the best says what the work costs."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - started))
    return min(times), statistics.median(times)


class _Open(Sandbox):
    """No layer at all but the limits."""

    def namespaces(self, *, processes: bool) -> dict[str, str]:
        return dict.fromkeys(("network", "processes"), "missing: left out")

    def scratch(self, folder: str) -> dict[str, str]:
        return {"disk": "missing: left out"}

    def _privileges(self) -> str:
        return "missing: left out"


def layers(rounds: int) -> None:
    """The time of one answer's process with all layers, without single ones, and with none."""
    server.preload(server.PRELOAD)
    full = Sandbox.prepare()
    kinds = {
        "all layers": full,
        "without the filter of system calls": replace(full, filter="left out"),
        "without Landlock": replace(full, landlock="left out"),
        "with limits only": _Open(full.libc, "left out", "left out"),
    }
    runs: dict[str, ForkRunner] = {}
    for name, sandbox in kinds.items():
        run = runs[name] = ForkRunner()
        run.nursery.close()
        run.sandbox, run.nursery = sandbox, nursery.Nursery(sandbox, serve)
        found = run.run(JOB)
        assert name != "all layers" or all(state == "on" for state in found.layers.values()), found.layers
    # In turn, so that a change of the machine's load meets all of them.
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            spent[name].append(_times(lambda run=run: run.run(JOB), 1)[0])
    for name, run in runs.items():
        run.nursery.close()
        print(f"{name:36} best {min(spent[name]):5.1f} ms, median {statistics.median(spent[name]):5.1f} ms")


def attacked(most: int) -> None:
    """The time of a graded check of each attack, the slowest first."""
    client = Client()
    corpus = attacks.answers(*attacks.ATTACKED)
    times: list[tuple[float, str, str]] = []
    for answer in corpus:
        started = time.perf_counter()
        result = client.check(attacks.COURSE, f"01_target.{answer.exercise}", answer.cell, {"secret": "s"})
        assert result.diagnosis is not None, answer.name
        times.append((time.perf_counter() - started, answer.name, result.diagnosis.rule))
    honest = f"# exercise: 01_target.scale\n{attacks.SOLUTIONS['scale']}"
    best, right = _times(lambda: client.check(attacks.COURSE, "01_target.scale", honest, {"secret": "s"}), 20)
    client.close()
    print(f"{len(corpus)} attacks, one after another: {sum(t for t, *_ in times):.0f} s")
    usual = 1000 * statistics.median(t for t, *_ in times)
    print(f"median {usual:.0f} ms; a right answer: median {right:.0f} ms, best {best:.0f} ms")
    for spent, name, rule in sorted(times, reverse=True)[:most]:
        print(f"  {spent:5.1f} s  {name} ({rule})")


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--slowest", type=int, default=12)
    chosen = parser.parse_args()
    layers(chosen.rounds)
    attacked(chosen.slowest)


if __name__ == "__main__":
    main()
