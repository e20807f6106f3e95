"""Stored outputs of notebooks: executing them again, comparing every output, and storing new ones.

nbval compares neither pictures nor what it does not know; here every output counts. Texts go through one sanitiser
(addresses, ipykernel's temporary files, atc's process number and time); pictures are compared by their decoded pixels.
"""

from __future__ import annotations

import base64
import contextlib
import io
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cannlab.course import notebook_file, workbook
from cannlab.course.problem import Problem

CELL_SECONDS = 10.0
NOTEBOOK_SECONDS = 60.0
_TIMEOUT = 120
_SANITISER = (
    (re.compile(r"0x[0-9a-f]{6,16}"), "0xADDR"),
    (re.compile(r"\S*ipykernel_\d+[/\\]\d+\.py"), "IPYKERNEL.py"),
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\[PID: \d+\] \d{4}-[\d:.-]+"), "[PID: N] TIME"),
    (re.compile(r"\(\d+,atc\.bin\):\d{4}-[\d:.-]+ \[atc\]\d+"), "(N,atc.bin):TIME [atc]N"),
)
_NOT_COMPARED = frozenset({"application/vnd.jupyter.widget-view+json"})


@dataclass(frozen=True, slots=True)
class Executed:
    """A notebook that was executed, the seconds of each cell, and the error that ended it ("" if none)."""

    notebook: Any
    seconds: tuple[float, ...]
    error: str


@contextlib.contextmanager
def _environment(root: Path, home: str) -> Iterator[None]:
    """The course and an empty progress folder for the kernel, in which no learner is known."""
    changed = {"CANNLAB_COURSE": str(root), "CANNLAB_HOME": home, "PYTHONHASHSEED": "0", "MPLCONFIGDIR": home}
    changed |= {"PYTHONPATH": os.pathsep.join([str(_package()), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _package() -> Path:
    return Path(__file__).resolve().parent.parent.parent


def execute(notebook: Any, root: Path) -> Executed:
    """Execute a copy of a notebook in an empty folder with kernel python3. Never raises for what a cell does."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    run = nbformat.from_dict(notebook)
    seconds: dict[int, float] = {}
    started: dict[int, float] = {}
    error = ""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder, _environment(root, home):
        client = NotebookClient(
            run,
            timeout=_TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
            on_cell_execute=lambda cell, cell_index: started.__setitem__(cell_index, time.monotonic()),
            on_cell_executed=lambda cell, cell_index, execute_reply: seconds.__setitem__(
                cell_index, time.monotonic() - started[cell_index]
            ),
        )
        try:
            client.execute()
        except CellExecutionError as problem:
            error = f"{problem.ename}: {problem.evalue}"
        except (CellTimeoutError, DeadKernelError) as problem:
            error = f"{type(problem).__name__}: {str(problem).splitlines()[0]}"
    return Executed(run, tuple(seconds.get(index, 0.0) for index in range(len(run.cells))), error)


def _sanitised(text: str) -> str:
    for pattern, replacement in _SANITISER:
        text = pattern.sub(replacement, text)
    return text


def _plain(value: Any) -> Any:
    """A value of a MIME bundle, sanitised through and through."""
    if isinstance(value, str):
        return _sanitised(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _pixels(data: str) -> Any:
    """A picture as (shape, bytes of its decoded pixels); the text itself if it is no picture."""
    import matplotlib.image
    import numpy as np

    try:
        picture = np.asarray(matplotlib.image.imread(io.BytesIO(base64.b64decode(data)), format="png"))
    except (ValueError, OSError, SyntaxError):
        return data
    return picture.shape, picture.tobytes()


def _bundle(data: Any) -> dict[str, Any]:
    found = {}
    for mime, value in data.items():
        if mime not in _NOT_COMPARED:
            found[mime] = _pixels(value) if mime == "image/png" else _plain(value)
    return found


def normal(outputs: list[Any]) -> list[tuple[str, Any]]:
    """Outputs in a comparable form: streams joined by name, results and pictures in their order."""
    streams: dict[str, str] = {}
    found: list[tuple[str, Any]] = []
    for output in outputs:
        kind = output.output_type
        if kind == "stream":
            streams[output.name] = streams.get(output.name, "") + output.text
        elif kind == "error":
            found.append((kind, (output.ename, _sanitised(output.evalue))))
        else:
            found.append((kind, _bundle(output.data)))
    return [*((name, _sanitised(text)) for name, text in sorted(streams.items())), *found]


def _differences(stored: list[tuple[str, Any]], new: list[tuple[str, Any]]) -> Iterator[str]:
    if len(stored) != len(new):
        kinds = [", ".join(kind for kind, _ in side) or "nothing" for side in (stored, new)]
        yield f"stored outputs: {kinds[0]}; now: {kinds[1]}"
        return
    for (kind, old), (new_kind, value) in zip(stored, new, strict=True):
        if kind != new_kind:
            yield f"stored {kind}, now {new_kind}"
        elif isinstance(old, dict) and isinstance(value, dict):
            for mime in sorted(old.keys() | value.keys()):
                if old.get(mime) != value.get(mime):
                    yield f"{kind} {mime}: {_first(old.get(mime), value.get(mime))}"
        elif old != value:
            yield f"{kind}: {_first(old, value)}"


def _first(old: Any, new: Any) -> str:
    """Where two values first differ, in one line."""
    if not isinstance(old, str) or not isinstance(new, str):
        if isinstance(old, tuple) or isinstance(new, tuple):
            return "other pixels" if isinstance(old, tuple) and isinstance(new, tuple) else "a picture came or went"
        return f"stored {str(old)[:120]!r}, now {str(new)[:120]!r}"
    for one, other in zip(old.splitlines(), new.splitlines(), strict=False):
        if one != other:
            at = next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            start = max(at - 40, 0)
            return f"stored {one[start : at + 80]!r}, now {other[start : at + 80]!r}"
    return f"stored {len(old.splitlines())} lines, now {len(new.splitlines())}"


def compare(stored: Any, executed: Executed, file: str) -> list[Problem]:
    """Every difference between stored and new outputs, and errors."""
    found = [Problem(file, "", f"does not run to its end: {executed.error}")] if executed.error else []
    for number, (old, new) in enumerate(zip(stored.cells, executed.notebook.cells, strict=True), 1):
        if old.cell_type != "code":
            continue
        if executed.error and new.execution_count is None:
            continue
        if "nbval-ignore-output" not in workbook.tags(old):
            pairs = _differences(normal(old.outputs), normal(new.outputs))
            found += [Problem(file, f"cell {number}", text) for text in pairs]
    return found


def slow(executed: Executed, file: str) -> list[Problem]:
    """Cells that took too long here. A machine that does other work is slow too: this is for the author's eyes."""
    found = [
        Problem(file, f"cell {number}", f"took {seconds:.0f} s")
        for number, seconds in enumerate(executed.seconds, 1)
        if seconds > CELL_SECONDS
    ]
    if sum(executed.seconds) > NOTEBOOK_SECONDS:
        found.append(Problem(file, "", f"took {sum(executed.seconds):.0f} s in all"))
    return found


def output_gate(path: Path, root: Path, file: str, *, timed: bool = False) -> list[Problem]:
    """A notebook reproduces its stored outputs; ``timed``: and takes no longer than a lesson may."""
    stored = notebook_file.read(path)
    executed = execute(stored, root)
    return compare(stored, executed, file) + (slow(executed, file) if timed else [])


def refresh(path: Path, root: Path, file: str) -> list[Problem]:
    """Execute a notebook and store its outputs (nothing is stored if it fails). Gives what changed or went wrong."""
    stored = notebook_file.read(path)
    executed = execute(stored, root)
    found = compare(stored, executed, file) + slow(executed, file)
    if executed.error:
        return found
    new = executed.notebook
    new.metadata.clear()
    new.metadata.update(workbook.METADATA)
    for cell in new.cells:
        cell.metadata.pop("execution", None)
    notebook_file.write(new, path)
    return found
