"""Datasets: lists of data buffers, not their owners. Source: pyacl-semantics 8.2."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take
from cannlab.acl.functions.data_buffers import DataBuffer
from cannlab.acl.functions.tensor_descs import TensorDesc
from cannlab.machine import Machine


@dataclass
class Dataset:
    """Handles of data buffers in order, and the tensor descriptions that were copied into it by index."""

    buffers: list[int] = field(default_factory=list)
    descs: dict[int, int] = field(default_factory=dict)


name_kind(Dataset, "dataset", "acl.mdl.destroy_dataset")


@api("acl.mdl.create_dataset")
def create_dataset(m: Machine) -> int:
    """create_dataset() -> dataset."""
    return opened(m, Dataset())


@api("acl.mdl.destroy_dataset")
def destroy_dataset(m: Machine, dataset: int) -> int:
    """destroy_dataset(dataset) -> ret: its buffers and their memory stay."""
    entry = take(m, dataset, Dataset)
    for desc in entry.descs.values():
        m.handles.close(desc, m.here())
    m.handles.close(dataset, m.here())
    return 0


@api("acl.mdl.add_dataset_buffer")
def add_dataset_buffer(m: Machine, dataset: int, buffer: int) -> tuple[int, int]:
    """add_dataset_buffer(dataset, buffer) -> (dataset, ret)."""
    if dataset == 0 or buffer == 0:
        m.report(refuse(m, "model.null_dataset").diagnosis)
        return dataset, 100000
    entry = take(m, dataset, Dataset)
    take(m, buffer, DataBuffer)
    entry.buffers.append(buffer)
    return dataset, 0


@api("acl.mdl.get_dataset_num_buffers")
def get_dataset_num_buffers(m: Machine, dataset: int) -> int:
    """get_dataset_num_buffers(dataset) -> count; 0 for 0."""
    return len(take(m, dataset, Dataset).buffers) if dataset else 0


@api("acl.mdl.get_dataset_buffer")
def get_dataset_buffer(m: Machine, dataset: int, index: int) -> int:
    """get_dataset_buffer(dataset, index) -> buffer; 0 for a bad index."""
    buffers = take(m, dataset, Dataset).buffers if dataset else []
    return buffers[index] if index < len(buffers) else 0


@api("acl.mdl.set_dataset_tensor_desc")
def set_dataset_tensor_desc(m: Machine, dataset: int, desc: int, index: int) -> tuple[int, int]:
    """set_dataset_tensor_desc(dataset, desc, index) -> (dataset, ret): copies the desc; 0 takes it out."""
    entry = take(m, dataset, Dataset)
    if index >= len(entry.buffers):
        m.report(refuse(m, "model.bad_index", index=index, count=len(entry.buffers)).diagnosis)
        return dataset, 100000
    old = entry.descs.pop(index, 0)
    if old:
        m.handles.close(old, m.here())
    if desc:
        entry.descs[index] = m.handles.open(deepcopy(take(m, desc, TensorDesc)))
    return dataset, 0


@api("acl.mdl.get_dataset_tensor_desc")
def get_dataset_tensor_desc(m: Machine, dataset: int, index: int) -> int:
    """get_dataset_tensor_desc(dataset, index) -> desc; 0 without one."""
    return take(m, dataset, Dataset).descs.get(index, 0) if dataset else 0
