"""Floor 3: atc, the compiler from ONNX to om."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command atc in this process; see :func:`cannlab.atc.command.main`. Returns its exit status."""
    from cannlab.atc.command import main as run

    return run(argv)


__all__ = ["main"]
