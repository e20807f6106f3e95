"""Ranges of inputs, attributes of operators, bundles, queues, what a failed task worked on, descriptions in formats."""

from __future__ import annotations

from dataclasses import replace

import pytest

import cannlab.acl as acl_package
from cannlab import om
from cannlab.machine import reset_machine
from tests.pyacl.test_models import add_one

ORIGINAL = "_datadump_original_op_names"


@pytest.fixture
def described(acl, tmp_path):
    """A function that gives the description of a model."""

    def make(model) -> int:
        om.write(model, tmp_path / "net.om")
        desc = acl.mdl.create_desc()
        assert acl.mdl.get_desc_from_file(desc, str(tmp_path / "net.om")) == 0
        return desc

    return make


def test_ranges_of_inputs(acl, described) -> None:
    plain = add_one()
    (tensor,) = plain.inputs
    assert acl.mdl.get_input_dims_range(described(plain), 0) == ({"rangeCount": 2, "range": [[2, 2], [16, 16]]}, 0)
    open_ = replace(tensor, dims=(-1, 16), ranges=((1, -1), (16, 16)))
    ranged = replace(plain, inputs=(open_,), gears={"kind": "range"})
    desc = described(ranged)
    assert acl.mdl.get_input_dims_range(desc, 0) == ({"rangeCount": 2, "range": [[1, -1], [16, 16]]}, 0)
    nothing = {"rangeCount": 0, "range": []}
    assert acl.mdl.get_input_dims_range(desc, 1) == (nothing, 100000)
    assert acl.mdl.get_input_dims_range(acl.mdl.create_desc(), 0) == (nothing, 100000)
    assert acl.mdl.get_input_dims_range(0, 0) == (nothing, 100000)


def test_original_operators(acl, described) -> None:
    model = add_one()
    first = replace(model.tasks[0], nodes=("scale2c", "bn", "Größe"))
    desc = described(replace(model, tasks=(first, *model.tasks[1:])))
    assert acl.mdl.get_op_attr(desc, "add", ORIGINAL) == "[7]scale2c[2]bn[7]Größe"
    assert acl.mdl.get_op_attr(desc, "mul", ORIGINAL) == "[3]mul"
    assert acl.mdl.get_op_attr(desc, "sub", ORIGINAL) == ""
    assert acl.mdl.get_op_attr(desc, "add", "other") == ""
    assert acl.mdl.get_op_attr(0, "add", ORIGINAL) is None


def test_no_bundles_and_no_queues(acl, tmp_path, rules) -> None:
    path = tmp_path / "net.om"
    om.write(add_one(), path)
    data = path.read_bytes()
    pointer = acl.util.bytes_to_ptr(data)
    assert acl.mdl.bundle_load_from_file(str(tmp_path / "none.om")) == (0, 145002)
    assert acl.mdl.bundle_load_from_file(str(path)) == (0, 100000)
    assert acl.mdl.bundle_load_from_mem(pointer, len(data)) == (0, 100000)
    assert acl.mdl.bundle_load_from_mem(0, 0) == (0, 100000)
    assert acl.mdl.load_from_file_with_q(str(path), 1, 1, 1, 1) == (0, 100000)
    assert acl.mdl.load_from_mem_with_q(pointer, len(data), 1, 1, 1, 1) == (0, 100000)
    assert acl.mdl.bundle_get_model_num(1) == (0, 148053)
    assert acl.mdl.bundle_get_model_id(1, 0) == (0, 148053)
    assert acl.mdl.bundle_unload(1) == 148053
    assert rules()[1:] == ["model.no_bundle"] * 2 + ["model.null_model"] + ["model.no_queue"] * 2 + (
        ["model.unknown_bundle"] * 3
    )
    acl.finalize()
    assert acl.mdl.bundle_unload(1) == 145001


def test_what_a_failed_task_worked_on() -> None:
    acl = acl_package
    reset_machine("Ascend910B1", 1, faults="aicore@1")
    acl.init()
    acl.rt.set_device(0)
    stream, _ = acl.rt.create_stream()
    told = []

    def failed(info: int) -> None:
        ids = (
            acl.rt.get_device_id_from_exception_info(info),
            acl.rt.get_stream_id_from_exception_info(info),
            acl.rt.get_task_id_from_exception_info(info),
        )
        name, inputs, count, outputs, made, ret = acl.mdl.create_and_get_op_desc(*ids, 64)
        assert ret == 0
        descs = [acl.get_tensor_desc_by_index(inputs, at) for at in range(count)]
        told.append((name, count, made, [acl.get_tensor_desc_dim_v2(desc, 0)[0] for desc in descs]))
        told.append([acl.get_tensor_desc_address(desc) for desc in descs])
        assert acl.get_tensor_desc_by_index(inputs, count) == 0
        assert acl.destroy_tensor_desc(inputs) is None
        assert acl.get_tensor_desc_type(descs[1]) == 0
        assert acl.destroy_tensor_desc(outputs) is None
        assert acl.mdl.create_and_get_op_desc(*ids[:2], ids[2] + 1, 64) == ("", 0, 0, 0, 0, 100000)
        assert acl.mdl.create_and_get_op_desc(*ids, 4097) == ("", 0, 0, 0, 0, 100000)

    assert acl.rt.set_exception_info_callback(failed) == 0
    long, short = acl.create_tensor_desc(0, [8], 2), acl.create_tensor_desc(0, [1], 2)
    pointers = [acl.rt.malloc(64, 0)[0] for _ in range(2)]
    buffers = [acl.create_data_buffer(pointer, 32) for pointer in pointers]
    assert acl.op.execute_v2("Add", [long, short], buffers, [long], buffers[:1], 0, stream) == 0
    assert acl.rt.synchronize_stream(stream) in (507015, 507035)
    assert told == [("Add", 2, 1, [8, 1]), pointers]


@pytest.mark.parametrize(
    ("dtype", "dims", "source", "target", "expected"),
    [
        (1, [2, 3, 4, 5], 0, 1, [2, 4, 5, 3]),
        (1, [2, 4, 5, 3], 1, 16, [4, 5, 3, 2]),
        (1, [2, 17, 4, 5], 0, 3, [2, 2, 4, 5, 16]),
        (2, [2, 17, 4, 5], 0, 3, [2, 1, 4, 5, 32]),
        (1, [33, 17, 3, 3], 0, 4, [18, 3, 16, 16]),
        (1, [7, 33, 17], 2, 29, [7, 2, 3, 16, 16]),
        (1, [4], 2, 2, [4]),
    ],
)
def test_formats_of_descriptions(acl, dtype, dims, source, target, expected) -> None:
    made, code = acl.trans_tensor_desc_format(acl.create_tensor_desc(dtype, dims, source), target)
    assert code == 0
    count = acl.get_tensor_desc_num_dims(made)
    assert [acl.get_tensor_desc_dim_v2(made, at)[0] for at in range(count)] == expected
    assert (acl.get_tensor_desc_format(made), acl.get_tensor_desc_type(made)) == (target, dtype)


def test_formats_that_do_not_exist(acl) -> None:
    for dims, source, target in (([4], 2, 29), ([2, 3], 0, 1), ([1, 2, 3, 4], 0, 27), ([-1, 3, 4, 4], 0, 1)):
        assert acl.trans_tensor_desc_format(acl.create_tensor_desc(1, dims, source), target) == (0, 500002)
    assert acl.trans_tensor_desc_format(0, 1) == (0, 100000)
