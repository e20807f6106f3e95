"""Sorting. The proposal operations are those of older chips. Source: pyasc 6, 7.7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.ir_value import PlainValue, RawHandle, raw
from cannlab.ascendc.language.core.tensor import MrgSortSrcList
from cannlab.ascendc.language.core.types import MrgSort4Info
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.pipes import Pipe
from cannlab.machine.core.sorting import ENTRY, MOST

_T = d.is_tensor
_SORT32 = (d.Form(("dst", _T), ("src0", _T), ("src1", _T), ("repeat_time", d.is_int)),)
_SORT = (
    d.Form(
        ("dst", _T),
        ("concat", _T),
        ("index", _T),
        ("tmp", _T),
        ("repeat_time", d.is_int),
        ("is_full_sort", d.is_bool),
        is_full_sort=False,
    ),
)
_LISTS = (("dst", _T), ("sort_list", d.of(MrgSortSrcList)))
_MERGE = (
    d.Form(*_LISTS, ("params", d.of(MrgSort4Info))),
    d.Form(
        *_LISTS,
        ("element_count_list", d.of(list)),
        ("sorted_num", d.of(list)),
        ("valid_bit", d.is_int),
        ("repeat_time", d.is_int),
        ("is_exhausted_suspension", d.is_bool),
        is_exhausted_suspension=False,
    ),
)
_QUEUES = {3: 2, 7: 3, 15: 4}
"""valid_bit -> queues."""


def sort32(*args: Any, **kwargs: Any) -> None:
    """sort32(dst, scores, indices, repeat_time): each 32 scores descending, as structures of score and index."""
    state = d.state("sort32")
    _, values = d.dispatch("sort32", _SORT32, args, kwargs)
    repeats = int(raw(values["repeat_time"]))
    d.emit(state, d.row("sort32"), (values["dst"], values["src0"], values["src1"]), (repeats,))


def sort(*args: Any, **kwargs: Any) -> None:
    """sort(dst, concat, index, tmp, repeat_time, is_full_sort=False): per 32 elements, or all of them."""
    state = d.state("sort")
    _, values = d.dispatch("sort", _SORT, args, kwargs)
    tensors = tuple(values[name] for name in ("dst", "concat", "index", "tmp"))
    d.emit(state, d.row("sort"), tensors, d.numbers(values["repeat_time"], bool(raw(values["is_full_sort"]))))


def mrg_sort(*args: Any, **kwargs: Any) -> None:
    """mrg_sort(dst, sort_list, MrgSort4Info) or (dst, sort_list, lengths, sorted_num, valid_bit, repeat_time): merge
    two to four sorted queues of structures."""
    state = d.state("mrg_sort")
    number, values = d.dispatch("mrg_sort", _MERGE, args, kwargs)
    if number == 0:
        p = values["params"]
        given = (p.element_lengths, p.if_exhausted_suspension, p.valid_bit, p.repeat_times)
    else:
        given = tuple(
            values[name] for name in ("element_count_list", "is_exhausted_suspension", "valid_bit", "repeat_time")
        )
    counts, suspend, valid, repeats = given
    queues = _QUEUES.get(int(raw(valid)), 0)
    lengths = [*d.numbers(*counts), 0, 0, 0, 0][:4]
    sources = [each for each in values["sort_list"].sources if each is not None]
    dst, repeat = values["dst"], int(raw(repeats))
    problem = ""
    if not queues or len(sources) < queues:
        problem = f"valid_bit {raw(valid)} with {len(sources)} queues (3, 7 and 15 stand for 2, 3 and 4)"
    elif any(not 0 <= each <= MOST for each in lengths[:queues]):
        problem = f"queues of {lengths[:queues]} structures (at most {MOST} each)"
    elif repeat > 1 and (queues != 4 or len(set(lengths)) > 1):
        problem = f"{repeat} repeats of queues of {lengths} (repeats need four queues of one length)"
    else:
        size = sum(lengths[:queues]) * ENTRY * repeat
        for source, length in zip(sources[:queues], lengths, strict=False):
            end = source.offset + length * ENTRY
            if source.space == dst.space and source.offset < dst.offset + size and dst.offset < end:
                problem = "a result that overlaps one of its queues"
    if problem:
        state.launch.stop("kernel.merge", what=problem)
    imm = (*(each if place < queues else 0 for place, each in enumerate(lengths)), repeat, int(bool(raw(suspend))))
    if sum(imm[:4]) and repeat:
        wide = (dst, *sources[:queues])
        d.emit_wide(state, d.row(f"mrg_sort_{queues}"), wide, imm, "mrg_sort", int(Pipe.V))


def get_mrg_sort_result() -> tuple[PlainValue, ...]:
    """How many structures the last mrg_sort took from each of four queues (uint16)."""
    merged = d.state("get_mrg_sort_result").launch.peek().merged
    return tuple(PlainValue(each, KnownTypes.uint16) for each in merged)


def get_sort_len(elem_count: Any) -> RawHandle:
    """In 1.1.1 a bare handle: it cannot be used as a number."""
    d.state("get_sort_len")
    return RawHandle()


def get_sort_offset(elem_offset: Any) -> RawHandle:
    """In 1.1.1 a bare handle: it cannot be used as a number."""
    d.state("get_sort_offset")
    return RawHandle()


def _older(name: str) -> Callable[..., None]:
    def operation(*args: Any, **kwargs: Any) -> None:
        state = d.state(name)
        state.launch.stop("kernel.not_on_chip", name=name, soc=state.launch.soc.name)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name} is an operation of the 910 and the 310P; pyasc's chips do not have it."
    return operation


mrg_sort4, rp_sort16, proposal_concat, proposal_extract = (
    _older(name) for name in ("mrg_sort4", "rp_sort16", "proposal_concat", "proposal_extract")
)

__getattr__ = names_of(__name__)
