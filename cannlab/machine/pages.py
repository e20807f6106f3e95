"""Lazy mappings of anonymous memory with their real addresses."""

from __future__ import annotations

import ctypes
import mmap
import sys

POISON = 0xFF
"""What freed memory is filled with: it reads as NaN in every float type and as -1 in signed integers."""
_POISON_WHOLE = 32 << 20
_POISON_HEAD = 1 << 20
PAGE = mmap.PAGESIZE
GUARD = 64 << 10
"""Address space behind each mapping that nobody owns: a pointer that ran past the end is recognised there."""


class Mapping:
    """One mapping. Nothing is committed until it is touched, and nothing is reserved beyond its size.

    The memory lives as long as this object or any memoryview of it: a numpy array made on it cannot outlive it.
    """

    __slots__ = ("address", "reach", "size", "view")

    def __init__(self, size: int) -> None:
        """Map ``size`` bytes (rounded up to pages). MemoryError or OSError if the host has no room for it."""
        self.size = -(-size // PAGE) * PAGE
        self.reach = self.size + GUARD
        if sys.platform == "win32":
            memory = mmap.mmap(-1, self.reach)
        else:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            # Linux: no swap space is set aside for device memory that a program never touches.
            flags |= getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
            memory = mmap.mmap(-1, self.reach, flags=flags)
        self.view = memoryview(memory)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))


_POISONED = memoryview(bytes([POISON]) * (64 << 10))


def poison(mapping: Mapping, offset: int, size: int) -> None:
    """Overwrite freed memory; of a very large block only the head, the rest is given back to the host."""
    if size <= _POISONED.nbytes:
        # A slice costs a third of a call through ctypes.
        mapping.view[offset : offset + size] = _POISONED[:size]
        return
    if size <= _POISON_WHOLE:
        ctypes.memset(mapping.address + offset, POISON, size)
        return
    ctypes.memset(mapping.address + offset, POISON, _POISON_HEAD)
    memory = mapping.view.obj
    if isinstance(memory, mmap.mmap) and hasattr(memory, "madvise"):
        start = -(-(offset + _POISON_HEAD) // PAGE) * PAGE
        memory.madvise(mmap.MADV_DONTNEED, start, (offset + size - start) // PAGE * PAGE)
