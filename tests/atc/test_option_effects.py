"""What options do beside the numbers of operators: files, layouts, costs, and where options may stand."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx_models as models
import pytest
from onnx import TensorProto, helper

from cannlab import atc, om
from cannlab.atc import options
from cannlab.machine.executor import Model
from cannlab.om import Format, OmError

BASE = ("--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3")
A2 = (*BASE[:3], "--soc_version=Ascend910B1")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CANNLAB_CANN", raising=False)
    monkeypatch.delenv("NPU_COLLECT_PATH", raising=False)
    onnx.save(models.residual(), "net.onnx")
    return tmp_path


@pytest.fixture
def code(capsys):
    """The code with which a command fails; nothing may be written."""

    def run(*words):
        assert atc.main(list(words)) == 255
        assert not Path("net.om").exists()
        return re.search(r"^(\w+): \[PID|\((\w+)\): ", capsys.readouterr().out, re.MULTILINE).group(1, 2)

    return lambda *words: next(filter(None, run(*words)))


def converted(*words):
    assert atc.main(list(words)) == 0
    return om.read("net.om")


def ran(model, *inputs):
    return Model(model).run(list(inputs))[0]


# -- weights beside the om ----------------------------------------------------------


def large():
    """Three weights above what stays in the graph; two of them are equal."""
    weight = models.random(16, 16, 3, 3, seed=4, scale=0.1)
    nodes = [
        models.node("Conv", ["x", "a"], ["h"], "first", pads=[1] * 4),
        models.node("Conv", ["h", "b"], ["i"], "second", pads=[1] * 4),
        models.node("Conv", ["i", "c"], ["y"], "third", pads=[1] * 4),
    ]
    constants = {"a": weight, "b": weight.copy(), "c": models.random(16, 16, 3, 3, seed=5, scale=0.1)}
    return models.model(nodes, {"x": [1, 16, 8, 8]}, {"y": [1, 16, 8, 8]}, constants)


@pytest.mark.parametrize("where", ["1", "2"])
def test_weights_in_files(where, capsys):
    onnx.save(large(), "net.onnx")
    x = models.random(1, 16, 8, 8)
    inside = converted(*BASE)
    wanted = ran(inside, x)[0]
    size = Path("net.om").stat().st_size
    outside = converted(*BASE, f"--external_weight={where}")
    np.testing.assert_array_equal(ran(outside, x)[0], wanted)
    files = sorted(file.name for file in Path("weight").iterdir())
    if where == "1":
        assert len(files) == 2
        assert all(re.fullmatch(r"weight_[0-9a-f]{64}", name) for name in files)
    else:
        assert files == ["net_weight_combined"]
    assert size - Path("net.om").stat().st_size > 0.8 * outside.weight_size
    assert atc.main(["--mode=6", "--om=net.om"]) == 0
    shown = capsys.readouterr().out
    assert f"weight_size[{inside.weight_size} B]" in shown
    assert "weight_data_size[0 B]" in shown


@pytest.mark.parametrize("where", ["1", "2"])
def test_weights_that_are_missing_or_damaged(where):
    onnx.save(large(), "net.onnx")
    converted(*BASE, f"--external_weight={where}")
    with pytest.raises(OmError) as from_memory:
        om.read(Path("net.om").read_bytes())
    assert from_memory.value.code == 545003
    file = next(iter(Path("weight").iterdir()))
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(OmError) as damaged:
        om.read("net.om")
    assert damaged.value.code == 545003
    file.unlink()
    with pytest.raises(OmError) as missing:
        om.read("net.om")
    assert missing.value.code == 545003
    assert file.name in str(missing.value.diagnosis.what)


def test_weights_of_gears_in_files():
    onnx.save(models.residual(), "net.onnx")
    words = ("--input_shape=x:-1,4,6,6", "--dynamic_batch_size=1,2")
    x = models.random(2, 4, 6, 6)
    wanted = Model(converted(*BASE, *words)).run([x, np.array([2], np.int32)], gear=1)[0][0]
    got = Model(converted(*BASE, *words, "--external_weight=1")).run([x, np.array([2], np.int32)], gear=1)[0][0]
    np.testing.assert_array_equal(got, wanted)


def test_bad_values_of_external_weight(code):
    assert code(*BASE, "--external_weight=true") == "E10006"


# -- the model as it was ----------------------------------------------------------


def test_original_model():
    converted(*BASE, "--save_original_model=true")
    assert atc.main(["--mode=1", "--om=net_original.om", "--json=net.json"]) == 0
    (graph,) = json.loads(Path("net.json").read_text())["graph"]
    assert [item["type"] for item in graph["op"]] == [node.op_type for node in models.residual().graph.node]
    with pytest.raises(OmError) as refused:
        om.read("net_original.om", soc="Ascend310P3")
    assert refused.value.code == 545004


def test_no_original_model_by_default(code):
    converted(*BASE)
    assert not Path("net_original.om").exists()
    Path("net.om").unlink()
    assert code(*BASE, "--save_original_model=1") == "E10005"


# -- kernels ----------------------------------------------------------


def kept():
    return {file.name: json.loads(file.read_text()) for file in Path("kernel_meta").glob("*.json")}


def settings(described):
    return {item["key"]: item["value"].get("list", {}).get("s") for item in described["attr"]}


def test_debug_configuration():
    Path("debug.cfg").write_text("# all of them\nop_debug_config = ccec_g, oom\n")
    made = converted(*BASE, "--op_debug_config=debug.cfg")
    found = kept()
    assert len(found) == len(made.tasks)
    assert all(settings(item)["compile_options"] == ["ccec_g", "oom"] for item in found.values())


def test_debug_configuration_of_some_operators():
    Path("debug.cfg").write_text("op_debug_config=dump_cce\nop_debug_list=relu1,OpType::TransData\n")
    made = converted(*BASE, "--op_debug_config=debug.cfg")
    names = {item["name"] for item in kept().values()}
    wanted = {task.name for task in made.tasks if "relu1" in task.nodes or task.op_type == "TransData"}
    assert names == wanted
    assert 1 < len(wanted) < len(made.tasks)


def test_compiler_options_alone_keep_nothing(capsys):
    Path("debug.cfg").write_text("op_debug_config=ccec_O0,faster\n")
    converted(*BASE, "--op_debug_config=debug.cfg", "--log=warning")
    assert not Path("kernel_meta").exists()
    assert "faster" in capsys.readouterr().out


def test_bad_debug_configurations(code, monkeypatch):
    for text in ("op_debug_config\n", "op_debug_config=\n", "op_debug_config=oom\nop_debug_list\n"):
        Path("debug.cfg").write_text(text)
        assert code(*BASE, "--op_debug_config=debug.cfg") == "E20003"
    assert code(*BASE, "--op_debug_config=none.cfg") == "E19000"
    Path("debug.cfg").write_text("op_debug_config=oom\n")
    monkeypatch.setenv("NPU_COLLECT_PATH", "somewhere")
    assert code(*BASE, "--op_debug_config=debug.cfg") == "E10055"


def test_status_check(code):
    assert code(*A2, "--status_check=1") == "E10055"
    converted(*BASE, "--status_check=1", "--op_debug_level=1")
    assert all(settings(item)["status_check"] == ["1"] for item in kept().values())
    converted(*A2, "--status_check=0")


def test_built_kernels_are_not_compiled(capsys):
    converted(*BASE, "--jit_compile=0", "--op_debug_level=3")
    assert not Path("kernel_meta").exists()
    converted(*BASE, "--jit_compile=2", "--op_debug_level=3")
    count = len(kept())
    assert count
    for file in Path("kernel_meta").iterdir():
        file.unlink()
    converted(*BASE, "--jit_compile=2", "--op_debug_level=3", "--input_shape=x:1~4,4,6,6")
    assert not kept()


def test_cache_of_kernels(capsys, folder):
    words = (*BASE, "--op_compiler_cache_mode=enable", "--op_compiler_cache_dir=cache", "--log=info")

    def counts(*more):
        made = converted(*words, *more)
        found = re.search(r"(\d+) kernels taken from the cache, (\d+) compiled", capsys.readouterr().out)
        return made, found and tuple(map(int, found.groups()))

    made, first = counts()
    assert first == (0, len(made.tasks))
    assert counts()[1] == (len(made.tasks), 0)
    assert counts("--op_compiler_cache_mode=force")[1] == (0, len(made.tasks))
    assert counts("--op_debug_level=1")[1] is None
    assert len(list(Path("cache/kernel_cache/Ascend310P3").iterdir())) == len(made.tasks)
    settings = Path("cache/op_cache.ini")
    assert "max_op_cache_size=500" in settings.read_text()
    settings.write_text("[op_compiler_cache]\nmax_op_cache_size=0\nremain_cache_size_ratio=50\n")
    counts()
    assert not list(Path("cache/kernel_cache/Ascend310P3").iterdir())
    converted(*BASE, "--op_compiler_cache_mode=enable")
    assert (folder / "home" / "atc_data" / "op_cache.ini").exists()


def test_cache_that_cannot_be_written(capsys):
    Path("cache").write_text("a file")
    words = [*BASE, "--op_compiler_cache_mode=enable", "--op_compiler_cache_dir=cache"]
    assert atc.main(words) == 255
    assert "E19" in capsys.readouterr().out


# -- layouts ----------------------------------------------------------


def five(values):
    """NCHW -> NC1HWC0."""
    images, channels, height, width = values.shape
    filled = np.zeros((images, -(-channels // 16) * 16, height, width), np.float16)
    filled[:, :channels] = values
    return np.ascontiguousarray(filled.reshape(images, -1, 16, height, width).transpose(0, 1, 3, 4, 2))


@pytest.mark.parametrize("mode", ["force_fp16", "allow_fp32_to_fp16"])
def test_layouts_of_the_hardware(mode):
    x = models.random(1, 4, 6, 6)
    plain = converted(
        *A2, f"--precision_mode={mode}", "--input_fp16_nodes=x", "--out_nodes=relu1:0", "--output_type=FP16"
    )
    (wanted,) = ran(plain, x.astype(np.float16))
    words = ("--input_fp16_nodes=x", "--is_input_adjust_hw_layout=true")
    words += ("--out_nodes=relu1:0", "--is_output_adjust_hw_layout=true")
    made = converted(*A2, f"--precision_mode={mode}", *words)
    assert [(tensor.dims, tensor.format, tensor.type.name) for tensor in (*made.inputs, *made.outputs)] == [
        ((1, 1, 6, 6, 16), Format.NC1HWC0, "float16"),
        ((1, wanted.shape[1] // -16 * -1, 6, 6, 16), Format.NC1HWC0, "float16"),
    ]
    assert made.outputs[0].name.startswith("relu1:0:")
    (got,) = ran(made, five(x))
    np.testing.assert_array_equal(got, five(wanted))
    count = [sum(task.op_type == "TransData" for task in model.tasks) for model in (made, plain)]
    assert count[0] < count[1]


def test_layouts_alone_do_nothing(code):
    reference = converted(*A2)
    made = converted(*A2, "--is_input_adjust_hw_layout=true", "--is_output_adjust_hw_layout=true")
    assert (made.tasks, made.inputs, made.outputs) == (reference.tasks, reference.inputs, reference.outputs)
    Path("net.om").unlink()
    assert code(*A2, "--is_input_adjust_hw_layout=true,yes") == "E10005"
    assert code(*A2, "--out_nodes=relu1:0;relu2:0", "--is_output_adjust_hw_layout=true") == "E10001"


# -- costs ----------------------------------------------------------


def quantised(sparse):
    weight = np.arange(1, 1 + 8 * 16 * 9, dtype=np.int64).reshape(8, 16, 3, 3) % 100 + 1
    if sparse:
        weight[:, 1::4] = weight[:, 2::4] = 0
    nodes = [
        models.node("AscendQuant", ["x"], ["q"], "quant", scale=40.0, offset=0.0),
        models.node("Conv", ["q", "w"], ["i"], "conv", kernel_shape=[3, 3]),
        models.node("AscendDequant", ["i", "s"], ["y"], "dequant"),
    ]
    scale = np.array([np.float32(0.01).view(np.uint32)], np.uint64)
    made = models.model(nodes, {"x": [1, 16, 8, 8]}, {"y": [1, 8, 6, 6]}, {"w": weight.astype(np.int8), "s": scale})
    return made


def test_sparse_products(code):
    assert code(*BASE, "--sparsity=1") == "E10055"
    x = models.random(1, 16, 8, 8)
    for sparse in (True, False):
        onnx.save(quantised(sparse), "net.onnx")
        dense, made = converted(*A2), converted(*A2, "--sparsity=1")
        products = [next(task for task in model.tasks if "conv" in task.nodes) for model in (dense, made)]
        assert [task.op_type for task in products] == ["Conv2D", "Conv2DCompress" if sparse else "Conv2D"]
        assert (products[0].cost.macs == 2 * products[1].cost.macs) is sparse
        assert (products[0].cost.bytes_weights > products[1].cost.bytes_weights) is sparse
        np.testing.assert_array_equal(ran(made, x)[0], ran(dense, x)[0])


def test_vector_cores(code):
    assert code(*BASE, "--core_type=VectorCore") == "EZ3003"
    assert code(*A2, "--core_type=VectorCore") == "E10055"
    made = models.model([models.node("Relu", ["x"], ["y"], "relu")], {"x": [64, 64]}, {"y": [64, 64]})
    onnx.save(made, "net.onnx")
    compiled = converted(*BASE, "--core_type=VectorCore")
    assert {task.core_type for task in compiled.tasks} == {"AI_VECTOR_CORE"}
    assert {task.core_type for task in converted(*BASE).tasks} == {"AI_CORE"}


# -- optimisation of the graph ----------------------------------------------------------


def test_constants_are_left_alone():
    nodes = [
        models.node("Mul", ["a", "b"], ["c"], "known"),
        models.node("Add", ["x", "c"], ["y"], "add"),
    ]
    values = {"a": np.arange(4, dtype=np.float32), "b": np.full(4, 2, np.float32)}
    onnx.save(models.model(nodes, {"x": [4]}, {"y": [4]}, values), "net.onnx")
    folded, left = converted(*BASE), converted(*BASE, "--oo_constant_folding=false")
    assert [{"known"} <= {name for task in model.tasks for name in task.nodes} for model in (folded, left)] == [
        False,
        True,
    ]
    x = models.random(4)
    for model in (folded, left):
        np.testing.assert_allclose(ran(model, x)[0], x + 2 * np.arange(4), atol=5e-3)


def test_a_known_condition_is_kept():
    def branch(op_type):
        node = helper.make_node(op_type, ["x"], [f"{op_type}_y"], op_type)
        info = helper.make_tensor_value_info(f"{op_type}_y", TensorProto.FLOAT, [4])
        return helper.make_graph([node], op_type, [], [info])

    choice = helper.make_node("If", ["c"], ["y"], "if", then_branch=branch("Relu"), else_branch=branch("Neg"))
    onnx.save(models.model([choice], {"x": [4]}, {"y": [4]}, {"c": np.array(True)}), "net.onnx")
    chosen, kept = converted(*A2), converted(*A2, "--oo_dead_code_elimination=false")
    assert not any(task.within for task in chosen.tasks)
    assert {task.within for task in kept.tasks if task.within} == {"if/then", "if/else"}
    x = np.array([-1, 2, -3, 4], np.float32)
    for model in (chosen, kept):
        np.testing.assert_array_equal(ran(model, x)[0], np.maximum(x, 0))


# -- GE's own names ----------------------------------------------------------


@pytest.fixture
def current(monkeypatch):
    monkeypatch.setenv("CANNLAB_CANN", "current")


def raw(**levels):
    Path("raw.json").write_text(json.dumps({"compile options": levels}))


RAW = "--raw_ge_options=raw.json"


def test_options_under_the_names_of_ge(current):
    raw(**{"global": {"ge.exec.precision_mode_v2": "origin", "ge.aicoreNum": "2"}, "graph": {"ge.aicoreNum": "3"}})
    made = converted(*A2, RAW)
    assert made.precision_mode == "must_keep_origin_dtype"
    assert made.chip["cores"] == 3
    assert converted(*A2, RAW, "--aicore_num=4").chip["cores"] == 4
    assert all(len(value) for value in (option.ge for option in options.table().values()) if value)


def test_bad_options_under_the_names_of_ge(current, code):
    raw(session={"ge.exec.precision_mode_v2": "fp17"})
    assert code(*A2, RAW) == "E10001"
    raw(session={"ge.socVersion": "Ascend310P3"})
    assert code(*A2[:3], RAW) == "E10001"
    raw(graph={"ge.graphRunMode": "1"})
    assert code(*A2, RAW) == "E10055"
    converted(*A2, RAW, "--raw_ge_options_ignore_unsupported=true")
    Path("net.om").unlink()
    for content in ("[]", "{}", '{"compile options": {"all": {}}}', '{"compile options": {"graph": {"log": 1}}}', "{"):
        Path("raw.json").write_text(content)
        assert code(*A2, RAW) == "E19999"


# -- the file of the om ----------------------------------------------------------


def test_compressed_description(current):
    small, plain = converted(*A2), Path("net.om").stat().st_size
    large = converted(*A2, "--enable_attr_compression=FALSE")
    assert plain < Path("net.om").stat().st_size
    assert (small.tasks, bytes(small.graph_bytes)) == (large.tasks, bytes(large.graph_bytes))
    assert (small.compressed, large.compressed) == (True, False)
    x = models.random(1, 4, 6, 6)
    np.testing.assert_array_equal(ran(small, x)[0], ran(large, x)[0])


# -- what is checked and changes nothing ----------------------------------------------------------

CALIBRATION = """
enable_first_layer_quantization: true
calibration:
{
    input_data_dir: ./data.bin,d2.bin
    input_shape: in:16,16;in1:16,16
    infer_soc: Ascend310P3
    log: info
}
"""


def test_compression(code):
    Path("c.cfg").write_text(CALIBRATION)
    converted(*BASE, "--compression_optimize_conf=c.cfg")
    Path("net.om").unlink()
    words = (*A2, "--compression_optimize_conf=c.cfg")
    assert code(*words, "--precision_mode_v2=origin") == "E10047"
    for before, after in (("infer_soc", "infer_chip"), ("true", "yes"), ("log: info", "log info")):
        Path("c.cfg").write_text(CALIBRATION.replace(before, after))
        assert code(*words) == "E20003"


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("--multi_stream_parallel_mode=cv", ""),
        ("--multi_stream_parallel_mode=LoadBalance:64", ""),
        ("--multi_stream_parallel_mode=LoadBalance:65", "E10001"),
        ("--multi_stream_parallel_mode=MainStream:0", "E10001"),
        ("--h2d_overlapped_with_compute=44,64,68", ""),
        ("--h2d_overlapped_with_compute=,44", ""),
        ("--h2d_overlapped_with_compute=64,44", "E10001"),
        ("--static_model_ops_lower_limit=-1", ""),
        ("--static_model_ops_lower_limit=-2", "E10001"),
        ("--enable_attr_compression=2", "E10005"),
    ],
)
def test_grammar(word, wanted, current, code):
    if wanted:
        assert code(*A2, word) == wanted
    else:
        converted(*A2, word)


def test_exclusions(current, code):
    Path("conf").write_text("conv1\n")
    converted(*A2, "--enable_compress_weight=false", "--compress_weight_conf=conf")
    Path("net.om").unlink()
    assert code(*A2, "--enable_compress_weight=true", "--compress_weight_conf=conf") == "E10047"
    assert code(*A2, "--enable_single_stream=true", "--multi_stream_parallel_mode=cv") == "E10047"
