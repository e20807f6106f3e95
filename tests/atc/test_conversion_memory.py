"""Conversion holds the weights at most three times."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_models as models
import pytest

PEAK = """
import sys
from pathlib import Path
from cannlab import atc
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
def convert(name):
    words = [f"--model={name}.onnx", "--framework=5", f"--output={name}", "--soc_version=Ascend310P3"]
    assert atc.main([*words, "--export_compile_stat=0"]) == 0
convert("small")
before = peak()
convert("large")
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_memory(tmp_path):
    def net(width):
        nodes = [
            node
            for n in range(4)
            for node in (
                models.node("Conv", [f"t{n}", f"w{n}"], [f"c{n}"], f"conv{n}", kernel_shape=[1, 1]),
                models.node("BatchNormalization", [f"c{n}", "one", "zero", "zero", "one"], [f"t{n + 1}"], f"bn{n}"),
            )
        ]
        constants = {f"w{n}": models.random(width, width, 1, 1, seed=n, scale=0.01) for n in range(4)}
        constants |= {"one": np.ones(width, np.float32), "zero": np.zeros(width, np.float32)}
        return models.model(nodes, {"t0": [1, width, 1, 1]}, {"t4": [1, width, 1, 1]}, constants)

    onnx.save(net(16), tmp_path / "small.onnx")
    onnx.save(net(2048), tmp_path / "large.onnx")
    size = (tmp_path / "large.onnx").stat().st_size
    assert size > 60e6
    done = subprocess.run([sys.executable, "-c", PEAK], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) <= 3 * size
