"""A clean environment for each test of the command line: its own cache (with a space in its name), no settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess, run

import pytest

import cannlab
from cannlab import activation

PARENT = str(Path(cannlab.__file__).resolve().parents[1])

Shell = Callable[..., "CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(("CANNLAB_", "ASCEND_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CANNLAB_CACHE", str(tmp_path / "a cache"))
    monkeypatch.setenv("PYTHONPATH", PARENT)
    argv, path, main = list(sys.argv), list(sys.path), sys.modules["__main__"]
    yield
    activation.deactivate()
    sys.argv[:], sys.path[:], sys.modules["__main__"] = argv, path, main


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Writes a program and returns its path."""

    def write(text: str, name: str = "prog.py") -> str:
        file = tmp_path / "my work" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return str(file)

    return write


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small package that answers as ``acl``; returns a first line that makes a program use it."""
    package = tmp_path / "site" / "standin"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("from standin import rt\nloads = []\nloads.append(1)\n")
    (package / "rt.py").write_text("def get_device_count():\n    return 8, 0\n")
    (package / "deep" / "__init__.py").write_text("")
    (package / "deep" / "config.py").write_text("VALUE = 'emulated'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([PARENT, str(tmp_path / "site")]))
    monkeypatch.setitem(activation.EMULATED, "acl", "standin")
    yield "import cannlab.activation; cannlab.activation.EMULATED['acl'] = 'standin'\n"
    for name in [name for name in sys.modules if name.partition(".")[0] in ("standin", "acl")]:
        del sys.modules[name]


@pytest.fixture
def cannlab_command() -> Shell:
    """Runs ``cannlab`` in a process of its own."""

    def start(*words: str, **options: object) -> CompletedProcess[str]:
        return run([sys.executable, "-m", "cannlab", *words], capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload,no-any-return]

    return start
