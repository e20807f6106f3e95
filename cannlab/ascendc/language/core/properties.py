"""asc.property: constants of the toolkit, by name. Source: pyasc 4.2."""

from __future__ import annotations

from dataclasses import dataclass

from cannlab.ascendc.language.core.builder import GlobalBuilder
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.pipes import BLOCK, Space, usable


@dataclass(frozen=True, eq=False)
class Property:
    """A constant of the toolkit: its name there and its type."""

    name: str
    dtype: DataType


DEFAULT_C0_SIZE = Property("DEFAULT_C0_SIZE", KnownTypes.int32)
ONE_BLK_SIZE = Property("ONE_BLK_SIZE", KnownTypes.int32)
TOTAL_L1_SIZE = Property("TOTAL_L1_SIZE", KnownTypes.int32)
TOTAL_L0C_SIZE = Property("TOTAL_L0C_SIZE", KnownTypes.int32)


def property(prop: Property) -> PlainValue:
    """Its value, in bytes.

    Raises:
        TypeError: no Property.
    """
    soc = GlobalBuilder.get("property").launch.soc
    if not isinstance(prop, Property):
        raise TypeError(f"property takes one of asc's properties, got {type(prop).__name__}")
    sizes = {
        DEFAULT_C0_SIZE.name: BLOCK,
        ONE_BLK_SIZE.name: BLOCK,
        TOTAL_L1_SIZE.name: usable(soc, Space.L1),
        TOTAL_L0C_SIZE.name: usable(soc, Space.L0C),
    }
    return PlainValue(sizes[prop.name], prop.dtype)


__getattr__ = names_of(__name__)
