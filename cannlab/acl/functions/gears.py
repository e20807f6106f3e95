"""Models with gears: what a description says of them, and choosing one. Source: pyacl-semantics 8.3 and 9."""

from __future__ import annotations

from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take
from cannlab.acl.functions.data_buffers import DataBuffer
from cannlab.acl.functions.datasets import Dataset
from cannlab.acl.functions.loading import loaded
from cannlab.acl.functions.model_descs import filled
from cannlab.machine import Machine
from cannlab.machine.models import LoadedModel
from cannlab.om import OmModel

_ANY_GEAR = (1 << 64) - 1
_MOST = 4096


def _values(om: OmModel, kind: str) -> list[tuple[int, ...]]:
    """The gears of a model, if it has gears of that kind."""
    return [variant.values for variant in om.variants] if om.gears.get("kind") == kind else []


@api("acl.mdl.get_dynamic_batch", empty=dict)
def get_dynamic_batch(m: Machine, desc: int) -> tuple[dict[str, Any], int]:
    """get_dynamic_batch(desc) -> ({"batchCount", "batch"}, ret): none for a model without batch gears."""
    batches = [value for (value,) in _values(filled(m, desc), "batch")]
    return {"batchCount": len(batches), "batch": batches}, 0


@api("acl.mdl.get_dynamic_hw", empty=dict)
def get_dynamic_hw(m: Machine, desc: int, index: int) -> tuple[dict[str, Any], int]:
    """get_dynamic_hw(desc, index) -> ({"hwCount", "hw"}, ret): [height, width] each; the index is ignored."""
    sizes = [list(values) for values in _values(filled(m, desc), "image")]
    return {"hwCount": len(sizes), "hw": sizes}, 0


@api("acl.mdl.get_input_dynamic_gear_count")
def get_input_dynamic_gear_count(m: Machine, desc: int, index: int) -> tuple[int, int]:
    """get_input_dynamic_gear_count(desc, -1) -> (count, ret): gears of --dynamic_dims."""
    om = filled(m, desc)
    _any_gear(m, index)
    return len(_values(om, "dims")), 0


@api("acl.mdl.get_input_dynamic_dims")
def get_input_dynamic_dims(m: Machine, desc: int, index: int, count: int) -> tuple[list[Any] | None, int]:
    """get_input_dynamic_dims(desc, -1, count) -> (list of {"name", "dimCount", "dims"}, ret).

    One entry for each gear: the dims of all inputs one after another.
    """
    if count > _MOST:
        return None, 100000
    om = filled(m, desc)
    _any_gear(m, index)
    gears = om.variants if om.gears.get("kind") == "dims" else ()
    if count < len(gears):
        raise refuse(m, "runtime.bad_parameter", argument="gear_count", value=count, allowed=f"{len(gears)} or more")
    found = []
    for variant in gears:
        dims = [dim for tensor in variant.inputs for dim in tensor.dims]
        found.append({"name": "", "dimCount": len(dims), "dims": dims})
    return found, 0


def _any_gear(m: Machine, index: int) -> None:
    if index != _ANY_GEAR:
        raise refuse(m, "runtime.bad_parameter", argument="index", value=index, allowed="-1")


@api("acl.mdl.set_dynamic_batch_size")
def set_dynamic_batch_size(m: Machine, model_id: int, dataset: int, index: int, batch: int) -> int:
    """set_dynamic_batch_size(model_id, dataset, index, batch) -> ret: chooses the gear of the next execution."""
    _not_zero(m, batch)
    _choose(m, model_id, dataset, index, "batch", (batch,))
    return 0


@api("acl.mdl.set_dynamic_hw_size")
def set_dynamic_hw_size(m: Machine, model_id: int, dataset: int, index: int, height: int, width: int) -> int:
    """set_dynamic_hw_size(model_id, dataset, index, height, width) -> ret."""
    _not_zero(m, height and width)
    _choose(m, model_id, dataset, index, "image", (height, width))
    return 0


@api("acl.mdl.set_input_dynamic_dims")
def set_input_dynamic_dims(m: Machine, model_id: int, dataset: int, index: int, dims: Any) -> int:
    """set_input_dynamic_dims(model_id, dataset, index, {"dimCount", "dims"}) -> ret: dims of all inputs in order."""
    if not isinstance(dims, dict):
        raise TypeError("acl.mdl.set_input_dynamic_dims args parse failed")
    # A key that is missing or of another type leaves 0 in the C structure.
    count, listed = dims.get("dimCount", 0), dims.get("dims", [])
    given = tuple(listed[:count]) if isinstance(count, int) and isinstance(listed, list) else ()
    _not_zero(m, count if isinstance(count, int) else 0)
    om = loaded(m, model_id).om
    if om.gears.get("kind") != "dims":
        _choose(m, model_id, dataset, index, "dims", given)
    shown = [dim for tensor in om.inputs[:-1] for dim in tensor.dims]
    fits = len(given) == len(shown) and all(want in (-1, dim) for want, dim in zip(shown, given, strict=True))
    if not fits:
        raise refuse(m, "model.gear_dims", given=list(given), wanted=shown)
    chosen = tuple(dim for want, dim in zip(shown, given, strict=True) if want == -1)
    _choose(m, model_id, dataset, index, "dims", chosen)
    return 0


def _not_zero(m: Machine, size: int) -> None:
    if size == 0:
        raise refuse(m, "runtime.bad_parameter", argument="size", value=0, allowed="above 0")


def _choose(m: Machine, model_id: int, dataset: int, index: int, kind: str, values: tuple[int, ...]) -> LoadedModel:
    """Write a gear into the dataset's buffer of the input that chooses it.

    Raises:
        Refused: ``model.not_dynamic`` (145013), ``model.no_gear`` (145013), ``model.gear_index`` (100000),
            ``model.gear_address`` (145011), ``model.gear_length`` (145012).
    """
    entry, model = take(m, dataset, Dataset), loaded(m, model_id)
    gears = _values(model.om, kind)
    if not gears:
        raise refuse(m, "model.not_dynamic")
    right = model.gear_input()
    if index != right or index >= len(entry.buffers):
        raise refuse(m, "model.gear_index", index=index, right=right, count=len(entry.buffers))
    buffer = take(m, entry.buffers[index], DataBuffer)
    if buffer.address == 0:
        raise refuse(m, "model.gear_address", index=index)
    needed = 4 * len(values)
    if buffer.size < needed:
        raise refuse(m, "model.gear_length", size=buffer.size, needed=needed)
    if values not in gears:
        listed = "; ".join(",".join(map(str, gear)) for gear in gears)
        raise refuse(m, "model.no_gear", value=",".join(map(str, values)), gears=listed)
    model.write_gear((buffer.address, buffer.size), gears.index(values))
    return model
