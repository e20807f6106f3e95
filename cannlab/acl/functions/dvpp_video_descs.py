"""Descriptions of video channels and frames. Source: pyacl-semantics 8.5, 12.5, 12.6; acl_dvpp.h.

Most functions only set or get one field; they are registered from tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take
from cannlab.acl.functions.dvpp_descs import getter, setter
from cannlab.acl.video import Channel
from cannlab.machine import Machine


@dataclass
class VdecChannelDesc:
    """A decoder: its callback and the thread that runs it, what it decodes, what the pictures become."""

    callback: Any = None
    thread_id: int = 0
    channel_id: int = 0
    entype: int = 0
    out_pic_format: int = 0
    out_pic_width: int = 0
    out_pic_height: int = 0
    ref_frame_num: int = 0
    out_mode: int = 0
    bit_depth: int = 0
    csc_matrix: int = 0
    channel: Channel | None = None

    prefix: ClassVar[str] = "vdec"
    params: ClassVar[tuple[tuple[str, int], ...]] = (
        ("csc_matrix", 4),
        ("out_mode", 4),
        ("thread_id", 8),
        ("callback", 8),
        ("channel_id", 4),
        ("entype", 4),
        ("out_pic_format", 4),
        ("out_pic_width", 4),
        ("out_pic_height", 4),
        ("ref_frame_num", 4),
        ("bit_depth", 4),
    )
    """Field and bytes of each aclvdecChannelDescParamType."""


@dataclass
class VencChannelDesc:
    """An encoder: its callback and the thread that runs it, the pictures that come, how they are encoded."""

    callback: Any = None
    thread_id: int = 0
    channel_id: int = 0
    entype: int = 0
    pic_format: int = 0
    pic_width: int = 0
    pic_height: int = 0
    key_frame_interval: int = 1
    buf_addr: int = 0
    buf_size: int = 0
    rc_mode: int = 0
    src_rate: int = 0
    max_bit_rate: int = 0
    ip_prop: int = 0
    channel: Channel | None = None

    prefix: ClassVar[str] = "venc"
    params: ClassVar[tuple[tuple[str, int], ...]] = (
        ("thread_id", 8),
        ("callback", 8),
        ("pic_format", 4),
        ("entype", 4),
        ("pic_width", 4),
        ("pic_height", 4),
        ("key_frame_interval", 4),
        ("buf_addr", 8),
        ("buf_size", 4),
        ("rc_mode", 4),
        ("src_rate", 4),
        ("max_bit_rate", 4),
        ("ip_prop", 4),
    )
    """Field and bytes of each aclvencChannelDescParamType."""


@dataclass
class VdecFrameConfig:
    """What is said of one picture to decode: nothing yet."""


@dataclass
class VencFrameConfig:
    """What is said of one picture to encode."""

    force_i_frame: int = 0
    eos: int = 0


KINDS: dict[str, tuple[type, str]] = {
    "vdec_channel_desc": (VdecChannelDesc, "VDEC channel description"),
    "venc_channel_desc": (VencChannelDesc, "VENC channel description"),
    "vdec_frame_config": (VdecFrameConfig, "VDEC frame configuration"),
    "venc_frame_config": (VencFrameConfig, "VENC frame configuration"),
}
FIELDS: dict[str, tuple[str, ...]] = {
    "vdec_channel_desc": (
        *("channel_id", "thread_id", "entype", "out_pic_format", "out_pic_width", "out_pic_height"),
        *("ref_frame_num", "out_mode", "bit_depth"),
    ),
    "venc_channel_desc": (
        *("thread_id", "entype", "pic_format", "pic_width", "pic_height", "key_frame_interval"),
        *("buf_addr", "buf_size", "max_bit_rate", "rc_mode", "src_rate"),
    ),
    "venc_frame_config": ("force_i_frame", "eos"),
}
"""What a program may set and get, by description."""


def _registered(unit: str, part: str, kind: type) -> None:
    """Create and destroy; a channel's description outlives the channel."""

    def create(m: Machine) -> int:
        return opened(m, kind())

    def destroy(m: Machine, handle: int) -> int:
        entry: Any = take(m, handle, kind)
        if getattr(entry, "channel", None) is not None:
            raise refuse(m, "media.channel_state", state="still open", call=f"acl.media.{unit}_destroy_channel")
        m.handles.close(handle, m.here())
        return 0

    create.__doc__ = "Creates it with the values of the header."
    destroy.__doc__ = "Destroys it; 100000 for 0 and for a channel that is still open."
    api(f"acl.media.{unit}_create_{part}")(create)
    api(f"acl.media.{unit}_destroy_{part}")(destroy)


def _changed(kind: type, name: str) -> Callable[[Machine, int, int], int]:
    """A setter that a channel which is open refuses."""
    change = setter(kind, name)

    def set_field(m: Machine, handle: int, value: int) -> int:
        _closed(m, take(m, handle, kind))
        return change(m, handle, value)

    set_field.__doc__ = f"Sets {name}, before the channel is created."
    return set_field


def _closed(m: Machine, entry: Any) -> None:
    if getattr(entry, "channel", None) is not None:
        raise refuse(m, "media.channel_state", state="open already", call=f"acl.media.{entry.prefix}_destroy_channel")


for _name, (_kind, _text) in KINDS.items():
    _unit, _, _part = _name.partition("_")
    name_kind(_kind, _text, f"acl.media.{_unit}_destroy_{_part}")
    _registered(_unit, _part, _kind)
    for _field in FIELDS.get(_name, ()):
        api(f"acl.media.{_unit}_set_{_part}_{_field}")(_changed(_kind, _field))
        api(f"acl.media.{_unit}_get_{_part}_{_field}")(getter(_kind, _field))
api("acl.media.venc_get_channel_desc_channel_id")(getter(VencChannelDesc, "channel_id"))


# -- callbacks ---------------------------------------------------------------------------------------------


def _callable(function: Any) -> Any:
    if not callable(function):
        raise TypeError("parameter must be callable")
    return function


def callback_of(m: Machine, entry: VdecChannelDesc | VencChannelDesc) -> Any:
    """The callback. RuntimeError without one, as the module raises it. Source: pyacl-semantics 1."""
    if entry.callback is None:
        raise RuntimeError(
            f"{m.thread.function}: no callback is set: call acl.media.{entry.prefix}_set_channel_desc_callback"
        )
    return entry.callback


@api("acl.media.vdec_set_channel_desc_callback")
def vdec_set_channel_desc_callback(m: Machine, desc: int, function: Any) -> int:
    """vdec_set_channel_desc_callback(desc, fn) -> ret: fn(stream_desc, pic_desc, user_data)."""
    return _set_callback(m, take(m, desc, VdecChannelDesc), function)


@api("acl.media.venc_set_channel_desc_callback")
def venc_set_channel_desc_callback(m: Machine, desc: int, function: Any) -> int:
    """venc_set_channel_desc_callback(desc, fn) -> ret: fn(pic_desc, stream_desc, user_data)."""
    return _set_callback(m, take(m, desc, VencChannelDesc), function)


def _set_callback(m: Machine, entry: Any, function: Any) -> int:
    _closed(m, entry)
    entry.callback = _callable(function)
    return 0


@api("acl.media.vdec_get_channel_desc_callback")
def vdec_get_channel_desc_callback(m: Machine, desc: int) -> Any:
    """vdec_get_channel_desc_callback(desc) -> fn. RuntimeError without one."""
    return callback_of(m, take(m, desc, VdecChannelDesc))


@api("acl.media.venc_get_channel_desc_callback")
def venc_get_channel_desc_callback(m: Machine, desc: int) -> Any:
    """venc_get_channel_desc_callback(desc) -> fn. RuntimeError without one."""
    return callback_of(m, take(m, desc, VencChannelDesc))


# -- parameters by number ----------------------------------------------------------------------------------


def _param(m: Machine, entry: Any, number: int) -> tuple[str, int]:
    if not 0 <= number < len(entry.params):
        allowed = f"0 to {len(entry.params) - 1}"
        raise refuse(m, "runtime.bad_parameter", argument="param_type", value=number, allowed=allowed)
    field: tuple[str, int] = entry.params[number]
    return field


@api("acl.media.vdec_set_channel_desc_param")
def vdec_set_channel_desc_param(m: Machine, desc: int, param: int, pointer: int) -> tuple[int, int]:
    """vdec_set_channel_desc_param(desc, type, pointer) -> (desc, ret): the value is a number in host memory; a
    callback is set with vdec_set_channel_desc_callback only."""
    entry = take(m, desc, VdecChannelDesc)
    name, size = _param(m, entry, param)
    _closed(m, entry)
    if name == "callback":
        allowed = "all but 3, which is set with vdec_set_channel_desc_callback"
        raise refuse(m, "runtime.bad_parameter", argument="param_type", value=param, allowed=allowed)
    setattr(entry, name, int.from_bytes(m.memory.view(pointer, size, "host", write=False), "little"))
    return desc, 0


@api("acl.media.vdec_get_channel_desc_param")
def vdec_get_channel_desc_param(m: Machine, desc: int, param: int) -> tuple[int, int, int]:
    """vdec_get_channel_desc_param(desc, type) -> (bytes, value, ret); a callback counts as 1."""
    entry = take(m, desc, VdecChannelDesc)
    name, size = _param(m, entry, param)
    value = getattr(entry, name)
    return size, int(value is not None) if name == "callback" else int(value), 0


@api("acl.media.venc_set_channel_desc_param")
def venc_set_channel_desc_param(m: Machine, desc: int, param: int, value: Any) -> int:
    """venc_set_channel_desc_param(desc, type, value) -> ret: a function for type 1, a number for the others."""
    entry = take(m, desc, VencChannelDesc)
    name, _ = _param(m, entry, param)
    _closed(m, entry)
    if name == "callback":
        value = _callable(value)
    elif not isinstance(value, int):
        raise TypeError(f"{m.thread.function} args parse failed")
    setattr(entry, name, value)
    return 0


@api("acl.media.venc_get_channel_desc_param")
def venc_get_channel_desc_param(m: Machine, desc: int, param: int) -> tuple[Any, int]:
    """venc_get_channel_desc_param(desc, type) -> (value, ret): a function for type 1, a number for the others."""
    entry = take(m, desc, VencChannelDesc)
    name, _ = _param(m, entry, param)
    return callback_of(m, entry) if name == "callback" else getattr(entry, name), 0
