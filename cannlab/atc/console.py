"""What atc prints: banner, verdict, error block, log lines.

Layout: pyacl-and-atc 3.1 and onnx-rules 5.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from datetime import datetime

from cannlab.errors import Diagnosis, tables

START = "ATC start working now, please wait for a moment."
SUCCESS = "ATC run success, welcome to the next use."
FAILURE = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"

LEVELS = ("debug", "info", "warning", "error", "null")
INDENT = " " * 8


def say(text: str) -> None:
    """Print a line of the console, at once."""
    print(text, flush=True)


def _time(separator: str) -> str:
    now = datetime.now()
    return now.strftime("%Y-%m-%d-%H:%M:%S.") + f"{now.microsecond // 1000:03d}{separator}{now.microsecond % 1000:03d}"


class Log:
    """Log lines on the console from a level on (``--log``)."""

    def __init__(self, level: str) -> None:
        self.level = LEVELS.index(level)

    def __call__(self, level: str, text: str) -> None:
        if LEVELS.index(level) >= self.level:
            thread = threading.get_native_id()
            say(f'[{level.upper()}] GE({os.getpid()},atc.bin):{_time(".")} [atc]{thread} atc: "{text}"')


def error_block(diagnoses: Sequence[Diagnosis]) -> str:
    """The block of an error: code and text, cause and solution, then the further findings."""
    first, *others = diagnoses
    stamp = f"[PID: {os.getpid()}] {_time('.')}"
    if tables.cann_version() == tables.DEFAULT_CANN:
        head = f"{first.code}: {stamp} {first.what}"
    else:
        head = f"{stamp} {first.title}({first.code}): {first.what}"
    # Inner codes (E19999, E89999, EZ9999) are announced by a line of their own.
    banner = [f"{first.code}: Internal Error!"] if first.code.endswith("9999") else []
    causes = "; ".join(tables.rule(first.rule).causes)
    lines = [
        *banner,
        head,
        f"{INDENT}Possible Cause: {causes}.",
        f"{INDENT}Rule: {first.why}",
        f"{INDENT}Solution: {first.remedy}",
    ]
    if others:
        lines.append(f"{INDENT}TraceBack (most recent call last):")
        lines += [f"{INDENT}{warning_line(item)}" for item in others]
    return "\n".join(lines)


def warning_line(diagnosis: Diagnosis) -> str:
    """A warning after the verdict. What the real toolkit does not say comes under the name of cannlab."""
    return f"{diagnosis.code or 'cannlab'}: {diagnosis.what}"
