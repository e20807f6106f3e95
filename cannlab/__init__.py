"""cannlab: learn CANN, the software stack of Ascend NPUs, without an NPU.

The parts: ``cannlab.activate`` makes the emulated packages (``acl``, ``asc``, ``aclruntime``) importable;
the command ``cannlab`` does the rest. Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cannlab.activation import activate, deactivate
    from cannlab.course import check, given, hint
    from cannlab.course.panel import panel

__all__ = [
    "__version__",
    "activate",
    "check",
    "deactivate",
    "given",
    "hint",
    "host_cost",
    "load_ipython_extension",
    "panel",
    "unload_ipython_extension",
]
__version__ = "0.1.0"

_HOME = {
    "activate": "cannlab.activation",
    "check": "cannlab.course",
    "deactivate": "cannlab.activation",
    "given": "cannlab.course",
    "hint": "cannlab.course",
    "panel": "cannlab.course.panel",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def host_cost(us: float) -> None:
    """Declare work of the program's own Python: the calling thread's simulated clock moves on by so many microseconds.

    The emulation cannot know how long a host's Python takes, so it counts as nothing unless it is declared. On real
    hardware this does nothing.

    Raises:
        ValueError: a negative time.
    """
    if us < 0:
        raise ValueError(f"host_cost needs a time of at least 0 us, got {us}")
    from cannlab.activation import is_real

    if not is_real():
        from cannlab.machine import machine

        machine().host_cost(us)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext cannlab``: activate the emulated packages in a notebook."""
    import sys

    from cannlab.activation import activate

    activate(sys.stdout)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext cannlab``: take the activation back."""
    from cannlab.activation import deactivate

    deactivate()
