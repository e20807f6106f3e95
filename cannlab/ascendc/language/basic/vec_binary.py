"""Vector operations with two sources. Source: pyasc 6, 7.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.tensor import LocalTensor
from cannlab.ascendc.language.core.types import BinaryRepeatParams
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.dtypes import CODES

_TENSORS = (("dst", d.is_tensor), ("src0", d.is_tensor), ("src1", d.is_tensor))
_PARAMS = ("repeat_params", d.of(BinaryRepeatParams))
FORMS = (
    d.Form(*_TENSORS, d.COUNTED, d.SET_MASK, is_set_mask=True),
    d.Form(*_TENSORS, d.MASKED, d.REPEAT, _PARAMS, d.SET_MASK, is_set_mask=True),
)
_NO_SET_MASK = (d.Form(*_TENSORS, d.COUNTED), d.Form(*_TENSORS, d.MASKED, d.REPEAT, _PARAMS))

# Types that the front end itself checks (TypeError); the chip's own table is in the opcodes.
_CHECKED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "max", "min"), ("int16", "float16", "int32", "float32")),
    **dict.fromkeys(("div", "fused_mul_add", "fused_mul_add_relu", "mul_add_dst"), ("float16", "float32")),
    **dict.fromkeys(("add_relu", "sub_relu"), ("int16", "float16", "float32")),
    "add_deq_relu": (),
    **dict.fromkeys(("bitwise_and", "bitwise_or"), ("int16", "uint16")),
}


def _check(name: str, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor) -> None:
    if src0.dtype is not src1.dtype and src0.dtype != src1.dtype:
        raise TypeError("Src0 and src1 must be same type.")
    allowed = _CHECKED.get(name)
    if name == "add_deq_relu" and (src0.dtype.name != "int32" or dst.dtype.name != "float16"):
        raise TypeError("add_deq_relu takes int32 and gives float16.")
    if not allowed:
        return
    if dst.dtype is not src0.dtype and dst.dtype != src0.dtype:
        raise TypeError("Dst and src0 must be same type.")
    if src0.dtype.name not in allowed:
        raise TypeError(f"Invalid data type for {name}: {src0.dtype}; it takes {', '.join(allowed)}.")


def _make(name: str, forms: tuple[d.Form, ...]) -> Callable[..., None]:
    row = d.row(name)

    def operation(*args: Any, **kwargs: Any) -> None:
        state = d.state(name)
        count = d.quick_count(args, kwargs, 3)
        if count is not None:
            _check(name, *args[:3])
            d.emit(state, row, args[:3], (d.COUNT, count))
            return
        number, values = d.dispatch(name, forms, args, kwargs)
        dst, src0, src1 = tensors = (values["dst"], values["src0"], values["src1"])
        _check(name, dst, src0, src1)
        if number == 0:
            d.emit(state, row, tensors, d.counted(values))
            return
        repeats = d.literal(name, "repeat_times", values["repeat_times"])
        strides = values["repeat_params"].strides()
        dtype = d.types(tensors)
        d.emit(state, row, tensors, d.masked(state, name, dtype, values, strides, repeats), dtype=dtype)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}(dst, src0, src1, count) or (dst, src0, src1, mask, repeat_times, repeat_params)."
    return operation


add, sub, mul, div = (_make(name, FORMS) for name in ("add", "sub", "mul", "div"))
max, min = (_make(name, FORMS) for name in ("max", "min"))
add_relu, sub_relu = (_make(name, FORMS) for name in ("add_relu", "sub_relu"))
fused_mul_add, fused_mul_add_relu = (_make(name, FORMS) for name in ("fused_mul_add", "fused_mul_add_relu"))
mul_add_dst = _make("mul_add_dst", FORMS)
bitwise_and, bitwise_or = (_make(name, FORMS) for name in ("bitwise_and", "bitwise_or"))
mul_cast = _make("mul_cast", _NO_SET_MASK)
add_relu_cast, sub_relu_cast = (_make(name, FORMS) for name in ("add_relu_cast", "sub_relu_cast"))


add_deq_relu = _make("add_deq_relu", FORMS)

_BILINEAR = (
    d.Form(
        ("dst", d.is_tensor),
        ("src0", d.is_tensor),
        ("src0_offset", d.is_tensor),
        ("src1", d.is_tensor),
        d.MASKED,
        ("h_repeat", d.is_int),
        ("repeat_mode", d.is_bool),
        ("dst_blk_stride", d.is_int),
        ("v_r_offset", d.is_int),
        ("v_repeat", d.is_int),
        ("shared_tmp_buffer", d.is_tensor),
    ),
)


def bilinear_interpolation(*args: Any, **kwargs: Any) -> None:
    """Sums of weighted blocks of half: (dst, src0, src0_offset, src1, mask, h_repeat, repeat_mode, dst_blk_stride,
    v_r_offset, v_repeat, shared_tmp_buffer). Offsets in bytes, eight for each step."""
    name = "bilinear_interpolation"
    state = d.state(name)
    _, values = d.dispatch(name, _BILINEAR, args, kwargs)
    dst, src, offsets = values["dst"], values["src0"], values["src0_offset"]
    if dst.dtype.name != "float16" or src.dtype.name != "float16":
        raise TypeError(f"Invalid data type for {name}: {src.dtype}; it takes float16.")
    low, high = d.mask_words(state, name, values["mask"], 2)
    keys = ("h_repeat", "repeat_mode", "dst_blk_stride", "v_r_offset", "v_repeat")
    numbers = d.numbers(*(values[key] for key in keys))
    imm = (d.signed(low), d.signed(high), *numbers)
    tensors = (dst, src, offsets, values["src1"], values["shared_tmp_buffer"])
    wanted = numbers[0] * numbers[4] * 8
    if wanted > offsets.size:
        d.over(state, name, 2, offsets, wanted * 4)
    view = state.launch.peek().view((offsets.space, offsets.offset, wanted * 4), CODES["uint32"])
    top = int(view.max()) + 32 if wanted else 0
    if top > src.size * 2:
        d.over(state, name, 1, src, top)
    d.emit(state, d.row(name), tensors, imm)


__getattr__ = names_of(__name__)
