"""acl.mdl, with the names of the real module."""

from cannlab.acl import binding as _binding

__all__ = _binding.fill("acl.mdl", globals())


def __dir__() -> list[str]:
    return _binding.listing(__all__)
