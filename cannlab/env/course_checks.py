"""The checks of what the course itself needs, on any machine."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator

from cannlab.env.findings import Finding, broken, note, ok, warned
from cannlab.env.system import System
from cannlab.env.version_order import is_version, version_key

_GIB = 1 << 30
_DISK_GIB = 1
_MEMORY_GIB = 2
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)\s*(?:\[[^\]]*\])?\s*(.*)")


def _satisfies(version: str, wanted: str) -> bool:
    """True if a version meets a specifier such as ``>=2.4,<3`` (``>=``, ``>``, ``<=``, ``<``, ``==``, ``!=``)."""
    for part in filter(None, (part.strip() for part in wanted.split(","))):
        found = re.fullmatch(r"(>=|<=|==|!=|~=|>|<)\s*([\w.+]+)", part)
        if found is None or not is_version(version) or not is_version(found[2]):
            continue
        have, need = version_key(version), version_key(found[2])
        holds = {
            ">=": have >= need,
            "~=": have >= need,
            "<=": have <= need,
            "==": have == need,
            "!=": have != need,
            ">": have > need,
            "<": have < need,
        }
        if not holds[found[1]]:
            return False
    return True


def check_packages(system: System) -> Iterator[Finding]:
    """Python and the packages that pyproject.toml names, by their metadata (nothing is imported)."""
    python = ".".join(str(number) for number in system.python)
    missing: list[str] = []
    old: list[tuple[str, str]] = []
    count = 0
    for requirement in system.requirements:
        found = _REQUIREMENT.fullmatch(requirement)
        assert found is not None, requirement
        name, wanted = found[1], found[2].strip()
        if name == "python":
            if _satisfies(python, wanted):
                yield ok("course.python", f"Python {python}")
            else:
                yield broken("course.python", "env.python_too_old", python=python, wanted=wanted)
            continue
        count += 1
        version = system.package(name)
        if version is None:
            missing.append(requirement)
        elif not _satisfies(version, wanted):
            old.append((requirement, f"{name} {version}"))
    executable = shlex.quote(system.executable)
    if missing:
        quoted = " ".join(shlex.quote(text) for text in missing)
        packages = ", ".join(missing)
        yield broken("course.packages", "env.package_missing", packages=packages, quoted=quoted, python=executable)
    if old:
        yield broken(
            "course.packages",
            "env.package_too_old",
            wanted=", ".join(text for text, _ in old),
            found=", ".join(text for _, text in old),
            quoted=" ".join(shlex.quote(text) for text, _ in old),
            python=executable,
        )
    if not count:
        yield note("course.packages", "cannlab's own metadata is not installed here: its packages are not checked")
    elif not missing and not old:
        yield ok("course.packages", f"{count} Python packages of the course")


def check_kernel(system: System) -> Iterator[Finding]:
    """A Jupyter kernel that starts this Python."""
    folder = f"{system.prefix}/share/jupyter/kernels/python3"
    executable = shlex.quote(system.executable)
    if not system.exists(f"{folder}/kernel.json"):
        yield broken("course.kernel", "env.kernel_missing", folder=folder, python=executable)
        return
    try:
        started = str(json.loads(system.read(f"{folder}/kernel.json"))["argv"][0])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        yield broken(
            "course.kernel", "env.kernel_other_python", folder=folder, found="nothing readable", python=executable
        )
        return
    named = os.path.dirname(started)
    if named and named.rstrip("/") != os.path.dirname(system.executable):
        yield broken("course.kernel", "env.kernel_other_python", folder=folder, found=started, python=executable)
        return
    yield ok("course.kernel", "Jupyter kernel python3")


def check_folders(system: System) -> Iterator[Finding]:
    """A writable home and cache, and space there."""
    cache = system.environ.get("CANNLAB_CACHE", "")
    for folder in filter(None, (system.home, cache)):
        nearest = folder
        while folder == cache and nearest != "/" and not system.exists(nearest):
            nearest = os.path.dirname(nearest) or "/"
        if not system.is_folder(nearest) or not system.may(nearest, os.W_OK):
            yield broken("course.home", "env.home_unwritable", folder=folder)
            return
    yield ok("course.home", f"{system.home} is writable")
    free = system.disk(system.path(system.home))
    if free is None:
        yield note("course.disk", "free disk space is unknown")
    elif free < _DISK_GIB * _GIB:
        yield broken(
            "course.disk",
            "env.disk_low",
            folder=system.home,
            free=f"{free / _GIB:.1f}",
            wanted=_DISK_GIB,
            need="the course",
        )
    else:
        yield ok("course.disk", f"{free / _GIB:.0f} GiB of disk space free")


def check_memory(system: System) -> Iterator[Finding]:
    """Memory for the lessons."""
    if system.memory is None:
        yield note("course.memory", "the size of the memory is unknown")
    elif system.memory < _MEMORY_GIB * _GIB:
        memory = f"{system.memory / _GIB:.1f}"
        yield broken("course.memory", "env.memory_low", memory=memory, wanted=_MEMORY_GIB)
    else:
        yield ok("course.memory", f"{system.memory / _GIB:.0f} GiB of memory")


def check_judging(system: System) -> Iterator[Finding]:
    """How answers are run: forked child, limits, network."""
    if not system.fork:
        yield warned("course.judging", "env.no_fork", platform=system.platform)
        return
    yield ok("course.judging", "answers run in a forked child with limits on time, file size and open files")
    if system.platform != "linux":
        yield note("course.limits", f"{system.platform} does not enforce a memory limit, and answers keep the network")
        return
    try:
        namespaces = int(system.read("/proc/sys/user/max_user_namespaces").strip() or "0") > 0
    except (OSError, ValueError):
        namespaces = False
    if namespaces:
        yield ok("course.limits", "memory limit; answers can be cut off from the network (user namespaces)")
    else:
        yield note("course.limits", "memory limit; answers keep the network (no user namespaces on this machine)")


def check_course(system: System) -> Iterator[Finding]:
    """Every check of what the course needs."""
    yield from check_packages(system)
    yield from check_kernel(system)
    yield from check_folders(system)
    yield from check_memory(system)
    yield from check_judging(system)
