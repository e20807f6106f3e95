"""Pointers of numpy arrays and bytes. Source: pyacl-semantics 11."""

from __future__ import annotations

import ctypes
import warnings
from math import prod
from typing import Any

from cannlab.acl.binding import api
from cannlab.errors import diagnose
from cannlab.machine import Machine, MemoryFault

_NPY_TYPES = {
    0: "bool",
    1: "int8",
    2: "uint8",
    3: "int16",
    4: "uint16",
    5: "int32",
    6: "uint32",
    7: "int64",
    8: "uint64",
    9: "int64",
    10: "uint64",
    11: "float32",
    12: "float64",
    14: "complex64",
    15: "complex128",
    23: "float16",
}
"""NPY_TYPES numbers on a 64-bit Linux."""


def _warn(old: str, new: str) -> None:
    # The learner's frame: this function, the body, the binding's function, the caller.
    warnings.warn(f"acl.util.{old} is deprecated: use acl.util.{new} instead", Warning, stacklevel=4)


def _pointer(m: Machine, array: Any) -> int:
    address = int(array.ctypes.data)
    root = array
    while getattr(root, "base", None) is not None:
        root = root.base
    if m.memory.blocks.find(address) is None and array.nbytes:
        low, high = _bounds(array)
        m.memory.known_host(low, high - low, root)
    return address


def _bounds(array: Any) -> tuple[int, int]:
    """The range of memory that belongs to an array, its base included where numpy owns that."""
    from numpy.lib.array_utils import byte_bounds

    root = array
    while getattr(root, "base", None) is not None and type(root.base) is type(array):
        root = root.base
    low, high = byte_bounds(root)
    return int(low), int(high)


@api("acl.util.numpy_to_ptr")
def numpy_to_ptr(m: Machine, array: Any) -> int:
    """numpy_to_ptr(array) -> pointer: keeps no reference, the array must live as long as the pointer."""
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise ValueError("numpy_to_ptr needs a numpy.ndarray")
    _warn("numpy_to_ptr", "bytes_to_ptr")
    if not array.flags.c_contiguous:
        warnings.warn("numpy_to_ptr: the array is not contiguous in memory", Warning, stacklevel=3)
    return _pointer(m, array)


@api("acl.util.numpy_contiguous_to_ptr")
def numpy_contiguous_to_ptr(m: Machine, array: Any) -> tuple[int, Any]:
    """numpy_contiguous_to_ptr(array) -> (pointer, contiguous array); keep the array."""
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise ValueError("numpy_contiguous_to_ptr needs a numpy.ndarray")
    _warn("numpy_contiguous_to_ptr", "bytes_to_ptr")
    contiguous = np.ascontiguousarray(array)
    return _pointer(m, contiguous), contiguous


@api("acl.util.ptr_to_numpy")
def ptr_to_numpy(m: Machine, pointer: int, shape: Any, npy_type: int) -> Any:
    """ptr_to_numpy(pointer, shape, npy_type) -> array: a writable view of the memory; shape is a tuple."""
    import numpy as np

    if not isinstance(shape, tuple) or not all(isinstance(dim, int) and dim >= 0 for dim in shape):
        raise TypeError("acl.util.ptr_to_numpy args parse failed")
    name = _NPY_TYPES.get(npy_type)
    if name is None:
        raise ValueError(f"ptr_to_numpy does not know the numpy type number {npy_type}")
    _warn("ptr_to_numpy", "ptr_to_bytes")
    dtype = np.dtype(name)
    view = _host_view(m, pointer, prod(shape) * dtype.itemsize, write=True)
    return np.frombuffer(view, dtype).reshape(shape)


@api("acl.util.bytes_to_ptr")
def bytes_to_ptr(m: Machine, data: Any) -> int:
    """bytes_to_ptr(data) -> pointer into the bytes object itself; writing through it changes the object."""
    if not isinstance(data, bytes):
        raise ValueError("bytes_to_ptr needs bytes")
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    m.memory.known_host(address, max(len(data), 1), data)
    return address


@api("acl.util.ptr_to_bytes")
def ptr_to_bytes(m: Machine, pointer: int, size: int) -> bytes:
    """ptr_to_bytes(pointer, size) -> a copy of that much host memory."""
    return bytes(_host_view(m, pointer, size, write=False))


def _host_view(m: Machine, pointer: int, size: int, *, write: bool) -> memoryview:
    """Memory that the host looks at. Refused where the real module would crash; device memory is reported.

    Raises:
        ValueError: for memory that does not exist (the real module crashes).
    """
    if size == 0:
        return memoryview(bytearray())
    try:
        found = m.memory.resolve(pointer, size, write=write)
        view = m.memory.view(pointer, size, write=write)
    except MemoryFault as fault:
        m.report(fault.diagnosis)
        raise ValueError(fault.diagnosis.text()) from None
    if not write:
        m.memory.check_reuse(found, writing=False)
    if found.block is not None and not found.on_host:
        block = found.block
        others = (("allocated at", block.made.place),) if block.made.place is not None else ()
        m.report(diagnose("memory.device_view", where=m.here().place, others=others, memory=block.name))
    return view
