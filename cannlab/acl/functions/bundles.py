"""Bundles of graphs, and models fed by queues. Nothing that cannlab emulates makes either, so every load is refused.

Source: pyacl-semantics 9; documentation of acl.mdl.bundle_load_from_file.
"""

from __future__ import annotations

from typing import NoReturn

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, refuse
from cannlab.acl.functions.loading import from_memory, read, require_init
from cannlab.machine import Machine
from cannlab.om import OmModel


def _no_bundle(m: Machine, om: OmModel) -> NoReturn:
    raise refuse(m, "model.no_bundle", name=om.name)


def _unknown(m: Machine, bundle: int) -> NoReturn:
    require_init(m)
    raise refuse(m, "model.unknown_bundle", bundle=bundle)


@api("acl.mdl.bundle_load_from_file")
def bundle_load_from_file(m: Machine, path: str) -> tuple[int, int]:
    """bundle_load_from_file(path) -> (bundle_id, ret): 100000 for an om of one model, and atc makes no other; a missing
    or damaged file has the codes of load_from_file."""
    require_init(m)
    current_context(m)
    _no_bundle(m, read(m, path, for_device=True))


@api("acl.mdl.bundle_load_from_mem")
def bundle_load_from_mem(m: Machine, model: int, size: int) -> tuple[int, int]:
    """bundle_load_from_mem(pointer, size) -> (bundle_id, ret): as bundle_load_from_file."""
    require_init(m)
    current_context(m)
    _no_bundle(m, read(m, memoryview(bytes(from_memory(m, model, size))), for_device=True))


@api("acl.mdl.bundle_unload")
def bundle_unload(m: Machine, bundle: int) -> int:
    """bundle_unload(bundle_id) -> ret: 148053, no bundle can be loaded."""
    _unknown(m, bundle)


@api("acl.mdl.bundle_get_model_num")
def bundle_get_model_num(m: Machine, bundle: int) -> tuple[int, int]:
    """bundle_get_model_num(bundle_id) -> (number, ret): 148053, no bundle can be loaded."""
    _unknown(m, bundle)


@api("acl.mdl.bundle_get_model_id")
def bundle_get_model_id(m: Machine, bundle: int, index: int) -> tuple[int, int]:
    """bundle_get_model_id(bundle_id, index) -> (model_id, ret): 148053, no bundle can be loaded."""
    _unknown(m, bundle)


def _no_queue(m: Machine, om: OmModel, inputs: int, outputs: int) -> NoReturn:
    raise refuse(m, "model.no_queue", inputs=inputs, outputs=outputs)


@api("acl.mdl.load_from_file_with_q")
def load_from_file_with_q(
    m: Machine, path: str, inputs: int, number_of_inputs: int, outputs: int, number_of_outputs: int
) -> tuple[int, int]:
    """load_from_file_with_q(path, in_queues, count, out_queues, count) -> (model_id, ret): 100000, pyACL has no
    function that makes a queue."""
    require_init(m)
    current_context(m)
    _no_queue(m, read(m, path, for_device=True), number_of_inputs, number_of_outputs)


@api("acl.mdl.load_from_mem_with_q")
def load_from_mem_with_q(
    m: Machine, model: int, size: int, inputs: int, number_of_inputs: int, outputs: int, number_of_outputs: int
) -> tuple[int, int]:
    """load_from_mem_with_q(pointer, size, in_queues, count, out_queues, count) -> (model_id, ret): as from a file."""
    require_init(m)
    current_context(m)
    om = read(m, memoryview(bytes(from_memory(m, model, size))), for_device=True)
    _no_queue(m, om, number_of_inputs, number_of_outputs)
