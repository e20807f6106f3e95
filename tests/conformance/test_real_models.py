"""Trained models through atc: each converted, run and compared with ONNX Runtime on the original."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import real_files
import signals
from onnx import numpy_helper

from cannlab import atc, om
from cannlab.atc import comparison
from cannlab.machine.executor import Model

FP32, FP16 = "must_keep_origin_dtype", "force_fp16"
WIDE, SATURATING = "Ascend910B1", "Ascend310P3"
"""A chip whose float16 has infinities, and one whose float16 stops at 65504."""
CASES = [(FP32, WIDE), (FP16, WIDE), (FP16, SATURATING)]


def convert(source, folder, *options, mode=FP16, shape="", soc=WIDE):
    """An om of a file or a model, ready to run."""
    if isinstance(source, onnx.ModelProto):
        onnx.save(source, folder / "model.onnx")
        source = folder / "model.onnx"
    words = [f"--model={source}", "--framework=5", f"--output={folder / 'model'}", f"--soc_version={soc}"]
    words += [f"--precision_mode={mode}", *([f"--input_shape={shape}"] if shape else []), *options]
    assert atc.main(words) == 0
    return Model(om.read(folder / "model.om", soc=soc))


def original(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# -- magika: what kind of file is it ----------------------------------------------------------------------------

FILES = {
    "python": b"import os\n\n\ndef main(path):\n    for name in sorted(os.listdir(path)):\n        print(name)\n\n\n"
    b"if __name__ == '__main__':\n    main('.')\n",
    "json": json.dumps({"name": "net", "sizes": [1, 2, 3], "nested": {"a": None, "b": True}}, indent=2).encode() * 3,
    "html": b"<!DOCTYPE html>\n<html><head><title>x</title></head><body><p>Hello</p></body></html>\n",
    "c": b'#include <stdio.h>\n\nint main(int argc, char **argv) {\n    printf("%d\\n", argc);\n    return 0;\n}\n',
}


def bytes_of(data):
    """The first and last 1024 bytes, stripped, with 256 where there are none."""
    first, last = data[:4096].lstrip()[:1024], data[-4096:].rstrip()[-1024:]
    return np.array([[*first, *[256] * (1024 - len(first)), *[256] * (1024 - len(last)), *last]], np.int32)


@pytest.mark.parametrize("soc", [WIDE, SATURATING])
def test_file_types(soc, tmp_path):
    file = real_files.MAGIKA.find()
    labels = json.loads((file.parent / "config.min.json").read_text())["target_labels_space"]
    session = original(file)
    norms = [node.name for node in onnx.load(file).graph.node if "LayerNorm" in node.name]
    (tmp_path / "norms.txt").write_text("\n".join(norms))
    shape = "bytes:1,2048"
    exact = convert(file, tmp_path, mode=FP32, shape=shape)
    right = {
        "cube in half": convert(file, tmp_path, mode="allow_fp32_to_fp16", shape=shape, soc=soc),
        "norms in float32": convert(file, tmp_path, "--keep_dtype=norms.txt", shape=shape, soc=soc),
    }
    if soc == WIDE:  # whose black list holds ReduceSum
        right["mixed"] = convert(file, tmp_path, mode="allow_mix_precision", shape=shape, soc=soc)
    half = convert(file, tmp_path, shape=shape, soc=soc)
    recognised = 0
    for kind, data in FILES.items():
        values = bytes_of(data)
        (wanted,) = session.run(None, {"bytes": values})
        recognised += labels[wanted.argmax()] == kind
        np.testing.assert_allclose(exact.run([values])[0][0], wanted, atol=1e-4)
        for name, running in right.items():
            (result,) = running.run([values])[0]
            assert result.argmax() == wanted.argmax(), name
            assert result.max() == pytest.approx(wanted.max(), abs=2e-3), name
        # A sum of squares in a normalisation is 3e5 here: infinite in fp16 or cut to 65504, so that every file looks
        # wrong. That is what force_fp16 alone does on the chip: the kernels of ReduceSum and SquareSumV1 add in float32
        # and give the sum in the type of their input, and no pass takes this form of a normalisation (mean of squares
        # less square of the mean) for a LayerNorm. The modes above are the cure.
        (lost,) = half.run([values])[0]
        assert lost.max() < 0.5
    assert recognised == len(FILES)
    told = comparison.compare(str(file), half.om, {"bytes": bytes_of(FILES["python"])})
    overflows = [layer for layer in told.layers if layer.cause and layer.cause.rule == "atc.layer_overflow"]
    assert [layer.op_type for layer in overflows] == ["ReduceSum"]
    assert "LayerNorm_1" in overflows[0].tensor


# -- silero-vad: is it speech -----------------------------------------------------------------------------------


def probabilities(run, signal):
    """Probability of speech for each frame; ``run(frame, state) -> probability, state``."""
    state = np.zeros((2, 1, 128), np.float32)
    found = []
    for frame in signals.frames(signal):
        probability, state = run(frame, state)
        found.append(float(np.asarray(probability).reshape(-1)[0]))
    return np.array(found)


def by_session(session, rate=signals.RATE):
    names = {item.name for item in session.get_inputs()}

    def run(frame, state):
        feeds = {"input": frame, "state": state, "sr": np.array(rate, np.int64)}
        return session.run(None, {name: feeds[name] for name in names})

    return run


def by_om(running, rate=signals.RATE):
    names = [tensor.name for tensor in running.om.inputs]

    def run(frame, state):
        feeds = {"input": frame, "state": state, "sr": np.array(rate, np.int64)}
        return running.run([feeds[name] for name in names])[0]

    return run


def heard(running, session):
    """The om hears the speech that the original hears, and in silence none."""
    signal = signals.speech()
    wanted = probabilities(by_session(session), signal)
    found = probabilities(by_om(running), signal)
    assert (wanted > 0.5).sum() > 40
    assert wanted[:10].max() < 0.1
    np.testing.assert_array_equal(found > 0.5, wanted > 0.5)
    np.testing.assert_allclose(found, wanted, atol=0.03)


FRAME = "input:1,576;state:2,1,128"


@pytest.mark.parametrize(("mode", "soc"), CASES)
def test_speech_with_a_branch_for_each_rate(mode, soc, tmp_path):
    file = real_files.VAD_ONE_IF.find()
    running = convert(file, tmp_path, mode=mode, shape=f"{FRAME};sr:", soc=soc)
    heard(running, original(file))
    assert {task.within.rpartition("/")[2] for task in running.om.tasks if task.within} == {"then", "else"}


def test_both_branches_run(tmp_path):
    file = real_files.VAD_ONE_IF.find()
    running = convert(file, tmp_path, mode=FP32, shape=f"{FRAME};sr:")
    session = original(file)
    frame = signals.frames(signals.speech())[30]
    state = np.zeros((2, 1, 128), np.float32)
    results = []
    for rate in (16000, 8000):
        got, wanted = by_om(running, rate)(frame, state), by_session(session, rate)(frame, state)
        np.testing.assert_allclose(got[0], wanted[0], atol=1e-5)
        results.append(float(got[0].reshape(-1)[0]))
    assert results[0] != results[1]


@pytest.mark.parametrize(("mode", "soc"), CASES)
def test_speech_with_recurrent_layer(mode, soc, tmp_path):
    file = real_files.VAD_16K.find()
    heard(convert(file, tmp_path, mode=mode, shape=f"{FRAME};sr:", soc=soc), original(file))


def test_speech_with_nested_branches(tmp_path, capsys):
    """With the rate as an input both branches would have to fit the frame; with the rate fixed one is left."""
    file = real_files.VAD.find()
    words = [f"--model={file}", "--framework=5", "--output=model", "--soc_version=Ascend910B1"]
    assert atc.main([*words, f"--input_shape={FRAME};sr:"]) == 255
    assert "E89999: " in capsys.readouterr().out
    fixed = onnx.load(file)
    fixed.graph.initializer.append(numpy_helper.from_array(np.array(signals.RATE), "sr"))
    running = convert(fixed, tmp_path, shape=FRAME)
    heard(running, original(file))
    assert not any(task.within for task in running.om.tasks)


def test_speech_from_a_static_model(tmp_path, capsys):
    """Its nodes share names, which ATC refuses."""
    file = real_files.VAD_STATIC.find()
    words = [f"--model={file}", "--framework=5", "--output=model", "--soc_version=Ascend910B1"]
    assert atc.main(words) == 255
    assert "E19009: " in capsys.readouterr().out
    renamed = onnx.load(file)
    for number, node in enumerate(renamed.graph.node):
        node.name = f"{node.op_type}_{number}"
    heard(convert(renamed, tmp_path), original(file))


# -- rapidocr: what does it say ------------------------------------------------------------------------------------

LINES = ("Hello World 2026", "Ascend 910B", "batch=8, size=224")


def read(scores, characters):
    """The text in the scores (1, steps, characters + 2): repeated ones are one, 0 is none."""
    best = scores[0].argmax(axis=1)
    kept = [index for index, before in zip(best, [0, *best], strict=False) if index not in (0, before)]
    return "".join(characters[index - 1] if index <= len(characters) else " " for index in kept)


@pytest.mark.parametrize(("mode", "soc"), CASES)
def test_reading(mode, soc, tmp_path):
    file = real_files.RECOGNITION.find()
    session = original(file)
    characters = session.get_modelmeta().custom_metadata_map["character"].splitlines()
    running = convert(file, tmp_path, mode=mode, shape="x:1,3,48,320", soc=soc)
    for line in LINES:
        image = signals.for_ocr(signals.text_image(line))
        (wanted,) = session.run(None, {"x": image})
        (result,) = running.run([image])[0]
        assert read(wanted, characters) == line
        assert read(result, characters) == line
        np.testing.assert_allclose(result, wanted, atol=1e-3 if mode == FP32 else 0.1)


@pytest.mark.parametrize(("mode", "soc"), CASES)
def test_upside_down(mode, soc, tmp_path):
    file = real_files.CLASSIFICATION.find()
    running = convert(file, tmp_path, mode=mode, shape="x:1,3,48,192", soc=soc)
    session = original(file)
    for line in LINES:
        upright = signals.text_image(line, width=192)
        for turned, image in enumerate((upright, upright[::-1, ::-1])):
            values = signals.for_ocr(image)
            (wanted,) = session.run(None, {"x": values})
            (result,) = running.run([values])[0]
            assert wanted.argmax() == result.argmax() == turned
            np.testing.assert_allclose(result, wanted, atol=1e-4 if mode == FP32 else 0.02)


@pytest.mark.parametrize(("mode", "soc"), CASES)
def test_where_the_text_is(mode, soc, tmp_path):
    file = real_files.DETECTION.find()
    running = convert(file, tmp_path, mode=mode, shape="x:1,3,192,384", soc=soc)
    page = np.full((192, 384, 3), 255, np.uint8)
    page[20:68, 16:336] = signals.text_image(LINES[0])
    page[110:158, 40:360] = signals.text_image(LINES[1])
    values = signals.for_ocr(page)
    (wanted,) = original(file).run(None, {"x": values})
    (result,) = running.run([values])[0]
    found, expected = result[0, 0] > 0.3, wanted[0, 0] > 0.3
    assert expected[20:68].any()
    assert expected[110:158].any()
    assert not expected[75:105].any()
    assert (found & expected).sum() / (found | expected).sum() > 0.97
    if mode == FP32:
        np.testing.assert_allclose(result, wanted, atol=1e-3)
