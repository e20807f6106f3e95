"""Weights in files beside the om (``--external_weight``): a file for each constant, or one for all.

They lie in the folder ``weight`` beside the om. A file of one constant is called ``weight_`` and the SHA-256 of its
bytes, so equal constants share one; in one file for all a constant begins at a multiple of 512 bytes. Source:
documentation of the option.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.om.errors import om_error
from cannlab.trace.whole_file import write_whole

if TYPE_CHECKING:
    from cannlab.om.model import OmModel

FOLDER = "weight"
ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class External:
    """One constant in a file.

    Attributes:
        file: the file's name, without a folder.
        at: where it begins in the file. offset: where it belongs in ``OmModel.weight_bytes``. size: bytes.
        sha256: of its bytes.
    """

    file: str
    at: int
    offset: int
    size: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> External:
        """The inverse of :meth:`to_json`; ValueError, KeyError or TypeError for anything else."""
        found = cls(str(data["file"]), int(data["at"]), int(data["offset"]), int(data["size"]), str(data["sha256"]))
        if found.file != Path(found.file).name or min(found.at, found.offset, found.size) < 0:
            raise ValueError("a constant outside of its file")
        return found


def outside(model: OmModel, combined: str = "") -> OmModel:
    """The model with its weights in files beside it.

    Args:
        combined: name of one file for all; "" gives each constant its own.
    """
    records, end = [], 0
    for offset, size in sorted({place for graph in _graphs(model) for place in _places(graph)}):
        digest = hashlib.sha256(memoryview(model.weight_bytes)[offset : offset + size]).hexdigest()
        at = -(-end // ALIGNMENT) * ALIGNMENT if combined else 0
        records.append(External(combined or f"weight_{digest}", at, offset, size, digest))
        end = at + size
    return replace(model, external=tuple(records))


def _graphs(model: OmModel) -> Iterable[Any]:
    for part in [model.at(gear) for gear in range(len(model.variants))] or [model]:
        yield part.graph().graph


def _places(graph: Any) -> Iterable[tuple[int, int]]:
    for tensor in graph.initializer:
        place = {entry.key: entry.value for entry in tensor.external_data}
        if "offset" in place:
            yield int(place["offset"]), int(place["length"])


def write(model: OmModel, folder: Path) -> None:
    """Write the files into the folder ``weight`` beside the om. OSError if the file system refuses."""
    weights = memoryview(model.weight_bytes)
    contents: dict[str, bytearray] = {}
    for item in model.external:
        content = contents.setdefault(item.file, bytearray())
        content += bytes(max(0, item.at - len(content)))
        content[item.at : item.at + item.size] = weights[item.offset : item.offset + item.size]
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_whole(folder / FOLDER / name, content)


def read(records: tuple[External, ...], folder: Path | None, name: str) -> bytes:
    """The weights of an om, put together from the files beside it.

    Args:
        folder: where the om is; None if it came from memory.
        name: the om, for messages.

    Raises:
        OmError: rules ``om.weights_outside``, ``om.weights_damaged``.
    """
    if folder is None:
        raise om_error("weights_outside", name=name, reason="a model from memory has no folder beside it")
    weights = bytearray(max((item.offset + item.size for item in records), default=0))
    files: dict[str, bytes] = {}
    for item in records:
        if item.file not in files:
            try:
                files[item.file] = (folder / FOLDER / item.file).read_bytes()
            except OSError as problem:
                reason = f"{FOLDER}/{item.file}: {problem.strerror or problem}"
                raise om_error("weights_outside", name=name, reason=reason) from problem
        data = memoryview(files[item.file])[item.at : item.at + item.size]
        if hashlib.sha256(data).hexdigest() != item.sha256:
            raise om_error("weights_damaged", name=f"{FOLDER}/{item.file}", reason="its checksum does not fit")
        weights[item.offset : item.offset + item.size] = data
    return bytes(weights)
