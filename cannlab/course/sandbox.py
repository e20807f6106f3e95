"""The layers round an answer's process. Each one that a machine lacks is named, never skipped in silence.

Base (Linux and macOS): a session of its own, an empty folder, a clean environment, resource limits, a clock in the
parent. Linux, where it works: namespaces (network, processes, mounts), Landlock, no capabilities, a filter of system
calls. ``enclose`` is called once, in the process that answers are forked from; ``enter`` in each answer's process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cannlab.course import landlock, seccomp
from cannlab.course.manifest import Limits
from cannlab.course.readable import readable

LAYERS = ("limits", "memory", "disk", "processes", "network", "reading", "writing", "privileges", "system calls")
_MIB = 1024 * 1024
_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_PDEATHSIG, _DUMPABLE = 1, 4
_DETACH = 2
_NOSUID, _NODEV, _NOEXEC, _PRIVATE = 2, 4, 8, 0x40000 | 0x4000
_CAPABILITIES = 0x20080522
_SCRATCH_FILES = 20_000


@dataclass(frozen=True)
class Sandbox:
    """What this machine offers, looked up once before any process is made.

    ``scratch_mib``: MiB that all files of one answer together may take.
    """

    libc: Any
    filter: seccomp.Filter | str
    landlock: landlock.Landlock | str
    scratch_mib: int = 512

    @classmethod
    def prepare(cls) -> Sandbox:
        """Look up what there is."""
        libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
        return cls(libc, seccomp.prepare(), landlock.prepare())

    def die_with_parent(self) -> None:
        """End this process when its parent ends (Linux)."""
        if self.libc is not None:
            self.libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def hide_memory(self) -> None:
        """Let no process of this user look into this one (Linux)."""
        if self.libc is not None:
            self.libc.prctl(_DUMPABLE, 0, 0, 0, 0)

    def namespaces(self, *, processes: bool) -> dict[str, str]:
        """Leave the machine's network and mounts; ``processes``: the next child is the first of a namespace."""
        if self.libc is None:
            return dict.fromkeys(("network", "processes"), "missing: only on Linux")
        wanted = _NEWNET | _NEWIPC | _NEWNS | (_NEWPID if processes else 0)
        own = os.geteuid(), os.getegid()
        # As an ordinary user by way of a user namespace; as root also without, where those are switched off.
        for flags in (wanted | _NEWUSER, wanted, _NEWNET | _NEWUSER):
            if not self.libc.unshare(flags):
                break
        else:
            why = f"missing: {os.strerror(ctypes.get_errno())}"
            return {"network": why, "processes": why}
        if flags & _NEWUSER:
            _map_user(*own)
        apart = "on" if flags & _NEWPID else "missing: no namespace for processes"
        return {"network": "on", "processes": apart}

    def scratch(self, folder: str) -> dict[str, str]:
        """Put a file system of limited size, held in memory, on ``folder``; it goes when the namespace does."""
        if self.libc is None:
            return {"disk": "missing: only on Linux"}
        size = f"size={self.scratch_mib}m,nr_inodes={_SCRATCH_FILES},mode=0700".encode()
        failed = self.libc.mount(b"none", b"/", None, _PRIVATE, None) or self.libc.mount(
            b"cannlab", folder.encode(), b"tmpfs", _NOSUID | _NODEV | _NOEXEC, size
        )
        return {"disk": f"missing: {os.strerror(ctypes.get_errno())}" if failed else "on"}

    def remove_scratch(self, folder: str) -> None:
        """Undo :meth:`scratch`, and remove the folder."""
        if self.libc is not None:
            self.libc.umount2(folder.encode(), _DETACH)
        shutil.rmtree(folder, ignore_errors=True)

    def close_reading(self, folder: str) -> dict[str, str]:
        """From now on only Python, its packages and ``folder`` are read."""
        if isinstance(self.landlock, str):
            return {"reading": f"missing: {self.landlock}"}
        try:
            self.landlock.read_only_from([*readable(), (Path(folder), True)])
        except OSError as problem:
            return {"reading": f"missing: {problem.strerror}"}
        return {"reading": "on"}

    def enter(self, folder: str, limits: Limits, mapped: int) -> dict[str, str]:
        """Close the layers that each answer's process has for itself; "on" or "missing: why" for each.

        ``mapped``: bytes of address space that count as there before (mapped_bytes).
        """
        layers = {"writing": self._writing(folder), "privileges": self._privileges()}
        layers |= self._limits(limits, mapped)
        layers["system calls"] = self._filter()
        return layers

    def _writing(self, folder: str) -> str:
        if isinstance(self.landlock, str):
            return f"missing: {self.landlock}"
        try:
            self.landlock.only(folder)
        except OSError as problem:
            return f"missing: {problem.strerror}"
        return "on"

    def _privileges(self) -> str:
        """Drop every capability: root in the answer is nobody special."""
        if self.libc is None:
            return "missing: only on Linux"
        header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
        if self.libc.capset(header, (ctypes.c_uint32 * 6)()):
            return f"missing: {os.strerror(ctypes.get_errno())}"
        return "on"

    def _filter(self) -> str:
        if isinstance(self.filter, str):
            return f"missing: {self.filter}"
        try:
            self.filter.load()
        except OSError as problem:
            return f"missing: {problem.strerror}"
        return "on"

    @staticmethod
    def _limits(limits: Limits, mapped: int) -> dict[str, str]:
        def lower(what: int, soft: int, hard: int) -> None:
            ceiling = resource.getrlimit(what)[1]
            if ceiling != resource.RLIM_INFINITY:
                soft, hard = min(soft, ceiling), min(hard, ceiling)
            resource.setrlimit(what, (soft, hard))

        lower(resource.RLIMIT_CPU, limits.cpu, limits.cpu + 1)
        lower(resource.RLIMIT_FSIZE, limits.disk * _MIB, limits.disk * _MIB)
        lower(resource.RLIMIT_NOFILE, limits.files, limits.files)
        lower(resource.RLIMIT_CORE, 0, 0)
        layers = {"limits": "on", "memory": "missing: no address-space limit here"}
        if sys.platform.startswith("linux"):
            most = mapped + limits.memory * _MIB
            lower(resource.RLIMIT_AS, most, most)
            layers["memory"] = "on"
        return layers


def _map_user(user: int, group: int) -> None:
    """Be in the new user namespace whom one is outside; without it, one is nobody, which mounting refuses."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError), open(f"/proc/self/{name}", "wb", buffering=0) as file:
            file.write(text.encode())


def open_status() -> int:
    """A descriptor for :func:`mapped_bytes`, which works when /proc is closed; -1 where there is none (macOS)."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def mapped_bytes(status: int) -> int:
    """Address space of the process that opened ``status``. Limits count from here: mapped libraries differ."""
    return 0 if status < 0 else int(os.pread(status, 64, 0).split()[0]) * resource.getpagesize()


def limit_memory(mib: int) -> None:
    """Let this process map so many MiB more (its children may set other limits); only on Linux."""
    if sys.platform.startswith("linux"):
        ceiling = resource.getrlimit(resource.RLIMIT_AS)[1]
        status = open_status()
        most = mapped_bytes(status) + mib * _MIB
        os.close(status)
        soft = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
        resource.setrlimit(resource.RLIMIT_AS, (soft, ceiling))


def clean_environment(folder: str) -> dict[str, str]:
    """The variables that an answer's process has; nothing of the learner's shell."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT") if name in os.environ}
    return kept | {
        "HOME": folder,
        "TMPDIR": folder,
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": folder,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "CANNLAB_DIAGNOSES": "off",
    }
