"""ConstExpr: parameters that are Python values at compile time. Source: pyasc 1.3."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, get_args, get_origin

from cannlab.ascendc.lib.placeholders import names_of

T_co = TypeVar("T_co", covariant=True)


class ConstExpr(Generic[T_co]):
    """A compile-time value; used as an annotation, ``asc.ConstExpr[int]``."""

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, ConstExpr) else value

    @staticmethod
    def unwrap(obj: Any) -> Any:
        """The plain value."""
        return obj.value if isinstance(obj, ConstExpr) else obj


def constraints(annotation: Any) -> tuple[bool, tuple[Any, ...]]:
    """Is it a ConstExpr annotation, and which types does it allow (none: any)?"""
    if annotation is ConstExpr:
        return True, ()
    if get_origin(annotation) is ConstExpr:
        return True, tuple(kind for kind in get_args(annotation) if isinstance(kind, type))
    if isinstance(annotation, str) and ("ConstExpr" in annotation):
        return True, ()
    return False, ()


def require_constexpr(obj: Any, *allowed: Any, arg_name: str | None = None) -> None:
    """RuntimeError unless the value is a compile-time one of an allowed type."""
    from cannlab.ascendc.language.core.ir_value import IRValue

    value = ConstExpr.unwrap(obj)
    kinds = tuple(kind for kind in allowed if isinstance(kind, type))
    wrong = bool(kinds) and not isinstance(value, kinds)
    if isinstance(value, IRValue) or wrong:
        names = "" if len(kinds) < 2 else ", ".join(kind.__name__ for kind in kinds)
        raise RuntimeError(
            f"ConstExpr[{names}] is required for '{arg_name}' argument, {type(value).__name__} was provided: {value}"
        )


__getattr__ = names_of(__name__)
