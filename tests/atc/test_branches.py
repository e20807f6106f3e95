"""What is done to a graph is done to the branches of its Ifs: passes, gears, precision."""

import re

import numpy as np
import onnx
import onnx_models as models
import pass_models
import pytest
from onnx import TensorProto, helper

from cannlab import atc, om
from cannlab import soc as socs
from cannlab.atc import compiler, graph_view
from cannlab.atc.comparison import compare
from cannlab.atc.passes import registry
from cannlab.atc.passes.switches import Switches
from cannlab.machine.executor import Model

NAMES = [item.name for item in registry.PASSES]
BASE = ("--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend910B1")


def in_branches(made):
    """The model if a condition is true, else the negative of its results."""
    graph = made.graph
    branches = []
    for number in range(2):
        branch = onnx.GraphProto(name=f"branch{number}")
        branch.node.extend(graph.node)
        branch.initializer.extend(graph.initializer)
        ends = [info.name for info in graph.output]
        if number:
            branch.node.extend(helper.make_node("Neg", [name], [f"minus_{name}"], f"minus_{name}") for name in ends)
            ends = [f"minus_{name}" for name in ends]
        branch.output.extend(onnx.ValueInfoProto(name=name) for name in ends)
        for info, source in zip(branch.output, graph.output, strict=True):
            info.type.CopyFrom(source.type)
        branches.append(branch)
    outputs = [f"out_{info.name}" for info in graph.output]
    choice = helper.make_node("If", ["c"], outputs, "if", then_branch=branches[0], else_branch=branches[1])
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    ends = [onnx.ValueInfoProto(name=name) for name in outputs]
    for info, source in zip(ends, graph.output, strict=True):
        info.type.CopyFrom(source.type)
    whole = helper.make_graph([choice], "net", [*graph.input, condition], ends)
    return helper.make_model(whole, opset_imports=list(made.opset_import), ir_version=8)


def compiled(made, names=NAMES, mode="must_keep_origin_dtype", **options):
    switches = Switches({**dict.fromkeys(NAMES, False), **dict.fromkeys(names, True)})
    request = compiler.Request(soc=socs.get("Ascend910B1"), precision_mode=mode, switches=switches, **options)
    result = compiler.compile_model(made, request, lambda level, text: None)
    effects = {report.name: report.effect_times for report in result.reports if report.effect_times}
    return om.read(om.to_bytes(result.om)), effects


@pytest.mark.parametrize("name", NAMES)
def test_every_pass_runs_in_both_branches(name):
    case = pass_models.CASES[name]
    inputs = case.inputs(case.build())
    wanted = models.reference(case.build(), *inputs)
    alone, effects = compiled(in_branches(case.build()), (name, *case.needs))
    assert effects[name] == 2 * case.times
    together, _ = compiled(in_branches(case.build()))
    close = 4e-3 if any(x.dtype == np.float16 for x in inputs) else 5e-5
    for program in map(Model, (alone, together)):
        for condition, sign in ((True, 1), (False, -1)):
            for got, value in zip(program.run([*inputs, np.array(condition)])[0], wanted, strict=True):
                np.testing.assert_allclose(got, sign * value, rtol=close, atol=close)


@pytest.mark.parametrize("mode", ["force_fp16", "allow_mix_precision", "allow_mix_precision_bf16", "force_fp32"])
def test_precision_modes_in_branches(mode):
    made = models.residual()
    x = models.random(*(dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim))
    (wanted,) = models.reference(made, x)
    program = Model(compiled(in_branches(made), mode=mode)[0])
    close = 0.06 if "bf16" in mode else 0.02
    for condition, sign in ((True, 1), (False, -1)):
        (got,), _ = program.run([x, np.array(condition)])
        np.testing.assert_allclose(got, sign * wanted, rtol=close, atol=close)


def small():
    return models.model(
        [
            models.node("Conv", ["x", "w"], ["k"], "conv", kernel_shape=[1, 1]),
            models.node("Relu", ["k"], ["y"], "relu"),
        ],
        {"x": ["n", 3, 8, 8]},
        {"y": ["n", 4, 8, 8]},
        {"w": models.random(4, 3, 1, 1)},
    )


def test_gears_with_branches():
    made = in_branches(small())
    onnx.save(made, "net.onnx")
    assert atc.main([*BASE, "--input_shape=x:-1,3,8,8;c:", "--dynamic_batch_size=1,2,4"]) == 0
    compiled_om = om.read("net.om")
    program = Model(compiled_om)
    for gear, batch in enumerate((1, 2, 4)):
        x = models.random(batch, 3, 8, 8)
        for condition in (True, False):
            (got,), work = program.run([x, np.array(condition)], gear)
            np.testing.assert_allclose(got, models.reference(made, x, np.array(condition))[0], atol=5e-3)
            assert len(work.operators) < len(compiled_om.tasks)


def test_open_shapes_at_an_if_are_not_emulated(capsys):
    onnx.save(in_branches(small()), "net.onnx")
    assert atc.main([*BASE, "--input_shape=x:1~4,3,8,8;c:"]) == 255
    assert re.search(r"^E10055: \[PID", capsys.readouterr().out, re.MULTILINE)


def test_branches_can_be_looked_at():
    made = in_branches(small())
    onnx.save(made, "net.onnx")
    assert atc.main([*BASE, "--input_shape=x:1,3,8,8;c:"]) == 0
    view = graph_view.view("net.om", "net.onnx")
    assert {row.number for row in view.operators} == set(range(len(om.read("net.om").tasks)))
    found = compare(made, "net.om", {"x": models.random(1, 3, 8, 8), "c": np.array(True)})
    assert found.first_bad is None
