"""printf and dump_tensor: what a kernel prints. Source: pyasc 4.2."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.ir_value import PlainValue, raw
from cannlab.ascendc.language.core.tensor import GlobalTensor, LocalTensor
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.dtypes import CODES

LIMIT = 1 << 20
"""Bytes that one core may print."""
_FORMAT = re.compile(r"%([-+ #0]*)(\d*)(\.\d+)?(hh|h|ll|l|z)?([diuxXofFeEgGcsp%])")


def _show(text: str, name: str) -> None:
    state = d.state(name)
    room = LIMIT - state.printed
    if room <= 0 or state.launch.probing:
        return
    state.printed += len(text)
    print(text[:room], end="")


def printf(desc: str, *params: Any) -> None:
    """C formats; a Python str is put in for %s."""
    values = list(params)

    def one(match: re.Match[str]) -> str:
        flags, width, precision, _, kind = match.groups()
        if kind == "%":
            return "%"
        if not values:
            return match.group(0)
        value = raw(values.pop(0))
        kind = "d" if kind in "iu" else "x" if kind == "p" else kind
        if kind in "dxXoc" and not isinstance(value, str):
            value = int(value)
        return str(f"%{flags}{width}{precision or ''}{kind}" % value)

    _show(_FORMAT.sub(one, desc.replace("\\n", "\n")), "printf")


def dump_tensor(tensor: GlobalTensor | LocalTensor, desc: Any, dump_size: Any, shape_info: Any = None) -> None:
    """Print the first ``dump_size`` elements under the number ``desc``."""
    state = d.state("dump_tensor")
    count = int(raw(dump_size))
    if isinstance(tensor, LocalTensor):
        operand = (tensor.space, tensor.offset, min(count, tensor.size) * tensor.dtype.sizeof())
        where = "UB"
    else:
        left = state.launch.memory.limit(tensor.allocation) - tensor.offset
        operand = (tensor.allocation, tensor.offset, min(count * tensor.dtype.sizeof(), max(left, 0)))
        where = "GM"
    values = state.launch.peek().view(operand, CODES[tensor.dtype.name])
    text = np.array2string(values, threshold=count + 1, separator=", ")
    _show(
        f"DumpTensor: desc={raw(desc)}, block={state.launch.block}, {where}, {tensor.dtype}, {len(values)}\n{text}\n",
        "dump_tensor",
    )


def dump_acc_chk_point(tensor: GlobalTensor | LocalTensor, index: Any, count_off: Any, dump_size: Any) -> None:
    """Print ``dump_size`` elements from element ``count_off`` on, under the number ``index``."""
    dump_tensor(tensor[count_off], index, dump_size)


def print_time_stamp(desc_id: Any) -> None:
    """Not timed on the emulator: prints the number alone."""
    _show(f"TimeStamp: {raw(desc_id)}\n", "print_time_stamp")


__all__ = ["PlainValue", "dump_tensor", "print_time_stamp", "printf"]


__getattr__ = names_of(__name__)
