"""asc.adv: composite operations and the Matmul object, not emulated yet. Source: pyasc 8."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.lib.placeholders import missing_names


def __getattr__(name: str) -> Any:
    return missing_names("asc.language.adv", name, "asc.adv")
