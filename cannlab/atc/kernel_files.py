"""What compiling kernels leaves behind: descriptions in kernel_meta, and the cache of compiled kernels.

``--op_debug_level``, ``--op_debug_config``, ``--status_check``, ``--jit_compile``, ``--op_compiler_cache_mode`` and
``--op_compiler_cache_dir``. There is no machine code here: a kernel is its description. Source: documentation of the
options.
"""

from __future__ import annotations

import configparser
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cannlab.atc import model_json
from cannlab.atc.errors import atc_error
from cannlab.atc.options import Options
from cannlab.atc.source import read_file
from cannlab.om import OmModel, Task
from cannlab.trace.whole_file import write_whole

FOLDER = "kernel_meta"
CONFIG, LIST = "op_debug_config", "op_debug_list"
KEEPING = frozenset(("oom", "dump_bin", "dump_cce", "dump_loc", "check_flag"))
"""Values of op_debug_config that keep files."""
KNOWN = KEEPING | {"ccec_O0", "ccec_g"}


@dataclass(frozen=True)
class DebugConfig:
    """``--op_debug_config``.

    Attributes:
        values: what op_debug_config lists.
        names: operators in op_debug_list. types: GE types in it.
    """

    values: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()

    @property
    def listed(self) -> bool:
        """True if it speaks of some operators only."""
        return bool(self.names or self.types)

    def speaks_of(self, task: Task) -> bool:
        """True for an operator that is compiled with these values."""
        named = task.op_type in self.types or not self.names.isdisjoint((task.name, *task.nodes))
        return bool(self.values) and (named or not self.listed)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the values may lead to."""
        unknown = sorted({*self.values} - KNOWN)
        found = [f"{value} in {CONFIG} is no value that the documentation lists" for value in unknown]
        if {"oom", "ccec_O0"} <= {*self.values}:
            found.append("oom and ccec_O0 together may end in an error of the AI Core")
        return tuple(found)


def read_config(path: str) -> DebugConfig:
    """Read the file of ``--op_debug_config``; "" is none.

    Raises:
        AtcError: rules of :func:`source.read_file`, and ``atc.config_content``, ``atc.oom_collect``.
    """
    if not path:
        return DebugConfig()
    found: dict[str, list[str]] = {CONFIG: [], LIST: []}
    for line in map(str.strip, read_file(path, f"--{CONFIG}").decode("utf-8", "replace").splitlines()):
        key = next((name for name in found if name in line), None)
        if line.startswith("#") or key is None:
            continue
        _, equals, value = line.partition("=")
        if not equals or not value.strip():
            form = f"The file holds {CONFIG}=oom,dump_cce,... and {LIST}=NAME,OpType::TYPE."
            reason = f"line {line!r} has no value"
            raise atc_error("config_content", option=f"--{CONFIG}", path=path, reason=reason, form=form)
        found[key] = [item.strip() for item in value.split(",") if item.strip()]
    if "oom" in found[CONFIG] and os.environ.get("NPU_COLLECT_PATH"):
        raise atc_error("oom_collect", path=path)
    types = frozenset(item.partition("::")[2] for item in found[LIST] if "::" in item)
    return DebugConfig(tuple(found[CONFIG]), frozenset(item for item in found[LIST] if "::" not in item), types)


@dataclass(frozen=True)
class Kernels:
    """The kernels that a conversion compiled.

    Attributes:
        kept: descriptions by file name that belong into kernel_meta.
        cached: descriptions that may be taken from the cache, by what they were made from.
    """

    kept: Mapping[str, str] = field(default_factory=dict)
    cached: Mapping[str, str] = field(default_factory=dict)


def compiled(model: OmModel, chosen: Options, config: DebugConfig) -> Kernels:
    """The kernels of an om, as the options have them compiled; none if built ones are taken."""
    if chosen["jit_compile"] == "0" or (chosen["jit_compile"] == "2" and model.dynamic):
        return Kernels()
    leveled = chosen["op_debug_level"] != "0"
    keeps = not KEEPING.isdisjoint(config.values)
    kept, cached = {}, {}
    for number, task in enumerate(model.tasks):
        debugged = config.speaks_of(task)
        settings = {"compile_options": list(config.values)} if debugged else {}
        if chosen.flag("status_check"):
            settings["status_check"] = ["1"]
        name, text = model_json.kernel(task, number, settings)
        if leveled or (keeps and debugged):
            kept[name] = text
        if not leveled and not debugged:
            cached[hashlib.sha256(f"{model.soc} {model.cann} {text}".encode()).hexdigest()] = text
    return Kernels(kept, cached)


# -- the cache ---------------------------------------------------------------------------------------------

SETTINGS = "op_cache.ini"
SECTION = "op_compiler_cache"
MOST, REMAIN = "max_op_cache_size", "remain_cache_size_ratio"
_SETTINGS_TEXT = f"[{SECTION}]\n{MOST}=500\n{REMAIN}=50\n"


def cache(kernels: Kernels, folder: Path, soc: str, *, empty: bool) -> tuple[int, int]:
    """Put kernels into the cache that are not there yet.

    Args:
        folder: ``--op_compiler_cache_dir``; its op_cache.ini says how many MB the cache may have and how many per cent
            of that stay when it has more.
        empty: throw away what is there before (``force``).

    Returns:
        How many kernels were there, and how many were put in.

    Raises:
        OSError: the folder cannot be written.
    """
    place = folder / "kernel_cache" / soc
    place.mkdir(parents=True, exist_ok=True)
    settings = folder / SETTINGS
    if not settings.exists():
        write_whole(settings, _SETTINGS_TEXT.encode())
    if empty:
        for file in place.glob("*.json"):
            file.unlink()
    new = {key: text for key, text in kernels.cached.items() if not (place / f"{key}.json").exists()}
    for key, text in new.items():
        write_whole(place / f"{key}.json", text.encode())
    _trim(place, *_limits(settings))
    return len(kernels.cached) - len(new), len(new)


def _limits(settings: Path) -> tuple[int, int]:
    """(bytes, per cent) of op_cache.ini; its defaults where it says nothing that can be used."""
    parser = configparser.ConfigParser()
    try:
        parser.read(settings, encoding="utf-8")
        most, remain = parser.getint(SECTION, MOST), parser.getint(SECTION, REMAIN)
    except (configparser.Error, ValueError):
        most, remain = 500, 50
    return most << 20, remain if 1 <= remain <= 100 else 50


def _trim(place: Path, most: int, remain: int) -> None:
    """Throw the oldest kernels away if there are too many."""
    files = sorted(place.glob("*.json"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    size = sum(file.stat().st_size for file in files)
    if size <= most:
        return
    for file in files:
        if size * 100 <= most * remain:
            break
        size -= file.stat().st_size
        file.unlink()
