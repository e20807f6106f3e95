"""What an answer may read: Python, its packages, cannlab itself; never the course's checks and solutions.

An allow-list, so whatever else lies on the machine (submissions, reports, home folders, a checkout and its history) is
closed without being named.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
CLOSED = (_PACKAGE / "course" / "checks", _PACKAGE / "_course")
"""Hold references and solutions."""

_SYSTEM = (
    ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share", "/usr/local/share")
    + ("/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/etc/ssl", "/etc/mime.types")
    + ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
    + ("/proc/cpuinfo", "/proc/meminfo", "/proc/sys/kernel/osrelease", "/sys/devices/system")
)
_PACKAGES = ("site-packages", "dist-packages")


def _roots() -> Iterator[Path]:
    """Where Python and its packages lie."""
    named = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sysconfig.get_paths().values()]
    named += [entry for entry in sys.path if Path(entry).name in _PACKAGES]
    yield from (Path(name) for name in (*named, *_SYSTEM) if name and name != "/")
    yield _PACKAGE


def _except(path: Path, closed: tuple[Path, ...]) -> Iterator[tuple[Path, bool]]:
    """``path`` without what is closed beneath it: itself, or its names and each open part of it."""
    real = path.resolve()
    if any(real.is_relative_to(shut) for shut in closed):
        return
    if not any(shut.is_relative_to(real) for shut in closed):
        yield real, True
        return
    yield real, False
    for entry in sorted(os.listdir(real)):
        yield from _except(real / entry, closed)


def readable() -> list[tuple[Path, bool]]:
    """(path, True) for what may be read with everything beneath it, (path, False) for a folder whose names may be
    listed. Links are followed."""
    closed = tuple(shut.resolve() for shut in CLOSED if shut.exists())
    found: dict[Path, bool] = {}
    for root in dict.fromkeys(_roots()):
        if root.exists():
            for path, whole in _except(root, closed):
                found[path] = found.get(path, False) or whole
    return list(found.items())
