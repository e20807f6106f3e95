"""The state of a running grading: one line for each learner that is done, so that an interruption loses nothing.

The journal lies in the output folder and goes when the grading is complete; grading.json takes its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

NAME = ".grading.journal"


def exists(out: Path) -> bool:
    """True if a grading into this folder was begun and not completed."""
    return (out / NAME).is_file()


def read(out: Path) -> tuple[dict[str, Any] | None, dict[str, dict[str, Any]]]:
    """The header and the newest line of each learner. A line that an interruption cut is left out; None: no header."""
    header: dict[str, Any] | None = None
    entries: dict[str, dict[str, Any]] = {}
    with (out / NAME).open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if not isinstance(data, dict):
                continue
            if number == 0:
                header = data
            elif isinstance(data.get("learner"), str):
                entries[data["learner"]] = data
    return header, entries


class Journal:
    """Writes lines that are on the disk when the call returns."""

    def __init__(self, out: Path, header: Mapping[str, Any] | None = None) -> None:
        self._path = out / NAME
        new = header is not None
        self._file: BinaryIO = self._path.open("wb" if new else "ab")
        if new:
            self.add(header or {})
        else:
            # An interruption may have cut the last line.
            self._file.write(b"\n")

    def add(self, entry: Mapping[str, Any]) -> None:
        """One line."""
        self._file.write(json.dumps(entry, sort_keys=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Keep it for another time."""
        self._file.close()

    def complete(self) -> None:
        """The grading is complete: the journal goes."""
        self._file.close()
        self._path.unlink(missing_ok=True)
