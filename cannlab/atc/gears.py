"""Gears: ``--dynamic_batch_size``, ``--dynamic_image_size`` and ``--dynamic_dims``.

The model is compiled once for each gear. Source: pyacl-and-atc 3.3, 3.4 and 3.8; learner-problems ATC-10, ATC-16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.shapes import UNLIMITED, Dims
from cannlab.soc import Soc

BATCH, IMAGE, DIMS = "batch", "image", "dims"
OPTION_OF = {BATCH: "--dynamic_batch_size", IMAGE: "--dynamic_image_size", DIMS: "--dynamic_dims"}

INPUT = "ascend_mbatch_shape_data"
"""The input that atc adds: it holds the chosen gear."""

_FEWEST, _MOST, _MOST_NEWEST = 2, 100, 256
_RANK, _HEIGHT, _WIDTH = 4, 2, 3


@dataclass(frozen=True)
class Gears:
    """The gears of one command.

    Attributes:
        kind: "batch", "image" or "dims".
        values: the numbers of each gear, in the order of the option.
        shapes: the shape of each input named in ``--input_shape``, for each gear.
    """

    kind: str
    values: tuple[tuple[int, ...], ...]
    shapes: tuple[Mapping[str, tuple[int, ...]], ...]


def plan(options: Mapping[str, str], shapes: Mapping[str, Dims], format: str, soc: Soc) -> Gears | None:
    """Read the three options against the shapes of ``--input_shape``; None without any of them.

    Args:
        options: the options' texts by kind; "range" holds ``--input_shape_range``.
        shapes: of ``--input_shape``.
        format: ``--input_format``.
        soc: the chip; the newest family takes more gears.

    Raises:
        AtcError: rules ``atc.gears_exclusive``, ``atc.gears_without_shape``, ``atc.gears_range``,
            ``atc.no_open_batch``, ``atc.no_open_dim``, ``atc.batch_scalar``, ``atc.batch_place``,
            ``atc.image_place``, ``atc.image_pair``,
            ``atc.gear_text``, ``atc.gear_format``, ``atc.gears_few``, ``atc.gears_many``, ``atc.gear_arity``,
            ``atc.gear_not_positive``, ``atc.gear_twice``, ``atc.dims_short``, ``atc.dims_long``.
    """
    given = {kind: text for kind, text in options.items() if text}
    if len(given) > 1:
        names = ", ".join(OPTION_OF.get(kind, "--input_shape_range") for kind in given)
        raise atc_error("gears_exclusive", names=names)
    if not given or "range" in given:
        return None
    ((kind, text),) = given.items()
    if not shapes:
        raise atc_error("gears_without_shape", option=OPTION_OF[kind])
    _check_places(kind, shapes, format)
    values = _values(kind, text, sum(dim == _OPEN for dims in shapes.values() for dim in dims))
    limit = _MOST_NEWEST if soc.short == "Ascend910_95" else _MOST
    _check_values(kind, text, values, limit)
    return Gears(kind, values, tuple(_at(kind, gear, shapes) for gear in values))


_OPEN = (0, UNLIMITED)


def _check_places(kind: str, shapes: Mapping[str, Dims], format: str) -> None:
    """Where -1 may stand."""
    option = OPTION_OF[kind]
    every = [(name, index, dim) for name, dims in shapes.items() for index, dim in enumerate(dims)]
    for name, _, (least, most) in every:
        if least != most and (least, most) != _OPEN:
            raise atc_error("gears_range", option=option, name=name, range=f"{least}~{most}")
    if not every and kind == BATCH:
        raise atc_error("batch_scalar")
    if not any(dim == _OPEN for _, _, dim in every):
        raise atc_error("no_open_batch" if kind == BATCH else "no_open_dim", option=option)
    if kind == BATCH:
        for name, index, dim in every:
            if index and dim == _OPEN:
                raise atc_error("batch_place", name=name, index=index)
    elif kind == IMAGE:
        if format not in ("", "NCHW", "NHWC"):
            raise atc_error("gear_format", option=option, format=format, wanted="NCHW")
        for name, dims in shapes.items():
            open_at = [index for index, dim in enumerate(dims) if dim == _OPEN]
            if open_at and (len(dims) != _RANK or open_at != [_HEIGHT, _WIDTH]):
                raise atc_error("image_place", name=name)
    elif format != "ND":
        raise atc_error("gear_format", option=option, format=format or "NCHW", wanted="ND")


def _values(kind: str, text: str, open_dims: int) -> tuple[tuple[int, ...], ...]:
    groups = text.split(",") if kind == BATCH else text.rstrip("; ").split(";")
    if kind == BATCH and groups[-1].strip() == "":
        groups = groups[:-1]
    values = tuple(tuple(_number(kind, text, word) for word in group.split(",")) for group in groups)
    if kind == IMAGE and any(len(gear) != 2 for gear in values):
        raise atc_error("image_pair", text=text)
    lengths = [len(gear) for gear in values]
    if kind == DIMS:
        odd = next((length for length in lengths if length != lengths[0]), None)
        if odd is not None:
            raise atc_error("gear_arity", option=OPTION_OF[kind], one=lengths[0], other=odd)
        if lengths[0] != open_dims:
            rule = "dims_short" if lengths[0] < open_dims else "dims_long"
            raise atc_error(rule, text=text, count=lengths[0], open=open_dims)
    return values


def _number(kind: str, text: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise atc_error("gear_text", option=OPTION_OF[kind], text=text, word=word) from None


def _check_values(kind: str, text: str, values: tuple[tuple[int, ...], ...], limit: int) -> None:
    def error(rule: str, **facts: Any) -> AtcError:
        return atc_error(rule, option=OPTION_OF[kind], text=text, **facts)

    for gear in values:
        if any(value <= 0 for value in gear):
            raise error("gear_not_positive", value=min(gear))
    if len(values) < _FEWEST:
        raise error("gears_few", count=len(values))
    if len(values) > limit:
        raise error("gears_many", count=len(values), limit=limit)
    for index, gear in enumerate(values):
        if gear in values[:index]:
            raise error("gear_twice", gear=",".join(map(str, gear)))


def _at(kind: str, gear: tuple[int, ...], shapes: Mapping[str, Dims]) -> dict[str, tuple[int, ...]]:
    """The shapes for one gear: every open dimension takes its number."""
    numbers = iter(gear)
    found: dict[str, tuple[int, ...]] = {}
    for name, dims in shapes.items():
        if kind == IMAGE:
            numbers = iter(gear)
        fixed = []
        for low, high in dims:
            if (low, high) != _OPEN:
                fixed.append(low)
            else:
                fixed.append(gear[0] if kind == BATCH else next(numbers))
        found[name] = tuple(fixed)
    return found
