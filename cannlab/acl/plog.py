"""The process log (plog): lines of ``acl.app_log``, of refused calls, of init and finalize. Source: pyacl-semantics 13.

Without one of the log variables in the environment nothing is written: the real default folder lies in the user's
home, and a course should leave none there.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from cannlab.errors import Diagnosis
from cannlab.machine.spots import Spot

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "EVENT")
ERROR, EVENT = 3, 4
_DEFAULT_LEVEL = 3
_LONGEST = 1023
_CUT = "...[truncated]"
_FILE_BYTES = 20 << 20
_FILES = 10
_MOST_FILES = 1000
_MODULES = {"runtime": "RUNTIME", "memory": "RUNTIME", "kernel": "RUNTIME", "model": "GE", "om": "GE", "media": "DVPP"}
_MODULES |= {"prof": "PROFILING", "dump": "IDEDD"}
"""Which module's log a refused call goes to, by the area of its rule."""


def write_app_log(level: int, message: str, spot: Spot) -> None:
    """Write one line of module APP if the log level lets it through and there is somewhere to write to."""
    if 0 <= level <= ERROR:
        place = spot.place
        where = f"{place.function}:{place.file}:{place.line}" if place is not None else "::0"
        _write(level, "APP", f'{threading.get_native_id()} {where}: "{message}"')


def write_diagnosis(diagnosis: Diagnosis) -> None:
    """Write a refused call or failed task as an ERROR line of the module that refuses it."""
    place = diagnosis.where
    where = f"[{place.file}:{place.line}]" if place is not None else "[:0]"
    code = f"[{diagnosis.code}]" if diagnosis.code else ""
    module = _MODULES.get(diagnosis.rule.partition(".")[0], "ASCENDCL")
    _write(ERROR, module, f"{where}{threading.get_native_id()} {code}{diagnosis.title}: {diagnosis.what}")


def write_event(text: str) -> None:
    """Write an EVENT line of module ASCENDCL into the run log, unless ASCEND_GLOBAL_EVENT_ENABLE is 0."""
    if os.environ.get("ASCEND_GLOBAL_EVENT_ENABLE", "1") != "0":
        _write(EVENT, "ASCENDCL", text)


def _write(level: int, module: str, text: str) -> None:
    if level < _threshold(module) and level != EVENT:
        return
    to_stdout = any(
        os.environ.get(name) == "1" for name in ("ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT")
    )
    root = _root()
    if not to_stdout and root is None:
        return
    if len(text.encode()) > _LONGEST:
        text = text.encode()[: _LONGEST - len(_CUT)].decode(errors="ignore") + _CUT
    now = time.time_ns()
    stamp = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime(now // 10**9))
    fraction = f"{now // 10**6 % 1000:03d}.{now // 10**3 % 1000:03d}"
    process = Path(sys.argv[0] or "python").name
    line = f"[{LEVELS[level]}] {module}({os.getpid()},{process}):{stamp}.{fraction} {text}\n"
    if to_stdout:
        sys.stdout.write(line)
    elif root is not None:
        try:
            with open(_file(root / ("run" if level == EVENT else "debug") / "plog"), "a", encoding="utf-8") as file:
                file.write(line)
        except OSError:
            # A log that cannot be written does not stop the program, as on hardware.
            return


def _threshold(module: str) -> int:
    """The least level that is written; a setting for the module goes before the global one."""
    for entry in os.environ.get("ASCEND_MODULE_LOG_LEVEL", "").split(":"):
        name, _, value = entry.partition("=")
        if name.strip() == module and value.isdecimal():
            return int(value)
    value = os.environ.get("ASCEND_GLOBAL_LOG_LEVEL", "")
    return int(value) if value.isdecimal() else _DEFAULT_LEVEL


def _root() -> Path | None:
    root = os.environ.get("ASCEND_PROCESS_LOG_PATH")
    if root:
        return Path(root)
    work = os.environ.get("ASCEND_WORK_PATH")
    return Path(work) / "log" if work else None


_open: dict[Path, Path] = {}
"""The file that this process writes now, by folder."""


def _most_files() -> int:
    value = os.environ.get("ASCEND_HOST_LOG_FILE_NUM", "")
    return int(value) if value.isdecimal() and 1 <= int(value) <= _MOST_FILES else _FILES


def _file(folder: Path) -> Path:
    """The file of this process in a folder; a new one when it is full, and then the oldest goes."""
    known = _open.get(folder)
    if known is not None and known.name.startswith(f"plog-{os.getpid()}_"):
        try:
            if known.stat().st_size < _FILE_BYTES:
                return known
        except OSError:
            pass
    folder.mkdir(parents=True, exist_ok=True)
    now = time.time_ns()
    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now // 10**9))
    made = _open[folder] = folder / f"plog-{os.getpid()}_{stamp}{now // 10**6 % 1000:03d}.log"
    mine = sorted(folder.glob(f"plog-{os.getpid()}_*.log"))
    for old in mine[: max(len(mine) - _most_files() + 1, 0)]:
        old.unlink(missing_ok=True)
    return made
