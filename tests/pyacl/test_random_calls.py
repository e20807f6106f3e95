"""Random sequences of calls never crash the interpreter, corrupt memory or hang (``random_calls.py`` runs them)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from random_calls import FUNCTIONS, MODEL
from test_models import add_one

from cannlab import om
from cannlab.acl.binding import is_emulated
from cannlab.acl.signatures import signatures

PROGRAM = Path(__file__).with_name("random_calls.py")


def run(folder: Path, first: int, count: int, seconds: int) -> None:
    """Run the sequences in a process of their own: a crash or a loop there is a failure here that names the seed."""
    om.write(add_one(), folder / MODEL)
    command = [sys.executable, "-X", "faulthandler", str(PROGRAM), str(first), str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        pytest.fail(f"seed {(folder / 'seed').read_text()} hangs")
    at = (folder / "seed").read_text() if (folder / "seed").exists() else "none"
    assert done.returncode == 0, f"at seed {at}, exit {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.endswith(f"{count} sequences, 0 failed\n")


def test_every_emulated_function_is_drawn() -> None:
    drawn = {entry.name for entry in FUNCTIONS}
    for module in ("acl", "acl.rt", "acl.mdl", "acl.op", "acl.media", "acl.util"):
        assert {name for name, entry in signatures().items() if entry.module == module and is_emulated(name)} <= drawn


def test_some_sequences(tmp_path) -> None:
    run(tmp_path, 0, 300, seconds=300)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(10))
def test_a_hundred_thousand_sequences(tmp_path, part) -> None:
    run(tmp_path, part * 10_000, 10_000, seconds=3600)
