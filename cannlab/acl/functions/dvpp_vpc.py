"""VPC: resize, crop, paste, borders, colours, alone and in batches. Source: pyacl-semantics 12.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cannlab.acl import dvpp
from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take
from cannlab.acl.functions.dvpp_descs import BatchPicDesc, BorderConfig, PicDesc, ResizeConfig, Roi
from cannlab.machine import Machine, pictures

if TYPE_CHECKING:
    from cannlab.machine.pictures import Layout, Plane

_ADDRESS = 16
_MOST_OUT = 8192
_NEAREST = 2
_BATCH = 256


@dataclass
class _Step:
    """One picture to make: what is cut out of which, and where it goes."""

    source: PicDesc
    target: PicDesc
    crop: Roi | None = None
    paste: Roi | None = None
    border: BorderConfig | None = None
    nearest: bool = False


def _queue(m: Machine, channel: int, name: str, steps: list[_Step], stream: int) -> int:
    """Check all pictures and queue the work."""
    entry = dvpp.channel(m, channel, dvpp.VPC)
    matrix = entry.params.get(0, 0)
    old = m.soc.short in ("Ascend310", "Ascend910")
    plans = []
    total = 0
    for step in steps:
        by = dvpp.layout(m, step.source, "the input", most=dvpp.MOST_8K)
        to = dvpp.layout(m, step.target, "the output", most=4096 if old or m.soc.short == "Ascend310P" else _MOST_OUT)
        crop = step.crop or Roi(0, by.width - 1, 0, by.height - 1)
        paste = step.paste or Roi(0, to.width - 1, 0, to.height - 1)
        _inside(m, crop, by, "crop")
        _inside(m, paste, to, "paste")
        if step.paste is not None and (old or m.soc.short == "Ascend310B") and paste.left % 16:
            raise refuse(m, "media.area", what="paste", reason=f"its left edge {paste.left} is no multiple of 16")
        if step.border is not None:
            _border_fits(m, step.border, to)
        for picture, side in ((step.source, "the input"), (step.target, "the output")):
            size = (by if picture is step.source else to).size
            dvpp.memory(m, picture.data, size, _ADDRESS, side, write=picture is step.target)
        plans.append((step, by, to, crop, paste))
        total += by.size + to.size

    def work() -> int:
        pixels = 0
        for step, by, to, crop, paste in plans:
            given = by.planes(dvpp.memory(m, step.source.data, by.size, _ADDRESS, "the input", write=False))
            wanted = to.planes(dvpp.memory(m, step.target.data, to.size, _ADDRESS, "the output", write=True))
            _make(step, by, to, crop, paste, given, wanted, matrix)
            pixels += max(crop.width * crop.height, paste.width * paste.height)
        return pixels

    return dvpp.submit(m, dvpp.VPC, name, stream, work, [step.target for step in steps], total)


def _inside(m: Machine, area: Roi, picture: Layout, what: str) -> None:
    edges = f"left {area.left}, right {area.right}, top {area.top}, bottom {area.bottom}"
    if area.left > area.right or area.top > area.bottom:
        raise refuse(m, "media.area", what=what, reason=f"{edges}: right lies before left, or bottom above top")
    if area.right >= picture.width or area.bottom >= picture.height:
        size = f"{picture.width} x {picture.height}"
        raise refuse(m, "media.area", what=what, reason=f"{edges} reaches beyond the picture of {size} pixels")


def _border_fits(m: Machine, border: BorderConfig, to: Layout) -> None:
    if not 0 <= border.border_type < len(pictures.BORDERS):
        raise refuse(m, "runtime.bad_parameter", argument="border type", value=border.border_type, allowed="0 to 3")
    if border.left + border.right >= to.width or border.top + border.bottom >= to.height:
        raise refuse(m, "media.area", what="border", reason="it leaves no room for the picture")


def _even(area: Roi, layout: Layout) -> bool:
    """True if an area begins and ends between chroma samples."""
    kind = layout.format
    across, down = kind.across, kind.down
    return not (area.left % across or area.width % across or area.top % down or area.height % down)


def _make(
    step: _Step, by: Layout, to: Layout, crop: Roi, paste: Roi, given: list[Plane], wanted: list[Plane], matrix: int
) -> None:
    """Cut, resize, convert, surround and paste one picture."""
    rows, columns = slice(crop.top, crop.bottom + 1), slice(crop.left, crop.right + 1)
    same = by.format == to.format and by.format.family != "packed"
    if same and step.border is None and _even(crop, by) and _even(paste, to):
        # Plane by plane: what is only moved stays as it is.
        for at, (plane, target) in enumerate(zip(given, wanted, strict=True)):
            across, down = by.format.steps(at)
            part = plane[crop.top // down : (crop.bottom + 1) // down, crop.left // across : (crop.right + 1) // across]
            made = pictures.resize(part, paste.width // across, paste.height // down, nearest=step.nearest)
            top, left = paste.top // down, paste.left // across
            target[top : top + made.shape[0], left : left + made.shape[1]] = made
        return
    whole = pictures.spread(given, by)[rows, columns]
    family = "rgb" if by.format.family == "rgb" else "yuv"
    border = step.border
    width, height = paste.width, paste.height
    if border is not None:
        width, height = width - border.left - border.right, height - border.top - border.bottom
    whole = pictures.resize(whole, width, height, nearest=step.nearest)
    if border is not None:
        values = [int(min(max(value, 0), 255)) for value in border.values]
        edges = (border.top, border.bottom, border.left, border.right)
        whole = pictures.bordered(whole, *edges, border.border_type, values)
    if not _even(paste, to):
        # Pasted between chroma samples: through the whole output.
        under = pictures.spread(wanted, to)
        place = (slice(paste.top, paste.bottom + 1), slice(paste.left, paste.right + 1))
        other = "rgb" if to.format.family == "rgb" else "yuv"
        if other != family:
            whole = pictures.to_rgb(whole, matrix) if other == "rgb" else pictures.to_yuv(whole, matrix)
        under[place] = whole
        for plane, made in zip(wanted, pictures.gather(under, other, to.format, matrix), strict=True):
            plane[:] = made
        return
    for at, (target, made) in enumerate(zip(wanted, pictures.gather(whole, family, to.format, matrix), strict=True)):
        across, down = to.format.steps(at)
        top, left = paste.top // down, paste.left // across
        target[top : top + made.shape[0], left : left + made.shape[1]] = made


def _nearest(m: Machine, config: int) -> bool:
    interpolation = take(m, config, ResizeConfig).interpolation
    if interpolation > _NEAREST:
        raise refuse(m, "runtime.bad_parameter", argument="interpolation", value=interpolation, allowed="0, 1, 2")
    return interpolation == _NEAREST


def _one(m: Machine, channel: int, name: str, source: int, target: int, stream: int, **parts: Any) -> int:
    step = _Step(take(m, source, PicDesc), take(m, target, PicDesc), **parts)
    return _queue(m, channel, name, [step], stream)


@api("acl.media.dvpp_vpc_resize_async")
def dvpp_vpc_resize_async(m: Machine, channel: int, source: int, target: int, config: int, stream: int) -> int:
    """dvpp_vpc_resize_async(channel, input, output, resize_config, stream) -> ret: to the output's width and height."""
    return _one(m, channel, "VpcResize", source, target, stream, nearest=_nearest(m, config))


@api("acl.media.dvpp_vpc_crop_async")
def dvpp_vpc_crop_async(m: Machine, channel: int, source: int, target: int, area: int, stream: int) -> int:
    """dvpp_vpc_crop_async(channel, input, output, area, stream) -> ret: the area, at the output's size."""
    return _one(m, channel, "VpcCrop", source, target, stream, crop=take(m, area, Roi))


@api("acl.media.dvpp_vpc_crop_resize_async")
def dvpp_vpc_crop_resize_async(
    m: Machine, channel: int, source: int, target: int, area: int, config: int, stream: int
) -> int:
    """dvpp_vpc_crop_resize_async(channel, input, output, area, resize_config, stream) -> ret."""
    crop, nearest = take(m, area, Roi), _nearest(m, config)
    return _one(m, channel, "VpcCropResize", source, target, stream, crop=crop, nearest=nearest)


@api("acl.media.dvpp_vpc_crop_and_paste_async")
def dvpp_vpc_crop_and_paste_async(
    m: Machine, channel: int, source: int, target: int, area: int, paste: int, stream: int
) -> int:
    """dvpp_vpc_crop_and_paste_async(channel, input, output, crop area, paste area, stream) -> ret: the rest of the
    output stays."""
    crop, place = take(m, area, Roi), take(m, paste, Roi)
    return _one(m, channel, "VpcCropPaste", source, target, stream, crop=crop, paste=place)


@api("acl.media.dvpp_vpc_crop_resize_paste_async")
def dvpp_vpc_crop_resize_paste_async(
    m: Machine, channel: int, source: int, target: int, area: int, paste: int, config: int, stream: int
) -> int:
    """dvpp_vpc_crop_resize_paste_async(channel, input, output, crop area, paste area, resize_config, stream) -> ret."""
    parts = {"crop": take(m, area, Roi), "paste": take(m, paste, Roi), "nearest": _nearest(m, config)}
    return _one(m, channel, "VpcCropResizePaste", source, target, stream, **parts)


@api("acl.media.dvpp_vpc_convert_color_async")
def dvpp_vpc_convert_color_async(m: Machine, channel: int, source: int, target: int, stream: int) -> int:
    """dvpp_vpc_convert_color_async(channel, input, output, stream) -> ret: to the output's format, at the same size."""
    by, to = take(m, source, PicDesc), take(m, target, PicDesc)
    if (by.width, by.height) != (to.width, to.height):
        raise refuse(m, "media.picture", what="the output", reason="its size is not that of the input")
    return _one(m, channel, "VpcConvertColor", source, target, stream)


@api("acl.media.dvpp_vpc_make_border_async")
def dvpp_vpc_make_border_async(m: Machine, channel: int, source: int, target: int, config: int, stream: int) -> int:
    """dvpp_vpc_make_border_async(channel, input, output, border_config, stream) -> ret: the output is larger by the
    border."""
    by, to, border = take(m, source, PicDesc), take(m, target, PicDesc), take(m, config, BorderConfig)
    wanted = (by.width + border.left + border.right, by.height + border.top + border.bottom)
    if (to.width, to.height) != wanted:
        reason = f"it is not {wanted[0]} x {wanted[1]} pixels, the input and its border"
        raise refuse(m, "media.picture", what="the output", reason=reason)
    return _one(m, channel, "VpcMakeBorder", source, target, stream, border=border)


# -- batches -----------------------------------------------------------------------------------------------


def _numbers(m: Machine, values: Any) -> list[int]:
    """A list as the wrapper takes it: TypeError for other things, ValueError for a bad length."""
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise TypeError(f"{m.thread.function} args parse failed")
    if not 1 <= len(values) <= _BATCH:
        raise ValueError(f"{m.thread.function}: a list has 1 to {_BATCH} elements")
    return values


def _many(
    m: Machine, channel: int, name: str, sources: int, counts: Any, targets: int, stream: int, *,
    crops: Any, pastes: Any = None, borders: Any = None, nearest: bool = False,
) -> int:  # fmt: skip
    """Each source gives as many pictures as its number of areas says, in order."""
    given = [take(m, handle, PicDesc) for handle in take(m, sources, BatchPicDesc).pictures]
    wanted = [take(m, handle, PicDesc) for handle in take(m, targets, BatchPicDesc).pictures]
    numbers = _numbers(m, counts)
    areas = [take(m, handle, Roi) for handle in _numbers(m, crops)]
    places: list[Roi | None] = [None] * len(areas)
    if pastes is not None:
        places = [take(m, handle, Roi) for handle in _numbers(m, pastes)]
    rims: list[BorderConfig | None] = [None] * len(areas)
    if borders is not None:
        rims = [take(m, handle, BorderConfig) for handle in _numbers(m, borders)]
    if len(numbers) != len(given) or not sum(numbers) == len(wanted) == len(areas) == len(places) == len(rims):
        raise refuse(m, "media.batch", sources=len(given), counts=sum(numbers), areas=len(areas), targets=len(wanted))
    origins = [picture for picture, count in zip(given, numbers, strict=True) for _ in range(count)]
    steps = [_Step(*parts, nearest) for parts in zip(origins, wanted, areas, places, rims, strict=True)]
    return _queue(m, channel, name, steps, stream)


@api("acl.media.dvpp_vpc_batch_crop_async")
def dvpp_vpc_batch_crop_async(
    m: Machine, channel: int, sources: int, counts: Any, targets: int, crops: Any, stream: int
) -> tuple[int, int]:
    """dvpp_vpc_batch_crop_async(channel, batch, [areas of each], output batch, [areas], stream) -> (batch, ret)."""
    return targets, _many(m, channel, "VpcBatchCrop", sources, counts, targets, stream, crops=crops)


@api("acl.media.dvpp_vpc_batch_crop_and_paste_async")
def dvpp_vpc_batch_crop_and_paste_async(
    m: Machine, channel: int, sources: int, counts: Any, targets: int, crops: Any, pastes: Any, stream: int
) -> tuple[int, int]:
    """dvpp_vpc_batch_crop_and_paste_async(channel, batch, [areas of each], output batch, [areas], [paste areas],
    stream) -> (batch, ret)."""
    name = "VpcBatchCropPaste"
    return targets, _many(m, channel, name, sources, counts, targets, stream, crops=crops, pastes=pastes)


@api("acl.media.dvpp_vpc_batch_crop_resize_async")
def dvpp_vpc_batch_crop_resize_async(
    m: Machine, channel: int, sources: int, counts: Any, targets: int, crops: Any, config: int, stream: int
) -> int:
    """dvpp_vpc_batch_crop_resize_async(channel, batch, [areas of each], output batch, [areas], resize_config, stream)
    -> ret."""
    nearest = _nearest(m, config)
    return _many(m, channel, "VpcBatchCropResize", sources, counts, targets, stream, crops=crops, nearest=nearest)


@api("acl.media.dvpp_vpc_batch_crop_resize_paste_async")
def dvpp_vpc_batch_crop_resize_paste_async(
    m: Machine, channel: int, sources: int, counts: Any, targets: int, crops: Any, pastes: Any, config: int, stream: int
) -> int:
    """dvpp_vpc_batch_crop_resize_paste_async(channel, batch, [areas of each], output batch, [areas], [paste areas],
    resize_config, stream) -> ret."""
    parts = {"crops": crops, "pastes": pastes, "nearest": _nearest(m, config)}
    return _many(m, channel, "VpcBatchCropResizePaste", sources, counts, targets, stream, **parts)


@api("acl.media.dvpp_vpc_batch_crop_resize_make_border_async")
def dvpp_vpc_batch_crop_resize_make_border_async(
    m: Machine, channel: int, sources: int, counts: Any, targets: int, crops: Any, borders: Any, config: int,
    stream: int,
) -> int:  # fmt: skip
    """dvpp_vpc_batch_crop_resize_make_border_async(channel, batch, [areas of each], output batch, [areas], [borders],
    resize_config, stream) -> ret: the area fills the output inside its border."""
    parts = {"crops": crops, "borders": borders, "nearest": _nearest(m, config)}
    return _many(m, channel, "VpcBatchCropResizeMakeBorder", sources, counts, targets, stream, **parts)
