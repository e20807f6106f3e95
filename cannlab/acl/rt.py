"""acl.rt, with the names of the real module."""

from cannlab.acl import binding as _binding

__all__ = _binding.fill("acl.rt", globals())


def __dir__() -> list[str]:
    return _binding.listing(__all__)
