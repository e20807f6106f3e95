"""Executing models. Source: pyacl-semantics 9."""

from __future__ import annotations

from cannlab.acl import dumps
from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take, take_stream
from cannlab.acl.functions.data_buffers import DataBuffer
from cannlab.acl.functions.datasets import Dataset
from cannlab.acl.functions.loading import in_context
from cannlab.acl.functions.tensor_descs import TensorDesc
from cannlab.machine import Machine, MemoryKind, TaskFault
from cannlab.machine.models import LoadedModel, Output
from cannlab.om import OmTensor


def _buffers(m: Machine, dataset: int) -> list[DataBuffer]:
    """The data buffers of a dataset. Raises Refused ``model.null_dataset`` (100000) for a 0 anywhere."""
    if dataset == 0:
        raise refuse(m, "model.null_dataset")
    return [take(m, handle, DataBuffer) for handle in take(m, dataset, Dataset).buffers]


def _pairs(buffers: list[DataBuffer]) -> list[tuple[int, int]]:
    return [(buffer.address, buffer.size) for buffer in buffers]


def _shapes(m: Machine, model: LoadedModel, dataset: Dataset) -> list[tuple[int, ...]] | None:
    """Shapes of the inputs from the dataset's descriptions, for a model with ranges.

    Raises:
        Refused: ``model.no_input_shape`` (100000) where an open input has no description.
    """
    if not model.om.dynamic:
        return None
    found = []
    for index, tensor in enumerate(model.om.inputs):
        handle = dataset.descs.get(index, 0)
        if not handle and not tensor.fixed:
            raise refuse(m, "model.no_input_shape", index=index, name=tensor.name)
        found.append(tuple(take(m, handle, TensorDesc).dims) if handle else tensor.dims)
    return found


def _describe(m: Machine, model: LoadedModel, dataset: Dataset, given: list[Output]) -> None:
    """Give the real shapes of the outputs to the dataset's descriptions."""
    for index, (tensor, output) in enumerate(zip(model.om.outputs, given, strict=True)):
        made = TensorDesc(tensor.dtype, list(output.dims), tensor.format, name=tensor.name)
        handle = dataset.descs.get(index, 0)
        if handle:
            old = take(m, handle, TensorDesc)
            old.dtype, old.dims, old.format = made.dtype, made.dims, made.format
        else:
            dataset.descs[index] = m.handles.open(made)


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
    shapes = _shapes(m, model, take(m, inputs, Dataset))
    if shapes is None:
        model.check("input", model.om.inputs, _pairs(given))
        _provide(m, model, wanted)
    try:
        made = model.execute(_pairs(given), _pairs(wanted), shapes)
    except TaskFault as fault:
        described = _described(model, given, wanted)
        dumps.write_failure(m, described, model.context.device.index, model.number, m.sequence, fault.code)
        raise
    if shapes is not None:
        for buffer, output in zip(wanted, made, strict=True):
            buffer.address, buffer.size = output.address, output.size
        _describe(m, model, take(m, outputs, Dataset), made)
    return 0


@api("acl.mdl.execute_async")
def execute_async(m: Machine, model_id: int, inputs: int, outputs: int, stream: int) -> int:
    """execute_async(model_id, inputs, outputs, stream) -> ret: the outputs are there after a synchronisation."""
    given, wanted = _buffers(m, inputs), _buffers(m, outputs)
    model = in_context(m, model_id)
    shapes = _shapes(m, model, take(m, inputs, Dataset))
    target = take(m, outputs, Dataset)

    def done(made: list[Output]) -> None:
        for buffer, output in zip(wanted, made, strict=True):
            buffer.address, buffer.size = output.address, output.size
        _describe(m, model, target, made)

    queue = take_stream(m, stream)
    code = model.execute_later(_pairs(given), _pairs(wanted), queue, shapes, None if shapes is None else done)
    dumps.describe(m, queue.last, _described(model, given, wanted))
    return code


def _described(model: LoadedModel, inputs: list[DataBuffer], outputs: list[DataBuffer]) -> dumps.Described:
    def sized(tensors: tuple[OmTensor, ...], buffers: list[DataBuffer]) -> tuple[tuple[OmTensor, int, int], ...]:
        return tuple((tensor, *pair) for tensor, pair in zip(tensors, _pairs(buffers), strict=False))

    return dumps.Described("Model", model.om.name, sized(model.om.inputs, inputs), sized(model.om.outputs, outputs))
