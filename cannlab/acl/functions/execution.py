"""Executing models. Source: pyacl-semantics 9."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import Refused, refuse, take, take_stream
from cannlab.acl.functions.data_buffers import DataBuffer
from cannlab.acl.functions.datasets import Dataset
from cannlab.acl.functions.loading import in_context, loaded
from cannlab.machine import Machine, MemoryKind
from cannlab.machine.models import LoadedModel
from cannlab.om import OmError


def _buffers(m: Machine, dataset: int) -> list[DataBuffer]:
    """The data buffers of a dataset. Raises Refused ``model.null_dataset`` (100000) for a 0 anywhere."""
    if dataset == 0:
        raise refuse(m, "model.null_dataset")
    return [take(m, handle, DataBuffer) for handle in take(m, dataset, Dataset).buffers]


def _pairs(buffers: list[DataBuffer]) -> list[tuple[int, int]]:
    return [(buffer.address, buffer.size) for buffer in buffers]


def _provide(m: Machine, model: LoadedModel, outputs: list[DataBuffer]) -> None:
    """Output buffers with address 0 get device memory, which the caller frees."""
    if len(outputs) != len(model.om.outputs):
        return
    for tensor, buffer in zip(model.om.outputs, outputs, strict=True):
        if buffer.address == 0 and tensor.size:
            block = m.memory.allocate(tensor.size, MemoryKind.DEVICE, model.context.device)
            buffer.address, buffer.size = block.start, block.size


@api("acl.mdl.execute")
def execute(m: Machine, model_id: int, inputs: int, outputs: int) -> int:
    """execute(model_id, inputs, outputs) -> ret: runs the model and waits for it."""
    given, wanted = _buffers(m, inputs), _buffers(m, outputs)
    model = in_context(m, model_id)
    model.check("input", model.om.inputs, _pairs(given))
    _provide(m, model, wanted)
    try:
        model.execute(_pairs(given), _pairs(wanted))
    except OmError as problem:
        raise Refused(replace(problem.diagnosis, where=m.here().place)) from None
    return 0


@api("acl.mdl.execute_async")
def execute_async(m: Machine, model_id: int, inputs: int, outputs: int, stream: int) -> int:
    """execute_async(model_id, inputs, outputs, stream) -> ret: the outputs are there after a synchronisation."""
    given, wanted = _buffers(m, inputs), _buffers(m, outputs)
    model = in_context(m, model_id)
    return model.execute_later(_pairs(given), _pairs(wanted), take_stream(m, stream))


@api("acl.mdl.get_first_aipp_info")
def get_first_aipp_info(m: Machine, model_id: int, index: int) -> tuple[Any, int]:
    """get_first_aipp_info(model_id, index) -> (info, ret); (None, 145015) for an input without AIPP."""
    model = loaded(m, model_id)
    if index >= len(model.om.inputs):
        raise refuse(m, "model.bad_index", index=index, count=len(model.om.inputs))
    raise refuse(m, "model.no_aipp")


@api("acl.mdl.set_dynamic_batch_size")
def set_dynamic_batch_size(m: Machine, model_id: int, dataset: int, index: int, batch: int) -> int:
    """set_dynamic_batch_size(model_id, dataset, index, batch) -> ret: 145013 for a model with fixed shapes."""
    _no_gears(m, model_id, dataset, batch)
    return 0


@api("acl.mdl.set_dynamic_hw_size")
def set_dynamic_hw_size(m: Machine, model_id: int, dataset: int, index: int, height: int, width: int) -> int:
    """set_dynamic_hw_size(model_id, dataset, index, height, width) -> ret: 145013 for a model with fixed shapes."""
    _no_gears(m, model_id, dataset, height and width)
    return 0


def _no_gears(m: Machine, model_id: int, dataset: int, size: int) -> None:
    take(m, dataset, Dataset)
    loaded(m, model_id)
    if size == 0:
        raise refuse(m, "runtime.bad_parameter", argument="size", value=0, allowed="above 0")
    raise refuse(m, "model.not_dynamic")
