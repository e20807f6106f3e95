"""A graded class: every learner gets what the answers deserve, and nothing else is lost."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import trivial
from graded_class import COUNT, EVIL, Graded, Quiet

from cannlab.course.grading.page import page
from cannlab.course.grading.run import Options, grade
from cannlab.course.result_html import COLOURS, DARK

CLUMSY = ("bom", "crlf", "utf16", "whole_folder")


def _points(graded: Graded, learner: str) -> list[int]:
    return [entry["points"] for entry in graded.report(learner)["lessons"][0]["exercises"]]


def test_right_answers_have_all_points_on_more_cases_than_shown(graded: Graded) -> None:
    report = graded.report("good")
    assert (report["points"], report["most"], report["ungraded"], report["notes"]) == (3, 3, 0, [])
    result = graded.result("good", 0)["result"]
    assert (result["verdict"], result["cases"], result["right"], result["graded"]) == ("passed", 9, 9, True)


def test_clumsy_files_are_graded_all_the_same(graded: Graded) -> None:
    for learner in CLUMSY:
        assert graded.report(learner)["points"] == 3, learner
    assert "byte order mark" in graded.report("bom")["notes"][0]
    assert "Windows line ends" in graded.report("crlf")["notes"][0]
    assert graded.report("whole_folder")["files"] == ["exercises/basic/01_trivial.ipynb"]


def test_a_wrong_answer_costs_itself_and_gets_its_misconception(graded: Graded) -> None:
    assert _points(graded, "wrong") == [1, 0, 0]
    assert graded.result("wrong", 1)["result"]["misconception"] == "added"
    assert graded.result("wrong", 2)["result"]["diagnosis"]["rule"] == "course.not_started"


def test_a_loop_and_an_exit_cost_only_their_exercises(graded: Graded) -> None:
    assert _points(graded, "hangs") == [0, 0, 1]
    rules = [graded.result("hangs", number)["result"]["diagnosis"]["rule"] for number in (0, 1)]
    assert rules == ["course.cpu", "course.exited"]


def test_nothing_handed_in_is_0_with_a_reason(graded: Graded) -> None:
    report = graded.report("nothing")
    assert (report["points"], report["ungraded"]) == (0, 0)
    assert graded.result("nothing", 0)["result"]["diagnosis"]["rule"] == "grading.no_notebook"


def test_what_is_no_notebook_is_named_and_makes_the_grading_incomplete(graded: Graded) -> None:
    report = graded.report("not_json")
    assert report["ungraded"] == 1
    assert "not JSON" in report["unreadable"][0]
    assert graded.result("not_json", 0)["result"]["diagnosis"]["rule"] == "grading.lost_cell"
    assert graded.summary.ungraded == 1
    assert not graded.summary.complete


def test_every_result_carries_a_hash_that_moves_with_the_answer(graded: Graded) -> None:
    hashes = {graded.result(learner, 1)["hash"] for learner in ("good", "wrong", "untouched", "nothing")}
    assert len(hashes) == 4
    assert all(re.fullmatch("[0-9a-f]{64}", found) for found in hashes)
    book = json.loads((graded.out / "grading.json").read_text())
    assert book["learners"]["good"]["results"]["01_trivial.times1"] == graded.result("good", 1)["hash"]


def test_the_book_names_versions_seed_layers_and_files(graded: Graded) -> None:
    book = json.loads((graded.out / "grading.json").read_text())
    assert book["seed"] == "secret"
    assert {"cannlab", "python", "numpy"} <= set(book["versions"])
    assert {"limits", "memory", "network", "writing", "system calls"} <= set(book["layers"])
    there = {path.relative_to(graded.out).as_posix() for path in graded.out.rglob("*") if path.is_file()}
    assert there == {*book["files"], "grading.json"}
    assert str(graded.out) not in (graded.out / "grading.json").read_text()


def test_grading_again_gives_the_same_bytes_whatever_the_number_of_jobs(graded: Graded, tmp_path: Path) -> None:
    grade(Options(graded.submissions, tmp_path / "again", 1, "secret"), Quiet())
    for path in sorted(graded.out.rglob("*")):
        if path.is_file():
            assert (tmp_path / "again" / path.relative_to(graded.out)).read_bytes() == path.read_bytes(), path.name


def test_learners_text_never_becomes_html(graded: Graded) -> None:
    pages = [path.read_text(encoding="utf-8") for path in graded.out.rglob("*.html")]
    assert len(pages) == 2 + graded.summary.learners
    assert any("pwned" in text for text in pages)
    for text in pages:
        assert "<script" not in text.lower()
        assert "<img" not in text.lower()
        assert "<b>x" not in text
        assert "Content-Security-Policy" in text
        assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)


def test_learners_text_never_becomes_a_formula(graded: Graded) -> None:
    for path in graded.out.glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                assert not any(re.match(r"\s*[=+\-@]", cell) for cell in row), (path.name, row)
    names = {row["learner"] for row in csv.DictReader((graded.out / "gradebook.csv").open(newline=""))}
    assert "'=cmd|' -C calc'!A0 <b>x" in names


def test_the_gradebook_has_a_row_for_each_learner(graded: Graded) -> None:
    rows = {row["learner"]: row for row in csv.DictReader((graded.out / "gradebook.csv").open(newline=""))}
    assert len(rows) == graded.summary.learners
    assert (rows["wrong"]["points"], rows["wrong"]["most"]) == ("1", "3")
    assert (rows["wrong"]["01_trivial.times0"], rows["wrong"]["01_trivial.times1"]) == ("1", "0")


def test_canvas_finds_its_columns_and_points(graded: Graded) -> None:
    rows = list(csv.reader((graded.out / "canvas.csv").open(newline="")))
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "01_trivial Trivial"]
    assert "Points Possible" in rows[1][0]
    assert rows[1][5] == "3"
    assert next(row for row in rows if row[3] == "wrong")[5] == "1"


def test_moodle_has_a_feedback_for_each_grade(graded: Graded) -> None:
    rows = list(csv.DictReader((graded.out / "moodle.csv").open(newline="")))
    wrong = next(row for row in rows if row["Username"] == "wrong")
    assert wrong["01_trivial Trivial"] == "1"
    assert wrong["Feedback: 01_trivial Trivial"] == "1 of 3 exercises pass"


def test_nbgraders_columns(graded: Graded) -> None:
    rows = list(csv.DictReader((graded.out / "nbgrader.csv").open(newline="")))
    wrong = next(row for row in rows if row["student_id"] == "wrong")
    assert (wrong["assignment"], wrong["score"], wrong["max_score"]) == ("01_trivial", "1.0", "3.0")


def test_the_class_page_counts(graded: Graded) -> None:
    page = (graded.out / "class.html").read_text(encoding="utf-8")
    cells = re.findall(r"<code>01_trivial\.times1</code>.*?</tr>", page, flags=re.DOTALL)[0]
    numbers = [int(number) for number in re.findall(r'<td class="n">(\d+)</td>', cells)]
    # good, bom, crlf, utf16, whole_folder pass; wrong, hangs and the nasty one fail; untouched, dice; two without.
    assert numbers == [5, 3, 2, 2, 0]
    assert "1 \u00d7 the number is added." in cells


def test_addresses_and_dice_do_not_reach_the_results(graded: Graded) -> None:
    text = json.dumps(graded.report("dice"))
    assert "object at 0x..." in text
    assert not re.search("0x[0-9a-f]{6}", text)


def test_the_same_workbook_is_pointed_at(graded: Graded) -> None:
    page = (graded.out / "similarity.html").read_text(encoding="utf-8")
    assert "a hint, not a verdict" in page
    assert re.search(r"bom, crlf, dice, good, utf16, whole_folder", page)


def test_a_nasty_answer_scores_nothing_and_its_text_is_shown_as_text(graded: Graded) -> None:
    name = next(each for each in json.loads((graded.out / "grading.json").read_text())["learners"] if "cmd" in each)
    stem = json.loads((graded.out / "grading.json").read_text())["learners"][name]["report"]
    assert graded.report(stem)["points"] == 0
    assert "&lt;script&gt;" in graded.page(stem)
    assert EVIL not in graded.page(stem)
    assert len(graded.report(stem)["lessons"][0]["exercises"]) == COUNT
    assert graded.report(stem)["lessons"][0]["id"] == trivial.LESSON


def _contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        r, g, b = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_the_verdicts_words_are_readable_on_light_and_dark_pages() -> None:
    text = page("t", "").decode()
    for colour in COLOURS.values():
        assert _contrast(colour, "#ffffff") >= 4.5
        assert _contrast(DARK[colour], "#0d1117") >= 4.5
        assert f'b[style*="{colour}"] {{ color: {DARK[colour]} !important; }}' in text
