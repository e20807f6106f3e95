"""compare, compare_scalar, select and the mask register. Source: pyasc 6, 7.4."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.enums import CMPMODE, SelMode
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.language.core.tensor import LocalTensor
from cannlab.ascendc.language.core.types import BinaryRepeatParams, UnaryRepeatParams
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.dtypes import CODES, pack
from cannlab.machine.core.pipes import REPEAT

_BINARY = ("repeat_params", d.of(BinaryRepeatParams))
_UNARY = ("repeat_params", d.of(UnaryRepeatParams))
_MODE = ("cmp_mode", d.of(CMPMODE))
_T = d.is_tensor
_COMPARE = (
    d.Form(("dst", _T), ("src0", _T), ("src1", _T), _MODE, d.COUNTED),
    d.Form(("dst", _T), ("src0", _T), ("src1", _T), _MODE, d.MASKED, d.REPEAT, _BINARY),
    d.Form(("src0", _T), ("src1", _T), _MODE, d.MASKED, _BINARY),
)
_COMPARE_SCALAR = (
    d.Form(("dst", _T), ("src0", _T), ("src1_scalar", d.is_number), _MODE, d.COUNTED),
    d.Form(("dst", _T), ("src0", _T), ("src1_scalar", d.is_number), _MODE, d.MASKED, d.REPEAT, _UNARY),
)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (float, PlainValue))


_SEL = ("sel_mode", d.of(SelMode))
_SELECT = (
    d.Form(("dst", _T), ("sel_mask", _T), ("src0", _T), ("src1", _is_scalar), _SEL, d.COUNTED),
    d.Form(("dst", _T), ("sel_mask", _T), ("src0", _T), ("src1", _T), _SEL, d.COUNTED),
    d.Form(("dst", _T), ("sel_mask", _T), ("src0", _T), ("src1", _is_scalar), _SEL, d.MASKED, d.REPEAT, _BINARY),
    d.Form(("dst", _T), ("sel_mask", _T), ("src0", _T), ("src1", _T), _SEL, d.MASKED, d.REPEAT, _BINARY),
    d.Form(("dst", _T), ("src0", _T), ("src1", _T), d.REPEAT, _BINARY, _SEL),
)


def _whole(state: Any, name: str, count: int, tensor: LocalTensor) -> int:
    """A compare handles whole 256 bytes; the rest is told and left out."""
    size = tensor.dtype.sizeof()
    lanes = REPEAT // size
    if count % lanes:
        state.launch.warn("kernel.compare_tail", name=name, count=count, size=size, most=-(-count // lanes) * lanes)
    return count // lanes * lanes


def _check_integer(state: Any, name: str, src: LocalTensor, mode: CMPMODE, operands: int) -> None:
    if src.dtype.name == "int32" and mode is not CMPMODE.EQ:
        state.launch.stop(
            "kernel.dtype",
            name=f"{name} with {mode.name}",
            types="int32",
            legal="int32 with EQ only; float16 and float32 with every mode",
            soc=state.launch.soc.name,
        )


def compare(*args: Any, **kwargs: Any) -> None:
    """compare(dst, src0, src1, cmp_mode, count | mask, repeat_times, repeat_params); without dst into the register."""
    state = d.state("compare")
    number, values = d.dispatch("compare", _COMPARE, args, kwargs)
    src0, src1, mode = values["src0"], values["src1"], values["cmp_mode"]
    _check_integer(state, "compare", src0, mode, 3)
    if number == 2:
        tensors = (src0, src1)
        form = d.masked(state, "compare", d.types(tensors), values, _shifted(values["repeat_params"].strides()), 1)
        d.emit(state, d.row("compare_register"), tensors, (*form, int(mode)))
        return
    three = (values["dst"], src0, src1)
    if number == 0:
        count = _whole(state, "compare", d.counted(values)[1], src0)
        d.emit(state, d.row("compare"), three, (d.COUNT, count, int(mode)))
        return
    repeats = d.literal("compare", "repeat_times", values["repeat_times"])
    form = d.masked(state, "compare", d.types(three), values, values["repeat_params"].strides(), repeats)
    d.emit(state, d.row("compare"), three, (*form, int(mode)))


def _shifted(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of (src0, src1) in the places of the first two operands: there is no destination."""
    return (strides[1], strides[2], 1, strides[4], strides[5], 8)


def compare_scalar(*args: Any, **kwargs: Any) -> None:
    """compare_scalar(dst, src0, src1_scalar, cmp_mode, count | mask, repeat_times, repeat_params)."""
    state = d.state("compare_scalar")
    number, values = d.dispatch("compare_scalar", _COMPARE_SCALAR, args, kwargs)
    src0, mode = values["src0"], values["cmp_mode"]
    _check_integer(state, "compare_scalar", src0, mode, 2)
    tensors = (values["dst"], src0)
    extra = (int(mode), d.scalar_bits(values["src1_scalar"], src0))
    if number == 0:
        count = _whole(state, "compare_scalar", d.counted(values)[1], src0)
        d.emit(state, d.row("compare_scalar"), tensors, (d.COUNT, count, *extra))
        return
    repeats = d.literal("compare_scalar", "repeat_times", values["repeat_times"])
    form = d.masked(state, "compare_scalar", d.types(tensors), values, values["repeat_params"].strides(), repeats)
    d.emit(state, d.row("compare_scalar"), tensors, (*form, *extra))


def select(*args: Any, **kwargs: Any) -> None:
    """select(dst, sel_mask, src0, src1, sel_mode, count | mask, repeat_times, repeat_params), and the register form."""
    state = d.state("select")
    if "sel_mask" in kwargs or (len(args) < 3 and "src0" in kwargs and "sel_mode" in kwargs and "count" in kwargs):
        d.dispatch("select", (), args, kwargs)
    number, values = d.dispatch("select", _SELECT, args, kwargs)
    dst, src0, src1, mode = values["dst"], values["src0"], values["src1"], int(values["sel_mode"])
    if number == 4:
        repeats = d.literal("select", "repeat_times", values["repeat_times"])
        full = {"mask": 256 // dst.dtype.sizeof()}
        three = (dst, src0, src1)
        form = d.masked(state, "select", d.types(three), full, values["repeat_params"].strides(), repeats)
        d.emit(state, d.row("select_register"), three, (*form, mode, 0))
        return
    bits = values["sel_mask"]
    with_tensor = d.is_tensor(src1)
    tensors = (dst, bits, src0, src1) if with_tensor else (dst, bits, src0)
    scalar = 0 if with_tensor else d.scalar_bits(src1, dst)
    name = "select" if with_tensor else "select_scalar"
    if "count" in values:
        form = d.counted(values)
    else:
        repeats = d.literal("select", "repeat_times", values["repeat_times"])
        width = pack(CODES[dst.dtype.name])
        form = d.masked(state, "select", width, values, values["repeat_params"].strides(), repeats)
    d.emit(state, d.row(name), tensors, (*form, mode, scalar), "select")


def get_cmp_mask(dst: LocalTensor) -> None:
    """The compare register into a buffer of at least 128 bytes."""
    state = d.state("get_cmp_mask")
    d.emit(state, d.row("get_cmp_mask"), (dst,), (0, 0))


def set_cmp_mask(src: LocalTensor) -> None:
    """The compare register from a buffer."""
    state = d.state("set_cmp_mask")
    d.emit(state, d.row("set_cmp_mask"), (src,), (0, 0))


__getattr__ = names_of(__name__)
