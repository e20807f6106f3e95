"""Public monitor programs, each in a virtual environment of its own beside cannlab, show the emulated devices.

They are taken from the package index as they are; without one the tests are skipped and say so.
"""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 240
Beside = Callable[[str], Path]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    """Installs a program in a new environment that also sees cannlab; gives the environment's bin folder."""

    def install(requirement: str) -> Path:
        home = tmp_path / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=PATIENCE)
        python = home / "bin" / "python"
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            pytest.skip(f"{requirement} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
        packages = next(home.glob("lib/python*/site-packages"))
        (packages / "beside.pth").write_text(f"{ROOT}\n{sysconfig.get_paths()['purelib']}\n")
        return home / "bin"

    return install


def surroundings(folder: Path, soc: str, devices: int) -> dict[str, str]:
    """The environment that ``eval "$(cannlab env)"`` makes."""
    given = {**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    command = f'eval "$({sys.executable} -m cannlab env --soc {soc} --devices {devices})" && env -0'
    shell = ["bash", "-c", command]
    found = subprocess.run(shell, env=given, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return dict(entry.split("=", 1) for entry in found.stdout.split("\0") if entry)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def shown(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return plain(done.stdout)


def test_ascendtop(beside: Beside) -> None:
    folder = beside("ascendtop==0.2.0")
    text = shown([str(folder / "ascendtop"), "--once", "--no-color"], surroundings(folder, "Ascend910B3", 3))
    assert re.findall(r"(\d) +910B3 +OK .*?(0000:\w\w:00\.0)", text) == [
        ("0", "0000:C1:00.0"),
        ("1", "0000:01:00.0"),
        ("2", "0000:C2:00.0"),
    ], text
    assert len(re.findall(r"35C +0% +90W .* 0MiB / 64\.00GiB", text)) == 3, text


@pytest.mark.parametrize(("soc", "name", "total"), [("Ascend910B3", "910B3", "64"), ("Ascend310P3", "310P3", "24")])
def test_ascend_nputop(beside: Beside, soc: str, name: str, total: str) -> None:
    folder = beside("ascend-nputop==0.1.0")
    text = shown([str(folder / "nputop"), "--once", "--ascii"], surroundings(folder, soc, 2))
    rows = [line for line in text.splitlines() if name in line]
    assert len(rows) == 2, text
    assert len(re.findall(rf"/ *{total}(?:\.0*)?Gi?B|/ *{int(total) * 1024}Mi?B", text)) >= 2, text


def test_nputop(beside: Beside) -> None:
    """A program for the terminal: it is run on one, and read from it."""
    folder = beside("nputop==0.0.3")
    environment = {**surroundings(folder, "Ascend910B3", 2), "TERM": "xterm-256color"}
    child, terminal = pty.fork()
    if child == 0:
        os.execve(str(folder / "nputop"), ["nputop"], environment)
    try:
        ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
        seen, end = b"", time.monotonic() + PATIENCE
        while plain(seen.decode(errors="replace")).count("910B3") < 2 and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 1 << 16)
        text = plain(seen.decode(errors="replace"))
        os.write(terminal, b"q")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    assert text.count("910B3") >= 2, text[-3000:]
    assert "90.0" in text
    assert "35°C" in text


def test_ascend_npu_utils(beside: Beside, tmp_path: Path) -> None:
    """It reads the table of a 310P with one card (that of several it mixes up, on hardware too)."""
    folder = beside("ascend-npu-utils==0.1.1")
    source = folder / "source"
    # The package wants a /bin/sh that knows `source`, which dash does not.
    source.write_text('#!/bin/sh\n. "$1"\n')
    source.chmod(0o755)
    environment = surroundings(folder, "Ascend310P3", 1)
    script = Path(environment["ASCEND_TOOLKIT_HOME"]).parent / "set_env.sh"
    code = (
        "from ascend_npu_utils.utils import AscendNPUUtils\n"
        f"tool = AscendNPUUtils({str(script)!r})\n"
        "devices, processes = tool.npu_smi()\n"
        "first = devices[0]\n"
        "print(len(devices), first['name'], first['health'], first['memory_usage_mb_total'], processes)\n"
    )
    text = shown([str(folder / "python"), "-c", code], environment)
    assert text.split() == ["1", "310P3", "OK", "24576", "[]"]
