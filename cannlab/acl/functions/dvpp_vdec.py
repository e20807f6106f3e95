"""VDEC: H.264 and H.265 to NV12 and NV21. Source: pyacl-semantics 12.5.

Assumed: that what is sent is read when it is sent; that pictures are handed out in the order in which they are shown,
each to the oldest one sent that has none; that what still has none at the end, and what cannot be decoded, comes back
with ret_code 1; that the end itself has no callback; that a program may leave the sizes of the output to the stream.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cannlab.acl import dvpp
from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take
from cannlab.acl.functions.dvpp_descs import PicDesc, StreamDesc
from cannlab.acl.functions.dvpp_video_descs import VdecChannelDesc, VdecFrameConfig, callback_of
from cannlab.acl.video import Channel, missing
from cannlab.machine import Machine, TaskFault, pictures, video
from cannlab.machine.pictures import NV12, NV21, Layout

if TYPE_CHECKING:
    from cannlab.machine.pictures import Plane

_ADDRESS = 16
_STRIDES = (16, 2)
_LEAST, _MOST = (10, 6), 4096
_DEPTHS = (0, 8, 10)


@dataclass
class _Sent:
    """One picture that was sent: its handles, where it goes (None: nowhere), what the callback gets.

    ``broken``: it could not be decoded, and waits only for its turn.
    """

    stream: int
    output: int
    picture: PicDesc | None
    size: int
    user_data: Any
    broken: bool = False


class Decoding:
    """What a channel decodes with, and what waits for its picture."""

    def __init__(self, format: int) -> None:
        self.decoder = video.Decoder(format)
        self.waiting: deque[_Sent] = deque()


def _open(m: Machine, desc: int) -> tuple[VdecChannelDesc, Channel]:
    entry = take(m, desc, VdecChannelDesc)
    if entry.channel is None:
        raise refuse(m, "media.channel_state", state="not open", call="acl.media.vdec_create_channel")
    return entry, entry.channel


@api("acl.media.vdec_create_channel")
def vdec_create_channel(m: Machine, desc: int) -> int:
    """vdec_create_channel(desc) -> ret: with a callback, the thread that runs it, encoding and format set.

    Without PyAV it raises an error that says how to install it.
    """
    entry = take(m, desc, VdecChannelDesc)
    if entry.channel is not None:
        raise refuse(m, "media.channel_state", state="open already", call="acl.media.vdec_destroy_channel")
    if entry.callback is None:
        raise refuse(m, "media.no_callback", call="acl.media.vdec_set_channel_desc_callback")
    for name, value, allowed in (
        ("entype", entry.entype, video.FORMATS),
        ("out_pic_format", entry.out_pic_format or NV12, (NV12, NV21)),
        ("bit_depth", entry.bit_depth, _DEPTHS),
        ("out_mode", entry.out_mode, (0, 1)),
    ):
        if value not in allowed:
            listed = ", ".join(map(str, allowed))
            raise refuse(m, "runtime.bad_parameter", argument=name, value=value, allowed=listed)
    taken = m.faces.setdefault("acl.media.vdec_channels", set())
    if entry.channel_id in taken:
        raise refuse(m, "media.channel_taken", number=entry.channel_id)
    try:
        decoding = Decoding(entry.entype)
    except video.MissingCodec as problem:
        raise missing(m, problem) from None
    entry.channel = Channel(m, "VDEC", entry.thread_id, decoding)
    taken.add(entry.channel_id)
    return 0


@api("acl.media.vdec_destroy_channel")
def vdec_destroy_channel(m: Machine, desc: int) -> int:
    """vdec_destroy_channel(desc) -> ret: waits until every callback has run."""
    entry, channel = _open(m, desc)
    if not channel.closed:
        _finish(m, entry, channel)
    code = channel.close()
    entry.channel = None
    m.faces["acl.media.vdec_channels"].discard(entry.channel_id)
    return code


@api("acl.media.vdec_send_frame")
def vdec_send_frame(m: Machine, desc: int, stream_desc: int, pic_desc: int, config: int, user_data: Any) -> int:
    """vdec_send_frame(desc, stream_desc, pic_desc, config, user_data) -> ret: one encoded picture (Annex B) in device
    memory; fn(stream_desc, pic_desc, user_data) runs when it is decoded. eos=1 without data ends the stream.
    """
    entry = take(m, desc, VdecChannelDesc)
    callback_of(m, entry)
    return _send(m, desc, stream_desc, pic_desc, config, user_data, skipped=False)


@api("acl.media.vdec_send_skipped_frame")
def vdec_send_skipped_frame(m: Machine, desc: int, stream_desc: int, config: int, user_data: Any) -> int:
    """vdec_send_skipped_frame(desc, stream_desc, config, user_data) -> ret: decoded for the pictures after it, and
    given to nobody; the callback gets 0 for the picture."""
    return _send(m, desc, stream_desc, 0, config, user_data, skipped=True)


def _send(m: Machine, desc: int, stream_desc: int, pic_desc: int, config: int, user_data: Any, *, skipped: bool) -> int:
    entry, channel = _open(m, desc)
    if config:
        take(m, config, VdecFrameConfig)
    given = take(m, stream_desc, StreamDesc)
    if channel.closed:
        raise refuse(m, "media.after_end", call="acl.media.vdec_create_channel")
    if given.eos and not given.size:
        _finish(m, entry, channel)
        return 0
    data = bytes(m.memory.view(given.data, max(given.size, 1), "device", write=False))
    picture = None
    if not skipped:
        picture = take(m, pic_desc, PicDesc)
        dvpp.memory(m, picture.data, max(picture.size, 1), _ADDRESS, "the output", write=True)
        picture.ret_code = 1
    decoding: Decoding = channel.codec
    sent = _Sent(stream_desc, pic_desc, picture, given.size, user_data)
    decoding.waiting.append(sent)
    try:
        _pair(m, entry, channel, decoding.decoder.decode(data))
    except video.Damaged as problem:
        m.report(refuse(m, "media.video_damaged", reason=str(problem)).diagnosis)
        sent.broken = True
        _pair(m, entry, channel, [])
    if given.eos:
        _finish(m, entry, channel)
    return 0


def _pair(m: Machine, entry: VdecChannelDesc, channel: Channel, frames: list[Plane]) -> None:
    """Give each picture to the oldest one sent; the broken ones before and after it have their turn too."""
    waiting = channel.codec.waiting
    for frame in [*frames, None]:
        while waiting and waiting[0].broken:
            _hand_out(m, entry, channel, waiting.popleft(), None)
        if waiting and frame is not None:
            _hand_out(m, entry, channel, waiting.popleft(), frame)


def _finish(m: Machine, entry: VdecChannelDesc, channel: Channel) -> None:
    """The end: what the decoder held back comes out."""
    channel.closed = True
    decoding: Decoding = channel.codec
    try:
        _pair(m, entry, channel, decoding.decoder.flush())
    except video.Damaged as problem:
        m.report(refuse(m, "media.video_damaged", reason=str(problem)).diagnosis)
    while decoding.waiting:
        _hand_out(m, entry, channel, decoding.waiting.popleft(), None)


def _hand_out(m: Machine, entry: VdecChannelDesc, channel: Channel, sent: _Sent, frame: Plane | None) -> None:
    """Queue the writing of a picture (None: there is none) and its callback."""
    function = callback_of(m, entry)

    def work() -> int:
        if frame is None:
            return 0
        if sent.picture is not None:
            try:
                _write(m, entry, sent.picture, frame)
            except TaskFault as fault:
                # The decoder goes on; the picture's ret_code says that it has failed.
                m.report(fault.diagnosis)
        return int(frame.shape[0] * frame.shape[1])

    def call(_: Any) -> None:
        function(sent.stream, sent.output, sent.user_data)

    call.__name__ = getattr(function, "__name__", "callback")
    channel.send("VideoDecode", work, call, bytes=sent.size)


def _write(m: Machine, entry: VdecChannelDesc, picture: PicDesc, frame: Plane) -> None:
    """Write a decoded picture; the description is completed. Raises Refused ``media.picture`` and what memory says."""
    height, width = frame.shape[0] // 2 * 2, frame.shape[1] // 2 * 2
    width = picture.width or entry.out_pic_width or width
    height = picture.height or entry.out_pic_height or height
    stride = (picture.width_stride or dvpp.align(width, _STRIDES[0]), picture.height_stride or dvpp.align(height, 2))
    wanted = PicDesc(picture.data, entry.out_pic_format or NV12, picture.size, width, height, *stride)
    layout: Layout = dvpp.layout(m, wanted, "the output", least=_LEAST, most=_MOST, stride=_STRIDES[0])
    memory = dvpp.memory(m, picture.data, layout.size, _ADDRESS, "the output", write=True)
    whole = frame
    if frame.shape[:2] != (height, width):
        whole = pictures.resize(frame, width, height)
    for plane, made in zip(layout.planes(memory), pictures.gather(whole, "yuv", layout.format, 0), strict=True):
        plane[:] = made
    picture.format, picture.width, picture.height = wanted.format, width, height
    picture.width_stride, picture.height_stride = stride
    picture.ret_code = 0
