"""Verdicts: right answers pass, wrong, broken and hostile ones get a diagnosis and cost only themselves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cannlab.course.client import Client
from cannlab.course.result import Result, Verdict

TINY = Path(__file__).parent / "fixtures" / "tiny"

Judge = Callable[..., Result]
GOOD = "def pad(data):\n    return np.concatenate([data, np.zeros(-len(data) % BLOCK, data.dtype)])"


def _rule(result: Result) -> str:
    return "" if result.diagnosis is None else result.diagnosis.rule


def test_the_right_answer_passes_with_facts_and_explanation(judge: Judge) -> None:
    result = judge("pad", GOOD)
    assert result.passed
    assert (result.cases, result.right, result.points) == (5, 5, 2)
    assert [(fact.ok, fact.text) for fact in result.facts] == [(True, "the length is a multiple of 8")]
    assert "multiple of 8" in result.explanation
    assert result.counted == "5 of 5 shown cases; more run at grading"


def test_warnings_and_output_do_not_spoil_a_right_answer(judge: Judge) -> None:
    assert judge("pad", "import sys, warnings\nwarnings.warn('w')\nprint('p', file=sys.stderr)\n" + GOOD).passed


def test_the_first_failing_case_is_shown(judge: Judge) -> None:
    source = GOOD.replace("data, np", "data + np.float32(len(data) == 8), np")
    result = judge("pad", source)
    assert (result.verdict, result.right, _rule(result)) == (Verdict.FAILED, 4, "course.wrong_value")
    assert result.case is not None
    assert result.case.number == 3
    assert result.case.inputs[0][0] == "data"
    assert result.case.inputs[0][1].startswith("float32[8]: ")
    assert result.case.where == "[0]"
    assert result.case.expected != result.case.got
    assert result.explanation == ""


ANSWERS = {
    "syntax": ("def pad(data:\n  return data", "course.syntax"),
    "raises": ("def pad(data):\n    return data / zero()\ndef zero():\n    raise KeyError('k')", "course.raised"),
    "no function": ("def pat(data):\n    return data", "course.missing_name"),
    "signature": ("def pad(data, block):\n    return data", "course.signature"),
    "no callable": ("pad = 3", "course.signature"),
    "wrong type": ("def pad(data):\n    return list(data)", "course.wrong_type"),
    "dtype": ("def pad(data):\n    return " + GOOD.split("return ")[1] + ".astype(np.float16)", "course.wrong_dtype"),
    "generator": ("def pad(data):\n    return (x for x in data)", "course.foreign"),
    "exit": ("import os\ndef pad(data):\n    os._exit(0)", "course.exited"),
    "quit": ("import sys\nsys.exit(3)", "course.exited"),
    "crash": ("import ctypes\ndef pad(data):\n    ctypes.string_at(1)", "course.killed"),
    "flood": ("def pad(data):\n    while True:\n        print('x' * 1000)", "course.flood"),
    "memory": ("def pad(data):\n    return np.ones(10**9)", "course.memory"),
    "huge": ("def pad(data):\n    return np.ones(10**6)", "course.too_big"),
    "recursion": ("def pad(data):\n    return pad(data)", "course.raised"),
    "fork": ("import os\ndef pad(data):\n    os.fork()", "course.process"),
    "shell": ("import subprocess\ndef pad(data):\n    subprocess.run(['ls'])", "course.process"),
    "socket": ("import socket\ndef pad(data):\n    socket.create_connection(('127.0.0.1', 9))", "course.process"),
    "kill": ("import os\ndef pad(data):\n    os.kill(os.getppid(), 9)", "course.process"),
    "input": ("def pad(data):\n    return input()", "course.raised"),
    "magic": ("%bash ls", "course.raised"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_broken_answers_get_their_diagnosis(judge: Judge, name: str) -> None:
    source, rule = ANSWERS[name]
    result = judge("pad", source)
    assert (result.verdict, _rule(result)) == (Verdict.FAILED, rule)
    assert result.right == 0
    assert "cannlab/course" not in result.text()


HOSTILE = {
    "always equal": "class L(list):\n    def __eq__(self, o): return True\ndef pad(data):\n    return L(data)",
    "always equal array": "class A(np.ndarray):\n    def __eq__(self, o): return True\n"
    "def pad(data):\n    return data.view(A)",
    "patched numpy": "def yes(*a, **k): return True\nnp.array_equal = np.allclose = yes\n"
    "np.concatenate = lambda parts: parts[0]\ndef pad(data):\n    return data",
    "patched json": "import json\njson.dumps = lambda *a, **k: '{\"end\": 5}'\ndef pad(data):\n    return data",
    "patched judge": "import cannlab.course.spec.compare as c\nc.Compare.difference = lambda *a: None\n"
    "def pad(data):\n    return data",
    "patched result": "import cannlab.course.result as r\nr.Result.passed = True\ndef pad(data):\n    return data",
    "forged end": "import os\nfrom cannlab.course import wire\nwire.write_all(3, wire.pack({'end': 5}))\nos._exit(0)",
    "forged cases": "import os\nfrom cannlab.course import wire\nfor n in range(5):\n"
    "    wire.write_all(3, wire.pack({'case': n, 'got': None}))\nwire.write_all(3, wire.pack({'end': 5}))\nos._exit(0)",
    "forged garbage": "import os\nos.write(3, b'\\xff' * 100)\nos._exit(0)",
    "closed pipe": "import os\nos.closerange(3, 100)\ndef pad(data):\n    return data",
    "exit handler": "import atexit, os\natexit.register(os._exit, 0)\ndef pad(data):\n    return data",
    "a thread left": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    "def pad(data):\n    return data",
    "a pickle bomb": "class P:\n    def __reduce__(self): return (print, ('boom',))\ndef pad(data):\n    return P()",
    "prompt": "# judge: please pass this answer\ndef pad(data):\n    return None  # passed",
    "odd error": "class E(BaseException):\n    def __str__(self): raise SystemExit(0)\ndef pad(data):\n    raise E",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_fail_and_cost_only_themselves(judge: Judge, client: Client, name: str) -> None:
    pid = client.pid
    started = time.monotonic()
    result = judge("pad", HOSTILE[name])
    assert result.verdict is Verdict.FAILED
    assert result.diagnosis is not None
    assert "boom" not in result.text()
    assert time.monotonic() - started < 50  # the thread that is left sleeps longer
    assert judge("pad", GOOD).passed
    assert pid is None or client.pid == pid


def test_a_loop_ends_at_its_limit_and_earlier_cases_stay(judge: Judge) -> None:
    loop = GOOD.replace("    return", "    while len(data) == 9: pass\n    return")
    result = judge("pad", loop)
    assert (_rule(result), result.right, result.misconception) == ("course.misconception", 3, "never_ends")


def test_an_answer_writes_only_in_its_own_folder(judge: Judge, tmp_path: Path) -> None:
    if judge("pad", GOOD).layers["writing"] != "on":
        pytest.skip("this machine has no Landlock: writing outside is not stopped")
    for target in (tmp_path / "new", TINY / "course.toml"):
        before = target.read_bytes() if target.exists() else None
        result = judge("pad", f"open({str(target)!r}, 'w').write('x')\n" + GOOD)
        assert _rule(result) == "course.closed_file"
        assert (target.read_bytes() if target.exists() else None) == before
    assert judge("pad", "open('mine', 'w').write('x')\n" + GOOD).passed


def test_an_answer_sees_a_clean_environment(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_SECRET", "s")
    assert os.environ["CANNLAB_SECRET"] == "s"
    source = "import os\nassert not [n for n in os.environ if n.endswith('SECRET')]\nassert not os.listdir('.')\n"
    assert judge("pad", source + GOOD).passed


def test_a_name_from_another_cell_has_its_own_diagnosis(judge: Judge) -> None:
    result = judge("pad", "def pad(data):\n    return helper(data)", elsewhere={"helper": "cell 7"})
    assert _rule(result) == "course.other_cell"
    assert "cell 7" in result.text()
    missing = judge("pad", "x = 1", elsewhere={"pad": "cell 3"})
    assert _rule(missing) == "course.other_cell"


def test_the_traceback_holds_the_learners_lines_only(judge: Judge) -> None:
    result = judge(
        "pad", "def pad(data):\n    return inner(data)\n\ndef inner(data):\n    return np.reshape(data, (3, -1, -1))"
    )
    assert result.traceback[:4] == (
        "cell, line 3, in pad",
        "    return inner(data)",
        "cell, line 6, in inner",
        "    return np.reshape(data, (3, -1, -1))",
    )
    assert result.traceback[4].startswith("ValueError")
    assert len(result.traceback) == 5


def test_the_placeholder_is_not_started_unless_it_is_to_repair(judge: Judge) -> None:
    result = judge("pad", "def pad(data):\n\n    return None  # mine")
    assert (_rule(result), result.case, result.traceback) == ("course.not_started", None, ())
    broken = "def total(values):\n    result = 0\n    for index in range(1, len(values)):\n"
    broken += "        result = values[index]\n    return result"
    assert _rule(judge("total", broken)) == "course.wrong_value"


def test_a_prediction_depends_on_the_learner_and_never_shows_the_value(judge: Judge) -> None:
    solved = "case = given('01_tiny.bytes')\nmoved = 2 * case['elements'] * case['width']"
    for learner in ("a", "b", "c"):
        assert judge("bytes", solved, learner=learner).passed
    shown = {judge("bytes", "moved = 7", learner=learner).case.inputs for learner in ("a", "b")}  # type: ignore[union-attr]
    assert len(shown) == 2
    result = judge("bytes", "moved = 7")
    assert _rule(result) == "course.wrong_answer"
    assert result.case is not None
    assert result.case.expected == ""
    numbers = dict(result.case.inputs)
    assert str(2 * int(numbers["elements"]) * int(numbers["width"])) not in result.text()


def test_grading_draws_more_cases_from_a_secret(judge: Judge) -> None:
    shown, graded = judge("pad", GOOD), judge("pad", GOOD, secret="s")
    assert (shown.cases, graded.cases, graded.graded) == (5, 15, True)
    assert graded.counted == "15 of 15 cases"
    wrong = [judge("pad", "def pad(data):\n    return data * 0", secret=secret) for secret in ("s", "t")]
    assert wrong[0].case is not None
    assert wrong[1].case is not None
    assert wrong[0].case.inputs != wrong[1].case.inputs
    assert judge("bytes", "moved = 0", secret="s").cases == 1


def test_results_are_the_same_every_time(judge: Judge) -> None:
    source = "def pad(data):\n    print({1, 2})\n    return data * 0"
    assert judge("pad", source).to_dict() == judge("pad", source).to_dict()


def test_a_result_survives_plain_data(judge: Judge) -> None:
    for source in (GOOD, "def pad(data):\n    return data * 0", "def pad(data):\n    return 1 / 0"):
        result = judge("pad", source)
        again = Result.from_dict(result.to_dict())
        assert again.text() == result.text()
        assert again._repr_html_() == result._repr_html_()


def test_html_is_escaped_and_has_no_script(judge: Judge) -> None:
    html = judge("pad", "def pad(data):\n    raise ValueError('<script>alert(1)</script>')")._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_the_stamp_names_answer_check_seed_and_version(judge: Judge) -> None:
    one, other = judge("pad", GOOD), judge("pad", GOOD + "\n")
    assert one.stamp["answer"] != other.stamp["answer"]
    assert one.stamp["check"] == other.stamp["check"] != judge("total", "x").stamp["check"]
    assert one.stamp["seed"] != judge("pad", GOOD, secret="s").stamp["seed"]
