"""Model descriptions: what a program asks about inputs and outputs. Source: pyacl-semantics 8.3."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, refuse, take
from cannlab.acl.functions.loading import from_memory, loaded, read
from cannlab.acl.state import acl_state
from cannlab.machine import Machine
from cannlab.om import OmModel, OmTensor

UNDEFINED = -1
_LONGEST_NAME = 127


class ModelDesc:
    """A description; ``om`` is None until get_desc fills it."""

    def __init__(self) -> None:
        self.om: OmModel | None = None
        self.model_id = 0


name_kind(ModelDesc, "model description", "acl.mdl.destroy_desc")


def _tensors(m: Machine, desc: int, side: str) -> Sequence[OmTensor]:
    """The inputs or outputs; none for handle 0 or an empty description."""
    om = take(m, desc, ModelDesc).om if desc else None
    if om is None:
        return ()
    return om.inputs if side == "input" else om.outputs


def _tensor(m: Machine, desc: int, index: int, side: str) -> OmTensor | None:
    tensors = _tensors(m, desc, side)
    return tensors[index] if index < len(tensors) else None


@api("acl.mdl.create_desc")
def create_desc(m: Machine) -> int:
    """create_desc() -> an empty description."""
    return m.handles.open(ModelDesc(), m.here())


@api("acl.mdl.destroy_desc")
def destroy_desc(m: Machine, desc: int) -> int:
    """destroy_desc(desc) -> ret."""
    take(m, desc, ModelDesc)
    m.handles.close(desc, m.here())
    return 0


@api("acl.mdl.get_desc")
def get_desc(m: Machine, desc: int, model_id: int) -> int:
    """get_desc(desc, model_id) -> ret: fills the description."""
    entry = take(m, desc, ModelDesc)
    entry.om, entry.model_id = loaded(m, model_id).om, model_id
    return 0


@api("acl.mdl.get_desc_from_file")
def get_desc_from_file(m: Machine, desc: int, path: str) -> int:
    """get_desc_from_file(desc, path) -> ret: without loading the model."""
    entry = take(m, desc, ModelDesc)
    entry.om = read(m, path, for_device=False)
    return 0


@api("acl.mdl.get_desc_from_mem")
def get_desc_from_mem(m: Machine, desc: int, model: int, size: int) -> int:
    """get_desc_from_mem(desc, pointer, size) -> ret."""
    entry = take(m, desc, ModelDesc)
    entry.om = read(m, memoryview(bytes(from_memory(m, model, size))), for_device=False)
    return 0


@api("acl.mdl.get_num_inputs")
def get_num_inputs(m: Machine, desc: int) -> int:
    """get_num_inputs(desc) -> count; 0 for 0."""
    return len(_tensors(m, desc, "input"))


@api("acl.mdl.get_num_outputs")
def get_num_outputs(m: Machine, desc: int) -> int:
    """get_num_outputs(desc) -> count; 0 for 0."""
    return len(_tensors(m, desc, "output"))


@api("acl.mdl.get_input_size_by_index")
def get_input_size_by_index(m: Machine, desc: int, index: int) -> int:
    """get_input_size_by_index(desc, index) -> bytes; 0 for a bad index."""
    tensor = _tensor(m, desc, index, "input")
    return tensor.size if tensor is not None else 0


@api("acl.mdl.get_output_size_by_index")
def get_output_size_by_index(m: Machine, desc: int, index: int) -> int:
    """get_output_size_by_index(desc, index) -> bytes; 0 for a bad index."""
    tensor = _tensor(m, desc, index, "output")
    return tensor.size if tensor is not None else 0


def _dims(m: Machine, desc: int, index: int, side: str) -> tuple[dict[str, Any], int]:
    tensor = _tensor(m, desc, index, side)
    if tensor is None:
        raise refuse(m, "model.bad_index", index=index, count=len(_tensors(m, desc, side)))
    return _shown(m, desc, index, side, tensor)


def _shown(m: Machine, desc: int, index: int, side: str, tensor: OmTensor) -> tuple[dict[str, Any], int]:
    name = tensor.name
    if len(name) > _LONGEST_NAME:
        name = f"acl_modelId_{take(m, desc, ModelDesc).model_id}_{side}_{index}"
    return {"name": name, "dimCount": len(tensor.dims), "dims": list(tensor.dims)}, 0


@api("acl.mdl.get_input_dims", empty=dict)
def get_input_dims(m: Machine, desc: int, index: int) -> tuple[dict[str, Any], int]:
    """get_input_dims(desc, index) -> ({"name", "dimCount", "dims"}, ret); ({}, 100000) for a bad index."""
    return _dims(m, desc, index, "input")


@api("acl.mdl.get_input_dims_v2", empty=dict)
def get_input_dims_v2(m: Machine, desc: int, index: int) -> tuple[dict[str, Any], int]:
    """get_input_dims_v2(desc, index) -> as get_input_dims; with static AIPP the model's own shape (N, C, H, W).

    Which of the two functions shows which shape is not published; this is cannlab's choice.
    """
    tensor = _tensor(m, desc, index, "input")
    om = take(m, desc, ModelDesc).om if desc else None
    if tensor is None or om is None or om.aipp.get(tensor.name, {}).get("mode") != "static":
        return _dims(m, desc, index, "input")
    dims = list(om.aipp[tensor.name]["model_dims"])
    for at, dim in zip((0, 2, 3), (tensor.dims[0], *tensor.dims[1:3]), strict=True):
        dims[at] = -1 if dim == -1 else dims[at]
    return _shown(m, desc, index, "input", replace(tensor, dims=tuple(dims)))


@api("acl.mdl.get_output_dims", empty=dict)
def get_output_dims(m: Machine, desc: int, index: int) -> tuple[dict[str, Any], int]:
    """get_output_dims(desc, index) -> ({"name", "dimCount", "dims"}, ret)."""
    return _dims(m, desc, index, "output")


@api("acl.mdl.get_cur_output_dims", empty=dict)
def get_cur_output_dims(m: Machine, desc: int, index: int) -> tuple[dict[str, Any], int]:
    """get_cur_output_dims(desc, index) -> as get_output_dims, for the gear that was set last.

    200001 for a model with ranges: its output shapes stand in the output dataset's descriptions.
    """
    entry = take(m, desc, ModelDesc)
    model = acl_state(m).models.get(entry.model_id)
    if entry.om is not None and entry.om.dynamic:
        raise refuse(m, "model.ranges_have_no_gear")
    if model is None or model.chosen is None or index >= len(model.om.outputs):
        return _dims(m, desc, index, "output")
    return _shown(m, desc, index, "output", model.om.variants[model.chosen].outputs[index])


@api("acl.mdl.get_input_name_by_index")
def get_input_name_by_index(m: Machine, desc: int, index: int) -> str:
    """get_input_name_by_index(desc, index) -> name; "" for a bad index."""
    tensor = _tensor(m, desc, index, "input")
    return tensor.name if tensor is not None else ""


@api("acl.mdl.get_output_name_by_index")
def get_output_name_by_index(m: Machine, desc: int, index: int) -> str:
    """get_output_name_by_index(desc, index) -> name; "" for a bad index."""
    tensor = _tensor(m, desc, index, "output")
    return tensor.name if tensor is not None else ""


@api("acl.mdl.get_input_format")
def get_input_format(m: Machine, desc: int, index: int) -> int:
    """get_input_format(desc, index) -> aclFormat; -1 for a bad index."""
    tensor = _tensor(m, desc, index, "input")
    return int(tensor.format) if tensor is not None else UNDEFINED


@api("acl.mdl.get_output_format")
def get_output_format(m: Machine, desc: int, index: int) -> int:
    """get_output_format(desc, index) -> aclFormat; -1 for a bad index."""
    tensor = _tensor(m, desc, index, "output")
    return int(tensor.format) if tensor is not None else UNDEFINED


@api("acl.mdl.get_input_data_type")
def get_input_data_type(m: Machine, desc: int, index: int) -> int:
    """get_input_data_type(desc, index) -> aclDataType; -1 for a bad index."""
    tensor = _tensor(m, desc, index, "input")
    return int(tensor.dtype) if tensor is not None else UNDEFINED


@api("acl.mdl.get_output_data_type")
def get_output_data_type(m: Machine, desc: int, index: int) -> int:
    """get_output_data_type(desc, index) -> aclDataType; -1 for a bad index."""
    tensor = _tensor(m, desc, index, "output")
    return int(tensor.dtype) if tensor is not None else UNDEFINED


def _index(m: Machine, desc: int, name: str, side: str) -> tuple[int, int]:
    take(m, desc, ModelDesc)
    names = [tensor.name for tensor in _tensors(m, desc, side)]
    if name not in names:
        raise refuse(m, "model.unknown_name", name=name, names=", ".join(names) or "none")
    return names.index(name), 0


@api("acl.mdl.get_input_index_by_name")
def get_input_index_by_name(m: Machine, desc: int, name: str) -> tuple[int, int]:
    """get_input_index_by_name(desc, name) -> (index, ret); (0, 100000) if there is none."""
    return _index(m, desc, name, "input")


@api("acl.mdl.get_output_index_by_name")
def get_output_index_by_name(m: Machine, desc: int, name: str) -> tuple[int, int]:
    """get_output_index_by_name(desc, name) -> (index, ret); (0, 100000) if there is none."""
    return _index(m, desc, name, "output")


@api("acl.mdl.get_tensor_real_name")
def get_tensor_real_name(m: Machine, desc: int, name: str) -> str | None:
    """get_tensor_real_name(desc, name) -> the full name behind a converted one; None if it is neither."""
    take(m, desc, ModelDesc)
    both = [*_tensors(m, desc, "input"), *_tensors(m, desc, "output")]
    if any(tensor.name == name for tensor in both):
        return name
    match = re.fullmatch(r"acl_modelId_\d+_(input|output)_(\d+)", name)
    tensor = _tensor(m, desc, int(match[2]), match[1]) if match else None
    return tensor.name if tensor is not None else None


def filled(m: Machine, desc: int) -> OmModel:
    """The model of a description. Raises Refused ``model.empty_desc`` (100000)."""
    om = take(m, desc, ModelDesc).om
    if om is None:
        raise refuse(m, "model.empty_desc")
    return om


ORIGINAL_NAMES = "_datadump_original_op_names"
"""ACL_ATTR_NAME_DATA_DUMP_ORIGIN_OP_NAMES: the only attribute that can be asked for."""


@api("acl.mdl.get_op_attr")
def get_op_attr(m: Machine, desc: int, op_name: str, attribute: str) -> str | None:
    """get_op_attr(desc, op, "_datadump_original_op_names") -> "[length]name[length]name...": the operators of the
    original model that this one stands for; "" without the operator or the attribute, None for no description."""
    if not desc:
        m.report(refuse(m, "runtime.null_handle", kind="model description").diagnosis)
        return None
    entry = take(m, desc, ModelDesc)
    tasks = entry.om.tasks if entry.om is not None else ()
    task = next((task for task in tasks if task.name == op_name), None)
    if task is None or attribute != ORIGINAL_NAMES:
        return ""
    return "".join(f"[{len(name.encode())}]{name}" for name in task.nodes)


def _no_range() -> dict[str, Any]:
    return {"rangeCount": 0, "range": []}


@api("acl.mdl.get_input_dims_range", empty=_no_range)
def get_input_dims_range(m: Machine, desc: int, index: int) -> tuple[dict[str, Any], int]:
    """get_input_dims_range(desc, index) -> ({"rangeCount", "range": [[least, most], ...]}, ret): most -1 without a
    limit, both the same where the size is fixed; nothing for a model with gears."""
    entry = take(m, desc, ModelDesc)
    tensor = _tensor(m, desc, index, "input")
    if tensor is None or entry.om is None:
        raise refuse(m, "runtime.bad_parameter", argument="index", value=index, allowed="an input of the model")
    if entry.om.variants:
        return _no_range(), 0
    pairs = tensor.ranges or tuple((dim, dim) for dim in tensor.dims)
    return {"rangeCount": len(pairs), "range": [list(pair) for pair in pairs]}, 0
