"""Mask registers, atomics and the state of the core. Source: pyasc 6, 7.8, 7.10."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.aipp_types import AippParams
from cannlab.ascendc.language.core.builder import GlobalBuilder
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.enums import AippInputFormat, AtomicDtype, AtomicOp, MaskMode, TPosition
from cannlab.ascendc.language.core.ir_value import GlobalAddress, PlainValue, raw
from cannlab.ascendc.language.core.tensor import GlobalTensor, LocalTensor, space_of
from cannlab.ascendc.language.core.types import CheckLocalMemoryIAParam
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.access import touched
from cannlab.machine.core.layout import WORD
from cannlab.machine.core.opcodes import ROWS
from cannlab.machine.core.pipes import BLOCK, CUBE_CORE, VECTOR_CORE, Pipe, Space

_IMAGE = (
    d.Form(
        ("src0", d.of(GlobalTensor)),
        ("src1", d.of(GlobalTensor)),
        ("input_format", d.of(AippInputFormat)),
        ("config", d.of(AippParams)),
    ),
    d.Form(("src0", d.of(GlobalTensor)), ("input_format", d.of(AippInputFormat)), ("config", d.of(AippParams))),
)
_ADDABLE = ("float16", "float32", "int32", "int16", "int8")


def set_mask_count() -> None:
    """Counter mode: the mask is the total number of elements, repeats are ignored."""
    d.state("set_mask_count").counter = True


def set_mask_norm() -> None:
    """Normal mode: the mask counts inside each repeat."""
    d.state("set_mask_norm").counter = False


def reset_mask() -> None:
    """All elements of a repeat take part."""
    d.state("reset_mask").mask = (WORD, WORD)


def set_vector_mask(*args: Any, dtype: DataType, mode: MaskMode) -> None:
    """(mask_high, mask_low) or (length); used by operations called with is_set_mask=False."""
    state = d.state("set_vector_mask")
    numbers = [int(raw(value)) for value in args]
    if len(numbers) not in (1, 2):
        raise RuntimeError("No viable candidates were found to dispatch set_vector_mask()")
    if len(numbers) == 1 and mode is MaskMode.COUNTER:
        state.length = numbers[0]
    elif len(numbers) == 1:
        bits = (1 << numbers[0]) - 1
        state.mask = (bits & WORD, bits >> 64)
    else:
        state.mask = (numbers[1] & WORD, numbers[0] & WORD)


def init_soc_state() -> None:
    """The prologue of kernels without a TPipe: registers as after a reset."""
    state = d.state("init_soc_state")
    state.counter, state.atomic, state.mask = False, 0, (WORD, WORD)


def ascend_is_aic() -> PlainValue:
    """Is this a cube core?"""
    return PlainValue(d.state("ascend_is_aic").launch.cores == CUBE_CORE, KnownTypes.int1)


def ascend_is_aiv() -> PlainValue:
    """Is this a vector core?"""
    return PlainValue(d.state("ascend_is_aiv").launch.cores == VECTOR_CORE, KnownTypes.int1)


def _hf32(name: str, on: bool, trans: bool) -> None:
    state = d.state(name)
    state.hf32 = (on, trans)
    state.launch.issue(d.row("set_hf32").number, 0, 0, ((2 if trans else 1) if on else 0,))


def set_hf32_mode(hf32_mode: Any) -> None:
    """mmad rounds float32 inputs to 11 bits of fraction, and is faster on hardware (the time model keeps float32's)."""
    _hf32("set_hf32_mode", bool(raw(hf32_mode)), d.state("set_hf32_mode").hf32[1])


def set_hf32_trans_mode(trans_mode: Any) -> None:
    """HF32 rounds towards zero (True) or to nearest even."""
    _hf32("set_hf32_trans_mode", d.state("set_hf32_trans_mode").hf32[0], bool(raw(trans_mode)))


def _atomic(name: str, operation: int, dtype: DataType) -> None:
    state = d.state(name)
    if not isinstance(dtype, DataType) or dtype.name not in _ADDABLE:
        raise TypeError(f"{name} takes {', '.join(_ADDABLE)}, got {dtype}")
    state.atomic = operation


def set_atomic_add(dtype: DataType) -> None:
    """Writes to global memory add to what is there, until set_atomic_none."""
    _atomic("set_atomic_add", 1, dtype)


def set_atomic_max(dtype: DataType) -> None:
    """Writes to global memory keep the larger value."""
    _atomic("set_atomic_max", 2, dtype)


def set_atomic_min(dtype: DataType) -> None:
    """Writes to global memory keep the smaller value."""
    _atomic("set_atomic_min", 3, dtype)


def set_atomic_type(dtype: DataType) -> None:
    """The type of atomic writes; here each write has its tensor's type."""
    d.state("set_atomic_type")
    if not isinstance(dtype, DataType) or dtype.name not in _ADDABLE:
        raise TypeError(f"set_atomic_type takes {', '.join(_ADDABLE)}, got {dtype}")


def set_store_atomic_config(atomic_type: AtomicDtype, atomic_op: AtomicOp) -> None:
    """Writes to global memory add (ATOMIC_SUM), or replace with ATOMIC_NONE."""
    state = d.state("set_store_atomic_config")
    state.store_config = (int(atomic_type), int(atomic_op))
    state.atomic = 0 if atomic_type == AtomicDtype.ATOMIC_NONE else 1


def get_store_atomic_config() -> tuple[PlainValue, PlainValue]:
    """Type and operation of set_store_atomic_config (uint16)."""
    kind, operation = d.state("get_store_atomic_config").store_config
    return PlainValue(kind, KnownTypes.uint16), PlainValue(operation, KnownTypes.uint16)


def set_mm_layout_transform(mm_layout_mode: Any) -> None:
    """The order in which mmad walks m and n; the result is the same, and the time model has no order."""
    d.state("set_mm_layout_transform")


NOWHERE = -100
"""The allocation of an address that was never set."""


def set_sys_workspace(workspace: GlobalAddress) -> None:
    """Say where the system's workspace lies."""
    state = d.state("set_sys_workspace")
    _address("set_sys_workspace", workspace)
    state.workspace = workspace


def get_sys_workspace() -> GlobalAddress:
    """The system's workspace, as bytes (uint8): where set_sys_workspace said. The toolkit's functions keep their
    intermediate results there; a kernel that reads or writes through an address that was never set is stopped."""
    found = d.state("get_sys_workspace").workspace
    if found is None:
        return GlobalAddress(NOWHERE, KnownTypes.uint8)
    return GlobalAddress(found.allocation, KnownTypes.uint8, found.offset)


def set_hccl_context(index: Any, context: GlobalAddress) -> None:
    """Keep an address of the communication library under a number."""
    state = d.state("set_hccl_context")
    _address("set_hccl_context", context)
    state.contexts[int(raw(index))] = context


def get_hccl_context(index: int) -> GlobalAddress:
    """The address under a number, as bytes (uint8)."""
    found = d.state("get_hccl_context").contexts.get(int(raw(index)))
    if found is None:
        return GlobalAddress(NOWHERE, KnownTypes.uint8)
    return GlobalAddress(found.allocation, KnownTypes.uint8, found.offset)


def _address(name: str, given: Any) -> None:
    if not isinstance(given, GlobalAddress):
        raise TypeError(f"{name} takes a GlobalAddress, got {type(given).__name__}")


def metrics_prof_start() -> None:
    """Profiling is always on here."""
    d.state("metrics_prof_start")


def metrics_prof_stop() -> None:
    """Profiling is always on here."""
    d.state("metrics_prof_stop")


def set_atomic_none() -> None:
    """Writes to global memory replace what is there."""
    d.state("set_atomic_none").atomic = 0


def set_aipp_functions(*args: Any, **kwargs: Any) -> None:
    """(src0, input_format, config) or (src0, src1, input_format, config): where load_image_to_local finds the image.

    src1 is the plane with the colours of YUV420SP_U8. Of config only the type counts: pyasc 1.1.1 emits an empty block.
    """
    state = d.state("set_aipp_functions")
    _, values = d.dispatch("set_aipp_functions", _IMAGE, args, kwargs)
    state.aipp = (values["src0"], values.get("src1"), int(values["input_format"]), values["config"])


class _Watch:
    """What one register of check_local_memory_ia looks for: bytes of the UB, and (kind of access, reads) pairs."""

    def __init__(self, given: CheckLocalMemoryIAParam) -> None:
        start, end = d.numbers(given.start_addr, given.end_addr)
        self.start, self.end = (start + 1) * BLOCK, (end + 1) * BLOCK
        flags = {
            ("scalar", True): given.is_scalar_read,
            ("scalar", False): given.is_scalar_write,
            ("vector", True): given.is_vector_read,
            ("vector", False): given.is_vector_write,
            ("MTE", True): given.is_mte_read,
            ("MTE", False): given.is_mte_write,
        }
        self.kinds = frozenset(kind for kind, on in flags.items() if bool(raw(on)))


_UNITS = {Pipe.S: "scalar", Pipe.V: "vector", Pipe.MTE1: "MTE", Pipe.MTE2: "MTE", Pipe.MTE3: "MTE"}


def _seen(launch: Any, op: int, pipe: int, dtype: int, imm: tuple[int, ...], operands: Any) -> None:
    """Stops the core where an instruction reaches bytes that are watched."""
    state = GlobalBuilder.state
    unit = _UNITS.get(Pipe(pipe), "")
    row = ROWS[op]
    if state is None or not state.watches or len(operands) != len(row.roles):
        return
    # Every turn of a loop has to come by here.
    launch.peek()
    for operand, role, spans in zip(operands, row.roles, touched(row, dtype, imm), strict=True):
        if operand[0] != Space.UB:
            continue
        for watch in state.watches.values():
            for start, end in spans if spans is not None else ((0, operand[2]),):
                first, last = max(operand[1] + start, watch.start), min(operand[1] + end, watch.end)
                for reads in (True, False):
                    if first < last and role != ("w" if reads else "r") and (unit, reads) in watch.kinds:
                        how = f"{'reads' if reads else 'writes'} ({unit})"
                        launch.stop("kernel.watched", name=row.name, how=how, start=first, end=last)


def check_local_memory_ia(check_params: CheckLocalMemoryIAParam) -> None:
    """Watch a range of the UB: an access of the kinds named stops the core. is_enable=False ends it.

    The range goes from behind block start_addr to the end of block end_addr (32 bytes each).
    Source: the toolkit's page of CheckLocalMemoryIA.
    """
    state = d.state("check_local_memory_ia")
    if not isinstance(check_params, CheckLocalMemoryIAParam):
        raise TypeError(f"check_local_memory_ia expects a CheckLocalMemoryIAParam, got {type(check_params).__name__}")
    (register,) = d.numbers(check_params.enable_bit)
    if not 0 <= register <= 3:
        raise ValueError(f"enable_bit is {register}: there are registers 0 to 3")
    state.watches.pop(register, None)
    if not bool(raw(check_params.is_enable)) or state.launch.probing:
        return
    state.watches[register] = _Watch(check_params)
    launch = state.launch
    if "issue" not in vars(launch):
        issue = launch.issue

        def watched(op: int, pipe: int, dtype: int, imm: tuple[int, ...], operands: Any = ()) -> None:
            _seen(launch, op, pipe, dtype, imm, operands)
            issue(op, pipe, dtype, imm, operands)

        # From now on the launch's instructions pass by here; other launches pay nothing for it.
        launch.issue = watched


def pop_stack_buffer(dtype: DataType, position: TPosition = TPosition.VECCALC) -> LocalTensor:
    """All that is left of the UB behind the TPipe's buffers, as one tensor.

    Raises:
        RuntimeError: no TPipe. ValueError: a position outside the UB.
    """
    state = d.state("pop_stack_buffer")
    if state.pipe is None:
        raise RuntimeError("pop_stack_buffer: there is no TPipe yet: create one first")
    if space_of(state.launch.soc, int(position)) is not Space.UB:
        raise ValueError(f"pop_stack_buffer takes a position in the UB, not {TPosition(position).name}")
    start, end = state.pipe.rest(Space.UB)
    size = (end - start) // dtype.sizeof()
    return LocalTensor._make(dtype, int(Space.UB), start, size, int(position), None)


__getattr__ = names_of(__name__)
