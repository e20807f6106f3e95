"""The view of a compiled graph: each node's fate, each operator's cost, the picture."""

import json
from pathlib import Path

import numpy as np
import onnx_models as models
import pass_models
import pytest

from cannlab import soc as socs
from cannlab.atc import graph_view
from cannlab.cli.app import call
from cannlab.machine import cost


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def everything():
    """A folded Shape, an Identity, a normalisation, an activation, a Reshape, a product."""
    return models.model(
        [
            models.node("Identity", ["x"], ["i"], "same"),
            models.node("Conv", ["i", "w", "b"], ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            models.node("BatchNormalization", ["c", "scale", "offset", "mean", "var"], ["n"], "bn"),
            models.node("Relu", ["n"], ["r"], "relu"),
            models.node("Shape", ["x"], ["s"], "shape"),
            models.node("Gather", ["s", "zero"], ["batch"], "gather"),
            models.node("Concat", ["batch", "rest"], ["dims"], "dims", axis=0),
            models.node("Reshape", ["r", "dims"], ["f"], "flat"),
            models.node("MatMul", ["f", "m"], ["y"], "fc"),
        ],
        {"x": [2, 3, 8, 8]},
        {"y": [2, 5]},
        {
            **{item.name: _array(item) for item in models.conv_bn_relu().graph.initializer},
            "zero": np.array([0], np.int64),
            "rest": np.array([-1], np.int64),
            "m": models.random(512, 5, seed=9),
        },
    )


def _array(item):
    from onnx import numpy_helper

    return numpy_helper.to_array(item)


def test_every_node_has_a_fate(tmp_path):
    made = everything()
    compiled = models.convert(made, tmp_path)
    found = graph_view.view(compiled, made)
    fates = {row.name: row.fate for row in found.nodes}
    assert [row.name for row in found.nodes] == [node.name for node in made.graph.node]
    assert fates["conv"] == fates["bn"] == fates["relu"] == "convrelu"
    assert fates["fc"] == "fc"
    assert fates["flat"] == graph_view.NO_KERNEL
    assert fates["same"] == "removed by IdentityRemovePass"
    assert fates["shape"] == fates["gather"] == fates["dims"] == "removed by ConstantFoldingPass"
    passes = {row.name: row.passes for row in found.nodes}
    assert passes["bn"] == ("ConvBatchnormFusionPass", "TbeConv2DReluv2Pass")


def test_costs_are_the_machines(tmp_path):
    compiled = models.convert(everything(), tmp_path)
    found = graph_view.view(compiled)
    chip = socs.get(compiled.soc)
    assert [row.ns for row in found.operators] == [cost.task_ns(task, chip) for task in compiled.tasks]
    assert found.total_ns + found.fixed_ns == cost.model_ns(compiled, chip)
    assert [row.bound_by for row in found.operators] == [cost.bound_by(task, chip) for task in compiled.tasks]
    other = graph_view.view(compiled, soc="Ascend910B1")
    assert other.soc == "Ascend910B1"
    assert other.nodes == ()


def test_sources_follow_the_data(tmp_path):
    compiled = models.convert(models.residual(), tmp_path)
    found = graph_view.view(compiled)
    named = {row.name: row for row in found.operators}
    last = named["conv2addrelu2"]
    assert {found.operators[number].name for number in last.sources} >= {"conv1relu1"}
    assert all(source < row.number for row in found.operators for source in row.sources)
    flat = graph_view.view(models.convert(everything(), tmp_path))
    fc = next(row for row in flat.operators if row.name == "fc")
    assert fc.sources  # through the Reshape, which has no kernel


def test_picture_is_the_same_every_time(tmp_path):
    made = everything()
    compiled = models.convert(made, tmp_path)
    first = graph_view.view(compiled, made).picture().png
    assert first == graph_view.view(compiled, made).picture().png
    assert first != graph_view.view(models.convert(models.residual(), tmp_path)).picture().png


def test_a_large_graph_is_cut(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    titles = []
    original = Figure.text
    monkeypatch.setattr(Figure, "text", lambda self, x, y, s, **k: (titles.append(s), original(self, x, y, s, **k))[1])
    compiled = models.convert(pass_models.many("Concat"), tmp_path)
    assert len(compiled.tasks) > 60
    graph_view.view(compiled).picture()
    assert f"The first 60 of {len(compiled.tasks)} operators" in titles[0]


def test_notebook_and_json(tmp_path):
    made = everything()
    found = graph_view.view(models.convert(made, tmp_path), made)
    page = found._repr_html_()
    assert page.count("<table>") == 2
    assert "9 ONNX nodes became" in page
    data = json.loads(found.to_json())
    assert {row["name"] for row in data["nodes"]} == {node.name for node in made.graph.node}
    assert data["total_ns"] == found.total_ns + found.fixed_ns


def test_command(tmp_path, capsys):
    models.convert(everything(), tmp_path)
    capsys.readouterr()
    assert call(["graph", "net.om", "--before", "net.onnx", "--picture", "net.png"]) == 0
    out = capsys.readouterr().out
    assert "ConvBatchnormFusionPass" in out
    assert "Node by node" in out
    assert Path("net.png").read_bytes().startswith(b"\x89PNG")
    assert call(["graph", "net.om", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == []
    assert call(["graph", "net.om", "--picture", "no/such/folder.png"]) == 1
    assert "no/such/folder.png" in capsys.readouterr().err
    assert call(["graph", "missing.om"]) == 1


def test_netron_is_given_the_graph(tmp_path, monkeypatch):
    """Netron reads ONNX: an om is handed over as the graph inside it."""
    import sys
    import types

    import onnx

    seen = {}
    viewer = types.SimpleNamespace(
        start=lambda name, browse: seen.update(name=name) or ("localhost", 1),
        serve=lambda name, data, browse: seen.update(data=data) or ("localhost", 1),
    )
    monkeypatch.setitem(sys.modules, "netron", viewer)
    models.convert(everything(), tmp_path)
    graph_view.netron("net.onnx")
    assert seen["name"] == "net.onnx"
    graph_view.netron("net.om", browse=False)
    onnx.checker.check_model(onnx.ModelProto.FromString(seen["data"]))
