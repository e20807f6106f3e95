"""Plain data between processes: JSON, and arrays as raw bytes behind it. Nothing is ever unpickled.

A frame is: 8 bytes length of the JSON, 8 bytes length of the blob, the JSON, the blob. What comes from an
answer's process is untrusted: every length is checked before anything is allocated.
"""

from __future__ import annotations

import json
import os
import re
import struct
from typing import Any

import numpy as np

from cannlab.course.values import Foreign

_HEAD = struct.Struct("<QQ")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_DEPTH = 40
_TEXT = 200
_MOST_JSON = 16 * 1024 * 1024
"""Bytes of a stranger's JSON: objects take many times their text. Arrays go into the blob."""
_DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    + ("float16", "float32", "float64", "complex64", "complex128", "bfloat16")
)


class BrokenFrame(ValueError):
    """Bytes that are no frame, or a frame larger than allowed. ``large`` tells the two apart."""

    def __init__(self, message: str, *, large: bool = False) -> None:
        super().__init__(message)
        self.large = large


class TooLarge(ValueError):
    """A value that does not fit into the blob's limit."""


class Blob(bytearray):
    """The bytes behind a frame's JSON, up to a limit."""

    def __init__(self, limit: int = 1 << 40) -> None:
        super().__init__()
        self.limit = limit

    def room(self, size: int) -> None:
        """TooLarge if so many bytes do not fit any more."""
        if len(self) + size > self.limit:
            raise TooLarge

    def put(self, data: bytes | bytearray) -> list[int]:
        """Append bytes; gives their [offset, length]."""
        self.room(len(data))
        self.extend(data)
        return [len(self) - len(data), len(data)]


def _dtype(name: str) -> np.dtype[Any]:
    if name not in _DTYPES:
        raise BrokenFrame(f"no dtype {name!r}")
    if name == "bfloat16":
        import ml_dtypes

        brain: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return brain
    return np.dtype(name)


def _array(value: np.ndarray[Any, Any], blob: Blob) -> Any:
    name = value.dtype.name
    if name not in _DTYPES:
        return {"foreign": [f"array of {value.dtype}", ""]}
    blob.room(value.nbytes)
    at, size = blob.put(np.ascontiguousarray(value).tobytes())
    return {"array": [name, list(value.shape), at, size]}


def _foreign(value: Any) -> Any:
    kind = type(value)
    if kind.__module__.split(".")[0] == "torch" and kind.__name__ in ("Tensor", "Parameter"):
        return None
    try:
        text = str(repr(value))[:_TEXT]
    except BaseException:
        text = ""
    return {"foreign": [str(kind.__name__)[:_TEXT], text]}


def _tensor(value: Any) -> np.ndarray[Any, Any]:
    """A torch tensor as an array of the same dtype and shape."""
    import torch

    host = value.detach().cpu().contiguous()
    if host.dtype is torch.bfloat16:
        import ml_dtypes

        bits: np.ndarray[Any, Any] = host.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return bits
    array: np.ndarray[Any, Any] = host.numpy()
    return array


def tree(value: Any, blob: Blob, depth: int = 0) -> Any:
    """A value as JSON; arrays go into the blob. Only exact types are plain: a subclass becomes Foreign."""
    kind = type(value)
    if depth > _DEPTH:
        return {"foreign": [kind.__name__, "nested too deep"]}
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if abs(value) < 2**53 else {"int": hex(value)}
    if kind is float:
        return value if value - value == 0.0 else {"float": repr(value)}
    if kind is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if kind is bytes or kind is bytearray:
        return {"bytes": blob.put(value)}
    if kind is list or kind is tuple:
        return {kind.__name__: [tree(item, blob, depth + 1) for item in value]}
    if kind is set or kind is frozenset:
        return {"set": [tree(item, blob, depth + 1) for item in sorted(value, key=repr)]}
    if kind is dict:
        return {"dict": [[tree(key, blob, depth + 1), tree(item, blob, depth + 1)] for key, item in value.items()]}
    if kind is np.ndarray:
        return _array(value, blob)
    if (kind.__module__ in ("numpy", "ml_dtypes") and issubclass(kind, np.generic)) or kind.__name__ == "bfloat16":
        single = np.asarray(value)
        return {"scalar": _array(single, blob).get("array")} if single.dtype.name in _DTYPES else _foreign(value)
    foreign = _foreign(value)
    return _array(_tensor(value), blob) if foreign is None else foreign


def _cut(blob: bytes, at: Any, size: Any) -> bytes:
    if type(at) is not int or type(size) is not int or at < 0 or size < 0 or at + size > len(blob):
        raise BrokenFrame("a length points outside the frame")
    return blob[at : at + size]


def _array_back(entry: Any, blob: bytes) -> np.ndarray[Any, Any]:
    name, shape, at, size = entry
    dtype = _dtype(name)
    if type(shape) is not list or len(shape) > 32 or not all(type(n) is int and n >= 0 for n in shape):
        raise BrokenFrame("no shape")
    count = 1
    for n in shape:
        count *= n
    if count * dtype.itemsize != size:
        raise BrokenFrame("shape and bytes disagree")
    return np.frombuffer(_cut(blob, at, size), dtype=dtype).reshape(shape)


def untree(node: Any, blob: bytes) -> Any:
    """The inverse of :func:`tree`. BrokenFrame if the node is none of its making."""
    if node is None or type(node) in (bool, str, int, float):
        return node
    if type(node) is not dict or len(node) != 1:
        raise BrokenFrame("no value")
    ((key, body),) = node.items()
    try:
        if key == "int":
            return int(body, 16)
        if key == "float":
            return float(body)
        if key == "complex":
            return complex(float(body[0]), float(body[1]))
        if key == "bytes":
            return _cut(blob, body[0], body[1])
        if key == "list":
            return [untree(item, blob) for item in body]
        if key == "tuple":
            return tuple(untree(item, blob) for item in body)
        if key == "set":
            return {untree(item, blob) for item in body}
        if key == "dict":
            return {untree(name, blob): untree(item, blob) for name, item in body}
        if key == "array":
            return _array_back(body, blob)
        if key == "scalar":
            return _array_back(body, blob)[()]
        if key == "foreign":
            return Foreign(str(body[0])[:_TEXT], str(body[1])[:_TEXT])
    except (TypeError, ValueError, IndexError, RecursionError) as problem:
        raise BrokenFrame(f"no {key}") from problem
    raise BrokenFrame(f"no value of kind {key!r}")


def pack(message: Any, blob: bytes = b"") -> bytes:
    """A frame from JSON-ready data and a blob."""
    text = json.dumps(message).encode()
    return _HEAD.pack(len(text), len(blob)) + text + blob


def pack_value(value: Any) -> bytes:
    """A frame that holds one plain value."""
    blob = Blob()
    node = tree(value, blob)
    return pack(node, bytes(blob))


class Frames:
    """Cuts a stream of bytes into frames. BrokenFrame for anything else, before it is stored.

    ``stranger``: it comes from an answer's process. Then JSON is limited too, and texts that no file can hold (lone
    surrogates) are mended.
    """

    def __init__(self, limit: int, *, stranger: bool = False) -> None:
        self._limit = limit
        self._stranger = stranger
        self._total = 0
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[Any, bytes]]:
        """The frames that are complete with these bytes."""
        self._data += data
        self._total += len(data)
        if self._total > self._limit:
            raise BrokenFrame("too much data", large=True)
        found = []
        while len(self._data) >= _HEAD.size:
            n_text, n_blob = _HEAD.unpack_from(self._data)
            if n_text + n_blob > self._limit or (self._stranger and n_text > _MOST_JSON):
                raise BrokenFrame("a frame that is too large", large=True)
            end = _HEAD.size + n_text + n_blob
            if len(self._data) < end:
                break
            text = bytes(self._data[_HEAD.size : _HEAD.size + n_text])
            blob = bytes(self._data[_HEAD.size + n_text : end])
            del self._data[:end]
            try:
                message = json.loads(text)
                if self._stranger and _SURROGATE.search(text):
                    message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
            except (ValueError, RecursionError, MemoryError) as problem:
                raise BrokenFrame("no JSON", large=isinstance(problem, MemoryError)) from problem
            found.append((message, blob))
        return found

    @property
    def rest(self) -> int:
        """Bytes of a frame that is not complete."""
        return len(self._data)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
