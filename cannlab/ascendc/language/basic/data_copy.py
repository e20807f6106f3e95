"""data_copy and data_copy_pad. Source: pyasc 6, 7.8; ascend-c 1.2."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.basic.fixpipe import copy_out
from cannlab.ascendc.language.core.builder import BlockState
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.ir_value import convert, raw
from cannlab.ascendc.language.core.tensor import BaseTensor, GlobalTensor, LocalTensor, follow
from cannlab.ascendc.language.core.types import (
    DataCopyCO12DstParams,
    DataCopyEnhancedParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyPadParams,
    DataCopyParams,
    LoadImageToLocalParams,
    Nd2NzParams,
    Nz2NdParamsFull,
    SliceInfo,
)
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.dtypes import CODES, pack
from cannlab.machine.core.floats import to_bits
from cannlab.machine.core.images import XRGB8888, YUV420SP
from cannlab.machine.core.movement import FILL_FIRST, FILL_UNDEFINED, FILL_VALUE, padded
from cannlab.machine.core.pipes import BLOCK, GM, PATHS, Pipe

_BOTH = (("dst", d.of(BaseTensor)), ("src", d.of(BaseTensor)))
_COPY = (
    d.Form(*_BOTH, d.COUNTED),
    d.Form(*_BOTH, ("repeat_params", d.of(DataCopyParams))),
    d.Form(*_BOTH, ("intri_params", d.of(Nd2NzParams, Nz2NdParamsFull, DataCopyCO12DstParams))),
    d.Form(*_BOTH, ("repeat_params", d.of(DataCopyParams)), ("enhanced_params", d.of(DataCopyEnhancedParams))),
    d.Form(*_BOTH, ("slice_list1", d.of(list)), ("slice_list2", d.of(list)), ("dim_value", d.is_int)),
)
_PAD = (
    d.Form(
        *_BOTH,
        ("data_copy_params", d.of(DataCopyExtParams, DataCopyParams)),
        ("pad_params", d.of(DataCopyPadExtParams, DataCopyPadParams)),
    ),
    d.Form(*_BOTH, ("data_copy_params", d.of(DataCopyExtParams, DataCopyParams))),
)


def _pipe(name: str, dst: Any, src: Any) -> Pipe:
    if isinstance(dst, GlobalTensor) and isinstance(src, GlobalTensor):
        raise NotImplementedError(f"asc.{name} from global memory to global memory: copy through a LocalTensor")
    here, there = (GM if isinstance(each, GlobalTensor) else int(each.space) for each in (src, dst))
    # A way that does not exist is told by the launch; it needs a pipe to name.
    return PATHS.get((here, there), Pipe.MTE1)


def _atomic(state: BlockState, dst: BaseTensor) -> int:
    return state.atomic if isinstance(dst, GlobalTensor) else 0


def _issue(
    state: BlockState,
    name: str,
    pipe: Pipe,
    dst: Any,
    src: Any,
    imm: tuple[int, ...],
    sizes: tuple[int, int],
) -> None:
    operands = []
    for place, (tensor, size) in enumerate(zip((dst, src), sizes, strict=True)):
        if isinstance(tensor, LocalTensor):
            if size > tensor.size * tensor.dtype.sizeof():
                d.over(state, name, place, tensor, size)
            operands.append((tensor.space, tensor.offset, size))
        else:
            operands.append((tensor.allocation, tensor.at, size))
    dtype = pack(CODES[dst.dtype.name], CODES[src.dtype.name])
    row = d.row("data_copy_pad" if len(imm) == 8 else "data_copy")
    follow(state.launch, (dst, src))
    state.launch.issue(row.number, int(pipe), dtype, imm, tuple(operands))


_TENSORS = (LocalTensor, GlobalTensor)
_PACKED = {name: pack(code, code) for name, code in CODES.items()}
_IN = {to: int(pipe) for (source, to), pipe in PATHS.items() if source == GM}
_OUT = {source: int(pipe) for (source, to), pipe in PATHS.items() if to == GM}
_COPY_ROW = d.row("data_copy").number


def _quick(state: BlockState, dst: Any, src: Any, count: int) -> bool:
    """The plain call, between global memory and a local tensor that is long enough; False sends it the long way."""
    if type(dst) is LocalTensor and type(src) is GlobalTensor:
        size = count * dst.dtype._bytes
        pipe, local, atomic = _IN.get(dst.space), dst, 0
        operands = ((dst.space, dst.offset, size), (src.allocation, src.at, size))
        moves = src.moves
    elif type(dst) is GlobalTensor and type(src) is LocalTensor:
        size = count * src.dtype._bytes
        pipe, local, atomic = _OUT.get(src.space), src, state.atomic
        operands = ((dst.allocation, dst.at, size), (src.space, src.offset, size))
        moves = dst.moves
    else:
        return False
    if dst.dtype is not src.dtype or pipe is None or count > local.size or size <= 0 or size % BLOCK:
        return False
    if moves:
        follow(state.launch, (dst, src))
    state.launch.issue(_COPY_ROW, pipe, _PACKED[dst.dtype.name], (1, size, 0, 0, atomic), operands)
    return True


def _span(count: int, length: int, gap: int) -> int:
    return count * length + (count - 1) * gap if count else 0


def data_copy(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """data_copy(dst, src, count=elements), (dst, src, repeat_params=DataCopyParams(...)), or with intri_params of
    Nd2NzParams (global memory to L1), Nz2NdParamsFull (UB to global memory), DataCopyCO12DstParams (out of L0C).

    The bytes of a count are rounded down to a multiple of 32.
    """
    state = d.state("data_copy")
    count = kwargs.get("count")
    if type(count) is int and not args and len(kwargs) == 1 and _quick(state, dst, src, count):
        return
    intri = kwargs.get("intri_params")
    if type(intri) is Nd2NzParams and not args and len(kwargs) == 1 and type(dst) in _TENSORS and type(src) in _TENSORS:
        _rearranged(state, dst, src, intri)
        return
    number, values = d.dispatch("data_copy", _COPY, (dst, src, *args), kwargs)
    if number == 2:
        _rearranged(state, dst, src, values["intri_params"])
        return
    if number == 3 and not values["enhanced_params"].plain:
        raise NotImplementedError(
            "asc.data_copy with enhanced_params other than the defaults is not emulated: use fixpipe to quantise"
        )
    pipe = _pipe("data_copy", dst, src)
    if dst.dtype is not src.dtype and dst.dtype != src.dtype:
        raise TypeError(f"data_copy: dst is {dst.dtype}, src is {src.dtype}; both must be the same type.")
    atomic = _atomic(state, dst)
    if number == 4:
        copy_slices(state, pipe, dst, src, values, atomic)
        return
    if number == 0:
        count = int(raw(values["count"]))
        wanted = count * dst.dtype.sizeof()
        size = wanted // BLOCK * BLOCK
        if wanted < 0:
            d.over(state, "data_copy", 0, dst if isinstance(dst, LocalTensor) else src, wanted)
        if size != wanted:
            state.launch.warn("kernel.tail_lost", count=count, bytes=wanted, lost=wanted - size)
        if size:
            _issue(state, "data_copy", pipe, dst, src, (1, size, 0, 0, atomic), (size, size))
        return
    p = values["repeat_params"]
    blocks, length, src_gap, dst_gap = (
        int(raw(p.block_count)),
        int(raw(p.block_len)) * BLOCK,
        int(raw(p.src_stride)) * BLOCK,
        int(raw(p.dst_stride)) * BLOCK,
    )
    if blocks and length:
        imm = (blocks, length, src_gap, dst_gap, atomic)
        sizes = (_span(blocks, length, dst_gap), _span(blocks, length, src_gap))
        _issue(state, "data_copy", pipe, dst, src, imm, sizes)


def _bursts(name: str, slices: list[Any], dims: int, size: int) -> tuple[list[int], int]:
    """First element of each burst of a sliced tensor, and the bytes of a burst.

    Raises:
        ValueError: lists that do not describe such a copy.
    """
    if len(slices) != dims or not all(isinstance(each, SliceInfo) for each in slices):
        raise ValueError(f"data_copy: {name} needs one SliceInfo for each of the {dims} dimensions")
    starts, whole, length = [0], 1, 0
    for place, each in enumerate(slices):
        start, stride, shape = d.numbers(each.start_index, each.stride, each.shape_value)
        end = shape - 1 if each.end_index is None else int(raw(each.end_index))
        burst = 1 if each.burst_len is None else int(raw(each.burst_len))
        step = burst * BLOCK // size if place == 0 else 1
        if place == 0:
            length = burst * BLOCK
        elif burst != 1:
            raise ValueError(
                f"data_copy: burst_len of dimension {place} in {name} is {burst}; only the innermost has one"
            )
        if not 0 <= start <= end < shape or step < 1 or (end - start + 1 + stride) % (step + stride):
            raise ValueError(
                f"data_copy: elements {start} to {end} of {shape} in {name} are no whole number of bursts of {step} "
                f"with gaps of {stride}"
            )
        firsts = range(start, end + 1, step + stride)
        starts = [outer * whole + inner for outer in firsts for inner in starts]
        whole *= shape
    return starts, length


def copy_slices(state: BlockState, pipe: Pipe, dst: Any, src: Any, values: dict[str, Any], atomic: int) -> None:
    """One copy for each burst of the slices. Source: pyasc 7.8 (Slices)."""
    dims, size = int(raw(values["dim_value"])), dst.dtype.sizeof()
    if state.launch.probing:
        return
    to, length = _bursts("slice_list1", values["slice_list1"], dims, size)
    source, other = _bursts("slice_list2", values["slice_list2"], dims, size)
    if len(to) != len(source) or length != other:
        raise ValueError(
            f"data_copy: the slices of dst are {len(to)} bursts of {length} bytes, "
            f"those of src {len(source)} of {other}"
        )
    for target, first in zip(to, source, strict=True):
        _issue(state, "data_copy", pipe, dst[target], src[first], (1, length, 0, 0, atomic), (length, length))


def _rearranged(state: BlockState, dst: Any, src: Any, p: Any) -> None:
    """Row-major to fractals and back, and results out of L0C."""
    if isinstance(p, DataCopyCO12DstParams):
        copy_out(state, dst, src, p)
        return
    if dst.dtype != src.dtype:
        raise TypeError(f"data_copy: dst is {dst.dtype}, src is {src.dtype}; both must be the same type.")
    if isinstance(p, Nd2NzParams):
        imm = d.numbers(
            p.nd_num,
            p.n_value,
            p.d_value,
            p.src_nd_matrix_stride,
            p.src_d_value,
            p.dst_nz_c0_stride,
            p.dst_nz_n_stride,
            p.dst_nz_matrix_stride,
        )
        name, pipe = "data_copy_nd2nz", Pipe.MTE2
    else:
        imm = d.numbers(
            p.nd_num,
            p.n_value,
            p.d_value,
            p.src_nd_matrix_stride,
            p.src_n_stride,
            p.dst_d_stride,
            p.dst_nd_matrix_stride,
            state.atomic,
        )
        name, pipe = "data_copy_nz2nd", Pipe.MTE3
    if 0 not in imm[:3]:
        d.emit_wide(state, d.row(name), (dst, src), imm, "data_copy", int(pipe))


def data_copy_pad(dst: Any, src: Any, *args: Any, **kwargs: Any) -> None:
    """Exact bytes: (dst, src, data_copy_params, pad_params) into the UB, (dst, src, data_copy_params) out of it."""
    state = d.state("data_copy_pad")
    number, values = d.dispatch("data_copy_pad", _PAD, (dst, src, *args), kwargs)
    pipe = _pipe("data_copy_pad", dst, src)
    if pipe is Pipe.V or (number == 0) != (pipe is Pipe.MTE2):
        d.dispatch("data_copy_pad", (), (dst, src, *args), kwargs)
    if dst.dtype != src.dtype:
        raise TypeError(f"data_copy_pad: dst is {dst.dtype}, src is {src.dtype}; both must be the same type.")
    p = values["data_copy_params"]
    blocks, length = int(raw(p.block_count)), int(raw(p.block_len))
    if not blocks or not length:
        return
    if pipe is Pipe.MTE3:
        src_gap = -length % BLOCK + int(raw(p.src_stride)) * BLOCK
        dst_gap = int(raw(p.dst_stride))
        imm: tuple[int, ...] = (blocks, length, src_gap, dst_gap, _atomic(state, dst))
        sizes = (_span(blocks, length, dst_gap), _span(blocks, length, src_gap))
        _issue(state, "data_copy_pad", pipe, dst, src, imm, sizes)
        return
    pad = values["pad_params"]
    element = dst.dtype.sizeof()
    left, right = int(raw(pad.left_padding)) * element, int(raw(pad.right_padding)) * element
    if left > BLOCK or right > BLOCK:
        raise ValueError(f"data_copy_pad: at most 32 bytes of padding on a side, got {left} and {right}")
    if bool(raw(pad.is_pad)):
        value: Any = raw(pad.padding_value)
        if element == 8 and value != 0:
            raise ValueError("data_copy_pad: 64-bit types are padded with 0 only")
        filler, fill = FILL_VALUE, value
    elif state.pad_value is not None:
        filler, fill = FILL_VALUE, state.pad_value
    else:
        filler, fill = (FILL_UNDEFINED if left or right else FILL_FIRST), 0
    src_gap, dst_gap = int(raw(p.src_stride)), int(raw(p.dst_stride)) * BLOCK
    bits = to_bits(float(convert(fill, dst.dtype)))
    imm = (blocks, length, src_gap, dst_gap, left, right, bits, filler)
    sizes = (_span(blocks, padded(length, left, right), dst_gap), _span(blocks, length, src_gap))
    _issue(state, "data_copy_pad", pipe, dst, src, imm, sizes)


_MOST_PIXELS, _MOST_PADDING = 4095, 32


def load_image_to_local(dst: LocalTensor, load_data_params: LoadImageToLocalParams) -> None:
    """A part of the image of set_aipp_functions to L1, 32 bytes for each pixel (int8 or float16).

    As pyasc 1.1.1 loses the settings, the device works with its defaults: no conversion but that of the type, channels
    filled up with 0, padding left and right with 0. Source: the toolkit's page of LoadImageToLocal.
    """
    name = "load_image_to_local"
    state = d.state(name)
    if not isinstance(dst, LocalTensor) or not isinstance(load_data_params, LoadImageToLocalParams):
        raise TypeError(f"{name} expects a LocalTensor and LoadImageToLocalParams")
    launch, p = state.launch, load_data_params
    if state.aipp is None:
        launch.stop("kernel.image", problem="set_aipp_functions was not called")
    src0, src1, kind, config = state.aipp
    if config.dtype != dst.dtype:
        launch.stop("kernel.image", problem=f"dst is {dst.dtype}, the AippParams are for {config.dtype}")
    if config.lost:
        launch.warn("kernel.aipp_empty", names=", ".join(config.lost))
    columns, rows, left, top, width = d.numbers(
        p.horiz_size, p.vert_size, p.horiz_start_pos, p.vert_start_pos, p.src_horiz_size
    )
    pads = d.numbers(p.left_pad_size, p.right_pad_size, p.top_pad_size, p.bot_pad_size)
    problem = _unfit((columns, rows), (left, top), width, pads, int(kind), src0, src1)
    if problem:
        launch.stop("kernel.image", problem=problem)
    imm = (kind, width, left, top, columns, rows, *pads[:2])
    row = d.row("load_image_yuv" if kind == YUV420SP else "load_image")
    planes = (src0, src1)[: len(row.roles) - 1]
    data = [GlobalTensor._make(each.allocation, each.at, each.left, KnownTypes.uint8, each.moves) for each in planes]
    d.emit_wide(state, row, (dst, *data), imm, name, int(Pipe.MTE2))


def _unfit(
    size: tuple[int, int], start: tuple[int, int], width: int, pads: tuple[int, ...], kind: int, src0: Any, src1: Any
) -> str:
    """What is wrong with a part of an image; "" if nothing is. Padding: left, right, top, bottom."""
    yuv = kind == YUV420SP
    align = {YUV420SP: 2, XRGB8888: 4}.get(kind, 1)
    rules = {
        f"sizes are 2 to {_MOST_PIXELS}": all(2 <= each <= _MOST_PIXELS for each in (*size, width)),
        f"positions are 0 to {_MOST_PIXELS}": all(0 <= each <= _MOST_PIXELS for each in start),
        "horiz_start_pos is even": start[0] % 2 == 0,
        "vert_start_pos and src_horiz_size of YUV420SP_U8 are even": not (yuv and (start[1] % 2 or width % 2)),
        "YUV420SP_U8 has two planes, src0 and src1": not yuv or src1 is not None,
        "the part lies inside the rows of the image": start[0] + size[0] <= width,
        f"padding is 0 to {_MOST_PADDING} on a side": all(0 <= each <= _MOST_PADDING for each in pads),
        "constant padding is on the left and on the right only": not any(pads[2:]),
        f"the image starts at a multiple of {align} bytes": src0.offset % align == 0,
    }
    for rule, holds in rules.items():
        if not holds:
            what = f"{size[0]} x {size[1]} pixels from {start} of rows of {width}, padding {pads}"
            return f"{what}, but {rule}"
    return ""


def set_pad_value(padding_value: Any, pos: Any = None) -> None:
    """The value that data_copy_pad fills with when its own parameters do not say one."""
    d.state("set_pad_value").pad_value = float(raw(padding_value))


__getattr__ = names_of(__name__)
