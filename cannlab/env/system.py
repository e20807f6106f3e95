"""What check-env looks at: one machine, seen through a small interface.

Every check reads files, variables, packages and sizes through a :class:`System`, never directly, so the
checks can be run on a tree of files that stands for another machine.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath


def installed_version(name: str) -> str | None:
    """Version of an installed Python distribution, from its metadata (nothing is imported); None if absent."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class System:
    """One machine.

    Attributes:
        root: folder that stands for ``/``.
        environ: environment variables.
        python: version of Python (major, minor, micro).
        executable: path of the interpreter.
        prefix: folder of its environment (``sys.prefix``).
        home: the user's home folder, as a path on that machine.
        platform: ``linux``, ``darwin`` or ``win32``.
        machine: ``x86_64`` or ``aarch64``.
        package: distribution name -> installed version or None.
        requirements: what the course needs, as requirement texts (``numpy>=2.4``).
        memory: total bytes of memory; None if unknown.
        disk: path -> free bytes of its file system; None if unknown.
        fork: True if the machine can fork a process.
    """

    root: Path
    environ: Mapping[str, str]
    python: tuple[int, int, int]
    executable: str
    prefix: str
    home: str
    platform: str
    machine: str
    package: Callable[[str], str | None]
    requirements: tuple[str, ...]
    memory: int | None
    disk: Callable[[Path], int | None]
    fork: bool
    denied: frozenset[str] = field(default_factory=frozenset)
    """Paths that this user may not read or write, beside those that the file system refuses."""

    # -- files ---------------------------------------------------------------------------------------

    def path(self, path: str | PurePosixPath) -> Path:
        """Where a path of that machine lies."""
        text = str(path)
        return self.root / text.lstrip("/") if text.startswith("/") else Path(text)

    def exists(self, path: str) -> bool:
        """True if there is such a file or folder (following links)."""
        try:
            return self.path(path).exists()
        except OSError:
            return False

    def is_folder(self, path: str) -> bool:
        """True if the path is a folder."""
        try:
            return self.path(path).is_dir()
        except OSError:
            return False

    def names(self, folder: str) -> list[str]:
        """Sorted names in a folder; [] if it cannot be listed."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def read(self, path: str) -> str:
        """A small text file (its first 64 KiB; bytes that are no UTF-8 are replaced).

        Raises:
            OSError: it is missing or may not be read.
        """
        if path in self.denied:
            raise PermissionError(13, "Permission denied", path)
        with open(self.path(path), "rb") as file:
            return file.read(65536).decode("utf-8", errors="replace")

    def may(self, path: str, mode: int) -> bool:
        """True if this user may use the path so (``os.R_OK``, ``os.W_OK``)."""
        return path not in self.denied and os.access(self.path(path), mode)

    def resolve(self, path: str) -> str:
        """The path with its links followed, as a path on that machine."""
        try:
            real = self.path(path).resolve()
            return "/" + str(real.relative_to(self.root.resolve())).lstrip("/.")
        except (OSError, ValueError, RuntimeError):
            return path


def this_machine() -> System:
    """The machine that this process runs on."""
    return System(
        root=Path("/"),
        environ=dict(os.environ),
        python=sys.version_info[:3],
        executable=sys.executable,
        prefix=sys.prefix,
        home=str(Path.home()),
        platform=sys.platform,
        machine=platform.machine(),
        package=installed_version,
        requirements=course_requirements(),
        memory=total_memory(),
        disk=free_disk,
        fork=hasattr(os, "fork"),
    )


def course_requirements() -> tuple[str, ...]:
    """What cannlab needs, from its installed metadata, or from the checkout's pyproject.toml."""
    checkout = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if checkout.is_file():
        import tomllib

        project = tomllib.loads(checkout.read_text(encoding="utf-8"))["project"]
        return (f"python{project['requires-python']}", *project["dependencies"])
    try:
        metadata = importlib.metadata.metadata("cannlab")
    except importlib.metadata.PackageNotFoundError:
        return ()
    needed = [text for text in metadata.get_all("Requires-Dist") or [] if "extra ==" not in text]
    return (f"python{metadata['Requires-Python']}", *(text.split(";")[0].strip() for text in needed))


def total_memory() -> int | None:
    """Bytes of main memory, or of the container's limit if that is smaller; None if unknown."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            total = min(total, int(text))
    return total


def free_disk(path: Path) -> int | None:
    """Free bytes of the file system that holds a path (or its nearest existing parent); None if unknown."""
    for folder in (path, *path.parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return None
