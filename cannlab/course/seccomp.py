"""A filter of system calls for answers' processes: no processes, no network, no signals, no tracing, no mounts.

It goes through libseccomp, which most Linux systems have; without it the layer is named as missing.
Source: seccomp(2), seccomp_rule_add(3).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import sys
from typing import Any

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_NOT_EQUAL, _MASKED_EQ = 1, 7
_CLONE_THREAD = 0x10000
_DENIED = (
    ("fork", "vfork", "execve", "execveat", "socket", "ptrace", "kill", "tkill", "tgkill", "pidfd_send_signal")
    + ("mount", "umount2", "unshare", "setns", "bpf", "keyctl", "add_key", "request_key", "io_uring_setup")
    + ("process_vm_readv", "process_vm_writev", "userfaultfd", "perf_event_open", "pidfd_getfd", "pidfd_open")
    + ("rt_sigqueueinfo", "rt_tgsigqueueinfo", "process_madvise", "process_mrelease", "kcmp", "chroot", "pivot_root")
    + ("fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "mount_setattr", "swapon", "acct")
    + ("setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr", "migrate_pages")
)


class _Argument(ctypes.Structure):
    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


class Filter:
    """The filter, built once; :meth:`load` puts it on the calling process for good."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.seccomp_init.restype = ctypes.c_void_p
        library.seccomp_init.argtypes = (ctypes.c_uint32,)
        library.seccomp_syscall_resolve_name.argtypes = (ctypes.c_char_p,)
        library.seccomp_load.argtypes = (ctypes.c_void_p,)
        self._rule = library.seccomp_rule_add_array
        self._rule.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
        self._context = library.seccomp_init(_ALLOW)
        if not self._context:
            raise OSError("seccomp_init failed")
        for name in _DENIED:
            self._deny(name, errno.EPERM)
        # Threads are made by clone with CLONE_THREAD; clone3 hides its flags, so glibc is sent back to clone.
        self._deny("clone", errno.EPERM, _Argument(0, _MASKED_EQ, _CLONE_THREAD, 0))
        self._deny("clone3", errno.ENOSYS)
        # One's own limits may be read and lowered; those of another process not.
        self._deny("prlimit64", errno.EPERM, _Argument(0, _NOT_EQUAL, 0, 0))

    def _deny(self, name: str, code: int, argument: _Argument | None = None) -> None:
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number == -1:
            return
        pointer = None if argument is None else ctypes.addressof(argument)
        result = self._rule(self._context, _ERRNO | code, number, int(argument is not None), pointer)
        # A call that this architecture lacks cannot be made either; anything else is a failure.
        if result not in (0, -errno.EDOM):
            raise OSError(-result, f"seccomp_rule_add({name}) failed")

    def load(self) -> None:
        """Put the filter on this process. OSError if the kernel refuses."""
        result = self._library.seccomp_load(self._context)
        if result:
            raise OSError(-result, "seccomp_load failed")


def prepare() -> Filter | str:
    """The filter, or why there is none."""
    if not sys.platform.startswith("linux"):
        return "only on Linux"
    name = ctypes.util.find_library("seccomp") or "libseccomp.so.2"
    try:
        return Filter(ctypes.CDLL(name))
    except (OSError, AttributeError) as problem:
        return f"libseccomp: {problem}"
