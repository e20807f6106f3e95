"""The command: grammar, console, codes, files. Codes are checked, never the wording."""

import errno
import io
import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import onnx_models as models
import pytest
from onnx import TensorProto

from cannlab import atc, om
from cannlab.atc import options
from cannlab.errors import tables

BASE = ("--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with net.onnx, a residual network with input x of 1,4,6,6."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)
    monkeypatch.delenv("CANNLAB_CANN", raising=False)
    onnx.save(models.residual(), "net.onnx")
    return tmp_path


@pytest.fixture
def fails(capsys, folder):
    """Run a command that must fail: its code, and that nothing was written."""

    def run(*words):
        before = sorted(item.name for item in folder.iterdir())
        assert atc.main(list(words)) == 255
        text = capsys.readouterr().out
        lines = text.splitlines()
        assert lines[0] == "ATC start working now, please wait for a moment."
        assert lines[1] == "..."
        assert lines[2].startswith("ATC run failed, Please check the detail log")
        assert "Traceback" not in text
        # A model that the check before parsing refuses leaves its report, as on the real toolkit.
        assert sorted(item.name for item in folder.iterdir() if item.name != "check_result.json") == before
        return re.search(r"^(\w+): \[PID", "\n".join(lines[3:5]), re.MULTILINE).group(1)

    return run


# -- console -------------------------------------------------------------------------------------------


def test_success(capsys):
    assert atc.main(list(BASE)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ATC start working now, please wait for a moment.",
        "...",
        "ATC run success, welcome to the next use.",
    ]
    assert Path("net.om").exists()


def test_error_block(capsys):
    atc.main([*BASE, "--input_shape=images:1,4,6,6"])
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"E10016: \[PID: \d+\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} .*\[images\]", lines[3])
    assert lines[4].startswith("        Possible Cause: ")
    assert lines[-1].startswith("        Solution: ")


def test_inner_codes_have_a_banner(capsys):
    assert atc.main([*BASE, "--out_nodes=c1"]) == 255
    lines = capsys.readouterr().out.splitlines()
    assert lines[3] == "E19999: Internal Error!"
    assert lines[4].startswith("E19999: [PID: ")


def test_help(capsys):
    for word in ("--help", "-h", "-help"):
        assert atc.main([word]) == 0
        out = capsys.readouterr().out
        assert out.startswith("ATC start working now")
        assert "--soc_version" in out
        assert "--dynamic_batch_size" in out


def test_log_lines(capsys):
    assert atc.main([*BASE, "--log=debug"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[")]
    pattern = r'\[(DEBUG|INFO)\] GE\(\d+,atc\.bin\):\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} \[\w+\]\d+ \w+: ".*"'
    assert lines
    assert all(re.fullmatch(pattern, line) for line in lines)
    first = Path("net.om").read_bytes()
    assert atc.main([*BASE, "--log=debug"]) == 0
    assert Path("net.om").read_bytes() == first


def test_ai_cpu_warning(capsys, tmp_path):
    made = models.model([models.node("Round", ["x"], ["y"], "slow")], {"x": [4]}, {"y": [4]}, dtype=TensorProto.DOUBLE)
    compiled = models.convert(made, tmp_path)
    assert [task.core_type for task in compiled.tasks] == ["AI_CPU"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "ATC run success, welcome to the next use."
    assert lines[-1].startswith("W11001: ")
    assert "slow" in lines[-1]


# -- grammar -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "net.onnx", "--framework", "5", "--output", "net", "--soc_version", "Ascend310P3"],
        ["-model=net.onnx", "-framework=5", "-output=net", "-soc_version=Ascend310P3"],
        ["--model=net.onnx", "--framework=5", "--output=net", "--soc-version=Ascend310P3", "--input-format=NCHW"],
        [*BASE, "--input_shape", "x:1,4,6,6", "--output_type", "FP32"],
        ["--model=nothing.onnx", *BASE],
    ],
)
def test_ways_to_write_options(words):
    assert atc.main(words) == 0
    assert om.read("net.om").command == " ".join(["atc", *words])


def test_what_the_real_converter_refuses(capsys, monkeypatch):
    monkeypatch.setenv("CANNLAB_CANN", "current")
    Path("some.json").write_text("{}")
    codes = {
        "auto_tune_mode": "E10001",
        "input_hint_shape": "E10055",
        "cluster_config": "E10055",
        "hccl_sub_comm_config": "E10055",
    }
    refused = {name for name, option in options.table().items() if option.effect is options.Effect.REFUSED}
    assert refused == codes.keys()
    for name, code in codes.items():
        assert atc.main([*BASE, f"--{name}=some.json"]) == 255
        assert f"({code}): " in capsys.readouterr().out
        assert not Path("net.om").exists()
    atc.main([*BASE, "--cluster_config=none.json"])
    assert "(E13000): " in capsys.readouterr().out


def test_options_without_effect_say_so_once_and_are_few(capsys):
    table = options.table()
    idle = [option for option in table.values() if option.effect is options.Effect.NONE]
    assert len(idle) * 4 <= len(table)
    foreign = [option for option in table.values() if option.effect is options.Effect.ONNX]
    assert {option.name for option in foreign} == {"weight", "op_name_map", "enable_scope_fusion_passes"}
    assert all(option.reason for option in idle + foreign)
    plain = (*BASE, "--log=info")
    assert atc.main(list(plain)) == 0
    assert "has no effect" not in capsys.readouterr().out
    reference = om.read("net.om")
    Path("some.file").write_text("enable_first_layer_quantization: true")
    for option in idle + foreign:
        if not option.present:
            continue
        value = {"file": "some.file"}.get(option.kind) or next(iter(option.values), "0")
        assert atc.main([*plain, f"--{option.name}={value}"]) == 0
        out = capsys.readouterr().out
        said = "has no effect here: " if option in idle else "is ignored for an ONNX model: "
        assert out.count(f"--{option.name} {said}") == 1
        made = om.read("net.om")
        assert (made.tasks, bytes(made.graph_bytes)) == (reference.tasks, bytes(reference.graph_bytes))


def test_deprecated_options_are_named(capsys):
    words = [*BASE, "--op_select_implmode=high_precision", "--log=warning"]
    assert atc.main(words) == 0
    assert "--op_select_implmode is deprecated: use --op_precision_mode" in capsys.readouterr().out


def test_options_of_a_later_cann_are_unknown(fails, monkeypatch):
    words = (*BASE, "--optimization_switch=TbeConv2DReluv2Pass:off")
    assert fails(*words) == "E10001"
    monkeypatch.setenv("CANNLAB_CANN", "current")
    assert atc.main(list(words)) == 0


def test_options_of_the_reference_are_known():
    known = (
        "model weight om framework output soc_version input_shape input_shape_range input_format dynamic_batch_size "
        "dynamic_image_size dynamic_dims out_nodes output_type input_fp16_nodes insert_op_conf precision_mode "
        "precision_mode_v2 modify_mixlist keep_dtype customize_dtypes op_precision_mode op_select_implmode "
        "optypelist_for_implmode fusion_switch_file enable_small_channel buffer_optimize op_debug_level "
        "op_compiler_cache_mode op_compiler_cache_dir disable_reuse_memory log core_type aicore_num virtual_type "
        "deterministic is_weight_clip external_weight oo_level jit_compile export_compile_stat singleop check_report "
        "json mode dump_mode display_model_info host_env_os host_env_cpu mdl_bank_path op_bank_path debug_dir "
        "op_name_map compression_optimize_conf enable_scope_fusion_passes enable_single_stream atomic_clean_policy "
        "topo_sorting_mode status_check sparsity cluster_config"
    )
    assert set(known.split()) <= set(options.table())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([*BASE, "--no_such_option=1"], "E10001"),
        ([*BASE, "--Model=net.onnx"], "E10001"),
        ([*BASE, "stray"], "E10001"),
        ([*BASE, "--"], "E10001"),
        ([*BASE, "--input_shape"], "E10004"),
        ([*BASE, "--input_shape", "--log=info"], "E10004"),
        ([], "E10004"),
        (["--model=", *BASE[1:]], "E10004"),
        (BASE[1:], "E10004"),
        ((BASE[0], *BASE[2:]), "E10007"),
        ((*BASE, "--framework=7"), "E10007"),
        ((*BASE, "--framework=onnx"), "E10007"),
        ((*BASE, "--framework=3"), "E10041"),
        ((*BASE[:2], BASE[3]), "E10004"),
        (BASE[:3], "E10054"),
        ((*BASE, "--soc_version="), "E10054"),
        ((*BASE, "--soc_version=310P3"), "E10001"),
        ((*BASE, "--soc_version=Ascend310P"), "E10001"),
        ((*BASE, "--log=verbose"), "E10010"),
        ((*BASE, "--precision_mode=fp16"), "E10001"),
        ((*BASE, "--precision_mode=force_fp16", "--precision_mode_v2=fp16"), "E10056"),
        ((*BASE, "--precision_mode=allow_mix_precision_bf16"), "E10001"),
        ((*BASE, "--precision_mode_v2=mixed_hif8"), "E10001"),
        ((*BASE, "--is_weight_clip=true"), "E10006"),
        ((*BASE, "--input_format=NHWC"), "E10001"),
        ((*BASE, "--output_type=HALF"), "E10001"),
        ((*BASE, "--output_type=relu2:0:FP16"), "E10001"),
        ((*BASE, "--mode=2"), "E10001"),
        ((*BASE, "--mode=30"), "E10055"),
        ((*BASE, "--input_shape=x:0,4,6,6"), "E10011"),
        ((*BASE, "--input_shape=x:-2,4,6,6"), "E10011"),
        ((*BASE, "--input_shape=x:4~1,4,6,6"), "E10002"),
        ((*BASE, "--enable_single_stream=1"), "E10005"),
        ((*BASE, "--sparsity=true"), "E10006"),
        ((*BASE, "--aicore_num=0"), "E10001"),
        ((*BASE, "--aicore_num=9"), "E10001"),
        ((*BASE, "--host_env_os=windows"), "E10001"),
        ((*BASE, "--singleop=net.onnx"), "E10047"),
        ((*BASE, "--optypelist_for_implmode=Relu"), "E10001"),
        ((*BASE, "--weight=none.bin"), "E19000"),
        ((*BASE, "--input_shape=x:1.0,4,6,6"), "E10002"),
        ((*BASE, "--input_shape=1,4,6,6"), "E10002"),
        ((*BASE, "--input_shape=x[1,4,6,6]"), "E10002"),
        ((*BASE, "--input_shape=x:1,4,6,6;x:1,4,6,6"), "E10002"),
        ((*BASE, "--input_shape=x:4,6,6"), "E10049"),
        ((*BASE, "--input_shape=images:1,4,6,6"), "E10016"),
        ((*BASE, "--input_shape=X:1,4,6,6"), "E10016"),
        ((*BASE, "--input_shape=conv1:1,4,6,6"), "E10017"),
        ((*BASE, "--input_shape=x:1,5,6,6"), "E89999"),
        ((*BASE, "--input_fp16_nodes=images"), "E10016"),
        ((*BASE, "--input_fp16_nodes=conv1"), "E10017"),
        ((*BASE, "--out_nodes=nothing:0"), "E10016"),
        ((*BASE, "--out_nodes=conv1"), "E11017"),
        ((*BASE, "--out_nodes=conv1:1"), "E11016"),
        ((*BASE, "--out_nodes=c1"), "E19999"),
        ((*BASE, "--fusion_switch_file=none.cfg"), "E19000"),
        (["--mode=6"], "E10004"),
        (["--mode=1", "--om=net.onnx", "--framework=5"], "E10004"),
        (["--mode=6", "--om=none.om"], "145002"),
        (["--mode=6", "--om=net.onnx"], "545001"),
    ],
)
def test_codes_of_options(words, code, fails):
    assert fails(*words) == code


def test_symbolic_input_needs_a_shape(fails):
    made = models.model([models.node("Relu", ["x"], ["y"])], {"x": ["n", 4]}, {"y": ["n", 4]})
    onnx.save(made, "net.onnx")
    assert fails(*BASE) == "E10011"
    assert atc.main([*BASE, "--input_shape=x:3,4"]) == 0


def test_codes_of_the_current_release(capsys, monkeypatch):
    monkeypatch.setenv("CANNLAB_CANN", "current")
    onnx.save(models.conv_bn_relu(19), "net.onnx")
    assert atc.main(list(BASE)) == 255
    line = capsys.readouterr().out.splitlines()[3]
    assert re.match(r"\[PID: \d+\] \S+ .*\(E13010\): ", line)


# -- selection of inputs, outputs, types -----------------------------------------------------------------


def test_out_nodes(tmp_path):
    assert atc.main([*BASE, "--out_nodes=relu1:0;y", "--output_type=relu1:0:FP16"]) == 0
    compiled = om.read("net.om")
    assert [(tensor.name, tensor.type.name) for tensor in compiled.outputs] == [
        ("relu1:0:r1", "float16"),
        ("relu2:0:y", "float32"),
    ]
    x = models.random(1, 4, 6, 6)
    first, second = models.run(compiled, x)
    assert first.dtype == np.float16
    np.testing.assert_allclose(second, models.reference(models.residual(), x)[0], atol=2e-2)


def test_out_nodes_drop_what_is_not_needed():
    assert atc.main([*BASE, "--out_nodes=conv1:0"]) == 0
    assert [task.name for task in om.read("net.om").tasks if task.op_type == "Conv2D"] == ["conv1"]


def test_integer_output_type():
    made = models.model([models.node("Relu", ["x"], ["y"])], {"x": [4]}, {"y": [4]})
    onnx.save(made, "net.onnx")
    assert atc.main([*BASE, "--output_type=UINT8"]) == 0
    (got,) = models.run(om.read("net.om"), np.array([-3, 0, 7, 200], np.float32))
    np.testing.assert_array_equal(got, np.array([0, 0, 7, 200], np.uint8))


def test_another_batch():
    assert atc.main([*BASE, "--input_shape=x:3,4,6,6"]) == 0
    assert om.read("net.om").outputs[0].dims == (3, 4, 6, 6)


def test_precision_v2_names():
    for v2, v1 in (("fp16", "force_fp16"), ("origin", "must_keep_origin_dtype"), ("cube_fp16in_fp32out", "force_fp32")):
        assert atc.main([*BASE[:3], "--soc_version=Ascend910B1", f"--precision_mode_v2={v2}"]) == 0
        assert om.read("net.om").precision_mode == v1


def test_origin_types_need_a_kernel(fails):
    assert fails(*BASE, "--precision_mode=must_keep_origin_dtype") == "EZ3002"


# -- the model ---------------------------------------------------------------------------------------------


def save(nodes, inputs=None, outputs=None, constants=None, **more):
    onnx.save(models.model(nodes, inputs or {"x": [2, 4]}, outputs or {"y": [2, 4]}, constants, **more), "net.onnx")


def test_unsupported_operators_are_all_listed(fails, capsys):
    save(
        [models.node("MyOp", ["x"], ["a"], "first"), models.node("QuantizeLinear", ["a", "s"], ["y"], "second")],
        constants={"s": np.array(1, np.float32)},
    )
    assert fails(*BASE) == "E19010"
    atc.main(list(BASE))
    out = capsys.readouterr().out
    assert "ai.onnx::13::MyOp" in out
    assert "ai.onnx::13::QuantizeLinear" in out
    assert "opset is newer" not in out


@pytest.mark.parametrize(("opset", "works"), [(7, False), (8, True), (11, True), (17, True), (18, True), (19, False)])
def test_opsets(opset, works):
    onnx.save(models.conv_bn_relu(opset), "net.onnx")
    assert (atc.main(list(BASE)) == 0) is works


def test_opset_is_that_of_the_model(fails, capsys):
    onnx.save(models.conv_bn_relu(22), "net.onnx")
    assert fails(*BASE) == "E19010"
    atc.main(list(BASE))
    out = capsys.readouterr().out
    assert "ai.onnx::22::Conv" in out
    assert "opset is newer" in out
    assert "custom" not in out


def test_no_kernel_on_the_chip(fails):
    save([models.node("IsNaN", ["x"], ["n"]), models.node("Cast", ["n"], ["y"], to=1)])
    assert fails(*BASE) == "EZ3003"
    assert atc.main([*BASE[:3], "--soc_version=Ascend910B1"]) == 0


def test_operators_that_are_not_emulated(fails):
    save([models.node("AdaptiveAvgPool2d", ["x"], ["y"])], {"x": [1, 2, 4, 4]}, {"y": [1, 2, 1, 1]})
    assert fails(*BASE) == "E10055"


def test_bfloat16():
    save([models.node("Relu", ["x"], ["y"])], dtype=TensorProto.BFLOAT16)
    assert atc.main(list(BASE)) == 0
    assert [tensor.type.name for tensor in om.read("net.om").inputs] == ["bfloat16"]


def test_float64_convolution(fails):
    save(
        [models.node("Conv", ["x", "w"], ["y"], kernel_shape=[1, 1])],
        {"x": [1, 1, 2, 2]},
        {"y": [1, 1, 2, 2]},
        {"w": np.ones((1, 1, 1, 1))},
        dtype=TensorProto.DOUBLE,
    )
    assert fails(*BASE) == "EZ3002"


def test_duplicate_names(fails):
    save([models.node("Relu", ["x"], ["a"], "same"), models.node("Neg", ["a"], ["y"], "same")])
    assert fails(*BASE) == "E19009"


def test_nameless_nodes_are_numbered():
    made = models.model([models.node("Relu", ["x"], ["a"]), models.node("Neg", ["a"], ["y"])], {"x": [2]}, {"y": [2]})
    for item in made.graph.node:
        item.ClearField("name")
    onnx.save(made, "net.onnx")
    assert atc.main(list(BASE)) == 0
    assert [task.name for task in om.read("net.om").tasks] == ["trans_Cast_0", "Relu_0Neg_1", "trans_Cast_1"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda graph: graph.ClearField("input"), "E16001"),
        (lambda graph: graph.ClearField("output"), "E16001"),
        (lambda graph: graph.node[0].input.__setitem__(0, "nowhere"), "E19999"),
        (lambda graph: graph.output[0].__setattr__("name", "nowhere"), "E19999"),
        (lambda graph: graph.node[0].__setattr__("domain", "unlisted"), "E19999"),
        (lambda graph: graph.node[0].input.__setitem__(0, "y"), "E19999"),
    ],
)
def test_broken_graphs(change, code, fails):
    made = models.residual()
    change(made.graph)
    onnx.save(made, "net.onnx")
    assert fails(*BASE) == code


def test_data_dependent_shape(fails):
    save([models.node("NonZero", ["x"], ["n"]), models.node("Cast", ["n"], ["y"], to=1)], outputs={"y": [2, "k"]})
    assert fails(*BASE[:3], "--soc_version=Ascend310") == "EZ3002"
    assert atc.main(list(BASE)) == 0
    (output,) = om.read("net.om").outputs
    assert (output.dims, output.size) == ((2, -1), 0)


def test_string_tensor(fails):
    save([models.node("Identity", ["x"], ["y"])], {"x": (TensorProto.STRING, [2])}, {"y": (TensorProto.STRING, [2])})
    assert fails(*BASE) == "E10055"
    save([models.node("Identity", ["x"], ["y"])], {"x": (TensorProto.FLOAT8E4M3FN, [2])}, {"y": [2]})
    assert fails(*BASE) == "E19999"


# -- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sixteenth", range(16))
def test_truncated_onnx(sixteenth, fails):
    data = Path("net.onnx").read_bytes()
    Path("net.onnx").write_bytes(data[: len(data) * sixteenth // 16])
    assert fails(*BASE) in ("E10041", "E19015", "E16001")


def test_corrupt_onnx_never_gives_a_traceback(capsys):
    data = bytearray(Path("net.onnx").read_bytes())
    for at in range(0, len(data), 41):
        data[at] ^= 0xFF
        Path("net.onnx").write_bytes(data)
        assert atc.main(list(BASE)) in (0, 255)
        assert "Traceback" not in capsys.readouterr().out
        data[at] ^= 0xFF


@pytest.mark.parametrize("op_type", ["Reshape", "ConstantOfShape"])
def test_shapes_in_the_other_byte_order(op_type, fails):
    """raw_data is little-endian: a shape written the other way round is astronomically large, and refused."""
    if op_type == "Reshape":
        nodes = [models.node("Reshape", ["x", "s"], ["y"], "n")]
    else:
        nodes = [models.node("ConstantOfShape", ["s"], ["c"], "n"), models.node("Add", ["x", "c"], ["y"], "add")]
    made = models.model(nodes, {"x": [4, 4]}, {"y": [4, 4]}, {"s": np.array([4, 4])})
    made.graph.initializer[0].raw_data = np.array([4, 4], ">i8").tobytes()
    onnx.save(made, "net.onnx")
    assert fails(*BASE) == "E89999"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "E19015"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n", "E10041"),
        (b"PK\x03\x04 a zip archive", "E10041"),
        (b"just text", "E10041"),
        (b"IMOD" + bytes(300), "E10041"),
    ],
)
def test_other_files(content, code, fails):
    Path("net.onnx").write_bytes(content)
    assert fails(*BASE) == code


def test_missing_file_and_directory(fails):
    assert fails("--model=none.onnx", *BASE[1:]) == "E19000"
    Path("folder.onnx").mkdir()
    assert fails("--model=folder.onnx", *BASE[1:]) == "E19001"


def test_unreadable_file(fails):
    Path("net.onnx").chmod(0)
    if os.access("net.onnx", os.R_OK):
        pytest.skip("this user may read everything")
    assert fails(*BASE) == "E19001"


def test_external_data_missing(fails, capsys):
    made = models.residual()
    onnx.save(made, "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    assert atc.main(list(BASE)) == 0
    capsys.readouterr()
    for name in ("net.data", "net.om", "fusion_result.json"):
        os.remove(name)
    assert fails(*BASE) == "E10041"


def test_output_is_a_directory(fails):
    Path("net").mkdir()
    assert fails(*BASE) == "E10022"
    assert fails(*BASE, "--output=net/") == "E10022"
    Path("a.om").mkdir()
    assert fails(*BASE, "--output=a") == "E19004"


def test_output_below_a_file(fails):
    assert fails(*BASE, "--output=net.onnx/sub/net") == "E19000"


def test_output_name_too_long(fails):
    assert fails(*BASE, f"--output={'n' * 250}") == "E10021"


def test_read_only_directory(fails):
    Path("locked").mkdir(mode=0o500)
    if os.access("locked", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert fails(*BASE, "--output=locked/net") == "E19000"


def test_missing_directories_are_made():
    assert atc.main([*BASE, "--output=new/deeper/net"]) == 0
    assert Path("new/deeper/net.om").exists()


def test_om_is_always_appended():
    assert atc.main([*BASE, "--output=net.om"]) == 0
    assert Path("net.om.om").exists()


def test_disk_full(fails, monkeypatch):
    class Full(io.FileIO):
        def writelines(self, pieces):
            self.write(pieces[0])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    original = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda self, mode="r", *rest, **named: (
            Full(self, "w") if mode == "wb" else original(self, mode, *rest, **named)
        ),
    )
    before = sorted(os.listdir())
    assert fails(*BASE) == "E19004"
    assert sorted(os.listdir()) == before


def test_interrupt_leaves_no_partial_file(folder, monkeypatch):
    def stop(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stop)
    before = sorted(item.name for item in folder.iterdir())
    with pytest.raises(KeyboardInterrupt):
        atc.main(list(BASE))
    assert sorted(item.name for item in folder.iterdir()) == before


# -- other modes -----------------------------------------------------------------------------------------------


def test_mode_6(capsys):
    assert atc.main([*BASE, "--display_model_info=1"]) == 0
    built = capsys.readouterr().out
    assert atc.main(["--mode=6", "--om=net.om"]) == 0
    shown = capsys.readouterr().out
    assert sorted(built.splitlines()) == sorted(shown.splitlines())
    assert shown.splitlines()[1] == "============ Display Model Info start ============"
    assert shown.splitlines()[-2:] == ["...", "ATC run success, welcome to the next use."]
    assert "\nOriginal Atc command line: atc --model=net.onnx" in shown
    assert re.search(r"soc_version\[Ascend310P3\], framework_type\[Onnx\]", shown)
    size = om.read("net.om").weight_size
    assert f"weight_size[{size} B], stream_num[1]" in shown


def test_mode_1_of_an_om():
    assert atc.main(list(BASE)) == 0
    assert atc.main(["--mode=1", "--om=net.om", "--json=net.json"]) == 0
    content = json.loads(Path("net.json").read_text())
    assert {"key": "soc_version", "value": {"s": "Ascend310P3"}} in content["attr"]
    types = [op["type"] for op in content["graph"][0]["op"]]
    assert types == [task.op_type for task in om.read("net.om").tasks]


def test_mode_1_of_an_onnx():
    assert atc.main(["--mode=1", "--om=net.onnx", "--framework=5", "--json=net.json"]) == 0
    content = json.loads(Path("net.json").read_text())
    assert [item["op_type"] for item in content["graph"]["node"]] == ["Conv", "Relu", "Conv", "Add", "Relu"]


# -- codes -----------------------------------------------------------------------------------------------------


def test_codes_of_the_default_release_are_real():
    for area in ("atc", "om"):
        for rule in tables.rules().values():
            inner = rule.code_for("8.1").endswith("9999")
            said = rule.code_for("8.1") != ""  # what cannlab alone says has no code
            if rule.id.startswith(f"{area}.") and said and not inner:
                assert rule.code_for("8.1") in tables.known_codes(), rule.id
