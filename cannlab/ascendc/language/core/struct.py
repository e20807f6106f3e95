"""Struct: plain data passed to a kernel. Source: pyasc 5."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.ir_value import IRValue, PlainValue, convert, raw
from cannlab.ascendc.lib.placeholders import names_of

missing = object()
_CTYPES: dict[str, Any] = {
    "int1": ctypes.c_bool,
    "int8": ctypes.c_int8,
    "int16": ctypes.c_int16,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


class BaseField:
    """A field of a Struct."""

    def __init__(self, default: Any = missing, name: str | None = None) -> None:
        self.default = default
        self.name = name


class Field(BaseField):
    """A number."""

    def __init__(
        self, dtype: DataType, default: Any = missing, name: str | None = None, enum: str | None = None
    ) -> None:
        super().__init__(default, name)
        self.dtype = dtype


class StructField(BaseField):
    """Another Struct inside."""

    def __init__(self, struct_cls: type[Struct], default: Any = None, name: str | None = None) -> None:
        super().__init__(default, name)
        self.struct_cls = struct_cls


class Struct(IRValue):
    """Named numbers. Constructed with keywords; a field without a value and a default is a RuntimeError."""

    struct_fields: ClassVar[dict[str, BaseField]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        inherited = dict(cls.struct_fields)
        inherited.update({name: value for name, value in vars(cls).items() if isinstance(value, BaseField)})
        cls.struct_fields = inherited

    def __init__(self, **fields: Any) -> None:
        unknown = [name for name in fields if name not in self.struct_fields]
        if unknown:
            raise RuntimeError(f"{type(self).__name__} has no field {', '.join(unknown)}")
        object.__setattr__(self, "_on_device", False)
        for name, field in self.struct_fields.items():
            value = fields.get(name, field.default)
            if isinstance(field, StructField):
                value = field.struct_cls() if value is None else value
            elif value is missing:
                raise RuntimeError(f"Value for field '{name}' of {type(self).__name__} is not provided")
            else:
                assert isinstance(field, Field)
                value = convert(raw(value), field.dtype)
            object.__setattr__(self, name, value)

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        fields = type(self).struct_fields
        if name in fields and object.__getattribute__(self, "_on_device"):
            field = fields[name]
            if isinstance(field, Field):
                return PlainValue(value, field.dtype)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.struct_fields.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name}")
        if isinstance(field, Field):
            value = convert(raw(value), field.dtype)
        object.__setattr__(self, name, value)

    def create_local(self) -> Any:
        """The copy that a kernel gets: its fields are runtime values; writes do not return to the host."""
        copy = object.__new__(type(self))
        for name, field in self.struct_fields.items():
            value = object.__getattribute__(self, name)
            object.__setattr__(copy, name, value.create_local() if isinstance(field, StructField) else value)
        object.__setattr__(copy, "_on_device", True)
        return copy

    @classmethod
    def _ctypes(cls) -> Any:
        members = []
        for name, field in cls.struct_fields.items():
            if isinstance(field, StructField):
                members.append((name, field.struct_cls._ctypes()))
            else:
                assert isinstance(field, Field)
                members.append((name, _CTYPES[field.dtype.name]))
        return type(cls.__name__, (ctypes.Structure,), {"_pack_": 8, "_layout_": "ms", "_fields_": members})

    def pack(self) -> bytes:
        """The bytes that go to the device (packing 8)."""
        made = self._ctypes()()
        for name, field in self.struct_fields.items():
            value = object.__getattribute__(self, name)
            if isinstance(field, StructField):
                value = type(getattr(made, name)).from_buffer_copy(value.pack())
            setattr(made, name, value)
        return bytes(made)


__getattr__ = names_of(__name__)
