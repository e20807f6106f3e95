"""The record of a run: everything that the simulated machine did, once, in flat numbers.

The checks, the profiler, the pictures and the score read this and nothing else. It names no address,
process, absolute path or wall-clock time, so that two runs of one program give the same record.
Times are simulated nanoseconds since the machine started.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.errors import Place
from cannlab.trace.kernel import KernelTrace
from cannlab.trace.tables import Strings, Table
from cannlab.trace.whole_file import write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 1
LEAKS = ("memory.leak", "runtime.leak", "model.not_unloaded")
"""Rules of what a program made and did not destroy."""


class TaskKind(IntEnum):
    """What a task of a stream does."""

    COPY_H2D = 1
    COPY_D2H = 2
    COPY_D2D = 3
    COPY_H2H = 4
    MEMSET = 5
    MODEL = 6
    """A whole execution of a model; its operators follow as OPERATOR rows with this row as parent."""
    OPERATOR = 7
    KERNEL = 8
    EVENT_RECORD = 9
    EVENT_WAIT = 10
    EVENT_RESET = 11
    CALLBACK = 12
    COPY_P2P = 13


class Record:
    """What one machine did.

    Attributes:
        calls: host API calls: thread, name (string number), start, end (ns), code (what it returned),
            file (string number), line.
        tasks: work on the device: device, stream, kind (TaskKind), name, op_type, core_type (string
            numbers: "AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "AI_CPU", "MEMCPY_ASYNC", ...), queued, start,
            end (ns), bytes, blocks, parent (task row or -1), kernel (index into ``kernels`` or -1), file, line.
        memory: changes of device and pinned memory: device, kind (string number), time (ns), allocation,
            bytes (negative when freed), file, line.
        faults: diagnoses found while running, as JSON-ready dictionaries, in order.
        kernels: the instruction traces of kernel launches.
    """

    def __init__(self, soc: str, devices: int, cann: str) -> None:
        self.soc = soc
        self.devices = devices
        self.cann = cann
        self.strings = Strings()
        self.calls = Table(("thread", "name", "start", "end", "code", "file", "line"))
        self.tasks = Table(
            ("device", "stream", "kind", "name", "op_type", "core_type", "queued", "start", "end")
            + ("bytes", "blocks", "parent", "kernel", "file", "line")
        )
        self.memory = Table(("device", "kind", "time", "allocation", "bytes", "file", "line"))
        self.faults: list[dict[str, Any]] = []
        self.kernels: list[KernelTrace] = []

    def place(self, place: Place | None) -> tuple[int, int]:
        """A place as (string number of the file, line); (0, 0) for none."""
        return (0, 0) if place is None else (self.strings.number(place.file), place.line)

    @property
    def leaks(self) -> list[dict[str, Any]]:
        """The faults that tell of something made and never destroyed: one for each kind and line."""
        return [fault for fault in self.faults if fault["rule"] in LEAKS]

    # -- keeping -------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Flat numeric arrays only; texts and faults are JSON in a byte array."""
        import numpy as np

        meta = {
            "version": VERSION,
            "soc": self.soc,
            "devices": self.devices,
            "cann": self.cann,
            "strings": self.strings.texts,
            "faults": self.faults,
            "kernels": len(self.kernels),
        }
        arrays: dict[str, NDArray[Any]] = {
            "meta": np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8),
            "calls": self.calls.array(),
            "tasks": self.tasks.array(),
            "memory": self.memory.array(),
        }
        for number, kernel in enumerate(self.kernels):
            for name, values in kernel.to_arrays().items():
                arrays[f"kernel{number}.{name}"] = values
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Record:
        """The inverse of :meth:`to_arrays`. ValueError for another version or a damaged record."""
        meta = json.loads(bytes(arrays["meta"]).decode())
        if meta.get("version") != VERSION:
            raise ValueError(f"record version {meta.get('version')} is not {VERSION}: run the program again")
        record = cls(meta["soc"], meta["devices"], meta["cann"])
        record.strings = Strings(list(meta["strings"]))
        record.faults = list(meta["faults"])
        for name in ("calls", "tasks", "memory"):
            getattr(record, name).fill(arrays[name])
        for number in range(meta["kernels"]):
            prefix = f"kernel{number}."
            part = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
            record.kernels.append(KernelTrace.from_arrays(part))
        return record

    def to_bytes(self) -> bytes:
        """The record as the bytes of an .npz file (equal records give equal bytes)."""
        import numpy as np

        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, values in sorted(self.to_arrays().items()):
                part = io.BytesIO()
                np.lib.format.write_array(part, np.ascontiguousarray(values), allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue(), zipfile.ZIP_DEFLATED)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Record:
        """Read what :meth:`to_bytes` wrote. ValueError if it is not a record."""
        import numpy as np

        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                return cls.from_arrays(dict(arrays))
        except (zipfile.BadZipFile, KeyError, OSError, json.JSONDecodeError) as problem:
            raise ValueError(f"not a record of a run: {problem}") from problem

    def save(self, path: Path) -> None:
        """Write the record to a file, whole or not at all."""
        write_whole(path, self.to_bytes())

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read a record from a file."""
        return cls.from_bytes(path.read_bytes())

    def digest(self) -> str:
        """SHA-256 over the arrays: equal for two runs that did the same."""
        digest = hashlib.sha256()
        for name, values in sorted(self.to_arrays().items()):
            digest.update(name.encode())
            digest.update(values.tobytes())
        return digest.hexdigest()
