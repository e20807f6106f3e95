"""The ``dump`` part of a configuration file. Source: pyacl-semantics 2.1; runtime documentation, dump configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ALLOWED: dict[str, tuple[str, ...]] = {
    "dump_mode": ("input", "output", "all"),
    "dump_op_switch": ("on", "off"),
    "dump_data": ("tensor", "stats"),
    "dump_scene": ("aic_err_brief_dump", "aic_err_norm_dump", "aic_err_detail_dump", "lite_exception", "watcher"),
    "dump_debug": ("on", "off"),
    "dump_level": ("op", "kernel", "all"),
}
_KERNEL_DATA = ("all", "printf", "tensor", "assert", "timestamp")
_LONGEST_PATH = 512


class InvalidDump(ValueError):
    """A configuration that is refused; the text says why."""


@dataclass(frozen=True)
class DumpConfig:
    """What to dump.

    Attributes:
        path: the folder below which the files go.
        inputs, outputs: which tensors of an operator.
        models: by name (None: every model) the operators wanted (None: all of them).
        operators: single operators, too. statistics: numbers instead of the data.
        overflows: only the operators in which numbers left the range. failures: operators that fail on the AI cores;
            ``brief`` leaves their shapes and types out.
    """

    path: Path
    inputs: bool = False
    outputs: bool = True
    models: tuple[tuple[str | None, frozenset[str] | None], ...] = ()
    operators: bool = False
    statistics: bool = False
    overflows: bool = False
    failures: bool = False
    brief: bool = False

    def layers(self, *names: str) -> frozenset[str] | bool | None:
        """What is wanted of a model with one of those names: operators, None for all of them, False for nothing."""
        if self.overflows:
            return None
        for known, layers in self.models:
            if known is None or known in names:
                return layers
        return False


def parse(dump: Any) -> DumpConfig | None:
    """The configuration; None where nothing is to be dumped. Raises InvalidDump."""
    if dump is None:
        return None
    if not isinstance(dump, dict):
        raise InvalidDump("dump is not an object")
    _check_values(dump)
    if not dump:
        return None
    scene, overflows = dump.get("dump_scene"), dump.get("dump_debug") == "on"
    models, operators = _models(dump.get("dump_list")), dump.get("dump_op_switch") == "on"
    if scene == "watcher":
        if overflows or operators:
            raise InvalidDump("dump_scene watcher excludes dump_debug and dump_op_switch")
    elif scene is not None and (models or operators or overflows):
        raise InvalidDump("an exception dump (dump_scene) cannot be combined with another dump")
    elif overflows and (models or operators):
        raise InvalidDump("dump_debug cannot be combined with dump_list or dump_op_switch")
    if scene is not None and scene != "watcher":
        return DumpConfig(_failure_path(dump), failures=True, brief=scene != "aic_err_norm_dump")
    if not (models or operators or overflows):
        if "dump_kernel_data" in dump:
            return None
        raise InvalidDump("dump_list is empty or missing, and dump_op_switch is not on")
    mode = dump.get("dump_mode", "output")
    return DumpConfig(
        _path(dump),
        inputs=mode != "output" or overflows,
        outputs=mode != "input",
        models=models,
        operators=operators,
        statistics=dump.get("dump_data") == "stats",
        overflows=overflows,
    )


def not_emulated(dump: Mapping[str, Any] | None) -> bool:
    """True for what is right and has no effect here: the watcher, and what kernels print."""
    return dump is not None and (dump.get("dump_scene") == "watcher" or "dump_kernel_data" in dump)


def _check_values(dump: Mapping[str, Any]) -> None:
    for key, allowed in _ALLOWED.items():
        if key in dump and dump[key] not in allowed:
            raise InvalidDump(f"dump.{key} is {dump[key]!r}, not one of {', '.join(allowed)}")
    for word in str(dump.get("dump_kernel_data", "all")).split(","):
        if word not in _KERNEL_DATA:
            raise InvalidDump(f"dump.dump_kernel_data names {word!r}, not one of {', '.join(_KERNEL_DATA)}")


def _models(listed: Any) -> tuple[tuple[str | None, frozenset[str] | None], ...]:
    """The models of dump_list; ``[]`` and ``[{}]`` name none."""
    if listed is None:
        return ()
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise InvalidDump("dump.dump_list is not a list of objects")
    found = []
    for item in listed:
        name, layers = item.get("model_name"), item.get("layer")
        if not isinstance(name, str | None) or (name is not None and not name):
            raise InvalidDump("dump.dump_list has a model_name that is not a text")
        if layers is not None and not (isinstance(layers, list) and all(isinstance(text, str) for text in layers)):
            raise InvalidDump("dump.dump_list has a layer that is not a list of names")
        if layers == []:
            raise InvalidDump("dump.dump_list has an empty layer: leave it out for all operators")
        if name is not None or layers is not None:
            found.append((name, None if layers is None else frozenset(layers)))
    return tuple(found)


def _path(dump: Mapping[str, Any]) -> Path:
    text = dump.get("dump_path")
    if not isinstance(text, str) or not text:
        raise InvalidDump("dump.dump_path is missing")
    if len(text) > _LONGEST_PATH:
        raise InvalidDump(f"dump.dump_path is longer than {_LONGEST_PATH} characters")
    path = Path(text)
    if not os.path.isdir(path):  # Path.is_dir raises for a path that the system cannot look up.
        raise InvalidDump(f"dump.dump_path names {path.name}, which is not a folder")
    if not os.access(path, os.R_OK | os.W_OK):
        raise InvalidDump(f"dump.dump_path names {path.name}, which cannot be written")
    return path.resolve()


def _failure_path(dump: Mapping[str, Any]) -> Path:
    """NPU_COLLECT_PATH, then ASCEND_WORK_PATH, then dump_path, then the current directory."""
    for variable in ("NPU_COLLECT_PATH", "ASCEND_WORK_PATH"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    return _path(dump) if dump.get("dump_path") else Path.cwd()
