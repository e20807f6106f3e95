"""asc.lib.host: tiling on the host, not emulated yet. Source: pyasc 3."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.lib.placeholders import missing_names


def __getattr__(name: str) -> Any:
    return missing_names("asc.lib.host", name)
