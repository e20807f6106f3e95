"""Half precision conversions on bit patterns."""

from __future__ import annotations

import math
import struct

from cannlab.acl.binding import api
from cannlab.machine import Machine


@api("acl.float16_to_float")
def float16_to_float(m: Machine, value: int) -> float:
    """float16_to_float(bits) -> float."""
    return float(struct.unpack("<e", value.to_bytes(2, "little"))[0])


@api("acl.float_to_float16")
def float_to_float16(m: Machine, value: float) -> int:
    """float_to_float16(value) -> bits: rounded to nearest, ties to even; too large becomes infinity."""
    try:
        data = struct.pack("<e", value)
    except OverflowError:
        data = struct.pack("<e", math.copysign(math.inf, value))
    return int.from_bytes(data, "little")
