"""A hundred hostile answers one after another: no process, no file, no descriptor and no shared memory stays behind."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import attacks
import pytest

from cannlab.course.client import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, which only Linux has"),
]
COUNT = 100
_QUICK = frozenset(
    name
    for name in (answer.name for answer in attacks.answers(*attacks.ATTACKED))
    # These wait for their limit of time, some seconds each; the class has them all.
    if not any(word in name for word in ("loop", "sleeps", "waits", "endless", "hides_errors", "fills", "thread_bomb"))
)


def _children(pid: int) -> list[int]:
    """All processes beneath one, however deep."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found += [int(entry.name), *_children(int(entry.name))]
    return found


def _shared() -> list[str]:
    """System V shared memory, queues and semaphores, and POSIX shared memory."""
    lines = [line for name in ("shm", "msg", "sem") for line in Path(f"/proc/sysvipc/{name}").read_text().splitlines()]
    return lines + sorted(os.listdir("/dev/shm"))


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _state(pid: int, folder: Path) -> dict[str, object]:
    children = sorted(_children(pid))
    return {
        "processes": children,
        "descriptors": {one: _descriptors(one) for one in (os.getpid(), pid, *children)},
        "files": sorted(str(path) for path in folder.rglob("*")),
        "shared": _shared(),
    }


def test_a_hundred_hostile_answers_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    client = Client()
    honest = f"# exercise: 01_target.scale\n{attacks.SOLUTIONS['scale']}"
    corpus = [answer for answer in attacks.answers(*attacks.ATTACKED) if answer.name in _QUICK]
    try:
        assert client.check(attacks.COURSE, "01_target.scale", honest).passed
        pid = client.pid
        assert pid is not None
        time.sleep(0.3)
        before = _state(pid, tmp_path)
        for number in range(COUNT):
            answer = corpus[number % len(corpus)]
            result = client.check(attacks.COURSE, f"01_target.{answer.exercise}", answer.cell, {"secret": "soak"})
            assert not result.passed, answer.name
        assert client.check(attacks.COURSE, "01_target.scale", honest).passed
        assert client.pid == pid
        time.sleep(0.3)
        assert _state(pid, tmp_path) == before
    finally:
        client.close()
    time.sleep(0.3)
    # onnxruntime writes this one when it is imported.
    assert [path.name for path in tmp_path.iterdir() if path.name != ".ses"] == []
    assert not _children(os.getpid())
