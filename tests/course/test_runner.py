"""Answers' processes: both ways to make one, and the layers round it."""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import pytest

from cannlab.course import job, wire
from cannlab.course.job import Job
from cannlab.course.manifest import Limits
from cannlab.course.runner import ForkRunner, Outcome, Runner, SpawnRunner, runner
from cannlab.course.sandbox import LAYERS, Sandbox
from cannlab.course.seccomp import Filter
from cannlab.course.spec import Ending, File, call, printed, read
from cannlab.course.spec.run import Run

LIMITS = Limits(cpu=20, wall=60, memory=512, output=64, result=2, disk=1, files=32)
BUSY = Limits(cpu=1, wall=60)
WAITING = Limits(cpu=20, wall=1)


def _run(
    by: Runner,
    source: str,
    how: Run | None = None,
    inputs: dict[str, object] | None = None,
    limits: Limits = LIMITS,
) -> Outcome:
    given = inputs if inputs is not None else {"x": np.arange(3.0)}
    return by.run(job.make("a.b", ("import numpy as np",), source, how or call("f"), [given, given], limits))


def _got(outcome: Outcome, case: int = 0) -> object:
    message, blob = outcome.cases[case]
    assert "raised" not in message, message
    return wire.untree(message["got"], blob)


@pytest.fixture(scope="module", params=[ForkRunner, SpawnRunner], ids=["fork", "spawn"])
def by(request: pytest.FixtureRequest) -> Runner:
    """Both runners."""
    if request.param is ForkRunner and not sys.platform.startswith("linux"):
        pytest.skip("answers are forked on Linux only")
    found: Runner = request.param()
    return found


def test_results_come_back_in_order(by: Runner) -> None:
    outcome = _run(by, "def f(x):\n    print('hello')\n    return x * 2")
    assert outcome.ending is Ending.FINISHED
    assert np.array_equal(_got(outcome), np.arange(3.0) * 2)  # type: ignore[arg-type]
    assert outcome.cases[1][0]["printed"] == "hello\n"
    assert tuple(outcome.layers) == LAYERS
    assert all(state == "on" or state.startswith("missing: ") for state in outcome.layers.values())


@pytest.mark.parametrize(
    ("source", "ending", "status"),
    [
        ("import os\ndef f(x): os._exit(3)", Ending.EXITED, 3),
        ("import signal\ndef f(x):\n    import ctypes; ctypes.string_at(1)", Ending.KILLED, 11),
        ("def f(x):\n    while True: print('y' * 999)", Ending.FLOOD, 0),
    ],
)
def test_bad_ends_are_told_apart(by: Runner, source: str, ending: Ending, status: int) -> None:
    outcome = _run(by, source)
    assert (outcome.ending, outcome.status, outcome.cases) == (ending, status, [])


def test_work_without_end_ends_at_the_processors_limit(by: Runner) -> None:
    outcome = _run(by, "def f(x):\n    while True: pass", limits=BUSY)
    assert (outcome.ending, outcome.status, outcome.cases) == (Ending.CPU, 24, [])


def test_waiting_ends_at_the_clocks_limit(by: Runner) -> None:
    started = time.monotonic()
    outcome = _run(by, "import time\ndef f(x): time.sleep(60)", limits=WAITING)
    assert (outcome.ending, outcome.cases) == (Ending.TIMEOUT, [])
    assert time.monotonic() - started < 50


def test_rubbish_on_the_private_descriptor_ends_it() -> None:
    source = "import os\ndef f(x):\n    while True: os.write(3, b'\\xff' * 9999)"
    assert _run(ForkRunner(), source).ending in (Ending.BROKEN, Ending.TOO_BIG)


def test_each_case_starts_anew(by: Runner) -> None:
    source = "seen = globals().get('seen', 0) + 1\nopen('left', 'x').close()"
    outcome = _run(by, source, read("seen"))
    assert [_got(outcome, n) for n in (0, 1)] == [1, 1]


def test_inputs_are_variables_files_and_private_copies(by: Runner) -> None:
    inputs: dict[str, object] = {"data": np.zeros(2), "model": File("m.bin", b"abc")}
    source = "data += 1\nresult = [data.tolist(), model, open(model, 'rb').read()]"
    outcome = _run(by, source, read("result"), inputs)
    assert [_got(outcome, n) for n in (0, 1)] == [[[1.0, 1.0], "m.bin", b"abc"]] * 2


def test_printed_text_and_the_last_expression(by: Runner) -> None:
    assert _got(_run(by, "print(1)\nprint('a')", printed())) == "1\na\n"
    assert _got(_run(by, "y = 4\ny + 1", read("_"))) == 5


def test_out_names_the_written_array(by: Runner) -> None:
    inputs = {"x": np.arange(3.0), "z": np.zeros(3)}
    outcome = _run(by, "def f(x, z):\n    z[:] = x + 1", call("f", out="z"), inputs)
    assert _got(outcome).tolist() == [1.0, 2.0, 3.0]  # type: ignore[attr-defined]


def test_magics_of_the_course_work(by: Runner) -> None:
    source = "get_ipython().run_cell_magic('writefile', 'a.txt', 'hi')\ntext = open('a.txt').read()\ndisplay(text)"
    assert _got(_run(by, source, read("text"))) == "hi"


def test_a_failing_setup_is_the_courses_mistake(by: Runner) -> None:
    outcome = by.run(job.make("a.b", ("1 / 0",), "def f(x): return x", call("f"), [{"x": 1}], LIMITS))
    assert outcome.ending is Ending.SETUP
    assert outcome.setup is not None
    assert outcome.setup["type"] == "ZeroDivisionError"


def test_nothing_is_left_on_disk(by: Runner, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    _run(by, "open('big', 'w').write('x' * 1000)\ndef f(x):\n    import os; os._exit(0)")
    assert os.listdir(str(tmp_path)) == []


def test_the_descriptors_are_given_back() -> None:
    by = runner()
    _run(by, "def f(x): return x")
    before = len(os.listdir("/dev/fd"))
    for source in ("def f(x): return x", "import os\nos._exit(1)", "x = ("):
        _run(by, source)
    assert len(os.listdir("/dev/fd")) == before


def test_layers_that_a_machine_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from cannlab.course import landlock, seccomp

    monkeypatch.setattr(seccomp, "prepare", lambda: "libseccomp: not found")
    monkeypatch.setattr(landlock, "prepare", lambda: "the kernel has no Landlock")
    outcome = _run(ForkRunner(), "def f(x): return x")
    assert outcome.ending is Ending.FINISHED
    assert outcome.layers["system calls"] == "missing: libseccomp: not found"
    assert outcome.layers["writing"] == "missing: the kernel has no Landlock"
    assert outcome.layers["limits"] == "on"


def test_threads_and_numpy_work_inside_every_layer() -> None:
    if not isinstance(Sandbox.prepare().filter, Filter):
        pytest.skip("this machine has no libseccomp: the layer cannot be tried")
    source = (
        "import threading\ndef f(x):\n    out = []\n    t = threading.Thread(target=lambda: out.append(x @ x))\n"
        "    t.start(); t.join()\n    return out"
    )
    assert _got(_run(ForkRunner(), source)) == [5.0]


def test_a_job_survives_its_frame() -> None:
    made = job.make("a.b", ("s",), "x", read("x", files=("f",)), [{"a": np.arange(2), "m": File("m", b"\0")}], LIMITS)
    ((message, blob),) = wire.Frames(1 << 20).feed(made.pack())
    back = Job.unpack(message, blob)
    assert (back.exercise, back.setup, back.answer, back.run, back.limits) == ("a.b", ("s",), "x", made.run, LIMITS)
    assert back.cases[0]["a"].tolist() == [0, 1]
    assert back.cases[0]["m"] == {"file": ["m", b"\0"]}
