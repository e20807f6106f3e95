"""A program with helper classes of its own beside it (a resource, a model, pictures), run as it is by `cannlab run`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from cannlab import atc, trace

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "photo_program" / "main.py"
SOC = "Ascend310P3"
# BT.601, the wide range that a JPEG has: R = Y + 1.402 V, and so on, in 1/256.
AIPP = """aipp_op {
  aipp_mode: static input_format: YUV420SP_U8 src_image_size_w: 64 src_image_size_h: 64
  csc_switch: true
  matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359
  matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183
  matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
  input_bias_0: 0 input_bias_1: 128 input_bias_2: 128
}"""


def photographs() -> list[Path]:
    """Baseline JPEGs of the packages that are here: 640 x 427, 4:4:4, and one of 512 x 600, 4:2:0."""
    import matplotlib
    import sklearn.datasets

    folder = Path(sklearn.datasets.__file__).parent / "images"
    hopper = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    return [folder / "china.jpg", folder / "flower.jpg", hopper]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The mean of each of the channels R, G, B."""
    monkeypatch.chdir(tmp_path)
    given = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 64, 64])
    made = helper.make_tensor_value_info("means", TensorProto.FLOAT, [1, 3, 1, 1])
    graph = helper.make_graph([helper.make_node("GlobalAveragePool", ["image"], ["means"])], "net", [given], [made])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "net.onnx")
    Path("aipp.cfg").write_text(AIPP)
    words = ["--model=net.onnx", "--framework=5", "--output=net", f"--soc_version={SOC}", "--insert_op_conf=aipp.cfg"]
    assert atc.main(words) == 0
    return tmp_path / "net.om"


def run(model: Path, folder: Path, *words: str) -> tuple[str, trace.Record]:
    folder.mkdir()
    record = folder / "record.npz"
    command = [sys.executable, "-m", "cannlab", "run", "--soc", SOC, "--trace", str(record), str(PROGRAM), str(model)]
    photos = [str(path) for path in photographs()]
    done = subprocess.run(
        [*command, str(folder), *words, *photos], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, trace.Record.load(record)


def test_the_program_runs_as_it_is(model: Path, tmp_path: Path) -> None:
    text, record = run(model, tmp_path / "out")
    lines = [line.split() for line in text.splitlines()]
    assert [line[0] for line in lines] == ["china", "flower", "grace_hopper"]
    for (name, label, *means), path in zip(lines, photographs(), strict=True):
        image = Image.open(path).convert("RGB")
        wanted = np.asarray(image.resize((64, 64), Image.Resampling.BILINEAR)).reshape(-1, 3).mean(0)
        np.testing.assert_allclose([float(mean) for mean in means], wanted, atol=2.5, err_msg=name)
        assert label == ("red", "green", "blue")[int(np.argmax(wanted))]
        drawn = Image.open(tmp_path / "out" / f"{name}.png")
        assert drawn.size == (image.width + image.width % 2, image.height + image.height % 2)
        before, after = (np.asarray(one.resize((32, 32)), np.float32) for one in (image, drawn.convert("RGB")))
        assert np.abs(before - after).mean() < 8, name
    assert [fault["rule"] for fault in record.faults] == []
    assert record.leaks == []


@pytest.mark.skipif(
    importlib.util.find_spec("cv2") is None, reason="OpenCV is not installed: pip install opencv-python-headless"
)
def test_the_program_with_opencv(model: Path, tmp_path: Path) -> None:
    run(model, tmp_path / "out", "--cv2")
    drawn = np.asarray(Image.open(tmp_path / "out" / "china.png"))
    assert drawn.shape == (428, 640, 3)
