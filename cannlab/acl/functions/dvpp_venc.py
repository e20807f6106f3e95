"""VENC: NV12 and NV21 to H.264 and H.265. Source: pyacl-semantics 12.6.

Assumed: the values that a channel gets where nothing is set (25 pictures a second, constant quality), the limits of
the chips after the 310 (4096 pixels), that each picture comes out at once, that the end has no callback.
"""

from __future__ import annotations

from typing import Any

from cannlab.acl import dvpp
from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take
from cannlab.acl.functions.dvpp_descs import PicDesc, StreamDesc
from cannlab.acl.functions.dvpp_video_descs import VencChannelDesc, VencFrameConfig, callback_of
from cannlab.acl.video import Channel, missing
from cannlab.machine import Block, Machine, MemoryKind, TaskFault, pictures, video
from cannlab.machine.pictures import NV12, NV21

_CHIPS = ("Ascend310", "Ascend310P", "Ascend310B")
_ADDRESS = 16
_LEAST, _MOST, _MOST_310 = 128, 4096, 1920
_STRIDE = 16
_RATE = 25
_BUFFER = (32 << 10, 1 << 30)


def _open(m: Machine, desc: int) -> tuple[VencChannelDesc, Channel]:
    entry = take(m, desc, VencChannelDesc)
    if entry.channel is None:
        raise refuse(m, "media.channel_state", state="not open", call="acl.media.venc_create_channel")
    return entry, entry.channel


def _checked(m: Machine, entry: VencChannelDesc) -> None:
    """Refuse a channel that cannot be."""
    most = _MOST_310 if m.soc.short == "Ascend310" else _MOST
    for name, value in (("pic_width", entry.pic_width), ("pic_height", entry.pic_height)):
        if not _LEAST <= value <= most or value % 2:
            allowed = f"even, {_LEAST} to {most}"
            raise refuse(m, "runtime.bad_parameter", argument=name, value=value, allowed=allowed)
    for name, value, known in (("entype", entry.entype, video.FORMATS), ("pic_format", entry.pic_format, (NV12, NV21))):
        if value not in known:
            listed = ", ".join(map(str, known))
            raise refuse(m, "runtime.bad_parameter", argument=name, value=value, allowed=listed)
    if entry.key_frame_interval < 1:
        raise refuse(m, "runtime.bad_parameter", argument="key_frame_interval", value=0, allowed="above 0")
    size = entry.buf_size
    if size and (size % 64 or not _BUFFER[0] <= size <= _BUFFER[1]):
        allowed = f"0, or a multiple of 64 from {_BUFFER[0]} to {_BUFFER[1]}"
        raise refuse(m, "runtime.bad_parameter", argument="buf_size", value=size, allowed=allowed)


@api("acl.media.venc_create_channel")
def venc_create_channel(m: Machine, desc: int) -> int:
    """venc_create_channel(desc) -> ret: with a callback, the thread that runs it, size, format and encoding set.

    200006 on chips without VENC (910, A2, A3). Without PyAV it raises an error that says how to install it.
    """
    entry = take(m, desc, VencChannelDesc)
    if entry.channel is not None:
        raise refuse(m, "media.channel_state", state="open already", call="acl.media.venc_destroy_channel")
    if m.soc.short not in _CHIPS:
        raise refuse(m, "media.no_venc", soc=m.soc.name)
    if entry.callback is None:
        raise refuse(m, "media.no_callback", call="acl.media.venc_set_channel_desc_callback")
    _checked(m, entry)
    rate = entry.src_rate or _RATE
    try:
        encoder = video.Encoder(
            entry.entype,
            entry.pic_width,
            entry.pic_height,
            key_interval=entry.key_frame_interval,
            rate=rate,
            kilobits=entry.max_bit_rate,
        )
    except video.MissingCodec as problem:
        raise missing(m, problem) from None
    entry.channel = Channel(m, "VENC", entry.thread_id, encoder)
    entry.channel_id = m.faces.get("acl.media.venc_channels", 0)
    m.faces["acl.media.venc_channels"] = entry.channel_id + 1
    return 0


@api("acl.media.venc_destroy_channel")
def venc_destroy_channel(m: Machine, desc: int) -> int:
    """venc_destroy_channel(desc) -> ret: waits until every callback has run."""
    entry, channel = _open(m, desc)
    code = channel.close()
    entry.channel = None
    return code


@api("acl.media.venc_send_frame")
def venc_send_frame(m: Machine, desc: int, pic_desc: int, reserve: int, config: int, user_data: Any) -> int:
    """venc_send_frame(desc, pic_desc, 0, config, user_data) -> ret: fn(pic_desc, stream_desc, user_data) runs when it
    is encoded; the stream and its memory belong to the system and are gone when fn returns.

    The end: an empty picture (or 0) and a configuration with eos=1.
    """
    entry = take(m, desc, VencChannelDesc)
    callback_of(m, entry)
    entry, channel = _open(m, desc)
    settings = take(m, config, VencFrameConfig) if config else VencFrameConfig()
    if reserve:
        raise refuse(m, "runtime.bad_parameter", argument="reserve", value=reserve, allowed="0")
    if channel.closed:
        raise refuse(m, "media.after_end", call="acl.media.venc_create_channel")
    picture = take(m, pic_desc, PicDesc) if pic_desc or not settings.eos else PicDesc()
    if not picture.data and not settings.eos:
        raise refuse(m, "media.picture", what="the picture to encode", reason="it has no data, and eos is not set")
    if picture.data:
        _encode(m, entry, channel, pic_desc, picture, bool(settings.force_i_frame), user_data)
    channel.closed = bool(settings.eos)
    return 0


def _encode(
    m: Machine, entry: VencChannelDesc, channel: Channel, handle: int, picture: PicDesc, key: bool, user_data: Any
) -> None:
    width, height = entry.pic_width, entry.pic_height
    stride = (picture.width_stride or dvpp.align(width, _STRIDE), picture.height_stride or height)
    # The format of the channel counts.
    given = PicDesc(picture.data, entry.pic_format, picture.size, width, height, *stride)
    what = "the picture to encode"
    if (picture.width or width, picture.height or height) != (width, height):
        reason = f"it has {picture.width} x {picture.height} pixels, the channel {width} x {height}"
        raise refuse(m, "media.picture", what=what, reason=reason)
    layout = dvpp.layout(m, given, what, stride=_STRIDE)
    dvpp.memory(m, picture.data, layout.size, _ADDRESS, what, write=False)
    function = callback_of(m, entry)
    made = StreamDesc(format=entry.entype, ret_code=1)
    blocks: list[Block] = []

    def work() -> int:
        try:
            planes = layout.planes(dvpp.memory(m, picture.data, layout.size, _ADDRESS, what, write=False))
            data = channel.codec.encode(pictures.spread(planes, layout), key=key)
            block = m.memory.allocate(max(len(data), 1), MemoryKind.DVPP, channel.context.device)
            blocks.append(block)
            m.memory.view(block.start, len(data), "device")[:] = data
        except TaskFault as fault:
            # The encoder goes on; the stream's ret_code says that it has failed.
            m.report(fault.diagnosis)
            return 0
        made.data, made.size, made.ret_code = block.start, len(data), 0
        return width * height

    def call(_: Any) -> None:
        with m.clock.lock:
            output = m.handles.open(made)
        try:
            function(handle, output, user_data)
        finally:
            with m.clock.lock:
                m.handles.close(output, m.here())
                for block in blocks:
                    m.memory.retire(block)

    call.__name__ = getattr(function, "__name__", "callback")
    channel.send("VideoEncode", work, call, bytes=layout.size)
