"""Descriptions of DVPP: channels, pictures, streams of bytes, areas, options. Source: pyacl-semantics 8.5, 12.

Most functions only set or get one field; they are registered from tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, name_kind, opened, refuse, take
from cannlab.machine import Context, Machine

ALL_MODES = 0xF


@dataclass
class ChannelDesc:
    """A channel: ``context`` is set while it is created; ``mode`` are the units that it may use (bits)."""

    mode: int = ALL_MODES
    params: dict[int, int] = field(default_factory=dict)
    number: int = 0
    context: Context | None = None


@dataclass
class PicDesc:
    """A picture: where it lies, its format and its sizes (pixels, bytes, rows)."""

    data: int = 0
    format: int = 0
    size: int = 0
    width: int = 0
    height: int = 0
    width_stride: int = 0
    height_stride: int = 0
    ret_code: int = 0
    in_batch: bool = False


@dataclass
class StreamDesc:
    """Encoded bytes."""

    data: int = 0
    format: int = 0
    size: int = 0
    timestamp: int = 0
    ret_code: int = 0
    eos: int = 0


@dataclass
class BatchPicDesc:
    """Pictures of a batch, and their handles."""

    pictures: list[int]


@dataclass
class Roi:
    """An area, both ends inside."""

    left: int
    right: int
    top: int
    bottom: int

    @property
    def width(self) -> int:
        """Pixels."""
        return self.right - self.left + 1

    @property
    def height(self) -> int:
        """Pixels."""
        return self.bottom - self.top + 1


@dataclass
class ResizeConfig:
    """interpolation: 0 the chip's own, 1 bilinear, 2 nearest."""

    interpolation: int = 0


@dataclass
class JpegeConfig:
    """level 1 to 100 is the quality; 0 counts as 100."""

    level: int = 100


@dataclass
class BorderConfig:
    """A border: its kind, its widths, the values of a constant one."""

    border_type: int = 0
    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0
    values: list[float] = field(default_factory=lambda: [0.0] * 4)


KINDS: dict[str, tuple[type, str]] = {
    "channel_desc": (ChannelDesc, "DVPP channel description"),
    "pic_desc": (PicDesc, "picture description"),
    "stream_desc": (StreamDesc, "stream description"),
    "batch_pic_desc": (BatchPicDesc, "batch of picture descriptions"),
    "roi_config": (Roi, "area"),
    "resize_config": (ResizeConfig, "resize configuration"),
    "jpege_config": (JpegeConfig, "JPEG configuration"),
    "border_config": (BorderConfig, "border configuration"),
}
for _name, (_kind, _text) in KINDS.items():
    name_kind(_kind, _text, f"acl.media.dvpp_destroy_{_name}")

FIELDS: dict[str, tuple[str, ...]] = {
    "pic_desc": ("data", "format", "size", "width", "height", "width_stride", "height_stride", "ret_code"),
    "stream_desc": ("data", "format", "size", "timestamp", "ret_code", "eos"),
    "resize_config": ("interpolation",),
    "border_config": ("border_type", "top", "bottom", "left", "right"),
}
"""What a program may set and get, by description."""


def _creator(kind: type) -> Callable[[Machine], int]:
    def create(m: Machine) -> int:
        return opened(m, kind())

    create.__doc__ = "Creates it; its fields are 0."
    return create


def _destroyer(kind: type) -> Callable[[Machine, int], int]:
    def destroy(m: Machine, handle: int) -> int:
        take(m, handle, kind)
        m.handles.close(handle, m.here())
        return 0

    destroy.__doc__ = "Destroys it, not the memory that it names; 100000 for 0."
    return destroy


def setter(kind: type, name: str) -> Callable[[Machine, int, int], int]:
    """The body of a function that sets one field of the descriptions of a class."""

    def set_field(m: Machine, handle: int, value: int) -> int:
        setattr(take(m, handle, kind), name, value)
        return 0

    set_field.__doc__ = f"Sets {name}."
    return set_field


def getter(kind: type, name: str) -> Callable[[Machine, int], int]:
    """The body of a function that gets one field of the descriptions of a class."""

    def get_field(m: Machine, handle: int) -> int:
        return int(getattr(take(m, handle, kind), name)) if handle else 0

    get_field.__doc__ = f"Gets {name}; 0 for 0."
    return get_field


for _name in ("pic_desc", "stream_desc", "channel_desc", "resize_config", "jpege_config", "border_config"):
    api(f"acl.media.dvpp_create_{_name}")(_creator(KINDS[_name][0]))
for _name in ("stream_desc", "resize_config", "jpege_config", "border_config", "roi_config"):
    api(f"acl.media.dvpp_destroy_{_name}")(_destroyer(KINDS[_name][0]))
for _name, _fields in FIELDS.items():
    for _field in _fields:
        api(f"acl.media.dvpp_set_{_name}_{_field}")(setter(KINDS[_name][0], _field))
        api(f"acl.media.dvpp_get_{_name}_{_field}")(getter(KINDS[_name][0], _field))
for _field in ("left", "right", "top", "bottom"):
    api(f"acl.media.dvpp_set_roi_config_{_field}")(setter(Roi, _field))
api("acl.media.dvpp_get_jpege_config_level")(getter(JpegeConfig, "level"))


@api("acl.media.dvpp_destroy_pic_desc")
def dvpp_destroy_pic_desc(m: Machine, desc: int) -> int:
    """dvpp_destroy_pic_desc(desc) -> ret: 100000 for 0 and for a picture of a batch."""
    if take(m, desc, PicDesc).in_batch:
        raise refuse(m, "media.batch_picture")
    m.handles.close(desc, m.here())
    return 0


@api("acl.media.dvpp_set_jpege_config_level")
def dvpp_set_jpege_config_level(m: Machine, config: int, level: int) -> int:
    """dvpp_set_jpege_config_level(config, level) -> ret: 0 to 100."""
    entry = take(m, config, JpegeConfig)
    if level > 100:
        raise refuse(m, "runtime.bad_parameter", argument="level", value=level, allowed="0 to 100")
    entry.level = level
    return 0


@api("acl.media.dvpp_create_roi_config")
def dvpp_create_roi_config(m: Machine, left: int, right: int, top: int, bottom: int) -> int:
    """dvpp_create_roi_config(left, right, top, bottom) -> area: right and bottom belong to it."""
    return opened(m, Roi(left, right, top, bottom))


@api("acl.media.dvpp_set_roi_config")
def dvpp_set_roi_config(m: Machine, config: int, left: int, right: int, top: int, bottom: int) -> int:
    """dvpp_set_roi_config(area, left, right, top, bottom) -> ret."""
    entry = take(m, config, Roi)
    entry.left, entry.right, entry.top, entry.bottom = left, right, top, bottom
    return 0


@api("acl.media.dvpp_set_border_config_value")
def dvpp_set_border_config_value(m: Machine, config: int, index: int, value: float) -> int:
    """dvpp_set_border_config_value(config, channel, value) -> ret: channels 0 to 3."""
    entry = take(m, config, BorderConfig)
    if index >= len(entry.values):
        raise refuse(m, "runtime.bad_parameter", argument="index", value=index, allowed="0 to 3")
    entry.values[index] = value
    return 0


@api("acl.media.dvpp_get_border_config_value")
def dvpp_get_border_config_value(m: Machine, config: int, index: int) -> float:
    """dvpp_get_border_config_value(config, channel) -> value; 0 for a bad channel."""
    values = take(m, config, BorderConfig).values if config else []
    return values[index] if index < len(values) else 0.0


@api("acl.media.dvpp_create_batch_pic_desc")
def dvpp_create_batch_pic_desc(m: Machine, count: int) -> int:
    """dvpp_create_batch_pic_desc(count) -> batch; 0 for a count of 0 or above 256."""
    if not 1 <= count <= 256:
        return 0
    return opened(m, BatchPicDesc([m.handles.open(PicDesc(in_batch=True)) for _ in range(count)]))


@api("acl.media.dvpp_destroy_batch_pic_desc")
def dvpp_destroy_batch_pic_desc(m: Machine, batch: int) -> int:
    """dvpp_destroy_batch_pic_desc(batch) -> ret: its pictures' descriptions go with it."""
    for picture in take(m, batch, BatchPicDesc).pictures:
        m.handles.close(picture, m.here())
    m.handles.close(batch, m.here())
    return 0


@api("acl.media.dvpp_get_pic_desc")
def dvpp_get_pic_desc(m: Machine, batch: int, index: int) -> int:
    """dvpp_get_pic_desc(batch, index) -> desc; 0 for a bad index."""
    pictures = take(m, batch, BatchPicDesc).pictures if batch else []
    return pictures[index] if index < len(pictures) else 0


# -- channels ----------------------------------------------------------------------------------------------

_KEY = "acl.media.channels"
_LAST_PARAM = 5
_PARAM_BYTES = {0: 4, 1: 4, 2: 8, 3: 4, 4: 4, 5: 4}


@api("acl.media.dvpp_destroy_channel_desc")
def dvpp_destroy_channel_desc(m: Machine, desc: int) -> int:
    """dvpp_destroy_channel_desc(desc) -> ret: after dvpp_destroy_channel."""
    entry = take(m, desc, ChannelDesc)
    if entry.context is not None:
        raise refuse(m, "media.channel_state", state="still open", call="acl.media.dvpp_destroy_channel")
    m.handles.close(desc, m.here())
    return 0


@api("acl.media.dvpp_create_channel")
def dvpp_create_channel(m: Machine, desc: int) -> int:
    """dvpp_create_channel(desc) -> ret: needs a context."""
    entry, context = take(m, desc, ChannelDesc), current_context(m)
    if entry.context is not None:
        raise refuse(m, "media.channel_state", state="open already", call="acl.media.dvpp_destroy_channel")
    entry.context = context
    entry.number = m.faces.get(_KEY, 0)
    m.faces[_KEY] = entry.number + 1
    return 0


@api("acl.media.dvpp_destroy_channel")
def dvpp_destroy_channel(m: Machine, desc: int) -> int:
    """dvpp_destroy_channel(desc) -> ret."""
    entry = take(m, desc, ChannelDesc)
    if entry.context is None:
        raise refuse(m, "media.channel_state", state="not open", call="acl.media.dvpp_create_channel")
    entry.context = None
    return 0


@api("acl.media.dvpp_get_channel_desc_channel_id")
def dvpp_get_channel_desc_channel_id(m: Machine, desc: int) -> int:
    """dvpp_get_channel_desc_channel_id(desc) -> id; 0 for 0."""
    return take(m, desc, ChannelDesc).number if desc else 0


@api("acl.media.dvpp_set_channel_desc_mode")
def dvpp_set_channel_desc_mode(m: Machine, desc: int, mode: int) -> int:
    """dvpp_set_channel_desc_mode(desc, bits) -> ret: 1 VPC, 2 JPEGD, 4 JPEGE, 8 PNGD; before the channel is created."""
    entry = take(m, desc, ChannelDesc)
    if not 0 < mode <= ALL_MODES:
        raise refuse(m, "runtime.bad_parameter", argument="mode", value=mode, allowed="1 to 15")
    entry.mode = mode
    return 0


@api("acl.media.dvpp_set_channel_desc_param")
def dvpp_set_channel_desc_param(m: Machine, desc: int, param: int, pointer: int) -> tuple[int, int]:
    """dvpp_set_channel_desc_param(desc, type, pointer) -> (desc, ret): type 0 is the colour matrix (0 BT.601 wide, 1
    narrow, 2 BT.709 wide, 3 narrow); the value is a number in host memory."""
    entry = take(m, desc, ChannelDesc)
    if not 0 <= param <= _LAST_PARAM:
        raise refuse(m, "runtime.bad_parameter", argument="param_type", value=param, allowed="0 to 5")
    value = int.from_bytes(m.memory.view(pointer, _PARAM_BYTES[param], "host", write=False), "little")
    if param == 0 and value > 3:
        raise refuse(m, "runtime.bad_parameter", argument="colour matrix", value=value, allowed="0 to 3")
    if param == 1:
        dvpp_set_channel_desc_mode(m, desc, value)
    entry.params[param] = value
    return desc, 0


@api("acl.media.dvpp_get_channel_desc_param")
def dvpp_get_channel_desc_param(m: Machine, desc: int, param: int) -> tuple[int, int, int]:
    """dvpp_get_channel_desc_param(desc, type) -> (bytes, value, ret)."""
    entry = take(m, desc, ChannelDesc)
    if not 0 <= param <= _LAST_PARAM:
        raise refuse(m, "runtime.bad_parameter", argument="param_type", value=param, allowed="0 to 5")
    known: dict[int, Any] = {1: entry.mode, 2: entry.number}
    return _PARAM_BYTES[param], int(entry.params.get(param, known.get(param, 0))), 0
