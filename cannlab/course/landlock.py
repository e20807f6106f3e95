"""Reading from named places only, and writing inside one folder only, by Landlock (Linux 5.13 and newer).

Source: the kernel's Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
# write, remove directory and file, make char, dir, regular file, socket, fifo, block, symbolic link
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE, _DEVICES = 1 << 13, 1 << 14, 1 << 15
_READS = _EXECUTE | _READ_FILE | _READ_DIR
_TCP = 0b11
_SCOPED = 0b11


class Landlock:
    """Knows what the kernel offers; each method limits the calling process and its children for good."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.version = int(self._libc.syscall(_CREATE, None, 0, 1))
        if self.version < 1:
            raise OSError(ctypes.get_errno(), "the kernel has no Landlock")
        later = ((2, _REFER), (3, _TRUNCATE), (5, _DEVICES))
        self._changes = _CHANGES | sum(access for version, access in later if self.version >= version)

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

    @contextlib.contextmanager
    def _ruleset(self, files: int, network: int = 0, scoped: int = 0) -> Iterator[int]:
        """A set of rules about these rights; in force when the block ends."""
        fields = [files, network if self.version >= 4 else 0, scoped if self.version >= 6 else 0]
        size = 24 if self.version >= 6 else 16 if self.version >= 4 else 8
        attributes = ctypes.create_string_buffer(struct.pack("=QQQ", *fields), 24)
        ruleset = self._call(_CREATE, attributes, size, 0)
        try:
            yield ruleset
            self._libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
            self._call(_RESTRICT, ruleset, 0)
        finally:
            os.close(ruleset)

    def read_only_from(self, places: Iterable[tuple[Path, bool]]) -> None:
        """From now on only these are read: (path, with everything beneath it; else the names in it only).

        A newer kernel also closes TCP, and signals to processes that are not so limited.
        """
        with self._ruleset(_READS, _TCP, _SCOPED) as ruleset:
            for path, whole in places:
                access = _READS if path.is_dir() else _READ_FILE | _EXECUTE
                self._allow(ruleset, str(path), access if whole else _READ_DIR)

    def only(self, folder: str) -> None:
        """From now on this process writes inside ``folder`` (and to /dev/null) only."""
        with self._ruleset(self._changes) as ruleset:
            self._allow(ruleset, folder, self._changes)
            self._allow(ruleset, "/dev/null", _WRITE_FILE)


def prepare() -> Landlock | str:
    """Landlock, or why there is none."""
    if not sys.platform.startswith("linux"):
        return "only on Linux"
    try:
        return Landlock()
    except OSError as problem:
        return str(problem.strerror or problem)
