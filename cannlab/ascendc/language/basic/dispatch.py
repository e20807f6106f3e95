"""Call forms: which overload a call means, and the instruction it becomes. Source: pyasc 6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.ascendc.language.core.builder import BlockState, GlobalBuilder
from cannlab.ascendc.language.core.ir_value import PlainValue, converted, raw
from cannlab.ascendc.language.core.tensor import LocalTensor, follow
from cannlab.machine.core import layout
from cannlab.machine.core.access import extents
from cannlab.machine.core.dtypes import CODES, pack, widest
from cannlab.machine.core.floats import to_bits
from cannlab.machine.core.layout import COUNT as COUNT
from cannlab.machine.core.layout import COUNTER
from cannlab.machine.core.layout import MASK as MASK
from cannlab.machine.core.layout import signed as signed
from cannlab.machine.core.opcodes import BY_NAME, Row

Test = Callable[[Any], bool]
_PACKED: dict[tuple[str, ...], int] = {}
_MISSING = object()
_NUMBERS = frozenset({int, float, bool})
_SIZES: dict[tuple[int, int, tuple[int, ...]], tuple[int, ...]] = {}
"""Bytes of the operands of instructions of the cube's side."""
_KEPT = 16384


def is_int(value: Any) -> bool:
    """A Python int or a runtime int."""
    if isinstance(value, PlainValue):
        return not value.dtype.is_float()
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """A Python number or a runtime scalar."""
    return isinstance(value, (int, float, PlainValue))


def is_bool(value: Any) -> bool:
    """A bool, or a runtime value."""
    return isinstance(value, (bool, PlainValue))


def is_tensor(value: Any) -> bool:
    """A LocalTensor."""
    return isinstance(value, LocalTensor)


def is_mask(value: Any) -> bool:
    """An element count or a list of two words (a tuple is refused)."""
    return is_int(value) or (isinstance(value, list) and len(value) <= 2 and all(is_int(word) for word in value))


def of(*kinds: type) -> Test:
    """An instance of one of the classes."""
    return lambda value: isinstance(value, kinds)


class Form:
    """One overload: parameter names, what each accepts, and defaults of the last ones."""

    def __init__(self, *parameters: tuple[str, Test], **defaults: Any) -> None:
        self.parameters = parameters
        self.defaults = defaults

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """The call's values by name, or None when the call does not fit."""
        if len(args) > len(self.parameters):
            return None
        values: dict[str, Any] = {}
        left = len(kwargs)
        for place, (name, test) in enumerate(self.parameters):
            if place < len(args):
                value = args[place]
                if name in kwargs:
                    return None
            elif name in kwargs:
                value = kwargs[name]
                left -= 1
            elif name in self.defaults:
                values[name] = self.defaults[name]
                continue
            else:
                return None
            if not test(value):
                return None
            values[name] = value
        return None if left else values

    def text(self) -> str:
        """The overload for a person."""
        return "(" + ", ".join(name for name, _ in self.parameters) + ")"


def dispatch(
    name: str, forms: tuple[Form, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    """The number of the first overload that fits, and its values.

    Raises:
        RuntimeError: none fits ("No viable candidates were found to dispatch ...").
    """
    for number, form in enumerate(forms):
        values = form.bind(args, kwargs)
        if values is not None:
            return number, values
    given = ", ".join(
        [type(value).__name__ for value in args] + [f"{k}: {type(v).__name__}" for k, v in kwargs.items()]
    )
    raise RuntimeError(
        f"No viable candidates were found to dispatch {name}()\n  arguments: ({given})\n  candidates:\n"
        + "\n".join(f"    {name}{form.text()}" for form in forms)
    )


def quick_count(args: tuple[Any, ...], kwargs: dict[str, Any], tensors: int) -> int | None:
    """The count of a plain call ``op(dst, src, ..., count=n)``; None sends the call through the overloads."""
    if len(args) == tensors and len(kwargs) == 1:
        count = kwargs.get("count")
    elif len(args) == tensors + 1 and not kwargs:
        count = args[tensors]
    else:
        return None
    for tensor in args[:tensors]:
        if type(tensor) is not LocalTensor:
            return None
    if type(count) is int:
        return count
    if type(count) is PlainValue and not count.dtype.is_float():
        return int(count.value)
    return None


def literal(name: str, parameter: str, value: Any, bits: int = 8, sign: bool = True) -> int:
    """An integer argument of a narrow width: a literal must fit it, a runtime value is narrowed.

    Raises:
        TypeError: a literal that does not fit (in 1.1.1 most repeat counts are int8: at most 127).
    """
    if isinstance(value, PlainValue):
        return int(value.value) & ((1 << bits) - 1)
    top = (1 << (bits - 1)) - 1 if sign else (1 << bits) - 1
    low = -(1 << (bits - 1)) if sign else 0
    if not low <= value <= top:
        kind = f"{'' if sign else 'u'}int{bits}"
        raise TypeError(
            f"incompatible function arguments: {parameter}={value} of {name} does not fit {kind} "
            f"({low} to {top}); pass a runtime value (asc.number) for more"
        )
    return int(value)


def mask_words(state: BlockState, name: str, mask: Any, size: int) -> tuple[int, int]:
    """A mask argument as two 64-bit words, checked for elements of ``size`` bytes."""
    most = 256 // size
    if isinstance(mask, list):
        words = [int(raw(word)) & layout.WORD for word in mask] + [0, 0]
        low, high = words[0], words[1]
        if (high << 64 | low) >> most:
            state.launch.stop("kernel.mask", name=name, mask=f"[{low:#x}, {high:#x}]", size=size, most=most)
        if not low and not high:
            state.launch.stop("kernel.mask_empty", name=name)
        return low, high
    count = int(raw(mask))
    if not 1 <= count <= most:
        state.launch.stop("kernel.mask", name=name, mask=count, size=size, most=most)
    bits = (1 << count) - 1
    return bits & layout.WORD, bits >> 64


def types(tensors: tuple[Any, ...]) -> int:
    """Packed element types."""
    names = tuple([tensor.dtype.name for tensor in tensors])
    packed = _PACKED.get(names)
    if packed is None:
        packed = _PACKED[names] = pack(*[CODES[name] for name in names])
    return packed


def masked(
    state: BlockState, name: str, dtype: int, values: dict[str, Any], strides: tuple[int, ...], repeats: int
) -> tuple[int, ...]:
    """The form of a call with mask and repeats, in normal or counter mode."""
    size = widest(dtype)
    if not values.get("is_set_mask", True):
        if state.counter:
            return (COUNTER, state.length, 0, 0, *strides)
        low, high = state.mask
        if size > 2:
            high = 0
        if not low and not high:
            state.launch.stop("kernel.mask_empty", name=name)
        return (MASK, repeats, signed(low), signed(high), *strides)
    if state.counter:
        mask = values["mask"]
        total = int(raw(mask[0] if isinstance(mask, list) else mask))
        return (COUNTER, total, 0, 0, *strides)
    low, high = mask_words(state, name, values["mask"], size)
    return (MASK, repeats, signed(low), signed(high), *strides)


def emit(
    state: BlockState,
    row: Row,
    tensors: tuple[LocalTensor, ...],
    imm: tuple[int, ...],
    name: str = "",
    dtype: int | None = None,
) -> None:
    """Issue a vector instruction on whole operands, after checking that each stays inside its tensor."""
    if dtype is None:
        dtype = types(tensors)
    if imm[0] == COUNT and row.lanewise:
        count = imm[1]
        if count <= 0:
            if count < 0:
                over(state, name or row.name, 0, tensors[0], count * tensors[0].dtype.sizeof())
            return
        operands = []
        for place, tensor in enumerate(tensors):
            size = count * tensor.dtype.sizeof()
            if count > tensor.size:
                over(state, name or row.name, place, tensor, size)
            operands.append((tensor.space, tensor.offset, size))
        state.launch.issue(row.number, 1, dtype, imm, tuple(operands))
        return
    found = extents(row.number, dtype, imm)
    if not any(found):
        return
    operands = []
    for place, tensor in enumerate(tensors):
        have = tensor.size * tensor.dtype.sizeof()
        wanted = found[place]
        size = have if wanted is None else wanted
        if size > have:
            over(state, name or row.name, place, tensor, size)
        operands.append((tensor.space, tensor.offset, size))
    state.launch.issue(row.number, 1, dtype, imm, tuple(operands))


def emit_wide(
    state: BlockState, row: Row, tensors: tuple[Any, ...], imm: tuple[int, ...], name: str, pipe: int
) -> None:
    """Issue an instruction of the cube's side, each operand as long as its immediates reach."""
    dtype = types(tensors)
    key = (row.number, dtype, imm)
    sizes = _SIZES.get(key)
    if sizes is None:
        if len(_SIZES) >= _KEPT:
            _SIZES.clear()
        sizes = _SIZES[key] = tuple([size or 0 for size in extents(*key)])
    operands = []
    for place, tensor in enumerate(tensors):
        size = sizes[place]
        if isinstance(tensor, LocalTensor):
            if size > tensor.size * tensor.dtype._bytes:
                over(state, name, place, tensor, size)
            operands.append((tensor.space, tensor.offset, size))
        else:
            operands.append((tensor.allocation, tensor.at, size))
    if max(sizes):
        follow(state.launch, tensors)
        state.launch.issue(row.number, pipe, dtype, imm, tuple(operands))


def numbers(*values: Any) -> tuple[int, ...]:
    """Arguments as plain ints."""
    return tuple([value if type(value) is int else int(raw(value)) for value in values])


def plain(values: tuple[Any, ...]) -> bool:
    """Are all of them Python numbers, so that they can stand for what is made of them?"""
    return _NUMBERS.issuperset(map(type, values))


def over(state: BlockState, name: str, place: int, tensor: LocalTensor, wanted: int) -> None:
    """The operation would leave the tensor."""
    size = tensor.dtype.sizeof()
    state.launch.stop(
        "kernel.tensor_range",
        name=name,
        operand=place,
        wanted=wanted,
        have=tensor.size * size,
        elements=tensor.size,
    )


def counted(values: dict[str, Any]) -> tuple[int, ...]:
    """The form of a call with a count."""
    return (COUNT, int(raw(values["count"])))


def scalar_bits(value: Any, tensor: LocalTensor) -> int:
    """A scalar operand: converted to the tensor's type, as float64 bits."""
    return to_bits(float(converted(value, tensor.dtype)))


def row(name: str) -> Row:
    """The row of an operation."""
    return BY_NAME[name]


def state(name: str) -> BlockState:
    """The running block."""
    return GlobalBuilder.get(name)


SET_MASK = ("is_set_mask", is_bool)
REPEAT = ("repeat_times", is_int)
COUNTED = ("count", is_int)
MASKED = ("mask", is_mask)
