"""Is an address of this process readable, writable? Asked of the operating system, never by touching it."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

from cannlab.machine.pages import PAGE

_FEW_PAGES = 64


def accessible(address: int, size: int, *, write: bool) -> bool:
    """True if every byte of [address, address + size) is mapped and readable (and writable if ``write``)."""
    if address <= 0 or size < 0 or address + size >= 1 << 64:
        return False
    if size == 0:
        return True
    pages = (address + size - 1) // PAGE - address // PAGE + 1
    if sys.platform == "linux" and pages > _FEW_PAGES:
        covered = _covered_by_maps(address, address + size, write)
        if covered is not None:
            return covered
    if os.name != "posix":
        return False
    return _kernel_can_touch(address, size, write)


def _covered_by_maps(start: int, end: int, write: bool) -> bool | None:
    """By the process's list of mappings; None if it cannot be read."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return None
    at = start
    for line in lines:
        span, permissions = line.split(maxsplit=2)[:2]
        low, high = (int(part, 16) for part in span.split("-"))
        if high <= at:
            continue
        if low > at:
            return False
        if "r" not in permissions or (write and "w" not in permissions):
            return False
        at = high
        if at >= end:
            return True
    return False


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("read", "write"):
        function = getattr(libc, name)
        function.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
        function.restype = ctypes.c_ssize_t
    return libc


def _kernel_can_touch(address: int, size: int, write: bool) -> bool:
    """Let the kernel move one byte of each page through a pipe: it answers EFAULT where we would crash."""
    libc = _libc()
    receive, send = os.pipe()
    try:
        page = address - address % PAGE
        while page < address + size:
            at = max(page, address)
            if libc.write(send, at, 1) != 1:
                return False
            if write:
                # The same byte goes back to where it came from.
                if libc.read(receive, at, 1) != 1:
                    return False
            else:
                os.read(receive, 1)
            page += PAGE
        return True
    finally:
        os.close(receive)
        os.close(send)
