"""The grammar of gears and ranges, and the code of every mistake."""

import re

import onnx
import onnx_models as models
import pytest

from cannlab import atc, om
from cannlab.atc import shapes

BASE = ("--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3")


@pytest.fixture(autouse=True)
def net(tmp_path, monkeypatch):
    monkeypatch.delenv("CANNLAB_CANN", raising=False)
    made = models.model(
        [models.node("Conv", ["x", "w"], ["y"], "conv", kernel_shape=[1, 1])],
        {"x": ["n", 3, "h", "w"]},
        {"y": ["n", 4, "h", "w"]},
        {"w": models.random(4, 3, 1, 1)},
    )
    onnx.save(made, tmp_path / "net.onnx")


def code_of(capsys, *words):
    assert atc.main([*BASE, *words]) == 255
    return re.search(r"^(\w+): \[PID|\((\w+)\): ", capsys.readouterr().out, re.MULTILINE)


BATCH, IMAGE, DIMS = "--dynamic_batch_size=", "--dynamic_image_size=", "--dynamic_dims="
ND = "--input_format=ND"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((f"{BATCH}1,2", f"{IMAGE}8,8;9,9", "--input_shape=x:-1,3,-1,-1"), "E10009"),
        ((f"{BATCH}1,2", "--input_shape_range=x:[1~2,3,8,8]", "--input_shape=x:-1,3,8,8"), "E10009"),
        ((f"{BATCH}1,2",), "E10004"),
        ((f"{BATCH}1,2", "--input_shape=x:1,3,8,8"), "E10031"),
        ((f"{BATCH}1,2", "--input_shape=x:"), "E10012"),
        ((f"{BATCH}1,2", "--input_shape=x:-1,3,-1,8"), "E10018"),
        ((f"{BATCH}1,2", "--input_shape=x:1~2,3,8,8"), "E10040"),
        ((f"{BATCH}1,2", "--input_shape=x:-1,3,8~9,8"), "E10040"),
        ((f"{IMAGE}8,8;9,9", "--input_shape=x:1,3,8,8"), "E10040"),
        ((f"{IMAGE}8,8;9,9", "--input_shape=x:-1,3,8,8"), "E10019"),
        ((f"{IMAGE}8,8;9,9", "--input_shape=x:1,3,-1,8"), "E10019"),
        ((f"{IMAGE}8,8;9,9", "--input_shape=x:1,-1,-1"), "E10019"),
        ((f"{IMAGE}8,8,8;9,9,9", "--input_shape=x:1,3,-1,-1"), "E10020"),
        ((f"{IMAGE}8,8;9,9", "--input_shape=x:1,3,-1,-1", ND), "E10001"),
        ((f"{DIMS}8;9", "--input_shape=x:-1,3,8,8"), "E10001"),
        ((f"{DIMS}8,8;9", "--input_shape=x:1,3,-1,-1", ND), "E10037"),
        ((f"{DIMS}8;9", "--input_shape=x:1,3,-1,-1", ND), "E10045"),
        ((f"{DIMS}8,8,8;9,9,9", "--input_shape=x:1,3,-1,-1", ND), "E10046"),
        ((f"{BATCH}4", "--input_shape=x:-1,3,8,8"), "E10035"),
        ((f"{BATCH}{','.join(map(str, range(1, 102)))}", "--input_shape=x:-1,3,8,8"), "E10036"),
        ((f"{BATCH}0,2", "--input_shape=x:-1,3,8,8"), "E10038"),
        ((f"{BATCH}2,2", "--input_shape=x:-1,3,8,8"), "E10039"),
        ((f"{IMAGE}8,9;8,9", "--input_shape=x:1,3,-1,-1"), "E10039"),
        ((f"{BATCH}1,two", "--input_shape=x:-1,3,8,8"), "E10003"),
        ((f"{BATCH}1,2", "--input_shape=z:-1,3,8,8"), "E10016"),
        ((f"{BATCH}1,2", "--input_shape=x:-1,8,8"), "E10049"),
        (("--input_shape_range=x:1~2,3,8,8",), "E10048"),
        (("--input_shape=x:-1,3,8,8", "--soc_version=Ascend310"), "EZ3002"),
        (("--input_shape=x:1~4,3,8,8", "--soc_version=Ascend310B1"), "E10055"),
    ],
)
def test_codes(words, code, capsys, tmp_path):
    found = code_of(capsys, *words)
    assert code in found.groups()
    assert not (tmp_path / "net.om").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((f"{BATCH}1,2", "--input_shape=x:1,3,8,8"), "E10040"),
        ((f"{DIMS}8;9", "--input_shape=x:1,3,-1,-1", ND), "E10003"),
    ],
)
def test_codes_of_the_current_release(words, code, capsys, monkeypatch):
    monkeypatch.setenv("CANNLAB_CANN", "current")
    assert code in code_of(capsys, *words).groups()


def test_the_newest_chips_take_more_gears(tmp_path, capsys):
    from cannlab.atc import gears
    from cannlab.atc.errors import AtcError
    from cannlab.soc import table

    wanted = shapes.parse("x:-1,3,8,8")
    options = {gears.BATCH: ",".join(map(str, range(1, 257)))}
    newest = next(soc for soc in table().values() if soc.short == "Ascend910_95")
    assert len(gears.plan(options, wanted, "", newest).values) == 256
    with pytest.raises(AtcError):
        gears.plan(options, wanted, "", table()["Ascend910B1"])


@pytest.mark.parametrize(
    ("options", "kind", "values", "dims"),
    [
        ((f"{BATCH}1,2,8", "--input_shape=x:-1,3,8,8"), "batch", [(1,), (2,), (8,)], (-1, 3, 8, 8)),
        ((f"{IMAGE}8,8;4,16", "--input_shape=x:2,3,-1,-1"), "image", [(8, 8), (4, 16)], (2, 3, -1, -1)),
        ((f"{DIMS}1,8;2,4;", "--input_shape=x:-1,3,-1,8", ND), "dims", [(1, 8), (2, 4)], (-1, 3, -1, 8)),
    ],
)
def test_what_the_om_holds(options, kind, values, dims):
    assert atc.main([*BASE, *options]) == 0
    made = om.read("net.om")
    assert made.gears == {"kind": kind}
    assert [variant.values for variant in made.variants] == values
    image, chosen = made.inputs
    assert image.dims == dims
    assert image.size == max(variant.inputs[0].size for variant in made.variants)
    assert (chosen.name, chosen.dims) == ("ascend_mbatch_shape_data", (len(values[0]),))
    assert made.outputs[0].size == max(variant.outputs[0].size for variant in made.variants)
    assert made.tasks == made.variants[made.largest].tasks


def test_the_old_option_for_ranges():
    assert atc.main([*BASE, "--input_shape=x:1~4,3,8,8~16"]) == 0
    new = om.read("net.om").inputs
    for text in ("x:[1~4,3,8,8~16]", "[1~4,3,8,8~16]"):
        assert atc.main([*BASE, f"--input_shape_range={text}"]) == 0
        assert om.read("net.om").inputs == new
    assert new[0].ranges == ((1, 4), (3, 3), (8, 8), (8, 16))


def test_reference_shapes():
    """Open dimensions of several inputs get one number where their ranges allow it."""
    wanted = shapes.parse("a:1~8,3;b:2~6,-1;c:4")
    assert shapes.references(wanted) == {"a": (6, 3), "b": (6, 6), "c": (4,)}
    wanted = shapes.parse("a:1~8;b:300~400")
    assert shapes.references(wanted) == {"a": (8,), "b": (400,)}
    assert shapes.references(shapes.parse("a:-1")) == {"a": (224,)}


@pytest.mark.parametrize(
    ("options", "dims"),
    [
        ((f"{IMAGE}8,16;12,16", "--input_shape=x:2,3,-1,-1"), (2, 3, -1, -1)),
        ((f"{DIMS}1,8,16;4,8,32", "--input_shape=x:-1,3,-1,-1", ND), (-1, 3, -1, -1)),
    ],
)
def test_an_open_dimension_that_is_the_same_in_all_gears_stays_open(options, dims):
    assert atc.main([*BASE, *options]) == 0
    assert om.read("net.om").inputs[0].dims == dims
