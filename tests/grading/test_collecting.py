"""From notebook files to one answer for each exercise: moved, doubled, deleted and damaged cells."""

from __future__ import annotations

import json
from typing import Any

import trivial

from cannlab.course.grading.collecting import MOST_SOURCE, collect

PLACEHOLDERS = {trivial.exercise(number): trivial.placeholder(number) for number in range(2)}
ONE, TWO = PLACEHOLDERS


def _collect(*cells: dict[str, Any], **meta: Any) -> dict[str, Any]:
    book = trivial.notebook(list(cells))
    book["metadata"] = {**book["metadata"], **meta}
    return collect([("w.ipynb", json.dumps(book).encode())], PLACEHOLDERS)


def _code(text: str, exercise: str = "") -> dict[str, Any]:
    return trivial.cell("code", text, exercise=exercise)


def test_a_moved_cell_is_found_by_its_first_line_and_by_its_metadata() -> None:
    found = _collect(_code(trivial.right(1)), _code("x = 1\n", ONE))
    assert found["answers"][TWO]["source"] == trivial.right(1)
    assert found["answers"][ONE]["source"] == "x = 1\n"
    assert (found["missing"], found["unreadable"], found["notes"]) == ({}, [], [])


def test_of_doubled_cells_the_last_changed_one_counts() -> None:
    empty = f"# exercise: {ONE}\n"
    found = _collect(
        _code(trivial.right(0), ONE),
        _code(f"# exercise: {ONE}\nfirst = 2"),
        _code(trivial.placeholder(0)),
        _code(empty),
    )
    answer = found["answers"][ONE]
    assert answer["source"] == f"# exercise: {ONE}\nfirst = 2"
    assert answer["place"] == "w.ipynb, cell 2"
    assert "4 cells answer it" in answer["notes"][0]


def test_of_two_placeholders_one_stays() -> None:
    found = _collect(_code(trivial.placeholder(0)), _code(trivial.placeholder(0)))
    assert found["answers"][ONE]["source"] == trivial.placeholder(0)


def test_a_cell_made_from_another_counts_for_its_first_line() -> None:
    found = _collect(_code(trivial.right(0), ONE), _code(trivial.right(1), ONE))
    assert found["answers"][ONE]["source"] == trivial.right(0)
    assert found["answers"][TWO]["source"] == trivial.right(1)
    assert f"begins with {TWO}" in found["notes"][0]


def test_a_deleted_cell_is_missing_and_a_text_cell_says_so() -> None:
    found = _collect(trivial.cell("markdown", trivial.right(0)))
    assert set(found["missing"]) == {ONE, TWO}
    assert "no code cell" in found["missing"][ONE]
    assert found["missing"][TWO] == ""


def test_names_of_other_cells_are_known_but_not_those_of_setup() -> None:
    found = _collect(
        trivial.cell("code", "base = 1", tag="setup"),
        _code("factor = 2"),
        _code(trivial.right(0)),
        _code(trivial.right(1)),
    )
    assert found["answers"][ONE]["elsewhere"] == {"factor": "w.ipynb, cell 2", "times": "w.ipynb, cell 4"}


def test_language_and_kernel_are_remarks() -> None:
    strange = _collect(_code(trivial.right(0)), kernelspec={"language": "R", "name": "ir"})
    assert strange["answers"][ONE]
    assert "its language is R" in strange["notes"][0]
    assert "no kernel" in _collect(_code(trivial.right(0)), kernelspec=None)["notes"][0]


def test_a_damaged_cell_costs_itself() -> None:
    book = trivial.notebook([_code(trivial.right(0)), _code(trivial.right(1))])
    book["cells"][1]["source"] = {"not": "text"}
    book["cells"].append(7)
    found = collect([("w.ipynb", json.dumps(book).encode())], PLACEHOLDERS)
    assert set(found["answers"]) == {ONE}
    assert found["notes"] == [
        "w.ipynb, cell 2 is damaged and was left out",
        "w.ipynb, cell 3 is damaged and was left out",
    ]


def test_files_that_are_no_notebooks_are_refused_by_name() -> None:
    good = json.dumps(trivial.notebook([_code(trivial.right(0))])).encode()
    bad = {
        "text.ipynb": (b"hello", "not JSON"),
        "list.ipynb": (b"[1, 2]", "no notebook"),
        "old.ipynb": (b'{"nbformat": 3, "worksheets": []}', "format 3"),
        "deep.ipynb": (b"[" * 100_000, "nested too deep"),
        "bytes.ipynb": (b"\xff\x00\x81", "not UTF-8"),
        "long.ipynb": (b"9" * 10_000, "not JSON"),
    }
    found = collect([*((name, data) for name, (data, _) in bad.items()), ("good.ipynb", good)], PLACEHOLDERS)
    assert found["answers"][ONE]["file"] == "good.ipynb"
    for line, (name, (_, why)) in zip(found["unreadable"], bad.items(), strict=True):
        assert line.startswith(name)
        assert why in line
    assert "text.ipynb" in found["missing"][TWO]


def test_hostile_metadata_is_not_believed() -> None:
    for learner in (7, "x" * 100, "../../etc", "<b>", {"a": 1}):
        assert _collect(_code(trivial.right(0)), cannlab={"learner": learner})["learners"] == []
    assert _collect(_code(trivial.right(0)), cannlab={"learner": "abc123"})["learners"] == ["abc123"]
    assert _collect(_code(trivial.right(0)), cannlab="no table", kernelspec=[1])["answers"][ONE]


def test_too_long_a_cell_is_left_out() -> None:
    found = _collect(_code(f"# exercise: {ONE}\nx = '{'a' * MOST_SOURCE}'"))
    assert ONE in found["missing"]
    assert "left out (at most 256)" in found["notes"][0]


def test_line_ends_do_not_change_an_answer() -> None:
    text = trivial.right(0)
    sources = [_collect(_code(text.replace("\n", end)))["answers"][ONE]["source"] for end in ("\n", "\r\n", "\r")]
    assert sources == [text] * 3


def test_a_half_character_is_carried_along() -> None:
    source = f"# exercise: {ONE}\nname = '\ud800'"
    book = trivial.notebook([trivial.cell("code", "")])
    book["cells"][0]["source"] = source
    assert collect([("w.ipynb", json.dumps(book).encode())], PLACEHOLDERS)["answers"][ONE]["source"] == source
