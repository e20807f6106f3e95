"""Single operators. Source: pyacl-semantics 10."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cannlab.acl import operators
from cannlab.acl.binding import api
from cannlab.acl.checks import Refused, name_kind, opened, refuse, take, take_stream
from cannlab.acl.functions.data_buffers import DataBuffer
from cannlab.acl.functions.loading import from_memory
from cannlab.acl.functions.operator_attrs import OpAttr
from cannlab.acl.functions.tensor_descs import TensorDesc
from cannlab.acl.operators import Operator
from cannlab.machine import Machine, single_ops
from cannlab.om import OmError
from cannlab.om import read as read_om

_ON_HOST = 1


@dataclass
class OpHandle:
    """An operator that was prepared for several runs."""

    operator: Operator


name_kind(OpHandle, "operator handle", "acl.op.destroy_handle")


def _handles(m: Machine, values: Any) -> list[int]:
    """A list of handles; TypeError for anything else."""
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise TypeError(f"{m.thread.function} args parse failed")
    return values


def _attributes(m: Machine, attr: int) -> Mapping[str, Any]:
    return dict(take(m, attr, OpAttr).values) if attr else {}


def _described(
    m: Machine, op_type: str, inputs: Any, outputs: Any, attributes: Mapping[str, Any], buffers: Any = ()
) -> Operator:
    """The operator of a call. Constants and inputs in host memory are read at once."""
    import numpy as np

    given = [take(m, handle, TensorDesc) for handle in _handles(m, inputs)]
    wanted = [take(m, handle, TensorDesc) for handle in _handles(m, outputs)]
    tensors = tuple(operators.tensor(m, desc, f"x{at}") for at, desc in enumerate(given))
    values = {}
    for at, (desc, tensor) in enumerate(zip(given, tensors, strict=True)):
        data = desc.constant
        if data is None and desc.placement == _ON_HOST and at < len(buffers):
            data = bytes(m.memory.view(buffers[at][0], tensor.size, "host", write=False))
        if data is not None:
            if len(data) < tensor.size:
                raise refuse(m, "model.op_buffer", side="input", index=at, needed=tensor.size, size=len(data))
            values[at] = np.frombuffer(data[: tensor.size], tensor.type.numpy).reshape(tensor.dims)
    made = tuple(operators.tensor(m, desc, f"y{at}") for at, desc in enumerate(wanted))
    return Operator(op_type, tensors, made, attributes, values)


def _buffers(m: Machine, values: Any, wanted: int | None, rule: str) -> list[tuple[int, int]]:
    found = [take(m, handle, DataBuffer) for handle in _handles(m, values)]
    if wanted is not None and len(found) != wanted:
        raise refuse(m, rule, count=len(found), wanted=wanted)
    return [(buffer.address, buffer.size) for buffer in found]


@api("acl.op.set_model_dir")
def set_model_dir(m: Machine, folder: str) -> int:
    """set_model_dir(folder) -> ret: loads every om of it; 100002 the second time, 100014 without a usable om.

    The built-in operators of this emulation need no om: those of the folder go before them.
    """
    state = operators.op_state(m)
    if state.folder is not None:
        raise refuse(m, "model.op_dir_repeated")
    found = []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".om"))
    except OSError:
        names = []
    for name in names:
        try:
            found.append(read_om(os.path.join(folder, name), soc=m.soc.name))
        except OmError as problem:
            m.report(operators.refuse_load(m, problem).diagnosis)
    if not found:
        raise refuse(m, "model.op_dir_empty", folder=os.path.basename(os.path.normpath(folder)))
    state.folder = folder
    state.loaded += found
    state.built.clear()
    return 0


@api("acl.op.load")
def load(m: Machine, pointer: int, size: int) -> int:
    """load(pointer, size) -> ret: the om of a single operator in host memory."""
    data = memoryview(bytes(from_memory(m, pointer, size)))
    state = operators.op_state(m)
    try:
        state.loaded.append(read_om(data, soc=m.soc.name))
    except OmError as problem:
        raise operators.refuse_load(m, problem) from None
    state.built.clear()
    return 0


def _execute(
    m: Machine, op_type: str, input_desc: Any, inputs: Any, output_desc: Any, outputs: Any, attr: int, stream: int
) -> int:
    target = take_stream(m, stream)
    given = _buffers(m, inputs, len(_handles(m, input_desc)), "model.op_inputs")
    wanted = _buffers(m, outputs, len(_handles(m, output_desc)), "model.op_outputs")
    op = _described(m, op_type, input_desc, output_desc, _attributes(m, attr), given)
    return operators.submit(m, op, given, wanted, target)


@api("acl.op.execute")
def execute(
    m: Machine, op_type: str, input_desc: Any, inputs: Any, output_desc: Any, outputs: Any, attr: int, stream: int
) -> int:
    """execute(op_type, [descs], [buffers], [descs], [buffers], attr, stream) -> ret: queues it; 100024 if no operator
    fits the descriptions."""
    return _execute(m, op_type, input_desc, inputs, output_desc, outputs, attr, stream)


@api("acl.op.execute_v2")
def execute_v2(
    m: Machine, op_type: str, input_desc: Any, inputs: Any, output_desc: Any, outputs: Any, attr: int, stream: int
) -> int:
    """execute_v2(op_type, [descs], [buffers], [descs], [buffers], attr, stream) -> ret: as execute."""
    return _execute(m, op_type, input_desc, inputs, output_desc, outputs, attr, stream)


def _handle(m: Machine, op: Operator) -> tuple[int, int]:
    if not operators.missing_inputs(op):
        operators.find(m, op, m.here().place)
    return opened(m, OpHandle(op)), 0


@api("acl.op.create_handle")
def create_handle(m: Machine, op_type: str, input_desc: Any, output_desc: Any, attr: int) -> tuple[int, int]:
    """create_handle(op_type, [descs], [descs], attr) -> (handle, ret): 200001 for descriptions in host memory."""
    for desc in (*_handles(m, input_desc), *_handles(m, output_desc)):
        if take(m, desc, TensorDesc).placement == _ON_HOST:
            raise refuse(m, "model.op_host_desc")
    return _handle(m, _described(m, op_type, input_desc, output_desc, _attributes(m, attr)))


@api("acl.op.destroy_handle")
def destroy_handle(m: Machine, handle: int) -> None:
    """destroy_handle(handle): 0 is accepted."""
    if handle:
        take(m, handle, OpHandle)
        m.handles.close(handle, m.here())


@api("acl.op.execute_with_handle")
def execute_with_handle(m: Machine, handle: int, inputs: Any, outputs: Any, stream: int) -> int:
    """execute_with_handle(handle, [buffers], [buffers], stream) -> ret: 100021 and 100022 for other numbers of them."""
    op = take(m, handle, OpHandle).operator
    target = take_stream(m, stream)
    given = _buffers(m, inputs, len(op.inputs), "model.op_inputs")
    wanted = _buffers(m, outputs, len(op.outputs), "model.op_outputs")
    return operators.submit(m, op, given, wanted, target)


def _cast(m: Machine, source: int, destination: int) -> Operator:
    return _described(m, "Cast", [source], [destination], {})


@api("acl.op.cast")
def cast(m: Machine, src_desc: int, src: int, dst_desc: int, dst: int, truncate: int, stream: int) -> int:
    """cast(src_desc, src, dst_desc, dst, truncate, stream) -> ret: truncate is reserved."""
    target = take_stream(m, stream)
    given, wanted = _buffers(m, [src], None, ""), _buffers(m, [dst], None, "")
    return operators.submit(m, _cast(m, src_desc, dst_desc), given, wanted, target)


@api("acl.op.create_handle_for_cast")
def create_handle_for_cast(m: Machine, src_desc: int, dst_desc: int, truncate: int) -> tuple[int, int]:
    """create_handle_for_cast(src_desc, dst_desc, truncate) -> (handle, ret)."""
    return _handle(m, _cast(m, src_desc, dst_desc))


@api("acl.op.infer_shape")
def infer_shape(
    m: Machine, op_type: str, input_desc: Any, inputs: Any, num_outputs: int, output_desc: Any, attr: int
) -> int:
    """infer_shape(op_type, [descs], [buffers], number, [descs], attr) -> ret: fills the output's description."""
    given = _buffers(m, inputs, len(_handles(m, input_desc)), "model.op_inputs")
    (target,) = [take(m, handle, TensorDesc) for handle in _handles(m, output_desc)] or (None,)
    if target is None or num_outputs != 1:
        raise refuse(m, "model.op_outputs", count=num_outputs, wanted=1)
    op = _described(m, op_type, input_desc, [], _attributes(m, attr), given)
    for at in operators.missing_inputs(op):
        op.values[at] = operators.read(m, op.inputs[at], given[at]).copy()
    operands = [single_ops.Operand(tensor, op.values.get(at)) for at, tensor in enumerate(op.inputs)]
    try:
        dtype, dims = single_ops.infer(op_type, operands, op.attributes, target.dtype)
    except single_ops.Unbuildable as problem:
        raise Refused(operators.not_found(op, str(problem), m.here().place).diagnosis) from None
    target.dtype, target.dims = dtype, list(dims)
    return 0


@api("acl.op.set_max_op_queue_num")
def set_max_op_queue_num(m: Machine, number: int) -> int:
    """set_max_op_queue_num(number) -> ret: how many operators are kept; 100000 for 0. Kept, every operator stays."""
    if number == 0:
        raise refuse(m, "runtime.bad_parameter", argument="number", value=0, allowed="above 0")
    return 0
