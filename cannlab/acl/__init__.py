"""acl: the emulated pyACL. It exports functions and submodules under their real names, and no constants."""

from importlib import import_module as _import_module

from cannlab.acl import binding as _binding

_SUBMODULES = ("rt", "mdl", "op", "media", "blas", "util", "prof", "himpi", "fv")

__all__ = [*_binding.fill("acl", globals()), *_SUBMODULES]

for _name in _SUBMODULES:
    _import_module(f"cannlab.acl.{_name}")


def __dir__() -> list[str]:
    return _binding.listing(__all__)
