"""Writing only inside one folder, by Landlock (Linux 5.13 and newer).

Source: the kernel's Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38
_WRITE_FILE = 1 << 1
# write, remove directory and file, make char, dir, regular file, socket, fifo, block, symbolic link
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14


class Landlock:
    """Knows what the kernel offers; :meth:`only` limits the calling process for good."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        version = self._libc.syscall(_CREATE, None, 0, 1)
        if version < 1:
            raise OSError(ctypes.get_errno(), "the kernel has no Landlock")
        self._handled = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)

    def _call(self, *arguments: object) -> int:
        result = int(self._libc.syscall(*arguments))
        if result < 0:
            raise OSError(ctypes.get_errno(), "Landlock refused")
        return result

    def _allow(self, ruleset: int, path: str, access: int) -> None:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = ctypes.create_string_buffer(struct.pack("=Qi", access, opened))
            self._call(_ADD, ruleset, _PATH_BENEATH, rule, 0)
        finally:
            os.close(opened)

    def only(self, folder: str) -> None:
        """From now on this process writes inside ``folder`` (and to /dev/null) only."""
        attributes = ctypes.create_string_buffer(struct.pack("=Q", self._handled))
        ruleset = self._call(_CREATE, attributes, 8, 0)
        try:
            self._allow(ruleset, folder, self._handled)
            self._allow(ruleset, "/dev/null", _WRITE_FILE)
            self._libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
            self._call(_RESTRICT, ruleset, 0)
        finally:
            os.close(ruleset)


def prepare() -> Landlock | str:
    """Landlock, or why there is none."""
    if not sys.platform.startswith("linux"):
        return "only on Linux"
    try:
        return Landlock()
    except OSError as problem:
        return str(problem.strerror or problem)
