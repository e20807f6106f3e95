"""Loading and unloading models. Source: pyacl-semantics 9."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cannlab.acl import dumps, profiling
from cannlab.acl.binding import api
from cannlab.acl.checks import Refused, current_context, refuse
from cannlab.acl.state import acl_state
from cannlab.machine import Machine
from cannlab.machine.models import LoadedModel
from cannlab.om import OmError, OmModel
from cannlab.om import read as read_om


def require_init(m: Machine) -> None:
    """Models need acl.init. Raises Refused ``model.not_initialised`` (145001)."""
    if acl_state(m).inits == 0:
        raise refuse(m, "model.not_initialised")


def loaded(m: Machine, model_id: int) -> LoadedModel:
    """The model of an id.

    Raises:
        Refused: ``model.not_initialised`` (145001), ``model.unknown_id`` (145003).
    """
    require_init(m)
    model = acl_state(m).models.get(model_id)
    if model is None:
        raise refuse(m, "model.unknown_id", model=model_id)
    return model


def in_context(m: Machine, model_id: int) -> LoadedModel:
    """The model of an id, if it was loaded in the current context; 107002 without one, 107004 for another."""
    model = loaded(m, model_id)
    if current_context(m) is not model.context:
        raise refuse(m, "model.other_context")
    return model


def read(m: Machine, source: str | memoryview, *, for_device: bool) -> OmModel:
    """Read and check an om. Raises Refused with the code that loading gives."""
    try:
        return read_om(source, soc=m.soc.name if for_device else None)
    except OmError as problem:
        raise Refused(replace(problem.diagnosis, where=m.here().place)) from None


def from_memory(m: Machine, pointer: int, size: int) -> memoryview:
    """The bytes of an om in host memory."""
    if pointer == 0 or size == 0:
        raise refuse(m, "model.null_model")
    return m.memory.view(pointer, size, "host", write=False)


def _load(m: Machine, om: OmModel, path: str = "", *, work: bool = True, weights: bool = True) -> tuple[int, int]:
    context = current_context(m)
    state = acl_state(m)
    number = state.next_model
    try:
        executor = dumps.executor(m, om, Path(path).stem, number, lambda: state.models[number])
    except OmError as problem:
        raise Refused(replace(problem.diagnosis, where=m.here().place)) from None
    state.models[number] = LoadedModel(m, om, executor, context, work, weights)
    state.next_model += 1
    profiling.watch(m, number, state.models[number])
    return number, 0


@api("acl.mdl.load_from_file")
def load_from_file(m: Machine, path: str) -> tuple[int, int]:
    """load_from_file(path) -> (model_id, ret)."""
    require_init(m)
    current_context(m)
    return _load(m, read(m, path, for_device=True), path)


@api("acl.mdl.load_from_mem")
def load_from_mem(m: Machine, model: int, size: int) -> tuple[int, int]:
    """load_from_mem(pointer, size) -> (model_id, ret): the om's bytes in host memory, which may go afterwards."""
    require_init(m)
    current_context(m)
    return _load(m, read(m, memoryview(bytes(from_memory(m, model, size))), for_device=True))


@api("acl.mdl.load_from_file_with_mem")
def load_from_file_with_mem(
    m: Machine, path: str, work: int, work_size: int, weight: int, weight_size: int
) -> tuple[int, int]:
    """load_from_file_with_mem(path, work, work_size, weight, weight_size) -> (model_id, ret).

    The caller's device memory is used; pointer 0 with size 0 lets the library allocate.
    """
    require_init(m)
    current_context(m)
    return _load_with(m, read(m, path, for_device=True), work, work_size, weight, weight_size, path)


@api("acl.mdl.load_from_mem_with_mem")
def load_from_mem_with_mem(
    m: Machine, model: int, size: int, work: int, work_size: int, weight: int, weight_size: int
) -> tuple[int, int]:
    """load_from_mem_with_mem(pointer, size, work, work_size, weight, weight_size) -> (model_id, ret)."""
    require_init(m)
    current_context(m)
    om = read(m, memoryview(bytes(from_memory(m, model, size))), for_device=True)
    return _load_with(m, om, work, work_size, weight, weight_size)


def _load_with(
    m: Machine, om: OmModel, work: int, work_size: int, weight: int, weight_size: int, path: str = ""
) -> tuple[int, int]:
    for kind, pointer, given, needed in (
        ("work", work, work_size, om.work_size),
        ("weight", weight, weight_size, om.weight_size),
    ):
        if pointer == 0 and given == 0:
            continue
        if given < needed:
            raise refuse(m, "model.work_memory", kind=kind, given=given, needed=needed)
        if needed:
            m.memory.resolve(pointer, needed, "device", write=True)
    return _load(m, om, path, work=work == 0, weights=weight == 0)


@api("acl.mdl.unload")
def unload(m: Machine, model_id: int) -> int:
    """unload(model_id) -> ret: 107004 in another context than that of the load."""
    model = in_context(m, model_id)
    model.unload()
    del acl_state(m).models[model_id]
    return 0


@api("acl.mdl.query_size")
def query_size(m: Machine, path: str) -> tuple[int, int, int]:
    """query_size(path) -> (work_size, weight_size, ret): device memory that the model needs, bytes."""
    om = read(m, path, for_device=False)
    return om.work_size, om.weight_size, 0


@api("acl.mdl.query_size_from_mem")
def query_size_from_mem(m: Machine, model: int, size: int) -> tuple[int, int, int]:
    """query_size_from_mem(pointer, size) -> (work_size, weight_size, ret)."""
    om = read(m, from_memory(m, model, size), for_device=False)
    return om.work_size, om.weight_size, 0
