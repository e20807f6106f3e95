"""How fast cannlab grades, and how much memory a large class takes.

    python benchmarks/bench_grade.py [warm] [class] [thousand] [others]

warm      10 trivial answers in one notebook, checking process warm; target 1 s
class     30 submissions of that workbook with two jobs, start to end; target 10 s
thousand  1,000 submissions: the largest memory of the grading process and of its checking processes, at every 100
others    nbgrader and otter-grader on the same trivial workbook; they are installed into a folder of their own,
          which is removed again (needs the network)

Without words: warm and class. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "grading")]

import trivial  # noqa: E402

from cannlab.course.grading.run import Options, Summary, grade  # noqa: E402


class Quiet:
    """A watcher that only calls back."""

    def __init__(self, each: Callable[[int], None] = lambda done: None) -> None:
        self.done = 0
        self.each = each

    def begin(self, summary: Summary, done: int) -> None:
        self.done = done

    def step(self, learner: str) -> None:
        self.done += 1
        self.each(self.done)


SMALL = 2
"""Answers in a notebook of the thousand: what could grow is what is kept of a learner."""


def resident(pid: int) -> float:
    """MiB of memory of a process."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)
    except OSError:
        return 0.0


def children() -> list[int]:
    """The processes that this one started."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text() if sys.platform == "linux" else ""
    return [int(word) for word in text.split()]


def warm(folder: Path) -> bool:
    """One notebook after another through one warm checking process."""
    from cannlab.course.client import Client
    from cannlab.course.grading.plan import Plan
    from cannlab.course.grading.submissions import read
    from cannlab.course.grading.worker import MODULE, Worker, load

    submissions = trivial.make_class(folder / "warm", 12)
    client = Client(MODULE)
    reply = client.ask({"what": "plan", "root": "", "lessons": [trivial.LESSON]})
    worker = Worker(Plan.from_dict({**reply, "root": "", "seed": "bench"}), client)
    works = [load(submission) for submission in read(submissions).all]
    times = []
    for work in works:
        start = time.perf_counter()
        report = worker.grade(work)
        times.append(time.perf_counter() - start)
        assert report["points"] == 10, report
    worker.close()
    median = statistics.median(times[2:])
    print(f"10 answers in one notebook, warm: median {median:.2f} s, worst {max(times[2:]):.2f} s; target 1 s")
    return median < 1


def class_of(folder: Path, learners: int, jobs: int) -> float:
    """Seconds for a whole class, start to end."""
    submissions = trivial.make_class(folder / f"class{learners}", learners)
    start = time.perf_counter()
    summary = grade(Options(submissions, folder / f"out{learners}", jobs, "bench"), Quiet())
    seconds = time.perf_counter() - start
    assert summary.passed == summary.answers == 10 * learners, summary
    return seconds


def thirty(folder: Path) -> bool:
    """A class of 30."""
    seconds = class_of(folder, 30, 2)
    print(f"30 submissions of 10 answers, two jobs, start to end: {seconds:.1f} s; target 10 s")
    return seconds < 10


def thousand(folder: Path) -> bool:
    """Memory over 1,000 submissions: it must not grow with their number."""
    os.environ["CANNLAB_COURSE"] = str(trivial.make_course(folder / "small", SMALL))
    submissions = trivial.make_class(folder / "thousand", 1000, SMALL)
    rows: list[tuple[int, float, float, float]] = []

    def each(done: int) -> None:
        if done % 100 == 0:
            traced = tracemalloc.get_traced_memory()[0] / (1 << 20)
            rows.append((done, resident(os.getpid()), max(map(resident, children()), default=0.0), traced))

    tracemalloc.start()
    start = time.perf_counter()
    summary = grade(Options(submissions, folder / "out1000", 2, "bench"), Quiet(each))
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1] / (1 << 20)
    assert summary.passed == 1000 * SMALL, summary
    print(f"1,000 submissions of {SMALL} answers, two jobs: {seconds:.0f} s")
    print(f"{'done':>6}{'grading MiB':>14}{'checking MiB':>14}{'traced MiB':>12}")
    for done, own, other, traced in rows:
        print(f"{done:>6}{own:>14.1f}{other:>14.1f}{traced:>12.2f}")
    print(f"traced peak, class files included: {peak:.1f} MiB; resident at the end: {resident(os.getpid()):.1f} MiB")
    return all(late[at] - rows[1][at] < 8 for late in rows[2:] for at in (1, 2, 3))


def others(folder: Path) -> bool:
    """nbgrader and otter on a notebook with one answer and one test, 10 submissions each; cannlab on the same size."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    tools = ["nbgrader", "otter-grader", "ipykernel"]
    subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--quiet", *tools], check=True)
    from bench_grade_others import nbgrader, otter  # beside this file

    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"load average at the start (1, 5, 15 minutes): {load}")
    for tool in tools[:2]:
        question = f"from importlib.metadata import version; print({tool!r}, version({tool!r}))"
        subprocess.run([venv / "bin" / "python", "-c", question], check=True)
    for name, run in (("nbgrader autograde", nbgrader), ("otter run", otter)):
        try:
            seconds = run(venv / "bin", folder)
        except (subprocess.CalledProcessError, OSError) as problem:
            print(f"{name}: failed ({problem}); {getattr(problem, 'stderr', b'') or b''!r}"[:1500])
            continue
        print(f"{name}, 10 submissions of one answer, one after the other: {seconds:.1f} s")
    one = folder / "one"
    os.environ["CANNLAB_COURSE"] = str(trivial.make_course(one / "course", 1))
    submissions = trivial.make_class(one / "class", 10, 1)
    start = time.perf_counter()
    summary = grade(Options(submissions, one / "out", 1, "bench"), Quiet())
    assert summary.passed == 10
    print(f"cannlab grade, the same with one job: {time.perf_counter() - start:.1f} s")
    return True


def main() -> int:
    """Run the parts that were named."""
    parts = {"warm": warm, "class": thirty, "thousand": thousand, "others": others}
    words = sys.argv[1:] or ["warm", "class"]
    if unknown := [word for word in words if word not in parts]:
        print(f"no part {', '.join(unknown)}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    good = True
    for word in words:
        with tempfile.TemporaryDirectory(prefix="cannlab-bench-") as name:
            folder = Path(name)
            os.environ["CANNLAB_COURSE"] = str(trivial.make_course(folder / "course"))
            good &= parts[word](folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
