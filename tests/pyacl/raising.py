"""Functions of pyACL that raise RuntimeError where the real module does, instead of giving a code."""

from __future__ import annotations

_NAMES = ("acl.rt.get_group_info_detail", "acl.util.stop_thread")


def may_raise(name: str) -> bool:
    """A group of which nothing is known, a thread whose function raised, a video channel without its callback."""
    return name in _NAMES or "vdec" in name or "venc" in name
