"""cannlab: learn CANN, the software stack of Ascend NPUs, without an NPU.

The parts: ``cannlab.activate`` makes the emulated packages (``acl``, ``asc``, ``aclruntime``) importable;
the command ``cannlab`` does the rest. Nothing heavy is imported until it is used.
"""

__version__ = "0.1.0"
