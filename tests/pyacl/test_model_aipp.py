"""AIPP through acl: dynamic parameters, what a model says of its own AIPP, codes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cannlab import atc
from cannlab.machine import aipp
from cannlab.machine.aipp import Aipp, BatchAipp, ImageFormat

SOC = "Ascend910B1"
DYNAMIC = "aipp_op { aipp_mode: dynamic max_src_image_size: %d }"


def identity(batch, channels=3, height=4, width=6) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "zero"], ["y"], "add")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, height, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, channels, height, width])],
        [numpy_helper.from_array(np.zeros(1, np.float32), "zero")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


class Program:
    def __init__(self, acl, tmp_path, model, text: str, *options: str) -> None:
        onnx.save(model, tmp_path / "net.onnx")
        (tmp_path / "aipp.cfg").write_text(text)
        words = [f"--model={tmp_path / 'net.onnx'}", "--framework=5", f"--output={tmp_path / 'net'}"]
        words += [f"--soc_version={SOC}", f"--insert_op_conf={tmp_path / 'aipp.cfg'}", "--export_compile_stat=0"]
        assert atc.main([*words, *options]) == 0
        self.acl = acl
        self.model, code = acl.mdl.load_from_file(str(tmp_path / "net.om"))
        assert code == 0
        self.desc = acl.mdl.create_desc()
        acl.mdl.get_desc(self.desc, self.model)
        self.pointers = {}
        self.inputs, self.outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        for side, dataset in (("input", self.inputs), ("output", self.outputs)):
            for index in range(getattr(acl.mdl, f"get_num_{side}s")(self.desc)):
                size = getattr(acl.mdl, f"get_{side}_size_by_index")(self.desc, index)
                self.pointers[side, index], _ = acl.rt.malloc(size, 0)
                acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(self.pointers[side, index], size))

    def index(self, name: str) -> int:
        index, code = self.acl.mdl.get_input_index_by_name(self.desc, name)
        assert code == 0
        return index

    def run(self, data: np.ndarray, shape) -> np.ndarray:
        self.acl.rt.memcpy(self.pointers["input", 0], data.nbytes, data.ctypes.data, data.nbytes, 1)
        assert self.acl.mdl.execute(self.model, self.inputs, self.outputs) == 0
        out = np.zeros(shape, np.float32)
        self.acl.rt.memcpy(out.ctypes.data, out.nbytes, self.pointers["output", 0], out.nbytes, 2)
        return out


def pixels(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, count, np.uint8)


def test_dynamic_parameters(acl, tmp_path, rules) -> None:
    mdl = acl.mdl
    program = Program(acl, tmp_path, identity(2), DYNAMIC % (2 * 8 * 6 * 3))
    data_index = program.index("ascend_dynamic_aipp_data")
    assert mdl.get_input_size_by_index(program.desc, data_index) == mdl.get_aipp_data_size(2)[0] == 64 + 2 * 96
    assert mdl.get_input_size_by_index(program.desc, 0) == 2 * 8 * 6 * 3
    assert mdl.get_aipp_type(program.model, 0) == (2, data_index, 0)
    assert mdl.get_aipp_type(program.model, data_index)[::2] == (3, 0)
    made = mdl.create_aipp(2)
    assert mdl.set_aipp_input_format(made, 3) == 0
    assert mdl.set_aipp_src_image_size(made, 8, 6) == 0
    assert mdl.set_aipp_rbuv_swap_switch(made, 1) == 0
    for image, (left, top) in enumerate(((1, 2), (2, 0))):
        assert mdl.set_aipp_crop_params(made, 1, left, top, 6, 4, image) == 0
    assert mdl.set_aipp_dtc_pixel_mean(made, 100, 0, 0, 0, 0) == 0
    assert mdl.set_aipp_pixel_var_reci(made, 0.5, 2.0, 1.0, 1.0, 1) == 0
    assert mdl.set_input_aipp(program.model, program.inputs, data_index, made) == 0
    data = pixels(2 * 6 * 8 * 3)
    got = program.run(data, (2, 3, 4, 6))
    images = data.reshape(2, 6, 8, 3)[..., ::-1].astype(np.float32)
    first = images[0, 2:6, 1:7] - [100, 0, 0]
    second = images[1, 0:4, 2:8] * [0.5, 2, 1]
    np.testing.assert_array_equal(got, np.stack([first, second]).transpose(0, 3, 1, 2))
    # Another image format with the same om, through the index of the image.
    assert mdl.destroy_aipp(made) == 0
    made = mdl.create_aipp(2)
    mdl.set_aipp_input_format(made, 1)
    mdl.set_aipp_src_image_size(made, 6, 4)
    numbers = [298, 0, 409, 298, -100, -208, 298, 516, 0, 16, 128, 128, 16, 128, 128]
    assert mdl.set_aipp_csc_params(made, 1, *numbers) == 0
    assert mdl.set_aipp_by_input_index(program.model, program.inputs, 0, made) == 0
    data = pixels(2 * 36)
    got = program.run(data, (2, 3, 4, 6))
    luma, u, v = (int(data[at]) for at in (0, 24, 25))
    red = (298 * (luma - 16) + 409 * (v - 128)) >> 8
    blue = (298 * (luma - 16) + 516 * (u - 128)) >> 8
    assert (got[0, 0, 0, 0], got[0, 2, 0, 0]) == tuple(float(np.clip(value, 0, 255)) for value in (red, blue))
    assert rules() == []


def test_padding(acl, tmp_path) -> None:
    program = Program(acl, tmp_path, identity(1, 1), DYNAMIC % 100)
    made = acl.mdl.create_aipp(1)
    acl.mdl.set_aipp_input_format(made, 4)
    acl.mdl.set_aipp_src_image_size(made, 4, 3)
    acl.mdl.set_aipp_padding_params(made, 1, 1, 0, 0, 2, 0)
    acl.mdl.set_aipp_dtc_pixel_min(made, 0.5, 0, 0, 0, 0)
    assert acl.mdl.set_input_aipp(program.model, program.inputs, 1, made) == 0
    data = pixels(12)
    wanted = np.pad(data.reshape(3, 4) - 0.5, ((1, 0), (0, 2)))
    np.testing.assert_array_equal(program.run(data, (4, 6)), wanted)


def test_without_parameters_execution_fails(acl, tmp_path, rules) -> None:
    program = Program(acl, tmp_path, identity(1), DYNAMIC % 72)
    zeros = np.zeros(160, np.uint8)
    acl.rt.memcpy(program.pointers["input", 1], 160, zeros.ctypes.data, 160, 1)
    assert acl.mdl.execute(program.model, program.inputs, program.outputs) == 500002
    assert rules() == ["om.aipp_unset"]


def test_codes_of_the_setters(acl) -> None:
    mdl = acl.mdl
    assert mdl.create_aipp(0) == 0
    made = mdl.create_aipp(1)
    assert mdl.get_aipp_data_size(0) == (0, 100000)
    assert mdl.set_aipp_input_format(made, 0) == 100000
    assert mdl.set_aipp_input_format(made, 8) == 0
    assert mdl.set_aipp_src_image_size(made, 1, 4) == 100000
    assert mdl.set_aipp_src_image_size(made, 2, 4097) == 100000
    assert mdl.set_aipp_rbuv_swap_switch(made, 2) == 100000
    assert mdl.set_aipp_ax_swap_switch(made, 1) == 0
    assert mdl.set_aipp_crop_params(made, 1, 0, 0, 0, 4, 0) == 100000
    assert mdl.set_aipp_crop_params(made, 0, 0, 0, 0, 0, 0) == 0
    assert mdl.set_aipp_crop_params(made, 1, 0, 0, 4, 4, 1) == 100000
    assert mdl.set_aipp_padding_params(made, 1, 33, 0, 0, 0, 0) == 100000
    assert mdl.set_aipp_dtc_pixel_mean(made, 256, 0, 0, 0, 0) == 100000
    assert mdl.set_aipp_dtc_pixel_min(made, -0.5, 0, 0, 0, 0) == 100000
    assert mdl.set_aipp_pixel_var_reci(made, 7e4, 1, 1, 1, 0) == 100000
    assert mdl.set_aipp_scf_params(made, 1, 16, 16, 32, 32, 0) == 100000
    assert mdl.set_aipp_csc_params(made, 1, 32700, *[0] * 14) == 100000
    assert mdl.destroy_aipp(made) == 0
    assert mdl.destroy_aipp(made) == 100000


@pytest.mark.parametrize(
    ("batch", "format", "size", "crop"),
    [
        (2, 3, (6, 4), None),
        (1, 8, (6, 4), None),
        (1, 0, (6, 4), None),
        (1, 3, (6, 6), None),
        (1, 3, (8, 6), (3, 0)),
        (1, 1, (8, 6), (1, 0)),
        (1, 2, (16, 16), (0, 0)),
    ],
)
def test_parameters_that_do_not_fit(batch, format, size, crop, acl, tmp_path) -> None:
    program = Program(acl, tmp_path, identity(1), DYNAMIC % 300)
    made = acl.mdl.create_aipp(batch)
    if format:
        acl.mdl.set_aipp_input_format(made, format)
    acl.mdl.set_aipp_src_image_size(made, *size)
    if crop is not None:
        acl.mdl.set_aipp_crop_params(made, 1, *crop, 6, 4, 0)
    assert acl.mdl.set_input_aipp(program.model, program.inputs, 1, made) == 100000


def test_indices(acl, tmp_path) -> None:
    program = Program(acl, tmp_path, identity(1), DYNAMIC % 72)
    made = acl.mdl.create_aipp(1)
    acl.mdl.set_aipp_input_format(made, 3)
    acl.mdl.set_aipp_src_image_size(made, 6, 4)
    assert acl.mdl.set_input_aipp(program.model, program.inputs, 0, made) == 100000
    assert acl.mdl.set_aipp_by_input_index(program.model, program.inputs, 1, made) == 500001
    buffer = acl.mdl.get_dataset_buffer(program.inputs, 1)
    acl.update_data_buffer(buffer, program.pointers["input", 1], 100)
    assert acl.mdl.set_input_aipp(program.model, program.inputs, 1, made) == 100000


def test_what_a_static_model_says(acl, tmp_path) -> None:
    text = """aipp_op {
      aipp_mode: static input_format: RGB888_U8 src_image_size_w: 10 src_image_size_h: 8
      crop: true load_start_pos_w: 2 crop_size_w: 6 crop_size_h: 4
      csc_switch: true matrix_r0c1: 7 mean_chn_1: 9 var_reci_chn_2: 0.5
    }"""
    program = Program(acl, tmp_path, identity(1), text)
    assert acl.mdl.get_aipp_type(program.model, 0)[::2] == (1, 0)
    assert acl.mdl.get_input_dims(program.desc, 0)[0]["dims"] == [1, 8, 10, 3]
    assert acl.mdl.get_input_dims_v2(program.desc, 0)[0]["dims"] == [1, 3, 4, 6]
    assert acl.mdl.get_input_format(program.desc, 0) == 1
    assert acl.mdl.get_input_data_type(program.desc, 0) == 4
    info, code = acl.mdl.get_first_aipp_info(program.model, 0)
    assert code == 0
    given = {name for name in info if name.startswith("matrix")}
    assert given == {"matrixR0C0", "matrixR0C1", "matrixR1C0", "matrixR1C1", "matrixR1C2", "matrixR2C2"}
    assert (info["inputFormat"], info["srcImageSizeW"], info["srcImageSizeH"]) == (3, 10, 8)
    assert (info["cropSwitch"], info["loadStartPosW"], info["cropSizeW"]) == (1, 2, 6)
    assert (info["matrixR0C0"], info["matrixR0C1"], info["meanChn1"], info["varReciChn2"]) == (66, 7, 9, 0.5)
    assert info["outDims"][0]["srcDims"]["dims"] == [1, 3, 4, 6]
    assert info["outDims"][0]["aippOutdims"]["dims"] == [1, 1, 4, 6, 16]
    assert acl.mdl.get_first_aipp_info(program.model, 1) == (None, 100000)


def test_batch_gears_with_dynamic_parameters(acl, tmp_path) -> None:
    """The parameters are always for the largest batch."""
    options = ("--input_shape=x:-1,3,4,6", "--dynamic_batch_size=1,2")
    program = Program(acl, tmp_path, identity("n"), DYNAMIC % 144, *options)
    made = acl.mdl.create_aipp(2)
    acl.mdl.set_aipp_input_format(made, 3)
    acl.mdl.set_aipp_src_image_size(made, 6, 4)
    data_index, gear = program.index("ascend_dynamic_aipp_data"), program.index("ascend_mbatch_shape_data")
    assert acl.mdl.set_input_aipp(program.model, program.inputs, data_index, made) == 0
    data = pixels(144)
    for batch in (1, 2):
        assert acl.mdl.set_dynamic_batch_size(program.model, program.inputs, gear, batch) == 0
        got = program.run(data, (batch, 3, 4, 6))
        np.testing.assert_array_equal(got, data.reshape(2, 4, 6, 3)[:batch].transpose(0, 3, 1, 2))


def test_the_block_holds_what_was_set() -> None:
    image = BatchAipp(True, 2, 4, 6, 8, True, 1, 2, 3, 4, (9, 8, 7, 6), (0.5, 0.25, 0, 1), (0.125, 1, 2, 4))
    made = Aipp(ImageFormat.XRGB8888_U8, 20, 30, True, True, True, tuple(range(-4, 5)), (1, 2, 3), (4, 5, 6))
    made = Aipp(**{name: getattr(made, name) for name in Aipp.__slots__} | {"batch": (image, BatchAipp())})
    block = aipp.pack(made)
    assert len(block) == 64 + 2 * 96
    assert aipp.unpack(block, 2) == made
    assert Aipp.from_json(made.to_json()) == made
    # The places of the published structure.
    assert (block[0], block[4]) == (2, 2)
    assert int.from_bytes(block[8:12], "little") == 20
    assert int.from_bytes(block[64 + 8 : 64 + 12], "little") == 2
