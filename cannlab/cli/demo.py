"""``cannlab demo``: the main job, once, without a browser.

Trains a network, exports and converts it, classifies the held-out images through pyACL, runs a kernel, profiles
both, executes the first lesson and grades a right and a wrong answer.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import runpy
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.cli.digits import BATCH, Digits, train
from cannlab.errors import CannlabError, diagnose

if TYPE_CHECKING:
    from cannlab.course.result import Result
    from cannlab.trace import Record

GRADED = "02_acl_first.round_trip"
LESSON = "01_stack"
DRAWN = 3
"""Batches in the picture of the timeline; the trace holds all."""


@dataclass
class Outcome:
    """What the demo found out, for the table at its end."""

    folder: Path
    digits: Digits | None = None
    torch_accuracy: float = 0.0
    om_accuracy: float = 0.0
    latency_us: float = 0.0
    images_per_second: float = 0.0
    kernel_us: float = 0.0
    digest: str = ""
    right: Result | None = None
    wrong: Result | None = None
    files: list[tuple[str, Path]] = field(default_factory=list)


class Narrator:
    """Says what goes on: a line per step, with its wall time, and the present state while it works."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console()
        self._status: Any = None

    def tell(self, text: str) -> None:
        """The present state of the running step."""
        if self._status is not None and self.console.is_terminal:
            self._status.update(text)

    def step(self, title: str, work: Callable[[], str]) -> None:
        """Run one step; ``work`` gives what came out of it."""
        began = time.monotonic()
        with self.console.status(title) as self._status:
            found = work()
        self.console.print(f"[green]done[/] {title}: {found} [dim]({time.monotonic() - began:.1f} s)[/]")


def _environment() -> str:
    from cannlab.env.check import check
    from cannlab.env.findings import Status
    from cannlab.env.system import this_machine

    report = check(this_machine())
    bad = [finding for finding in report.findings if finding.status is Status.FAIL]
    if bad:
        problems = "; ".join(finding.text for finding in bad)
        raise CannlabError(diagnose("cli.demo_step", step="check-env", problem=problems))
    return "fine (emulated stack)"


def _convert(outcome: Outcome, onnx: Path) -> str:
    from cannlab import soc
    from cannlab.atc import main as atc

    om = outcome.folder / "digits.om"
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.chdir(outcome.folder):
        status = atc(
            [f"--model={onnx.name}", "--framework=5", f"--output={om.stem}", f"--soc_version={soc.current().name}"]
            + [f"--input_shape=image:{BATCH},1,8,8", "--log=error"]
        )
    if status != 0:
        raise CannlabError(diagnose("cli.demo_step", step="atc", problem=told.getvalue().strip()))
    outcome.files.append(("model", om))
    return f"{om.name}, {om.stat().st_size // 1024} KiB"


def _program(name: str) -> dict[str, Any]:
    """The names of one of the example programs, with the emulator active."""
    from cannlab import activate
    from cannlab.course.layout import find

    activate()
    return runpy.run_path(str(find().root / "examples" / name), run_name="cannlab_example")


def _profile(outcome: Outcome, name: str, record: Record, last: Mapping[str, int]) -> None:
    """Keep the record, its trace, and a picture from the first task to the end of ``last``."""
    from cannlab.profiler import timeline, write_chrome_trace

    record.save(outcome.folder / f"{name}.npz")
    trace = outcome.folder / f"{name}.trace.json"
    picture = outcome.folder / f"{name}.png"
    write_chrome_trace(record, trace)
    first = next(record.tasks.rows())["start"]
    timeline(record, window=(first, last["end"])).save(picture)
    outcome.files += [(f"{name}: trace for Perfetto", trace), (f"{name}: timeline", picture)]


def _classify(outcome: Outcome) -> str:
    import numpy as np

    from cannlab.machine import machine, reset_machine
    from cannlab.trace import TaskKind

    digits = outcome.digits
    assert digits is not None
    images, labels = outcome.folder / "images.npy", outcome.folder / "labels.npy"
    np.save(images, digits.images)
    np.save(labels, digits.labels)
    reset_machine()
    with contextlib.redirect_stdout(io.StringIO()):
        outcome.om_accuracy = _program("classify_digits.py")["main"](
            str(outcome.folder / "digits.om"), str(images), str(labels)
        )
    record = machine().record
    runs = [row for row in record.tasks.rows() if row["kind"] == TaskKind.MODEL]
    outcome.latency_us = sum(row["end"] - row["start"] for row in runs) / len(runs) / 1000
    outcome.images_per_second = BATCH * 1e6 / outcome.latency_us
    outcome.digest = record.digest()
    _profile(outcome, "classify", record, runs[min(DRAWN, len(runs)) - 1])
    return f"{len(digits.labels)} images in {len(runs)} batches, accuracy {outcome.om_accuracy:.4f}"


def _kernel(outcome: Outcome) -> str:
    from cannlab.machine import machine, reset_machine
    from cannlab.profiler import kernel_spans, kernel_timeline
    from cannlab.trace import TaskKind

    reset_machine()
    with contextlib.redirect_stdout(io.StringIO()):
        error = _program("vector_add.py")["main"]()
    record = machine().record
    (launch,) = [row for row in record.tasks.rows() if row["kind"] == TaskKind.KERNEL]
    outcome.kernel_us = (launch["end"] - launch["start"]) / 1000
    _profile(outcome, "vector_add", record, list(record.tasks.rows())[-1])
    pipes = outcome.folder / "vector_add.pipes.png"
    kernel_timeline(kernel_spans(record.kernels[0]), title="vector add: what each pipe of two cores does").save(pipes)
    outcome.files.append(("vector_add: pipes", pipes))
    return f"{launch['blocks']} cores, {len(record.kernels[0])} instructions, largest error {error:g}"


def _lesson(outcome: Outcome) -> str:
    from cannlab.course import notebook_file
    from cannlab.course.layout import find
    from cannlab.course.outputs import execute

    layout = find()
    lesson = layout.course.lesson(LESSON)
    assert lesson is not None
    executed = execute(notebook_file.read(layout.notebook(lesson)), layout.root)
    if executed.error:
        raise CannlabError(diagnose("cli.demo_step", step=f"lesson {LESSON}", problem=executed.error))
    return f"{LESSON}, {sum(cell.cell_type == 'code' for cell in executed.notebook.cells)} code cells ran"


def _grade(outcome: Outcome) -> str:
    from cannlab.course.bundle import load
    from cannlab.course.client import client
    from cannlab.course.layout import find

    layout = find()
    loaded = load(layout, GRADED)
    solution = loaded.part.solution
    outcome.right = client().check(layout.root, GRADED, solution)
    outcome.wrong = client().check(layout.root, GRADED, loaded.check.misconceptions[0].source(solution))
    return f"the right answer {outcome.right.verdict}, the wrong one {outcome.wrong.verdict}"


def _show(narrator: Narrator, outcome: Outcome) -> None:
    from rich.table import Table

    table = Table(title="What the demo did", show_header=False)
    table.add_row("accuracy in PyTorch", f"{outcome.torch_accuracy:.4f}")
    table.add_row("accuracy from the om", f"{outcome.om_accuracy:.4f}")
    table.add_row(f"latency of a batch of {BATCH} (simulated)", f"{outcome.latency_us:.1f} µs")
    table.add_row("throughput of the model (simulated)", f"{outcome.images_per_second:,.0f} images/s")
    table.add_row("vector add, 8 cores (simulated)", f"{outcome.kernel_us:.1f} µs")
    table.add_row("record of the classification", outcome.digest[:16])
    for what, path in outcome.files:
        table.add_row(what, str(path))
    narrator.console.print(table)
    if outcome.wrong is not None:
        narrator.console.print("\nThe wrong answer was told:\n")
        narrator.console.print(outcome.wrong.text(), markup=False, highlight=False)
    narrator.console.print(
        "\nOpen the traces at ui.perfetto.dev. Next: [bold]cannlab learn start[/], then [bold]cannlab lab[/]."
    )


def run(folder: Path) -> Outcome:
    """Run the demo; its files go to ``folder``. CannlabError when a step fails."""
    folder.mkdir(parents=True, exist_ok=True)
    narrator, outcome = Narrator(), Outcome(folder)
    onnx = folder / "digits.onnx"

    def training() -> str:
        outcome.digits = train(narrator.tell)
        outcome.torch_accuracy = outcome.digits.accuracy()
        return f"accuracy {outcome.torch_accuracy:.4f} on {len(outcome.digits.labels)} held-out images"

    def export() -> str:
        assert outcome.digits is not None
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            outcome.digits.export(onnx)
        return onnx.name

    narrator.step("check the environment", _environment)
    narrator.step("train a small network on handwritten digits", training)
    narrator.step("export it to ONNX", export)
    narrator.step("convert it with ATC", lambda: _convert(outcome, onnx))
    narrator.step("classify the held-out images through pyACL", lambda: _classify(outcome))
    narrator.step("run a vector-add kernel", lambda: _kernel(outcome))
    narrator.step("execute the first lesson", lambda: _lesson(outcome))
    narrator.step("grade a right and a wrong answer", lambda: _grade(outcome))
    _show(narrator, outcome)
    return outcome


def main(arguments: Sequence[str]) -> int:
    """The command: ``cannlab demo [--out DIR]``; 0, or 1 when a step failed."""
    parser = argparse.ArgumentParser(prog="cannlab demo", description="The whole path once, without a browser.")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder for its files (default: demo-out)")
    try:
        options = parser.parse_args(list(arguments))
    except SystemExit as leave:
        return int(leave.code or 0)
    outcome = run(options.out)
    fine = outcome.right is not None and outcome.right.passed and outcome.wrong is not None and not outcome.wrong.passed
    if abs(outcome.om_accuracy - outcome.torch_accuracy) > 0.005 or not fine:
        print("The demo ran, and its results are not what they should be: please report it.", file=sys.stderr)
        return 1
    return 0
