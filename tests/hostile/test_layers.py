"""Each layer does its part alone: what is behind it is tried with the layers above it taken away."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cannlab.course import nursery as nurseries
from cannlab.course.job import make
from cannlab.course.manifest import Limits
from cannlab.course.runner import ForkRunner, Outcome, SpawnRunner, serve
from cannlab.course.sandbox import Sandbox
from cannlab.course.spec import Ending, call
from cannlab.course.wire import untree

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the layers are Linux's")
LIMITS = Limits(cpu=20, wall=60, memory=512, output=64, result=2, disk=1, files=32)


def _runner(**changed: object) -> Iterator[ForkRunner]:
    found = ForkRunner()
    found.nursery.close()
    found.sandbox = replace(Sandbox.prepare(), **changed)  # type: ignore[arg-type]
    found.nursery = nurseries.Nursery(found.sandbox, serve)
    yield found
    found.nursery.close()


@pytest.fixture
def unfiltered() -> Iterator[ForkRunner]:
    """A runner without the filter of system calls."""
    yield from _runner(filter="left out by the test")


@pytest.fixture
def small() -> Iterator[ForkRunner]:
    """A runner with room for 4 MiB of files: filling it must not take the answer's time."""
    yield from _runner(scratch_mib=4)


def _run(by: ForkRunner | SpawnRunner, source: str, cases: int = 1) -> Outcome:
    return by.run(make("a.b", (), source, call("f"), [{}] * cases, LIMITS))


def _got(outcome: Outcome, case: int = 0) -> object:
    message, blob = outcome.cases[case]
    return untree(message["got"], blob)


def _need(outcome: Outcome, layer: str) -> None:
    if outcome.layers[layer] != "on":
        pytest.skip(f"layer {layer} is {outcome.layers[layer]}")


def test_processes_that_escape_their_group_end_with_the_answer(unfiltered: ForkRunner) -> None:
    source = (
        "import os, time\ndef f():\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            time.sleep(1000)\n        os._exit(0)\n    return os.getpid()"
    )
    outcome = _run(unfiltered, source)
    assert outcome.layers["system calls"] == "missing: left out by the test"
    _need(outcome, "processes")
    assert outcome.ending is Ending.FINISHED
    # The nursery tells of the end only when everything is gone: what still is there has outlived it.
    started = time.monotonic()
    assert (
        _got(
            _run(
                unfiltered,
                "import os\ndef f():\n    return len([n for n in range(2, 64) if _there(n)])\n"
                "def _there(n):\n    try:\n        os.kill(n, 0)\n    except OSError:\n"
                "        return False\n    return n != os.getpid()",
            )
        )
        == 0
    )
    assert time.monotonic() - started < 60


def test_nobody_outside_can_be_signalled(unfiltered: ForkRunner) -> None:
    source = (
        "import os, signal\ndef f():\n    for pid in (1, os.getppid(), PID):\n        try:\n"
        "            os.kill(pid, signal.SIGKILL)\n        except OSError:\n            pass\n    return 'still here'"
    )
    outcome = _run(unfiltered, source.replace("PID", str(os.getpid())))
    _need(outcome, "processes")
    assert _got(outcome) == "still here"
    assert unfiltered.nursery.alive


def test_the_network_is_not_there(unfiltered: ForkRunner) -> None:
    source = (
        "import socket\ndef f():\n    try:\n        socket.create_connection(('127.0.0.1', 9), 2)\n"
        "    except OSError as problem:\n        return problem.errno"
    )
    outcome = _run(unfiltered, source)
    _need(outcome, "network")
    assert _got(outcome) in (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EACCES)


def test_files_of_one_answer_are_gone_for_the_next() -> None:
    by = ForkRunner()
    try:
        assert _got(_run(by, "import os\ndef f():\n    open('../left', 'w').write('x')\n    return 1")) == 1
        assert _got(_run(by, "import os\ndef f():\n    return os.listdir('../..')[1:] + os.listdir('..')")) == ["case1"]
    finally:
        by.nursery.close()


def test_all_files_together_are_limited(small: ForkRunner) -> None:
    source = (
        "def f():\n    try:\n        for n in range(2000):\n"
        "            open(f'file{n}', 'wb').write(b'x' * (1 << 20))\n"
        "    except OSError as problem:\n        return problem.errno, n"
    )
    outcome = _run(small, source)
    _need(outcome, "disk")
    number, written = _got(outcome)  # type: ignore[misc]
    assert (number, 0 < written <= 4) == (errno.ENOSPC, True)
    assert _got(_run(small, "def f():\n    return open('a', 'wb').write(b'x' * (1 << 19))")) == 1 << 19


def test_there_is_room_for_half_a_gigabyte_of_files() -> None:
    by = ForkRunner()
    source = (
        "import os\ndef f():\n    found = os.statvfs('.')\n    return found.f_blocks * found.f_frsize, found.f_files"
    )
    try:
        outcome = _run(by, source)
        _need(outcome, "disk")
        assert _got(outcome) == (512 << 20, 20_000)
    finally:
        by.nursery.close()


def test_the_nursery_ends_and_cleans_up_when_its_maker_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from cannlab.course.runner import ForkRunner; by = ForkRunner();"
        "print(by.nursery.pid, flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    maker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert maker.stdout is not None
    pid = int(maker.stdout.readline())
    assert list(tmp_path.iterdir())
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    deadline = time.monotonic() + 60
    while (list(tmp_path.iterdir()) or Path(f"/proc/{pid}").exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not list(tmp_path.iterdir())
    assert not Path(f"/proc/{pid}").exists()


def test_a_lost_nursery_is_noticed() -> None:
    by = ForkRunner()
    assert _got(_run(by, "def f(): return 1")) == 1
    assert by.nursery.alive
    children = Path(f"/proc/{by.nursery.pid}/task/{by.nursery.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    deadline = time.monotonic() + 60
    while by.nursery.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not by.nursery.alive
    with pytest.raises(OSError, match=r"ended|pipe|reset|endpoint|connected"):
        _run(by, "def f(): return 1")
    by.nursery.close()


def test_capabilities_are_dropped() -> None:
    by = ForkRunner()
    source = (
        "import ctypes\ndef f():\n    data = (ctypes.c_uint32 * 6)()\n"
        "    ctypes.CDLL(None).capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)\n    return list(data)"
    )
    try:
        outcome = _run(by, source)
        _need(outcome, "privileges")
        assert _got(outcome) == [0] * 6
    finally:
        by.nursery.close()


def test_a_fresh_interpreter_has_the_layers_that_need_no_nursery() -> None:
    layers = _run(SpawnRunner(), "def f(): return 1").layers
    forked = ForkRunner()
    same = _run(forked, "def f(): return 1").layers
    forked.nursery.close()
    for name in ("limits", "memory", "network", "reading", "writing", "privileges", "system calls"):
        assert layers[name] == same[name]
    assert layers["processes"].startswith("missing: ")
