"""What kernel launches of this process leave out: ``CANNLAB_KERNEL_CHECKS=off`` and ``CANNLAB_KERNEL_DATA=off``.

Without checks a launch is executed and timed as ever, but its order is not judged: no races, no undefined bytes, no
flags left over, nothing that is told without stopping the core. What keeps the emulation itself in order stays: the
bounds of memory, element types, the protocol of queues.

Without data nothing is computed: arguments are neither read nor written (scalars that the kernel reads are 0), the time
is that of the launch. It serves kernels whose numbers would take too long, when only the time is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

CHECKS, DATA = "CANNLAB_KERNEL_CHECKS", "CANNLAB_KERNEL_DATA"


class Mode(NamedTuple):
    """What a launch does besides recording and timing.

    Attributes:
        checks: its order is judged. data: its data effects happen.
    """

    checks: bool = True
    data: bool = True

    @property
    def said(self) -> dict[str, str]:
        """What a record's description says of it: nothing of an ordinary launch."""
        return {key: "off" for key, value in zip(self._fields, self, strict=True) if not value}


WHOLE = Mode()
"""Everything: what a replay always does."""


def current(environ: Mapping[str, str] = os.environ) -> Mode:
    """The mode that the environment asks for.

    Raises:
        ValueError: a variable that is neither "on" nor "off".
    """
    return Mode(_on(environ, CHECKS), _on(environ, DATA))


def _on(environ: Mapping[str, str], name: str) -> bool:
    said = environ.get(name, "").lower()
    if said not in ("", "on", "off"):
        raise ValueError(f"{name} is {said!r}: set it to on or off")
    return said != "off"
