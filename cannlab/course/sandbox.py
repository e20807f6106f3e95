"""The layers round an answer's process. Each one that a machine lacks is named, never skipped in silence.

Base (Linux and macOS): a session of its own, an empty folder, a clean environment, resource limits, a clock in the
parent. Linux, where it works: user and network namespaces, Landlock, a filter of system calls.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass
from typing import Any

from cannlab.course import landlock, seccomp
from cannlab.course.manifest import Limits

LAYERS = ("limits", "memory", "network", "writing", "system calls")
_MIB = 1024 * 1024
_NEWUSER, _NEWNET = 0x10000000, 0x40000000
_PDEATHSIG = 1


@dataclass(frozen=True)
class Sandbox:
    """What this machine offers, looked up once before any process is made."""

    libc: Any
    filter: seccomp.Filter | str
    writing: landlock.Landlock | str

    @classmethod
    def prepare(cls) -> Sandbox:
        """Look up what there is."""
        libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
        return cls(libc, seccomp.prepare(), landlock.prepare())

    def die_with_parent(self) -> None:
        """End this process when its parent ends (Linux)."""
        if self.libc is not None:
            self.libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def enter(self, folder: str, limits: Limits) -> dict[str, str]:
        """Close every layer round the calling process. Gives "on" or "missing: why" for each."""
        layers = {"network": self._network(), "writing": self._writing(folder)}
        layers |= self._limits(limits)
        layers["system calls"] = self._filter()
        return {name: layers[name] for name in LAYERS}

    def _network(self) -> str:
        if self.libc is None:
            return "missing: only on Linux"
        if self.libc.unshare(_NEWUSER | _NEWNET):
            return f"missing: {os.strerror(ctypes.get_errno())}"
        return "on"

    def _writing(self, folder: str) -> str:
        if isinstance(self.writing, str):
            return f"missing: {self.writing}"
        try:
            self.writing.only(folder)
        except OSError as problem:
            return f"missing: {problem.strerror}"
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
    def _limits(limits: Limits) -> dict[str, str]:
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
            most = mapped_bytes() + limits.memory * _MIB
            lower(resource.RLIMIT_AS, most, most)
            layers["memory"] = "on"
        return layers


def mapped_bytes() -> int:
    """Address space of this process (Linux). Limits count from here: mapped libraries differ between machines."""
    with open("/proc/self/statm", encoding="ascii") as status:
        return int(status.read().split()[0]) * resource.getpagesize()


def limit_memory(mib: int) -> None:
    """Let this process map so many MiB more (its children may set other limits); only on Linux."""
    if sys.platform.startswith("linux"):
        ceiling = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = mapped_bytes() + mib * _MIB
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
