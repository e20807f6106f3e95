"""Attributes of single operators. Source: pyacl-semantics 10."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take
from cannlab.machine import Machine


@dataclass
class OpAttr:
    """Values by name."""

    values: dict[str, Any] = field(default_factory=dict)


name_kind(OpAttr, "operator attributes", "acl.op.destroy_attr")


@api("acl.op.create_attr")
def create_attr(m: Machine) -> int:
    """create_attr() -> attr."""
    return opened(m, OpAttr())


@api("acl.op.destroy_attr")
def destroy_attr(m: Machine, attr: int) -> None:
    """destroy_attr(attr): 0 is accepted."""
    if attr:
        take(m, attr, OpAttr)
        m.handles.close(attr, m.here())


def _set(m: Machine, attr: int, name: str, value: Any) -> int:
    entry = take(m, attr, OpAttr)
    if not name:
        raise refuse(m, "runtime.bad_parameter", argument="name", value="''", allowed="the name of an attribute")
    entry.values[name] = value
    return 0


@api("acl.op.set_attr_bool")
def set_attr_bool(m: Machine, attr: int, name: str, value: int) -> int:
    """set_attr_bool(attr, name, 0 or 1) -> ret."""
    return _set(m, attr, name, value != 0)


@api("acl.op.set_attr_int")
def set_attr_int(m: Machine, attr: int, name: str, value: int) -> int:
    """set_attr_int(attr, name, value) -> ret."""
    return _set(m, attr, name, value)


@api("acl.op.set_attr_float")
def set_attr_float(m: Machine, attr: int, name: str, value: float) -> int:
    """set_attr_float(attr, name, value) -> ret: single precision."""
    return _set(m, attr, name, value)


@api("acl.op.set_attr_string")
def set_attr_string(m: Machine, attr: int, name: str, value: str) -> int:
    """set_attr_string(attr, name, text) -> ret."""
    return _set(m, attr, name, value)


def _list(m: Machine, values: Any, fits: Callable[[Any], bool]) -> list[Any]:
    """A list whose elements all fit, or an array of one axis (with the Warning of the real module)."""
    import numpy as np

    if isinstance(values, np.ndarray):
        warnings.warn(f"{m.thread.function}: pass a list instead of a numpy array", Warning, stacklevel=5)
        values = values.tolist()
    if not isinstance(values, list) or not all(fits(value) for value in values):
        raise TypeError("invalid data type")
    return list(values)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 63


@api("acl.op.set_attr_list_bool")
def set_attr_list_bool(m: Machine, attr: int, name: str, values: Any) -> int:
    """set_attr_list_bool(attr, name, [0 or 1, ...]) -> ret."""
    found = _list(m, values, lambda value: isinstance(value, int) and 0 <= value <= 255)
    return _set(m, attr, name, [value != 0 for value in found])


@api("acl.op.set_attr_list_int")
def set_attr_list_int(m: Machine, attr: int, name: str, values: Any) -> int:
    """set_attr_list_int(attr, name, [ints]) -> ret."""
    return _set(m, attr, name, _list(m, values, _integer))


@api("acl.op.set_attr_list_float")
def set_attr_list_float(m: Machine, attr: int, name: str, values: Any) -> int:
    """set_attr_list_float(attr, name, [floats]) -> ret: TypeError for an int, as the real one."""
    return _set(m, attr, name, _list(m, values, lambda value: isinstance(value, float)))


@api("acl.op.set_attr_list_string")
def set_attr_list_string(m: Machine, attr: int, name: str, values: Any) -> int:
    """set_attr_list_string(attr, name, [texts]) -> ret."""
    return _set(m, attr, name, _list(m, values, lambda value: isinstance(value, str)))


@api("acl.op.set_attr_list_list_int")
def set_attr_list_list_int(m: Machine, attr: int, name: str, values: Any) -> int:
    """set_attr_list_list_int(attr, name, [[ints], ...]) -> ret."""
    found = _list(m, values, lambda row: isinstance(row, list) and all(map(_integer, row)))
    return _set(m, attr, name, [list(row) for row in found])


@api("acl.op.set_attr_data_type")
def set_attr_data_type(m: Machine, attr: int, name: str, data_type: int) -> tuple[int, int]:
    """set_attr_data_type(attr, name, type) -> (attr, ret)."""
    return attr, _set(m, attr, name, data_type)


@api("acl.op.set_attr_list_data_type")
def set_attr_list_data_type(m: Machine, attr: int, name: str, data_types: Any) -> tuple[int, int]:
    """set_attr_list_data_type(attr, name, [types]) -> (attr, ret)."""
    return attr, _set(m, attr, name, _list(m, data_types, _integer))
