"""Graphs as real files have them: branches, local functions, weights beside the model, and what else can be odd."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_models as models
import pytest
from onnx import TensorProto, helper, numpy_helper

from cannlab import atc, om, soc
from cannlab.atc import compiler
from cannlab.atc.errors import AtcError
from cannlab.machine.executor import Model

CHIP = soc.get("Ascend910B1")
F = TensorProto.FLOAT


def info(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def graph(nodes, inputs, outputs, constants=None, name="net"):
    tensors = [numpy_helper.from_array(np.asarray(array), key) for key, array in (constants or {}).items()]
    return helper.make_graph(nodes, name, inputs, outputs, tensors)


def model(made, opset=13, **extra):
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **extra)


def compiled(made, mode="force_fp16"):
    return compiler.compile_model(made, compiler.Request(CHIP, precision_mode=mode), lambda level, text: None)


def refused(made):
    with pytest.raises(AtcError) as caught:
        compiled(made)
    return caught.value


# -- branches ---------------------------------------------------------------------------------------------


def branching(condition="c"):
    """y = (x @ w + 1) * 2 or, in the other branch, relu(x @ w) - b; x @ w and b come from outside."""
    then = graph(
        [
            helper.make_node("Add", ["product", "one"], ["sum"], "add"),
            helper.make_node("Mul", ["sum", "two"], ["result"], "mul"),
        ],
        [],
        [info("result", [2, 4])],
        {"one": np.float32(1), "two": np.float32(2)},
        "then",
    )
    other = graph(
        [
            helper.make_node("Relu", ["product"], ["sum"], "relu"),
            helper.make_node("Sub", ["sum", "b"], ["result"], "sub"),
        ],
        [],
        [info("result", [2, 4])],
        name="else",
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], "matmul"),
        helper.make_node("If", [condition], ["y"], "if", then_branch=then, else_branch=other),
    ]
    constants = {"w": models.random(3, 4, seed=1), "b": models.random(4, seed=2)}
    inputs = [info("x", [2, 3]), info("c", [], TensorProto.BOOL)]
    return model(graph(nodes, inputs, [info("y", [2, 4])], constants))


@pytest.mark.parametrize("mode", ["force_fp16", "must_keep_origin_dtype"])
def test_either_branch_runs(mode):
    made = branching()
    running = Model(compiled(made, mode).om)
    x = models.random(2, 3, seed=3)
    works = []
    for condition in (True, False):
        (result,), work = running.run([x, np.array(condition)])
        (wanted,) = models.reference(made, x, np.array(condition))
        np.testing.assert_allclose(result, wanted, atol=1e-5 if mode != "force_fp16" else 5e-3)
        works.append(work)
    names = [{operator.name for operator in work.operators} for work in works]
    assert "addmul" in names[0]
    assert "relusub" not in names[0]
    assert "relusub" in names[1]
    assert "addmul" not in names[1]
    whole = running.work
    assert len(whole.operators) > max(len(work.operators) for work in works)
    for work in works:
        left_out = [operator for operator in whole.operators if operator not in work.operators]
        assert work.ns == whole.ns - sum(operator.ns for operator in left_out)


def test_branches_are_lowered_too():
    made = compiled(branching()).om
    branch = next(node for node in made.graph().graph.node if node.op_type == "If").attribute[0].g
    assert {item.type.tensor_type.elem_type for item in branch.output} == {TensorProto.FLOAT16}
    assert {task.within for task in made.tasks if task.within} == {"if/then", "if/else"}
    assert om.read(om.to_bytes(made)).tasks == made.tasks


def test_a_rounding_between_branches():
    """60000 + 60000 is infinite in fp16, before the If as well as in it."""
    half = graph([helper.make_node("Mul", ["s", "q"], ["r"], "mul")], [], [info("r", [1])], {"q": np.float32([0.25])})
    same = graph([helper.make_node("Identity", ["s"], ["r"], "same")], [], [info("r", [1])])
    nodes = [
        helper.make_node("Add", ["x", "x"], ["s"], "add"),
        helper.make_node("If", ["c"], ["y"], "if", then_branch=half, else_branch=same),
    ]
    made = model(graph(nodes, [info("x", [1]), info("c", [], TensorProto.BOOL)], [info("y", [1])]))
    (result,), _ = Model(compiled(made).om).run([np.float32([60000]), np.array(True)])
    assert np.isinf(result).all()


def test_a_constant_condition_leaves_one_branch():
    for value, expected in ((True, "Mul"), (False, "Sub")):
        made = branching("always")
        made.graph.initializer.append(numpy_helper.from_array(np.array(value), "always"))
        found = compiled(made).om
        types = {task.op_type for task in found.tasks}
        assert expected in types
        assert not {"Mul", "Sub"} - {expected} & types
        assert not any(task.within for task in found.tasks)
        x = models.random(2, 3, seed=3)
        (result,), _ = Model(found).run([x, np.array(True)])
        np.testing.assert_allclose(result, models.reference(made, x, np.array(True))[0], atol=5e-3)


def test_a_condition_that_follows_from_shapes_is_constant():
    """What torch.onnx makes of squeeze: a branch by the size of an axis; the other branch would not even fit."""
    squeeze = graph([helper.make_node("Squeeze", ["x", "axis"], ["r"], "squeeze")], [], [info("r", None)])
    same = graph([helper.make_node("Identity", ["x"], ["r"], "same")], [], [info("r", None)])
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], "shape"),
        helper.make_node("Gather", ["shape", "place"], ["size"], "gather"),
        helper.make_node("Equal", ["size", "one"], ["c"], "equal"),
        helper.make_node("If", ["c"], ["y"], "if", then_branch=squeeze, else_branch=same),
        helper.make_node("Relu", ["y"], ["z"], "relu"),
    ]
    constants = {"axis": np.array([1]), "place": np.array(1), "one": np.array(1)}
    for size, dims in ((1, (3,)), (2, (3, 2))):
        made = model(graph(nodes, [info("x", [3, size])], [onnx.ValueInfoProto(name="z")], constants))
        assert compiled(made).om.outputs[0].dims == dims


def test_branches_in_branches():
    def nested(depth):
        if depth == 0:
            return graph([helper.make_node("Neg", ["x"], ["r"], "leaf")], [], [info("r", [2])])
        add = graph(
            [helper.make_node("Add", ["x", "k"], ["r"], "leaf")], [], [info("r", [2])], {"k": np.float32(depth)}
        )
        node = helper.make_node("If", [f"c{depth}"], ["r"], "if", then_branch=nested(depth - 1), else_branch=add)
        return graph([node], [], [info("r", [2])])

    top = nested(3)
    conditions = [f"c{depth}" for depth in (3, 2, 1)]
    inputs = [info("x", [2]), *(info(name, [], TensorProto.BOOL) for name in conditions)]
    top.input.extend(inputs)
    made = model(top)
    running = Model(compiled(made, "must_keep_origin_dtype").om)
    x = np.float32([1, 2])
    for bits in range(8):
        values = [np.array(bool(bits >> at & 1)) for at in range(3)]
        (result,), _ = running.run([x, *values])
        np.testing.assert_array_equal(result, models.reference(made, x, *values)[0])


def test_loop_has_no_parser():
    body = graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Neg", ["v"], ["w"])],
        [info("i", [], TensorProto.INT64), info("c", [], TensorProto.BOOL), info("v", [2])],
        [info("d", [], TensorProto.BOOL), info("w", [2])],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], "loop", body=body)
    made = model(graph([node], [info("x", [2])], [info("y", [2])], {"n": np.array(3)}))
    assert refused(made).diagnosis.code == "E19010"


def test_an_unknown_operator_in_a_branch_is_found():
    made = branching()
    made.graph.node[1].attribute[0].g.node[0].op_type = "Nonsense"
    error = refused(made)
    assert error.diagnosis.code == "E19010"
    assert "Nonsense" in error.diagnosis.what


def test_a_branch_reads_what_nothing_writes():
    made = branching()
    made.graph.node[1].attribute[0].g.node[0].input[0] = "nowhere"
    assert refused(made).diagnosis.code == "E19999"


# -- functions, order, names ---------------------------------------------------------------------------------


def test_local_functions_are_expanded():
    opsets = [helper.make_opsetid("", 13)]
    body = [helper.make_node("Mul", ["a", "a"], ["s"]), helper.make_node("Relu", ["s"], ["r"])]
    function = helper.make_function("local", "SquareRelu", ["a"], ["r"], body, opsets)
    nodes = [
        helper.make_node("SquareRelu", ["x"], ["t"], "first", domain="local"),
        helper.make_node("SquareRelu", ["t"], ["y"], "second", domain="local"),
    ]
    made = model(graph(nodes, [info("x", [3])], [info("y", [3])]), functions=[function])
    made.opset_import.append(helper.make_opsetid("local", 1))
    (result,), _ = Model(compiled(made).om).run([np.float32([1, 2, 3])])
    assert result.tolist() == [1, 16, 81]


def test_nodes_in_any_order():
    nodes = [models.node("Relu", ["b"], ["y"]), models.node("Neg", ["a"], ["b"]), models.node("Abs", ["x"], ["a"])]
    made = models.model(nodes, {"x": [2]}, {"y": [2]})
    assert [name[:3] for task in compiled(made).om.tasks for name in task.nodes] == ["Abs", "Neg", "Rel"]


def test_a_cycle():
    nodes = [models.node("Add", ["x", "b"], ["a"]), models.node("Neg", ["a"], ["b"])]
    assert refused(models.model(nodes, {"x": [2]}, {"b": [2]})).diagnosis.code == "E19999"


def test_an_initializer_that_is_an_input_is_a_constant():
    made = models.model(
        [models.node("Add", ["x", "w"], ["y"])], {"x": [2], "w": [2]}, {"y": [2]}, {"w": np.float32([1, 2])}
    )
    found = compiled(made).om
    assert [tensor.name for tensor in found.inputs] == ["x"]
    (result,), _ = Model(found).run([np.zeros(2, np.float32)])
    assert result.tolist() == [1, 2]


def test_only_initializers_as_inputs():
    made = models.model([models.node("Neg", ["w"], ["y"])], {"w": [2]}, {"y": [2]}, {"w": np.float32([1, 2])})
    assert refused(made).diagnosis.code == "E16001"


def test_duplicate_names(monkeypatch):
    nodes = [models.node("Relu", ["x"], ["a"], "same"), models.node("Neg", ["a"], ["y"], "same")]
    made = models.model(nodes, {"x": [2]}, {"y": [2]})
    assert refused(made).diagnosis.code == "E19009"
    monkeypatch.setenv("CANNLAB_CANN", "current")
    assert refused(made).diagnosis.code == "E13009"


def test_the_same_name_in_both_branches_is_fine():
    made = branching()
    for attribute in made.graph.node[1].attribute:
        attribute.g.node[0].name = "matmul"
    found = compiled(made).om
    lowered = [name for task in found.tasks for name in task.lowered]
    assert len(lowered) == len(set(lowered))


def test_several_versions_of_a_domain():
    made = models.model([models.node("Relu", ["x"], ["y"])], {"x": [2]}, {"y": [2]})
    made.opset_import.append(helper.make_opsetid("ai.onnx", 11))
    error = refused(made)
    assert error.diagnosis.code == "E16005"
    assert "13, 11" in error.diagnosis.what


def test_an_output_that_is_an_input_or_a_constant():
    nodes = [models.node("Relu", ["x"], ["y"])]
    made = models.model(nodes, {"x": [2]}, {"y": [2], "x": [2], "w": [2]}, {"w": np.float32([3, 4])})
    found, _ = Model(compiled(made).om).run([np.float32([-1, 2])])
    assert [array.tolist() for array in found] == [[0, 2], [-1, 2], [3, 4]]


def test_sparse_initializer():
    made = models.model([models.node("Add", ["x", "w"], ["y"])], {"x": [4]}, {"y": [4]})
    values = numpy_helper.from_array(np.float32([1, 2]), "w")
    places = numpy_helper.from_array(np.array([0, 3]), "places")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    assert refused(made).diagnosis.code == "E19999"


# -- shapes ------------------------------------------------------------------------------------------------


def test_scalars():
    made = models.model([models.node("Add", ["x", "y"], ["z"])], {"x": [], "y": [3]}, {"z": [3]})
    found = compiled(made).om
    assert found.inputs[0].dims == ()
    (result,), _ = Model(found).run([np.array(1, np.float32), np.float32([1, 2, 3])])
    assert result.tolist() == [2, 3, 4]


def test_no_elements():
    made = models.model([models.node("Concat", ["x", "y"], ["z"], axis=0)], {"x": [0, 2], "y": [3, 2]}, {"z": [3, 2]})
    y = models.random(3, 2, seed=1).astype(np.float16).astype(np.float32)
    (result,), _ = Model(compiled(made).om).run([np.zeros((0, 2), np.float32), y])
    np.testing.assert_array_equal(result, y)


def test_optional_inputs_left_out():
    made = models.model(
        [models.node("Clip", ["x", "", "high"], ["y"])], {"x": [3]}, {"y": [3]}, {"high": np.float32(1)}
    )
    (result,), _ = Model(compiled(made).om).run([np.float32([-5, 0.5, 5])])
    assert result.tolist() == [-5, 0.5, 1]


# -- files ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


BASE = ("--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend910B1")


def with_external_data(size=64):
    made = models.model(
        [models.node("MatMul", ["x", "w"], ["y"])], {"x": [1, size]}, {"y": [1, size]}, {"w": models.random(size, size)}
    )
    onnx.save(made, "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    return made


def test_weights_beside_the_model(folder):
    made = with_external_data()
    assert atc.main(BASE) == 0
    x = models.random(1, 64, seed=2)
    (result,), _ = Model(om.read("net.om")).run([x])
    np.testing.assert_allclose(result, models.reference(made, x)[0], atol=0.05)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: path.unlink(), "there is no file"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "cut off"),
    ],
)
def test_weights_that_are_missing(spoil, told, folder, capsys):
    with_external_data()
    spoil(Path("net.data"))
    assert atc.main(BASE) == 255
    out = capsys.readouterr().out
    assert "E10041: " in out
    assert told in out
    assert not Path("net.om").exists()


@pytest.mark.parametrize("location", ["../net.data", "/etc/hostname", ""])
def test_weights_outside_of_the_folder(location, folder, capsys):
    with_external_data()
    made = onnx.load("net.onnx", load_external_data=False)
    made.graph.initializer[0].external_data[0].value = location
    Path("net.onnx").write_bytes(made.SerializeToString())
    assert atc.main(BASE) == 255
    assert "E10041: " in capsys.readouterr().out


def test_no_graph(folder, capsys):
    made = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 13)])
    Path("net.onnx").write_bytes(made.SerializeToString())
    assert atc.main(BASE) == 255
    assert "E16004: " in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_never_gives_a_traceback(seed, folder, capsys):
    onnx.save(branching(), "net.onnx")
    data = bytearray(Path("net.onnx").read_bytes())
    random = np.random.default_rng(seed)
    for place in random.integers(0, len(data), 6):
        data[place] = random.integers(0, 256)
    Path("net.onnx").write_bytes(bytes(data))
    status = atc.main(BASE)
    out = capsys.readouterr().out
    assert status in (0, 255)
    assert "Traceback (most recent call last):\n  File" not in out
    assert Path("net.om").exists() == (status == 0)


PROGRAM = """
import resource, sys
from cannlab import atc
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
status = atc.main(sys.argv[1:])
print(status, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024)
"""


@pytest.mark.slow
@pytest.mark.slow
def test_a_model_above_2_gb(folder):
    """Its weights are mapped: the conversion needs less memory than the model is large, twice over for the om."""
    count, side = 9, 8192
    nodes = [models.node("MatMul", [f"t{at}", f"w{at}"], [f"t{at + 1}"]) for at in range(count)]
    made = models.model(nodes, {"t0": [1, side]}, {f"t{count}": [1, side]})
    size = side * side * 4
    with Path("net.data").open("wb") as file:
        for at in range(count):
            tensor = onnx.TensorProto(name=f"w{at}", dims=[side, side], data_type=F, data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "net.data"), ("offset", str(at * size)), ("length", str(size))):
                tensor.external_data.add(key=key, value=value)
            made.graph.initializer.append(tensor)
            file.write(np.full(side * side, at + 1, np.float32).data)
    Path("net.onnx").write_bytes(made.SerializeToString())
    assert Path("net.data").stat().st_size > 2 << 30
    done = subprocess.run([sys.executable, "-c", PROGRAM, *BASE], capture_output=True, text=True, check=True)
    status, megabytes = done.stdout.split()[-2:]
    assert status == "0", done.stdout
    assert om.read("net.om").weight_size == count * size // 2
    assert int(megabytes) < 3 * 2304  # mapped pages count too while they are touched


def ones(*dims):
    return np.ones(dims, np.float32)


@pytest.mark.parametrize(
    ("node", "shape", "constants", "said"),
    [
        (("Conv", {"kernel_shape": [3, 3]}), [1, 12, 16, 3], [ones(4, 3, 3, 3)], "12 channels of the input, but 3"),
        (("Conv", {"kernel_shape": [1, 1], "group": 2}), [1, 4, 5, 5], [ones(4, 4, 1, 1)], "but 8 channels"),
        (
            ("Conv", {"kernel_shape": [1, 1]}),
            [1, 4, 5, 5],
            [ones(6, 4, 1, 1), ones(4)],
            "4 elements of the bias, but 6",
        ),
        (
            ("ConvTranspose", {"kernel_shape": [2, 2]}),
            [1, 3, 5, 5],
            [ones(4, 3, 2, 2)],
            "3 channels of the input, but 4",
        ),
        (
            ("BatchNormalization", {}),
            [1, 3, 5, 5],
            [ones(3), ones(3), ones(4), ones(3)],
            "4 elements of input 3, but 3",
        ),
        (("Gemm", {"transB": 1}), [2, 8], [ones(4, 6)], "(op_type:Gemm, node name: it)"),
        (("LSTM", {"hidden_size": 4}), [5, 1, 3], [ones(1, 16, 2), ones(1, 16, 4)], "3 features of the input, but 2"),
    ],
)
def test_operands_that_do_not_fit(node, shape, constants, said, tmp_path, capsys):
    op, attributes = node
    names = [f"w{number}" for number in range(len(constants))]
    made = model(
        graph(
            [helper.make_node(op, ["x", *names], ["y"], "it", **attributes)],
            [info("x", shape)],
            [info("y", None)],
            dict(zip(names, constants, strict=True)),
        )
    )
    onnx.save(made, tmp_path / "it.onnx")
    words = ["--framework=5", f"--output={tmp_path / 'it'}", "--soc_version=Ascend310P3"]
    assert atc.main([f"--model={tmp_path / 'it.onnx'}", *words]) != 0
    out = capsys.readouterr().out
    assert "E89999" in out
    assert said in out
    assert not (tmp_path / "it.om").exists()
