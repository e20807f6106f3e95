"""The process log (plog), as far as ``acl.app_log`` writes it. Source: pyacl-semantics 13.

Without one of the log variables in the environment nothing is written: the real default folder lies in the user's
home, and a course should leave none there.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import cache
from pathlib import Path

from cannlab.machine.spots import Spot

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_DEFAULT_LEVEL = 3
_LONGEST = 1023
_CUT = "...[truncated]"


def write_app_log(level: int, message: str, spot: Spot) -> None:
    """Write one line if the log level lets it through and there is somewhere to write to."""
    if not 0 <= level < len(LEVELS) or level < _threshold():
        return
    to_stdout = any(
        os.environ.get(name) == "1" for name in ("ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT")
    )
    folder = _folder()
    if not to_stdout and folder is None:
        return
    place = spot.place
    where = f"{place.function}:{place.file}:{place.line}" if place is not None else "::0"
    text = f'{threading.get_native_id()} {where}: "{message}"'
    if len(text.encode()) > _LONGEST:
        text = text.encode()[: _LONGEST - len(_CUT)].decode(errors="ignore") + _CUT
    now = time.time_ns()
    stamp = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime(now // 10**9))
    fraction = f"{now // 10**6 % 1000:03d}.{now // 10**3 % 1000:03d}"
    process = Path(sys.argv[0] or "python").name
    line = f"[{LEVELS[level]}] APP({os.getpid()},{process}):{stamp}.{fraction} {text}\n"
    if to_stdout:
        sys.stdout.write(line)
    elif folder is not None:
        try:
            with open(_file(str(folder)), "a", encoding="utf-8") as file:
                file.write(line)
        except OSError:
            # A log that cannot be written does not stop the program, as on hardware.
            return


def _threshold() -> int:
    """The least level that is written; a setting for the module APP goes before the global one."""
    for entry in os.environ.get("ASCEND_MODULE_LOG_LEVEL", "").split(":"):
        name, _, value = entry.partition("=")
        if name.strip() == "APP" and value.isdecimal():
            return int(value)
    value = os.environ.get("ASCEND_GLOBAL_LOG_LEVEL", "")
    return int(value) if value.isdecimal() else _DEFAULT_LEVEL


def _folder() -> Path | None:
    root = os.environ.get("ASCEND_PROCESS_LOG_PATH")
    if root:
        return Path(root) / "debug" / "plog"
    work = os.environ.get("ASCEND_WORK_PATH")
    return Path(work) / "log" / "debug" / "plog" if work else None


@cache
def _file(folder: str) -> Path:
    """The one file of this process in a folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    now = time.time_ns()
    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now // 10**9))
    return Path(folder) / f"plog-{os.getpid()}_{stamp}{now // 10**6 % 1000:03d}.log"
