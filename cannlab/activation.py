"""Activation: makes ``import acl``, ``import asc`` and the other real names answer with the emulated packages.

Nothing is installed under these names. :func:`activate` puts a finder in front of the import system: the
top-level name is mapped to the package that emulates it, and one module object stands under both names
(``asc.runtime.config`` is ``cannlab.ascendc.runtime.config``). Child processes are reached through the
environment: PYTHONPATH names a folder with one thin module for each name, as ``set_env.sh`` names the
toolkit's ``python/site-packages``; PATH names its ``bin``, so that ``atc`` works in a shell or a cell.

``CANNLAB_BACKEND`` says which packages answer: ``emulated``, ``real`` (nothing is done, but a device must be
there), or ``auto`` (default): the real ones if they import and report at least one device, else the emulated.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TextIO

EMULATED = {
    "acl": "cannlab.acl",
    "asc": "cannlab.ascendc",
    "aclruntime": "cannlab.aclruntime",
    "torch_npu": "cannlab.torch_npu",
}
"""Real top-level name -> the package that emulates it. One that does not exist yet is not offered."""

BACKENDS = ("auto", "emulated", "real")

PROFILE = "CANNLAB_MSPROF"
"""The variable that asks for a profile of the process: JSON, as the profiler's part of the file of acl.init."""

_PROBE = "import acl; count, code = acl.rt.get_device_count(); print('devices', count if code == 0 else 0)"


def emulated_names() -> tuple[str, ...]:
    """The real names that this version emulates."""
    return tuple(name for name, package in EMULATED.items() if importlib.util.find_spec(package) is not None)


def _emulated_name(fullname: str) -> str:
    top, dot, rest = fullname.partition(".")
    return EMULATED[top] + dot + rest


class _Alias(importlib.abc.Loader):
    """Loads a module under its real name by importing the emulated one: the same object, unchanged."""

    def __init__(self, emulated: str) -> None:
        self.emulated = emulated
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.emulated)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just put the alias' spec on the module: give it its own back.
        module.__spec__ = self.spec
        _alias_loaded()


def _alias_loaded() -> None:
    """Enter every loaded emulated submodule under its real name too."""
    for real, emulated in EMULATED.items():
        if real not in sys.modules and emulated not in sys.modules:
            continue
        prefix = emulated + "."
        for name in [name for name in sys.modules if name.startswith(prefix)]:
            sys.modules.setdefault(f"{real}.{name.removeprefix(prefix)}", sys.modules[name])


class _Finder(importlib.abc.MetaPathFinder):
    """Maps the real names to the emulated packages."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in EMULATED:
            return None
        emulated = _emulated_name(fullname)
        found = importlib.util.find_spec(emulated)
        if found is None:
            return None
        spec = ModuleSpec(fullname, _Alias(emulated), is_package=found.submodule_search_locations is not None)
        if found.submodule_search_locations is not None:
            spec.submodule_search_locations = list(found.submodule_search_locations)
        return spec


_finder = _Finder()
_environment_before: dict[str, str | None] = {}
_answered: str | None = None


def backend() -> str:
    """The value of ``CANNLAB_BACKEND``.

    Raises:
        CannlabError: rule ``env.backend_unknown`` for another word.
    """
    value = os.environ.get("CANNLAB_BACKEND") or "auto"
    if value not in BACKENDS:
        from cannlab.errors import CannlabError, diagnose

        raise CannlabError(diagnose("env.backend_unknown", value=value, known=", ".join(BACKENDS)))
    return value


def _search_path() -> list[str]:
    """sys.path without the folder we stand in (a learner's own acl.py is not the toolkit) and without our hooks."""
    from cannlab.env.toolkit import MARKER

    here = os.path.abspath(os.getcwd())
    kept = []
    for folder in sys.path:
        full = os.path.abspath(folder or here)
        if full == here or os.path.isfile(os.path.join(full, os.pardir, os.pardir, MARKER)):
            continue
        kept.append(full)
    return kept


def real_devices() -> int:
    """How many devices the real pyACL reports; 0 if it is not installed or does not import.

    It is asked in a child process: importing it here would leave its libraries in this process.
    """
    path = _search_path()
    found = PathFinder.find_spec("acl", path)
    if found is None or found.loader is None:
        return 0
    env = {**os.environ, "CANNLAB_BACKEND": "real", "PYTHONPATH": os.pathsep.join(path)}
    try:
        answer = subprocess.run(
            [sys.executable, "-c", _PROBE], env=env, capture_output=True, text=True, timeout=60, cwd=os.path.sep
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    words = answer.stdout.split()
    return int(words[-1]) if answer.returncode == 0 and words[-2:-1] == ["devices"] and words[-1].isdecimal() else 0


def chosen_backend() -> str:
    """``emulated`` or ``real``: what :func:`activate` takes (decided once for a process and its children).

    Raises:
        CannlabError: rules ``env.backend_unknown``; ``env.real_backend_missing`` if ``real`` is asked for
            and no real device answers.
    """
    wanted = backend()
    if wanted == "emulated":
        return wanted
    devices = real_devices()
    if devices:
        return "real"
    if wanted == "real":
        from cannlab.errors import CannlabError, diagnose

        raise CannlabError(diagnose("env.real_backend_missing"))
    return "emulated"


def is_active() -> bool:
    """True if the real names are answered by the emulation in this process."""
    return _finder in sys.meta_path


def is_real() -> bool:
    """True if :func:`activate` found real devices: they answer in this process."""
    return _answered == "real"


def activate(tell: TextIO | None = None) -> str:
    """Make the emulated packages importable under their real names, here and in child processes.

    Calling it again changes nothing. With ``CANNLAB_BACKEND=auto`` one line says which backend was taken, on
    ``tell`` (stderr by default; a notebook shows stderr as a warning, so it gives stdout). Changes
    ``sys.meta_path``, ``sys.path`` and the environment; :func:`deactivate` takes it back.

    Returns:
        ``emulated`` or ``real``.

    Raises:
        CannlabError: see :func:`chosen_backend`; also rule ``env.cache_unwritable``, and ``soc.unknown`` or
            ``soc.device_count`` for bad settings.
    """
    global _answered
    if is_active():
        return "emulated"
    announce = backend() == "auto" and _answered is None
    _answered = chosen_backend()
    if announce:
        print(f"cannlab: {_description(_answered)}", file=tell or sys.stderr)
    if _answered == "real":
        return _answered

    from cannlab.env.toolkit import emulated_toolkit

    toolkit = emulated_toolkit(emulated_names())
    changed = {**toolkit.environment(os.environ), "CANNLAB_BACKEND": "emulated"}
    for name, value in changed.items():
        _environment_before.setdefault(name, os.environ.get(name))
        os.environ[name] = value
    install()
    # multiprocessing's spawned children take over sys.path, not PYTHONPATH.
    hooks = str(toolkit.hooks)
    if hooks not in sys.path:
        sys.path.append(hooks)
    return "emulated"


def _description(taken: str) -> str:
    if taken == "real":
        return "real device found: acl, asc and torch_npu are the real ones (CANNLAB_BACKEND=emulated to emulate)"
    from cannlab import soc
    from cannlab.env import versions

    cann = versions.labelled(versions.emulated().cann)
    return f"no real NPU here: emulating {soc.device_count()} x {soc.current().name}, CANN {cann}"


def install() -> None:
    """Put the finder in front of the import system, and nothing else."""
    if not is_active():
        sys.meta_path.insert(0, _finder)
        if os.environ.get(PROFILE):
            _profile(os.environ[PROFILE])


def _profile(asked: str) -> None:
    """``msprof`` runs this process: profile its machine, once there is one."""
    import json

    from cannlab.machine import node

    def begin(machine: node.Machine) -> None:
        from cannlab.acl.profiling import begin_configured

        begin_configured(machine, json.loads(asked))

    node.begun.append(begin)


def take_over(name: str) -> None:
    """What a thin module of the emulated toolkit calls: put the emulated package in its own place.

    Raises:
        ModuleNotFoundError: this version of cannlab does not emulate ``name``.
    """
    install()
    sys.modules[name] = importlib.import_module(EMULATED[name])
    _alias_loaded()


def deactivate() -> None:
    """Take back what :func:`activate` changed in this process."""
    global _answered
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name.partition(".")[0] in EMULATED]:
        module = sys.modules[name]
        if getattr(module, "__name__", "").startswith("cannlab."):
            del sys.modules[name]
    from cannlab.env.toolkit import MARKER

    sys.path[:] = [
        folder for folder in sys.path if not os.path.isfile(os.path.join(folder, os.pardir, os.pardir, MARKER))
    ]
    for name, value in _environment_before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _environment_before.clear()
    _answered = None
