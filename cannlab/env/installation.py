"""Finds what of the real stack is installed: toolkit, driver, firmware, device nodes.

Source of the paths and file formats: pyacl-and-atc 7; /etc/ascend_install.info names other install roots.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from cannlab.env.system import System
from cannlab.env.toolkit import MARKER
from cannlab.env.version_order import is_version

DEFAULT_ROOT = "/usr/local/Ascend"
DEVICE_MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
"""The nodes that every program needs beside its /dev/davinciN. Source: learner-problems ENV-02."""
PARTS = ("runtime", "compiler", "toolkit", "opp", "opp_kernel", "hccl")
"""The parts of a toolkit that carry a version.info."""


def key_values(text: str) -> dict[str, str]:
    """The ``key=value`` lines of a version file; other lines are left out."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and re.fullmatch(r"\w+", key):
            found.setdefault(key.lower(), value.strip().strip('"'))
    return found


def branches(text: str) -> tuple[str, ...]:
    """The entries of a list such as ``[V100R001C15],[V100R001C18]``, or the pairs of ``[7.0.0,7.2.99]``."""
    return tuple(re.findall(r"\[([^\[\]]*)\]", text))


@dataclass(frozen=True, slots=True)
class VersionFile:
    """A version file: where it is, what it says, and what went wrong reading it ("" if nothing)."""

    path: str
    values: dict[str, str] = field(default_factory=dict)
    problem: str = ""


def read_version_file(system: System, path: str, key: str) -> VersionFile | None:
    """Read a version file and make sure that ``key`` holds a version number; None if there is no file."""
    if not system.exists(path):
        return None
    try:
        values = key_values(system.read(path))
    except OSError as problem:
        return VersionFile(path, {}, problem.strerror or str(problem))
    if key not in values:
        return VersionFile(path, values, f"it has no line {key}=")
    if not is_version(values[key]):
        return VersionFile(path, values, f"{key}={values[key]} is no version number")
    return VersionFile(path, values)


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A real toolkit. ``home`` is its folder, links followed; ``link`` the path it was found by."""

    home: str
    link: str
    version: VersionFile | None
    parts: dict[str, VersionFile]

    @property
    def cann(self) -> str:
        """Its version (``8.1.RC1``); "" if it could not be read."""
        if self.version is None or self.version.problem:
            return ""
        return self.version.values["version"]

    @property
    def set_env(self) -> str:
        """The path of its set_env.sh: beside ``latest`` in an ascend-toolkit folder, inside a newer one."""
        folder, _, name = self.link.rpartition("/")
        return f"{folder}/set_env.sh" if name == "latest" else f"{self.link}/set_env.sh"


@dataclass(frozen=True, slots=True)
class Installation:
    """What is there of the real stack."""

    toolkits: tuple[Toolkit, ...]
    driver: VersionFile | None
    driver_root: str
    firmware: VersionFile | None
    nodes: tuple[str, ...]
    """The /dev/davinciN that exist."""


def install_roots(system: System, given: Sequence[str]) -> list[str]:
    """Folders that may hold an installation, most wanted first."""
    roots = list(given)
    try:
        info = key_values(system.read("/etc/ascend_install.info"))
    except OSError:
        info = {}
    roots += [value for key, value in info.items() if key.endswith("_install_path_param") and value.startswith("/")]
    roots += [DEFAULT_ROOT, f"{system.home}/Ascend"]
    return list(dict.fromkeys(root.rstrip("/") or "/" for root in roots))


def _toolkit(system: System, link: str) -> Toolkit | None:
    if not system.is_folder(link) or system.exists(f"{link}/{MARKER}"):
        return None
    version = None
    for name in system.names(link):
        if name.endswith("-linux"):
            version = read_version_file(system, f"{link}/{name}/ascend_toolkit_install.info", "version")
            if version is not None:
                break
    parts = {}
    for part in PARTS:
        file = read_version_file(system, f"{link}/{part}/version.info", "version_dir")
        if file is not None:
            parts[part] = file
    if version is None and not parts:
        return None
    if version is None:  # a toolkit whose install file is missing: its compiler says which release it is
        first = parts.get("compiler") or next(iter(parts.values()))
        version = VersionFile(
            first.path, {**first.values, "version": first.values.get("version_dir", "")}, first.problem
        )
    return Toolkit(system.resolve(link), link, version, parts)


def find_installation(system: System, given: Sequence[str] = ()) -> Installation:
    """Look for a real installation.

    Args:
        given: folders to look in first (such as /usr/local/Ascend).
    """
    roots = install_roots(system, given)
    links: list[str] = []
    named = system.environ.get("ASCEND_HOME_PATH") or system.environ.get("ASCEND_TOOLKIT_HOME")
    for root in roots if given else ([named] if named else []) + roots:
        links += [root] if root == named else []
        links += [f"{root}/ascend-toolkit/latest", f"{root}/cann", f"{root}/latest", root]
        links += [
            f"{root}/ascend-toolkit/{name}" for name in system.names(f"{root}/ascend-toolkit") if is_version(name)
        ]
    toolkits: dict[str, Toolkit] = {}
    for link in links:
        found = _toolkit(system, link)
        if found is not None:
            toolkits.setdefault(found.home, found)
    driver = firmware = None
    driver_root = ""
    for root in roots:
        if driver is None:
            driver = read_version_file(system, f"{root}/driver/version.info", "version")
            driver_root = f"{root}/driver" if driver is not None else ""
        firmware = firmware or read_version_file(system, f"{root}/firmware/version.info", "version")
    nodes = tuple(f"/dev/{name}" for name in system.names("/dev") if re.fullmatch(r"davinci\d+", name))
    return Installation(tuple(toolkits.values()), driver, driver_root, firmware, nodes)
