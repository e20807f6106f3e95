"""The corpus, read: answers and notebooks, each with what it deserves."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from cannlab.course import notebook_file, workbook

HERE = Path(__file__).parent
COURSE = HERE / "course"
POINTS = {"before": 2, "scale": 5, "round_trip": 7, "kernel": 11, "after": 3}
"""By exercise, as in course.toml."""

_SOLVED = workbook.parse(notebook_file.read(COURSE / "solutions" / "basic" / "01_target.ipynb"), "01_target.ipynb")
SOLUTIONS = {part.id.partition(".")[2]: part.solution for part in _SOLVED.parts}
ATTACKED = ("cheating", "processes", "results", "records")


@dataclass(frozen=True)
class Answer:
    """One cell. ``rules``: any of them must be the diagnosis; none for a right answer."""

    name: str
    exercise: str
    text: str
    rules: tuple[str, ...]
    layer: str

    @property
    def cell(self) -> str:
        """The exercise's cell."""
        return f"# exercise: 01_target.{self.exercise}\n{self.text}"

    def gets(self, rule: str) -> bool:
        """True if the rule is one of those that it deserves."""
        return any(fnmatch(rule, wanted) for wanted in self.rules)


def answers(*files: str) -> list[Answer]:
    """The answers of some files of the corpus."""
    found = []
    for file in files:
        for name, entry in tomllib.loads((HERE / "corpus" / f"{file}.toml").read_text("utf-8")).items():
            straight = SOLUTIONS[entry["exercise"]].partition("\n")[2]
            text = entry["text"].replace("SOLUTION", straight)
            if "change" in entry:
                old, new = entry["change"]
                assert old in text
                text = text.replace(old, new)
            if "repeat" in entry:
                line, times = entry["repeat"]
                assert line in text
                text = text.replace(line, line * times)
            found.append(Answer(name, entry["exercise"], text, tuple(entry.get("rules", ())), entry.get("layer", "")))
    return found


def solved(**cells: str) -> dict[str, Any]:
    """A learner's workbook with every exercise solved, but for the cells given (by exercise)."""
    notebook = json.loads((COURSE / "exercises" / "basic" / "01_target.ipynb").read_text("utf-8"))
    for cell in notebook["cells"]:
        own = cell["metadata"].get("cannlab", {}).get("exercise", "").partition(".")[2]
        if own:
            cell["source"] = (cells.get(own) or SOLUTIONS[own]).splitlines(keepends=True)
    return dict(notebook)


def neighbours(exercise: str) -> tuple[str, ...]:
    """An exercise between those that stand before and after it."""
    return tuple(dict.fromkeys(("before", exercise, "after")))


def only(notebook: dict[str, Any], *exercises: str) -> dict[str, Any]:
    """A workbook from which the learner deleted the cells of all other exercises."""
    for exercise in POINTS:
        if exercise not in exercises:
            notebook["cells"].remove(cell_of(notebook, exercise))
    return notebook


def cell_of(notebook: dict[str, Any], exercise: str) -> dict[str, Any]:
    """The cell of an exercise."""
    wanted = f"01_target.{exercise}"
    found: dict[str, Any] = next(
        cell for cell in notebook["cells"] if cell["metadata"].get("cannlab", {}).get("exercise") == wanted
    )
    return found


# -- notebooks -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Handed:
    """A learner's folder. ``make`` fills it; ``lost``: exercises that get no points; ``said``: what the report says."""

    name: str
    make: Callable[[Path], None]
    lost: tuple[str, ...] = ()
    said: str = ""


HANDED_IN = neighbours("scale")
"""What the learners of this part handed in; solving all five each time would only take longer."""
ALL = HANDED_IN
HANDED: list[Handed] = []


def _book(**cells: str) -> dict[str, Any]:
    return only(solved(**cells), *HANDED_IN)


def _handed(*lost: str, said: str = "") -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def keep(make: Callable[[Path], None]) -> Callable[[Path], None]:
        HANDED.append(Handed(make.__name__.strip("_"), make, lost, said))
        return make

    return keep


def write(notebook: Any, folder: Path, name: str = "01_target.ipynb", **how: Any) -> Path:
    """A notebook file in a folder."""
    path = folder / name
    path.write_bytes(json.dumps(notebook, indent=1, **how).encode("utf-8", "surrogatepass"))
    return path


@_handed(*ALL, said="not JSON")
def _not_json(folder: Path) -> None:
    (folder / "01_target.ipynb").write_text("%PDF-1.7 exercise: 01_target.scale")


@_handed(*ALL, said="not JSON")
def _cut_off(folder: Path) -> None:
    path = write(_book(), folder)
    path.write_bytes(path.read_bytes()[:-200])


@_handed(*ALL, said="not JSON")
def _empty(folder: Path) -> None:
    (folder / "01_target.ipynb").touch()


@_handed(*ALL, said="no notebook")
def _json_of_another_kind(folder: Path) -> None:
    write([1, 2, 3], folder)


@_handed(*ALL, said="too deep")
def _nested_too_deep(folder: Path) -> None:
    (folder / "01_target.ipynb").write_text("[" * 500_000)


@_handed(*ALL, said="no list of cells")
def _an_old_format(folder: Path) -> None:
    write({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": _book()["cells"]}]}, folder)


@_handed(said="names no kernel")
def _no_kernel(folder: Path) -> None:
    write(_book() | {"metadata": {}}, folder)


@_handed(said="language")
def _unknown_language(folder: Path) -> None:
    write(_book() | {"metadata": {"kernelspec": {"name": "zig", "language": "zig", "display_name": "Zig"}}}, folder)


@_handed()
def _metadata_of_another_kind(folder: Path) -> None:
    notebook = _book() | {"metadata": [["kernelspec"]]}
    notebook["cells"][0]["metadata"] = "none"
    notebook["cells"][0].pop("outputs")
    write(notebook, folder)


@_handed(said="2 cells answer it")
def _two_cells_of_one_id(folder: Path) -> None:
    notebook = _book()
    wrong = copy.deepcopy(cell_of(notebook, "scale"))
    wrong["source"] = "# exercise: 01_target.scale\ndef scale(x):\n    return None"
    notebook["cells"].insert(1, wrong)
    write(notebook, folder)


@_handed("scale", said="2 cells answer it")
def _two_cells_of_one_id_and_the_last_is_wrong(folder: Path) -> None:
    notebook = _book()
    wrong = copy.deepcopy(cell_of(notebook, "scale"))
    wrong["source"] = "# exercise: 01_target.scale\ndef scale(x):\n    return x"
    notebook["cells"].append(wrong)
    write(notebook, folder)


@_handed()
def _every_cell_has_one_id(folder: Path) -> None:
    notebook = _book()
    for cell in notebook["cells"]:
        cell["id"] = "same"
    write(notebook, folder)


@_handed("scale", "before")
def _deleted_cells(folder: Path) -> None:
    notebook = _book()
    for exercise in ("scale", "before"):
        notebook["cells"].remove(cell_of(notebook, exercise))
    write(notebook, folder)


@_handed()
def _deleted_setup_and_checks(folder: Path) -> None:
    notebook = _book()
    notebook["cells"] = [cell for cell in notebook["cells"] if "exercise" in cell["metadata"]["tags"]]
    write(notebook, folder)


@_handed()
def _moved_cells(folder: Path) -> None:
    notebook = _book()
    notebook["cells"].reverse()
    write(notebook, folder)


@_handed("scale")
def _a_cell_turned_into_text(folder: Path) -> None:
    notebook = _book()
    cell_of(notebook, "scale")["cell_type"] = "markdown"
    write(notebook, folder)


@_handed("scale", said="damaged")
def _damaged_cells(folder: Path) -> None:
    notebook = _book()
    cell_of(notebook, "scale")["source"] = {"text": 7}
    notebook["cells"] += [None, 7, [], {"cell_type": "code"}]
    write(notebook, folder)


@_handed(said="Windows line ends")
def _windows_line_ends(folder: Path) -> None:
    notebook = _book()
    for cell in notebook["cells"]:
        cell["source"] = [line.replace("\n", "\r\n") for line in cell["source"]]
    path = write(notebook, folder)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@_handed(said="byte order mark")
def _a_byte_order_mark(folder: Path) -> None:
    path = write(_book(), folder)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


@_handed(said="UTF-16")
def _utf_16(folder: Path) -> None:
    path = write(_book(), folder)
    path.write_bytes(path.read_text("utf-8").encode("utf-16"))


@_handed(*ALL, said="not UTF-8")
def _latin_1(folder: Path) -> None:
    notebook = _book()
    notebook["cells"][0]["source"] += "\n# d\u00e9j\u00e0"
    (folder / "01_target.ipynb").write_bytes(json.dumps(notebook, ensure_ascii=False).encode("latin-1"))


@_handed("scale")
def _null_bytes(folder: Path) -> None:
    write(_book(scale="# exercise: 01_target.scale\ndef scale(x):\n    return '\0'\0"), folder)


@_handed("scale")
def _surrogates(folder: Path) -> None:
    write(_book(scale="# exercise: 01_target.scale\ndef scale(x):\n    return '\ud800'  # \udfff"), folder)


@_handed(*ALL, said="not UTF-8")
def _surrogates_as_bytes(folder: Path) -> None:
    write(_book(scale="# exercise: 01_target.scale\nscale = '\ud800'"), folder, ensure_ascii=False)


@_handed()
def _fifty_megabytes_of_output(folder: Path) -> None:
    notebook = _book()
    flood = {"output_type": "stream", "name": "stdout", "text": ["x" * 999 + "\n"] * 52_000}
    cell_of(notebook, "scale")["outputs"] = [flood]
    assert write(notebook, folder).stat().st_size > 50 << 20


@_handed(*ALL, said="at most")
def _a_hundred_megabytes(folder: Path) -> None:
    notebook = _book()
    cell_of(notebook, "scale")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * (100 << 20)}]
    write(notebook, folder)


@_handed("scale", said="KiB of code")
def _a_cell_of_a_megabyte(folder: Path) -> None:
    write(_book(scale="# exercise: 01_target.scale\n" + "x = 1\n" * 200_000 + SOLUTIONS["scale"]), folder)


@_handed("scale")
def _brackets_without_end(folder: Path) -> None:
    write(_book(scale="# exercise: 01_target.scale\nscale = " + "(" * 100_000), folder)


@_handed("scale")
def _operators_without_end(folder: Path) -> None:
    write(_book(scale="# exercise: 01_target.scale\nscale = " + "-" * 100_000 + "1"), folder)


@_handed("scale")
def _magics_without_end(folder: Path) -> None:
    write(_book(scale="# exercise: 01_target.scale\n" + "!ls\n%run x\n" * 2_000), folder)


@_handed(*ALL, said="link")
def _a_link_to_another_learner(folder: Path) -> None:
    (folder / "01_target.ipynb").symlink_to(folder.parent / "honest-1" / "01_target.ipynb")


@_handed(*ALL, said="link")
def _a_link_to_a_device(folder: Path) -> None:
    (folder / "01_target.ipynb").symlink_to("/dev/zero")


@_handed(*ALL, said="link")
def _a_linked_folder(folder: Path) -> None:
    (folder / "work").symlink_to(COURSE / "solutions")


@_handed(*ALL)
def _a_folder_named_as_a_notebook(folder: Path) -> None:
    (folder / "01_target.ipynb").mkdir()


@_handed()
def _a_workbook_inside_a_folder_named_as_one(folder: Path) -> None:
    (folder / "01_target.ipynb").mkdir()
    write(_book(), folder / "01_target.ipynb")


@_handed(*ALL)
def _an_empty_folder(folder: Path) -> None:
    pass


@_handed()
def _names_that_are_very_long(folder: Path) -> None:
    deep = folder.joinpath(*["d" * 200] * 4)
    deep.mkdir(parents=True)
    write(_book(), deep, "n" * 240 + ".ipynb")


@_handed()
def _names_of_another_kind(folder: Path) -> None:
    write(_book(), folder, "<img src=x onerror=alert(1)> \u202e\U0001f600 =cmd.ipynb")


@_handed("scale", said="begins with")
def _claims_to_be_two_exercises(folder: Path) -> None:
    notebook = _book()
    cell_of(notebook, "scale")["source"] = SOLUTIONS["after"]
    write(notebook, folder)


@_handed()
def _other_files_beside_it(folder: Path) -> None:
    write(_book(), folder)
    for name in ("conftest.py", "sitecustomize.py", "numpy.py", "cannlab.py", "json.py"):
        (folder / name).write_text("raise SystemExit('taken over')")
    (folder / "gradebook.csv").write_text("learner,points\nme,100\n")
