"""The command: its exit codes, resuming after an interruption, signing and verifying."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trivial
from graded_class import COUNT

from cannlab.cli.app import call

Output = pytest.CaptureFixture[str]
LEARNERS = 6


@pytest.fixture(scope="module")
def whole(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a class in ``class`` and its uninterrupted grading in ``out``."""
    folder = tmp_path_factory.mktemp("whole")
    trivial.make_class(folder / "class", LEARNERS, COUNT)
    assert call(["grade", str(folder / "class"), "--out", str(folder / "out"), "--jobs", "2", "--seed", "abc"]) == 0
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _start(whole: Path, out: Path) -> subprocess.Popen[str]:
    words = ["grade", str(whole / "class"), "--out", str(out), "--jobs", "1", "--seed", "abc"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cannlab", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background lets its children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    journal = out / ".grading.journal"
    while not (journal.is_file() and journal.read_bytes().count(b"\n") >= 3):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_an_interrupted_grading_goes_on_and_gives_the_same_files(
    whole: Path, tmp_path: Path, number: signal.Signals, capsys: Output
) -> None:
    out = tmp_path / "out"
    process = _start(whole, out)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    if number is signal.SIGINT:
        assert process.returncode == 130
        assert "--resume" in errors
        assert "Traceback" not in errors
    assert not (out / "grading.json").exists()
    with (out / ".grading.journal").open("ab") as file:
        file.write(b'{"learner": "learner00')  # a line that was cut
    (out / "learners" / "half.json.part").write_text("{")
    assert call(["grade", str(whole / "class"), "--out", str(out), "--jobs", "2"]) == 2
    assert "holds an interrupted grading" in capsys.readouterr().err
    assert call(["grade", str(whole / "class"), "--out", str(out), "--resume", "--jobs", "2"]) == 0
    text = capsys.readouterr().out
    assert "from before" in text
    assert "seed abc" in text
    assert _files(out) == _files(whole / "out")


def test_resuming_takes_a_changed_submission_anew_and_refuses_another_seed(
    whole: Path, tmp_path: Path, capsys: Output
) -> None:
    out, submissions = tmp_path / "out", tmp_path / "class"
    trivial.make_class(submissions, 2, COUNT)
    assert call(["grade", str(submissions), "--out", str(out), "--seed", "abc"]) == 0
    # As if it had been interrupted just before its end.
    header = {"format": 1, "version": json.loads((out / "grading.json").read_text())["versions"]["cannlab"]}
    book = json.loads((out / "grading.json").read_text())
    header |= {"seed": "abc", "lessons": [trivial.LESSON], "plan": book["course"]["digest"]}
    (out / ".grading.journal").write_text(json.dumps(header) + "\n")
    assert call(["grade", str(submissions), "--out", str(out), "--resume", "--seed", "xyz"]) == 2
    assert "another seed" in capsys.readouterr().err
    trivial.hand_in(submissions, "learner0001", trivial.workbook({0: trivial.right(0)}, COUNT))
    assert call(["grade", str(submissions), "--out", str(out), "--resume"]) == 0
    report = json.loads((out / "learners" / "learner0001.json").read_text())
    assert report["points"] == 1


def test_the_summary_line_and_the_seed(whole: Path, tmp_path: Path, capsys: Output) -> None:
    submissions = trivial.make_class(tmp_path / "class", 1, COUNT)
    trivial.hand_in(submissions, "broken", b"no")
    (submissions / "loose.ipynb").write_text("{}")
    assert call(["grade", str(submissions), "--out", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    seed = json.loads((tmp_path / "out" / "grading.json").read_text())["seed"]
    assert len(seed) == 16
    assert f"2 learners, {COUNT} exercises: {COUNT} of {COUNT} answers pass, 1 could not be graded; seed {seed};" in (
        captured.out
    )
    assert "loose.ipynb" in captured.out
    assert f"seed {seed}" in captured.err


def _placed(word: str, places: dict[str, Path]) -> str:
    """A word of a command line with its first part put in place."""
    head, _, tail = word.partition("/")
    return str(places[head] / tail)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["grade"], "give the folder of submissions and --out"),
        (["grade", "SUBS"], "--out"),
        (["grade", "SUBS", "--out", "SUBS/out"], "lie in one another"),
        (["grade", "NONE", "--out", "OUT"], "No such file"),
        (["grade", "EMPTY", "--out", "OUT"], "no folder of a learner"),
        (["grade", "SUBS", "--out", "FULL"], "is not empty"),
        (["grade", "SUBS", "--out", "DONE"], "holds a complete grading"),
        (["grade", "SUBS", "--out", "OUT", "--jobs", "0"], "greater than or equal to 1"),
        (["grade", "SUBS", "--out", "OUT", "--lesson", "01_trivia"], "Did you mean 01_trivial?"),
        (["grade", "SUBS", "--out", "OUT", "--sign", "NONE"], "No such file"),
        (["grade", "SUBS", "--out", "OUT", "--key", "NONE"], "--key belongs to --verify"),
        (["grade", "--verify", "DONE"], "needs the instructor's public key"),
        (["grade", "SUBS", "--new-key", "OUT"], "stands alone"),
    ],
)
def test_bad_usage_is_2_and_writes_nothing(
    whole: Path, tmp_path: Path, words: list[str], said: str, capsys: Output
) -> None:
    for name in ("EMPTY", "FULL"):
        (tmp_path / name).mkdir()
    (tmp_path / "FULL" / "file").write_text("x")
    places = {"SUBS": whole / "class", "DONE": whole / "out"}
    places |= {name: tmp_path / name for name in ("NONE", "EMPTY", "FULL", "OUT")}
    typed = [word if word.partition("/")[0] not in places else _placed(word, places) for word in words]
    assert call(typed) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "OUT").exists()
    assert not (whole / "class" / "out").exists()


def test_signing_and_verifying(whole: Path, tmp_path: Path, capsys: Output) -> None:
    pytest.importorskip("cryptography", reason="signing needs the package cryptography")
    key, out = str(tmp_path / "key"), tmp_path / "out"
    submissions = trivial.make_class(tmp_path / "class", 1, COUNT)
    assert call(["grade", "--new-key", key]) == 0
    assert call(["grade", str(submissions), "--out", str(out), "--sign", key]) == 0
    capsys.readouterr()
    assert call(["grade", "--verify", str(out), "--key", f"{key}.pub"]) == 0
    (out / "gradebook.csv").write_text("ann,100")
    assert call(["grade", "--verify", str(out), "--key", f"{key}.pub"]) == 1
    assert "gradebook.csv was changed." in capsys.readouterr().err
    assert call(["grade", "--verify", str(whole), "--key", f"{key}.pub"]) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_an_unwritable_folder_is_said(whole: Path, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    assert call(["grade", str(whole / "class"), "--out", str(tmp_path / "closed" / "out")]) == 1
    assert "Permission denied" in capsys.readouterr().err
