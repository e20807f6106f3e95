"""The om file: a container of cannlab's own, written whole and checked whole.

Layout, little-endian::

    header       256 bytes: magic, format version, sizes, flags, versions, SoC, digests
    table        64 bytes for each partition: type, number, offset, size, flags (1: compressed), SHA-256
    partitions   each on a multiple of 64 bytes, in the order of the table

Partition types carry the numbers of the public om format where they mean the same (graph 0, weights 1,
tasks 2). The magic is another one, so that nobody mistakes one file for the other.
Source: pyacl-and-atc 6.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import zlib
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any

from cannlab.om import external
from cannlab.om.errors import om_error
from cannlab.om.external import External
from cannlab.om.model import Fusion, OmModel, OmTensor, Task, Variant

MAGIC = b"CNLABOM\0"
REAL_MAGIC = b"IMOD"
FORMAT_VERSION = 2
ALIGNMENT = 64

_HEADER = struct.Struct("<8sIIQII32s16s16s96s32s")
_HEADER_SIZE = _HEADER.size + 32
_ENTRY = struct.Struct("<IIQQQ32s")
_ENCRYPTED = 1
_COMPRESSED = 1


class Partition(IntEnum):
    """What a partition holds."""

    GRAPH = 0
    WEIGHTS = 1
    TASKS = 2
    META = 100
    GEAR_GRAPH = 101
    """The graph of one gear; the entry's second number is the gear's."""
    GEAR_TASKS = 102


_RULE_OF = {
    Partition.GRAPH: "graph_damaged",
    Partition.WEIGHTS: "weights_damaged",
    Partition.TASKS: "tasks_damaged",
    Partition.META: "graph_damaged",
    Partition.GEAR_GRAPH: "graph_damaged",
    Partition.GEAR_TASKS: "tasks_damaged",
}


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _padded(size: int) -> int:
    return -size % ALIGNMENT


# -- writing -------------------------------------------------------------------------------------------


def to_bytes(model: OmModel) -> bytes:
    """The bytes of the om file: equal for equal models."""
    return b"".join(_pieces(replace(model, external=())))


def _pieces(model: OmModel) -> list[bytes | memoryview]:
    """The bytes of the om file, in pieces, so that the weights are not copied."""
    meta = {
        "name": model.name,
        "inputs": [tensor.to_json() for tensor in model.inputs],
        "outputs": [tensor.to_json() for tensor in model.outputs],
        "work_size": model.work_size,
        "framework": model.framework,
        "precision_mode": model.precision_mode,
        "command": model.command,
        "gears": dict(model.gears),
        "aipp": dict(model.aipp),
        "fusions": [fusion.to_json() for fusion in model.fusions],
        "chip": dict(model.chip),
        **({"external": [item.to_json() for item in model.external]} if model.external else {}),
        **({"original": True} if model.original else {}),
        "variants": [
            {
                "values": list(variant.values),
                "inputs": [tensor.to_json() for tensor in variant.inputs],
                "outputs": [tensor.to_json() for tensor in variant.outputs],
            }
            for variant in model.variants
        ],
    }
    partitions: list[tuple[Partition, int, bytes | memoryview]] = [
        (Partition.META, 0, _json(meta)),
        (Partition.GRAPH, 0, model.graph_bytes),
        (Partition.TASKS, 0, _json([task.to_json() for task in model.tasks])),
        (Partition.WEIGHTS, 0, b"" if model.external else model.weight_bytes),
    ]
    for number, variant in enumerate(model.variants):
        partitions.append((Partition.GEAR_GRAPH, number, variant.graph_bytes))
        partitions.append((Partition.GEAR_TASKS, number, _json([task.to_json() for task in variant.tasks])))
    table = bytearray()
    body: list[bytes | memoryview] = []
    offset = _HEADER_SIZE + _ENTRY.size * len(partitions)
    for kind, number, content in partitions:
        squeezed = model.compressed and kind is not Partition.WEIGHTS
        data = zlib.compress(content) if squeezed else content
        gap = _padded(offset)
        size = memoryview(data).nbytes
        table += _ENTRY.pack(kind, number, offset + gap, size, _COMPRESSED * squeezed, hashlib.sha256(data).digest())
        body += [bytes(gap), data]
        offset += gap + size
    header = _HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        _HEADER_SIZE,
        offset,
        len(partitions),
        _ENCRYPTED if model.encrypted else 0,
        model.soc.encode(),
        model.cann.encode(),
        model.cannlab.encode(),
        b"",
        hashlib.sha256(table).digest(),
    )
    return [header, hashlib.sha256(header).digest(), bytes(table), *body]


def write(model: OmModel, path: str | os.PathLike[str]) -> None:
    """Write the om, whole or not at all, and its weights before it if they lie beside it.

    OSError if the file system refuses.
    """
    target = Path(path)
    if model.external:
        external.write(model, target.parent)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            file.writelines(_pieces(model))
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


# -- reading -------------------------------------------------------------------------------------------


def _map(path: Path) -> memoryview:
    """The file's bytes, mapped; nothing is read before it is needed."""
    try:
        if path.is_dir():
            raise om_error("path", path=path.name, reason="it is a directory")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise om_error("too_small", name=path.name, size=0, needed=_HEADER_SIZE)
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as problem:
        reason = problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)
        raise om_error("path", path=path.name, reason=reason) from problem


def read(source: str | os.PathLike[str] | bytes | bytearray | memoryview, *, soc: str | None = None) -> OmModel:
    """Read and check an om.

    Args:
        source: path of the file, or its bytes. A file is mapped, its weights are not copied.
        soc: the SoC that is to run it; an om for another one is refused. None checks nothing.

    Raises:
        OmError: rules ``om.path``, ``om.too_small``, ``om.real``, ``om.foreign``, ``om.version``, ``om.size``,
            ``om.header_damaged``, ``om.graph_damaged``, ``om.weights_damaged``, ``om.tasks_damaged``, ``om.other_soc``,
            ``om.weights_outside``, ``om.uncompiled``.
    """
    folder = Path(source).parent if isinstance(source, (str, os.PathLike)) else None
    if isinstance(source, (str, os.PathLike)):
        name, data = Path(source).name, _map(Path(source))
    else:
        name, data = "the given memory", memoryview(source).cast("B")
    if data[:4] == REAL_MAGIC:
        raise om_error("real", name=name)
    if len(data) < _HEADER_SIZE:
        raise om_error("too_small", name=name, size=len(data), needed=_HEADER_SIZE)
    fields = _HEADER.unpack_from(data)
    magic, version, header_size, size, count, flags, model_soc, cann, cannlab, _, table_digest = fields
    if magic != MAGIC:
        raise om_error("foreign", name=name)
    if bytes(data[_HEADER.size : _HEADER_SIZE]) != hashlib.sha256(data[: _HEADER.size]).digest():
        raise om_error("header_damaged", name=name)
    if version != FORMAT_VERSION or header_size != _HEADER_SIZE:
        raise om_error("version", name=name, version=version, known=FORMAT_VERSION)
    if size != len(data):
        raise om_error("size", name=name, stated=size, size=len(data))
    end = _HEADER_SIZE + _ENTRY.size * count
    if hashlib.sha256(data[_HEADER_SIZE:end]).digest() != table_digest:
        raise om_error("header_damaged", name=name)
    _check_soc(name, _text(model_soc), soc)
    parts: dict[tuple[int, int], memoryview] = {}
    compressed = False
    for at in range(_HEADER_SIZE, _HEADER_SIZE + _ENTRY.size * count, _ENTRY.size):
        kind, number, offset, length, squeezed, digest = _ENTRY.unpack_from(data, at)
        part = data[offset : offset + length]
        if any(data[end:offset]):
            raise om_error("header_damaged", name=name)
        if hashlib.sha256(part).digest() != digest:
            raise om_error(_RULE_OF[Partition(kind)], name=name, reason="its checksum does not fit")
        parts[kind, number] = memoryview(zlib.decompress(part)) if squeezed & _COMPRESSED else part
        compressed = compressed or bool(squeezed & _COMPRESSED)
        end = offset + length
    try:
        meta = json.loads(bytes(parts[Partition.META, 0]))
        records = tuple(External.from_json(item) for item in meta.get("external", ()))
        if meta.get("original") and soc is not None:
            raise om_error("uncompiled", name=name)
        return OmModel(
            name=meta["name"],
            soc=_text(model_soc),
            cann=_text(cann),
            cannlab=_text(cannlab),
            inputs=tuple(OmTensor.from_json(tensor) for tensor in meta["inputs"]),
            outputs=tuple(OmTensor.from_json(tensor) for tensor in meta["outputs"]),
            tasks=_tasks(parts[Partition.TASKS, 0]),
            graph_bytes=parts[Partition.GRAPH, 0],
            weight_bytes=external.read(records, folder, name) if records else parts[Partition.WEIGHTS, 0],
            work_size=meta["work_size"],
            framework=meta["framework"],
            precision_mode=meta["precision_mode"],
            command=meta["command"],
            gears=meta["gears"],
            aipp=meta["aipp"],
            encrypted=bool(flags & _ENCRYPTED),
            fusions=tuple(Fusion.from_json(fusion) for fusion in meta.get("fusions", ())),
            variants=tuple(
                Variant(
                    values=tuple(int(value) for value in entry["values"]),
                    inputs=tuple(OmTensor.from_json(tensor) for tensor in entry["inputs"]),
                    outputs=tuple(OmTensor.from_json(tensor) for tensor in entry["outputs"]),
                    tasks=_tasks(parts[Partition.GEAR_TASKS, number]),
                    graph_bytes=parts[Partition.GEAR_GRAPH, number],
                )
                for number, entry in enumerate(meta["variants"])
            ),
            chip=meta["chip"],
            external=records,
            compressed=compressed,
            original=bool(meta.get("original")),
        )
    except (ValueError, KeyError, TypeError) as problem:
        # The checksums fit, so the writer was broken, not the file; still no traceback for the one who loads it.
        raise om_error("graph_damaged", name=name, reason=f"its description is not valid ({problem})") from problem


def _tasks(part: memoryview) -> tuple[Task, ...]:
    return tuple(Task.from_json(task) for task in json.loads(bytes(part)))


def _text(field: bytes) -> str:
    return field.rstrip(b"\0").decode("utf-8", "replace")


def _check_soc(name: str, compiled_for: str, running_on: str | None) -> None:
    if running_on is not None and compiled_for != running_on:
        raise om_error("other_soc", name=name, compiled_for=compiled_for, running_on=running_on)
