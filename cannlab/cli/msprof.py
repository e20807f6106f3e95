"""``msprof``: named, not emulated yet."""

from __future__ import annotations

import sys

from cannlab.errors import diagnose


def main(arguments: list[str]) -> int:
    """Say what to use instead. Returns 1: nothing was profiled."""
    message = diagnose(
        "cli.not_emulated",
        command="msprof",
        detail="no PROF folder was written",
        instead="cannlab run --trace run.npz prog.py  # cannlab.profiler makes its timeline and operator table",
    )
    print(message.text(), file=sys.stderr)
    return 1
