"""The msprof command: an application's profile, as files."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cannlab.cli.app import call

PROGRAM = """
import acl
import numpy as np
import asc

@asc.jit
def double(x: asc.GlobalAddress, z: asc.GlobalAddress, count: asc.ConstExpr[int]):
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + asc.get_block_idx() * count)
    z_gm.set_global_buffer(z + asc.get_block_idx() * count)
    pipe = asc.TPipe()
    into = asc.TQue(asc.TPosition.VECIN, 1)
    out = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(into, 1, count * 4)
    pipe.init_buffer(out, 1, count * 4)
    a = into.alloc_tensor(asc.float32)
    asc.data_copy(a, x_gm, count=count)
    into.enque(a)
    a = into.deque(asc.float32)
    b = out.alloc_tensor(asc.float32)
    asc.add(b, a, a, count=count)
    out.enque(b)
    into.free_tensor(a)
    b = out.deque(asc.float32)
    asc.data_copy(z_gm, b, count=count)
    out.free_tensor(b)

acl.init()
acl.rt.set_device(0)
pointer, _ = acl.rt.malloc(4096, 0)
x = np.arange(4096, dtype=np.float32)
z = np.zeros_like(x)
double[4](x, z, 1024)
assert (z == 2 * x).all()
acl.rt.free(pointer)
acl.rt.reset_device(0)
acl.finalize()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("msprof") / "double.py"
    path.write_text(PROGRAM)
    return path


def msprof(*words: str, cwd: Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CANNLAB_SOC": "Ascend910B1"}
    command = [sys.executable, "-m", "cannlab", "msprof", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=cwd)


def table(folder: Path, name: str) -> list[dict[str, str]]:
    (path,) = folder.glob(f"mindstudio_profiler_output/{name}_*.csv")
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_program_with_calls_and_a_kernel(program, tmp_path) -> None:
    done = msprof("--output=out", "--task-memory=on", f'--application="{sys.executable}" {program}', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "out").glob("PROF_*")
    assert str(folder) in done.stdout
    assert {"acl.rt.malloc", "rtKernelLaunch"} <= {row["API Name"] for row in table(folder, "api_statistic")}
    (row,) = [row for row in table(folder, "op_summary") if row["Op Name"] == "double"]
    assert (row["Task Type"], row["Block Dim"]) == ("AI_VECTOR_CORE", "4")
    core = float(row["aiv_time(us)"])
    assert 0 < core <= float(row["Task Duration(us)"])
    for pipe in ("vec", "mte2", "mte3", "scalar"):
        time = float(row[f"aiv_{pipe}_time(us)"])
        assert 0 < time <= core
        assert float(row[f"aiv_{pipe}_ratio"]) == pytest.approx(time / core, abs=2e-3)
    assert row["aic_mac_time(us)"] == "N/A"
    assert table(folder, "memory_record")
    events = json.loads(next(folder.glob("mindstudio_profiler_output/msprof_*.json")).read_text())
    assert any(event["name"] == "double" for event in events)


def test_switches(program, tmp_path) -> None:
    words = ("--ascendcl=off", "--task-time=l0", "--aic-metrics=Memory")
    done = msprof("--output=out", *words, sys.executable, str(program), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "out").glob("PROF_*")
    names = {path.name.rpartition("_")[0] for path in folder.glob("mindstudio_profiler_output/*.csv")}
    assert "task_time" in names
    assert not {"api_statistic", "op_summary", "op_statistic"} & names
    sample = json.loads((folder / "device_0" / "sample.json").read_text())
    assert sample["aic_metrics"] == "Memory"


def test_tables_are_made_anew(program, tmp_path, capsys) -> None:
    assert msprof("--output=out", sys.executable, str(program), cwd=tmp_path).returncode == 0
    (folder,) = (tmp_path / "out").glob("PROF_*")
    before = {path.name: path.read_bytes() for path in folder.glob("mindstudio_profiler_output/*")}
    assert call(["msprof", "--export=on", f"--output={tmp_path / 'out'}"]) == 0
    assert "is there already" in capsys.readouterr().out
    for path in folder.glob("mindstudio_profiler_output/*"):
        path.unlink()
    (folder / "mindstudio_profiler_output").rmdir()
    assert call(["msprof", "--export=on", f"--output={folder}"]) == 0
    assert {path.name: path.read_bytes() for path in folder.glob("mindstudio_profiler_output/*")} == before


def test_a_failing_application_keeps_its_status(tmp_path) -> None:
    done = msprof("--output=out", sys.executable, "-c", "import acl; acl.init(); raise SystemExit(7)", cwd=tmp_path)
    assert done.returncode == 7
    assert len(list((tmp_path / "out").glob("PROF_*"))) == 1


def test_an_application_without_a_device(tmp_path) -> None:
    done = msprof("--output=out", sys.executable, "-c", "print(1)", cwd=tmp_path)
    assert done.returncode == 1
    assert "nothing was collected" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, ""),
        (["--help"], 0, ""),
        (["--output=x"], 2, "give a command"),
        (["--nonsense=1", "python"], 2, "no option --nonsense"),
        (["--output", "x"], 2, "needs a value"),
        (["--task-time=sometimes", "python"], 2, "one of on, off, l0, l1"),
        (["--application=a", "b"], 2, "not both"),
        (["--dynamic=on"], 1, "not emulated"),
        (["op", "--output=x", "python", "prog.py"], 1, "msprof op is not emulated yet"),
        (["--export=on", "--output=missing"], 1, "there is no PROF_ folder"),
        (["--output=out", "no-such-program"], 1, "cannot be run"),
    ],
)
def test_words(words, status, said, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(["msprof", *words]) == status
    assert said in capfd.readouterr().err
