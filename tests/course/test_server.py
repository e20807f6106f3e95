"""The checking process: it stays clean, ends with its parent, and a lost one is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cannlab.course.client import Client
from cannlab.errors import CannlabError

TINY = Path(__file__).parent / "fixtures" / "tiny"
ROOT = Path(__file__).parents[2]
TOTAL = "# exercise: 01_tiny.total\ndef total(values):\n    return sum(values)"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _gone(pid: int, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while _alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_it_ends_when_its_parent_is_killed() -> None:
    code = (
        "import sys; from pathlib import Path; from cannlab.course.client import client; c = client();"
        f"c.check(Path({str(TINY)!r}), '01_tiny.total', {TOTAL!r}); print(c.pid, flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert _alive(pid)
    parent.kill()
    parent.communicate()
    assert _gone(pid)


def test_a_lost_process_gives_a_diagnosis_and_is_replaced() -> None:
    client = Client()
    try:
        assert client.check(TINY, "01_tiny.total", TOTAL).passed
        first = client.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        time.sleep(0.1)
        assert client.check(TINY, "01_tiny.total", TOTAL).passed
        assert client.pid != first
    finally:
        client.close()


def test_closing_ends_the_process_and_all_its_children() -> None:
    client = Client()
    client.start()
    client.check(TINY, "01_tiny.total", TOTAL)
    pid = client.pid
    assert pid is not None
    client.close()
    assert _gone(pid)


def test_an_unknown_exercise_is_refused_with_the_nearest_name(client: Client) -> None:
    with pytest.raises(CannlabError) as caught:
        client.check(TINY, "01_tiny.totl", TOTAL)
    assert caught.value.diagnosis.rule == "course.unknown_exercise"
    assert "01_tiny.total" in str(caught.value)


def test_the_process_never_imports_torch_by_itself(client: Client) -> None:
    source = "import sys\ndef total(values):\n    assert 'torch' not in sys.modules\n    return sum(values)"
    assert client.check(TINY, "01_tiny.total", source).passed


def test_answers_are_judged_through_fresh_interpreters_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_RUNNER", "spawn")
    client = Client()
    try:
        assert client.check(TINY, "01_tiny.total", TOTAL).passed
        wrong = client.check(TINY, "01_tiny.total", TOTAL.replace("sum(values)", "sum(values[1:])"))
        assert wrong.misconception == "first_left_out"
    finally:
        client.close()
