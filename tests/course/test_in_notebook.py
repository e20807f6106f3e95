"""check, hint and given as a learner calls them in a notebook, and the gate on stored outputs."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from cannlab.course import notebook_file, outputs
from cannlab.course.layout import Layout

TINY = Path(__file__).parent / "fixtures" / "tiny"
HELPER = "def helper(values):\n    return sum(values)"
LEANS = "# exercise: 01_tiny.total\ndef total(values):\n    return helper(values)"
RIGHT = "# exercise: 01_tiny.total\ndef total(values):\n    return sum(values)"
BROKEN = "# exercise: 01_tiny.total\ndef total(values):\n    return sum(values)\n1 / 0"
CHECK = 'check("01_tiny.total")'


@pytest.fixture(scope="module")
def shown() -> list[Any]:
    """The cells of one notebook session, executed."""
    sources = [
        "from cannlab import check, given, hint",
        CHECK,
        HELPER,
        LEANS,
        CHECK,
        RIGHT,
        CHECK,
        'hint("01_tiny.pad")',
        'given("01_tiny.bytes")',
        'check("01_tiny.totl")',
        BROKEN,
        CHECK,
        'hint("01_tiny.nope")',
    ]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    notebook.cells[10].metadata["tags"] = ["raises-exception"]
    executed = outputs.execute(notebook, TINY)
    assert executed.error == ""
    return list(executed.notebook.cells)


def _text(cell: Any) -> str:
    return str(cell.outputs[0].data["text/plain"])


def test_a_check_before_any_answer_says_what_to_run(shown: list[Any]) -> None:
    assert "Nothing to check yet" in _text(shown[1])


def test_a_name_of_another_cell_is_named_with_its_cell(shown: list[Any]) -> None:
    assert "'helper' is defined only in another of your cells (In [3])" in _text(shown[4])


def test_the_newest_cell_counts_and_the_explanation_opens(shown: list[Any]) -> None:
    assert _text(shown[6]).startswith("PASSED  01_tiny.total")
    html = shown[6].outputs[0].data["text/html"]
    assert "<details open" in html
    assert "Two mistakes" in html
    assert "<script" not in html


def test_hints_and_inputs_are_shown(shown: list[Any]) -> None:
    assert _text(shown[7]).startswith("Hint 1 of 2 for 01_tiny.pad")
    assert "'elements'" in shown[8].outputs[0].data["text/plain"]


def test_an_unknown_exercise_has_a_diagnosis(shown: list[Any]) -> None:
    assert "Did you mean 01_tiny.total?" in _text(shown[9])


def test_a_hint_of_no_exercise_says_so_and_is_no_verdict(shown: list[Any]) -> None:
    (said,) = shown[12].outputs
    assert said.name == "stderr"
    assert said.text.startswith("No such exercise")


def test_a_cell_that_raised_is_still_the_newest(shown: list[Any]) -> None:
    assert "ZeroDivisionError" in _text(shown[11])


def test_a_change_of_folder_does_not_move_the_progress() -> None:
    """A notebook counts where its kernel started, and draws the inputs of that learner."""
    move = (
        "import os, pathlib\npathlib.Path('exercises').mkdir()\n"
        'pathlib.Path(\'exercises/progress.json\').write_text(\'{"learner": "other", "exercises": {}}\')\n'
        "first = given('01_tiny.bytes')\nos.chdir('exercises')"
    )
    start = 'import pathlib\npathlib.Path(\'progress.json\').write_text(\'{"learner": "me", "exercises": {}}\');'
    sources = [start, "from cannlab import check, given, hint", move, RIGHT, CHECK, 'hint("01_tiny.pad")']
    sources += ["print(open('progress.json').read())", "print(open('../progress.json').read())"]
    sources += ["given('01_tiny.bytes') == first"]
    executed = outputs.execute(new_notebook(cells=[new_code_cell(source) for source in sources]), TINY)
    assert executed.error == ""
    other, own, same = executed.notebook.cells[-3:]
    assert "01_tiny" not in other.outputs[0].text
    assert '"passed": true' in own.outputs[0].text
    assert '"hints": 1' in own.outputs[0].text
    assert _text(same) == "True"


# -- stored outputs --------------------------------------------------------------------------------------


def _picture(value: int) -> str:
    import matplotlib.image
    import numpy as np

    file = io.BytesIO()
    matplotlib.image.imsave(
        file, np.full((4, 4), value), vmin=0, vmax=9, format="png", metadata={"Software": str(value)}
    )
    return base64.b64encode(file.getvalue()).decode()


def _recompressed(data: str) -> str:
    """The same pixels in other bytes."""
    import matplotlib.image

    picture = matplotlib.image.imread(io.BytesIO(base64.b64decode(data)), format="png")
    file = io.BytesIO()
    matplotlib.image.imsave(file, picture, format="png", metadata={"Software": "another"})
    return base64.b64encode(file.getvalue()).decode()


def _png(data: str) -> Any:
    return new_output("display_data", {"image/png": data, "text/plain": "<Figure>"})


def _result(**data: Any) -> Any:
    return new_output("execute_result", data)


def _stream(text: str, name: str = "stdout") -> Any:
    return new_output("stream", name=name, text=text)


SAME = [
    ([_stream("a"), _stream("b\n")], [_stream("ab\n")]),
    ([_result(**{"text/plain": "<X at 0x7f00aa11>"})], [_result(**{"text/plain": "<X at 0x1234567>"})]),
    ([_stream("/tmp/ipykernel_12/34.py:1: W\n", "stderr")], [_stream("/var/ipykernel_9/8.py:1: W\n", "stderr")]),
    ([_png(_picture(3))], [_png(_recompressed(_picture(3)))]),
    ([_result(**{"application/vnd.jupyter.widget-view+json": {"model_id": "a"}})],)
    + ([_result(**{"application/vnd.jupyter.widget-view+json": {"model_id": "b"}})],),
]
OTHER = [
    ([_stream("a\n")], [_stream("b\n")]),
    ([_stream("a\n")], [_stream("a\n", "stderr")]),
    ([_stream("a\n")], []),
    ([_png(_picture(3))], [_png(_picture(4))]),
    ([_result(**{"text/plain": "1"})], [_result(**{"text/plain": "2"})]),
    ([_result(**{"text/plain": "1"})], [_result(**{"text/plain": "1", "text/html": "1"})]),
    ([_result(**{"application/json": {"a": 1}})], [_result(**{"application/json": {"a": 2}})]),
]


def _compared(old: list[Any], new: list[Any], tags: list[str] | None = None) -> list[str]:
    def notebook(found: list[Any]) -> Any:
        cell = new_code_cell("x", outputs=found, execution_count=1)
        cell.metadata["tags"] = tags or []
        return new_notebook(cells=[cell])

    executed = outputs.Executed(notebook(new), (0.1,), "")
    return [str(problem) for problem in outputs.compare(notebook(old), executed, "n.ipynb")]


@pytest.mark.parametrize(("old", "new"), SAME)
def test_outputs_that_mean_the_same(old: list[Any], new: list[Any]) -> None:
    assert _compared(old, new) == []


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_every_other_difference_is_reported_with_its_cell(old: list[Any], new: list[Any]) -> None:
    found = _compared(old, new)
    assert len(found) == 1
    assert found[0].startswith("n.ipynb: cell 1: ")
    assert _compared(old, new, ["nbval-ignore-output"]) == []


def test_slow_cells_and_errors_are_reported() -> None:
    cell = new_code_cell("x", execution_count=1)
    executed = outputs.Executed(new_notebook(cells=[cell]), (outputs.NOTEBOOK_SECONDS + 1,), "ValueError: v")
    problems = outputs.compare(new_notebook(cells=[cell]), executed, "n.ipynb") + outputs.slow(executed, "n.ipynb")
    found = [str(problem) for problem in problems]
    assert len(found) == 3
    assert "ValueError: v" in found[0]


def test_refresh_stores_what_then_is_reproduced(copied: Layout) -> None:
    lesson = copied.course.lessons[0]
    path = copied.notebook(lesson)
    notebook = notebook_file.read(path)
    notebook.cells[1].source = "print('new')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    notebook_file.write(notebook, path)
    assert outputs.refresh(path, copied.root, "n") != []
    nbformat.validate(nbformat.read(path, 4))
    stored = notebook_file.read(path)
    assert stored.cells[1].outputs[0].text == "new\n"
    assert outputs.output_gate(path, copied.root, "n") == []


def test_a_failing_notebook_is_not_stored(copied: Layout) -> None:
    path = copied.notebook(copied.course.lessons[0])
    notebook = notebook_file.read(path)
    notebook.cells[1].source = "1 / 0"
    notebook_file.write(notebook, path)
    before = path.read_bytes()
    found = outputs.refresh(path, copied.root, "n")
    assert "ZeroDivisionError" in str(found[0])
    assert path.read_bytes() == before


def test_a_dead_kernel_is_an_error_and_no_hang(copied: Layout) -> None:
    notebook = new_notebook(cells=[new_code_cell("import os; os._exit(1)")])
    assert "DeadKernelError" in outputs.execute(notebook, copied.root).error
