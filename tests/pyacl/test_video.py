"""VDEC and VENC: channels, callbacks in the report thread, order, the end, damaged streams, chips."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import cannlab.acl as acl_package
from cannlab.acl.binding import NotEmulatedError
from cannlab.machine import Engine, Machine, pictures, reset_machine, video

NV12, NV21 = 1, 2
WIDTH, HEIGHT = 176, 144

try:
    import av
except ImportError:
    av = None
needs_av = pytest.mark.skipif(av is None, reason="PyAV is not installed: pip install cannlab[video]")


def shown(number: int, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """Picture ``number`` of a film: Y, U, V of each pixel, all of them different from the next picture's."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([(x + 8 * number) % 256, np.full_like(x, 90 + 4 * number), y * 255 // height], -1).astype(np.uint8)


def film(count: int, codec: str = "libx264", bframes: int = 0, **options: str) -> list[bytes]:
    """Encoded pictures in the order of sending, made without cannlab."""
    context = av.CodecContext.create(codec, "w")
    context.width, context.height, context.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    context.time_base, context.thread_count, context.max_b_frames = Fraction(1, 25), 1, bframes
    context.options = {"preset": "veryfast", **options}
    packets = []
    for number in range(count):
        yuv = shown(number)
        flat = np.concatenate([yuv[..., 0].ravel(), yuv[::2, ::2, 1].ravel(), yuv[::2, ::2, 2].ravel()])
        frame = av.VideoFrame.from_ndarray(flat.reshape(HEIGHT * 3 // 2, WIDTH), format="yuv420p")
        frame.pts = number
        packets += context.encode(frame)
    return [bytes(packet) for packet in [*packets, *context.encode(None)]]


class Program:
    """What a program has round a video channel: a report thread, memory, callbacks that note what came."""

    def __init__(self, soc: str) -> None:
        self.m: Machine = reset_machine(soc, 1)
        self.acl, self.media = acl_package, acl_package.media
        assert self.acl.init() == 0
        assert self.acl.rt.set_device(0) == 0
        self.context = self.acl.rt.get_context()[0]
        self.stop, self.threads, self.came = False, [], []
        self.tid = self.acl.util.start_thread(self.report, None)[0]

    def report(self) -> None:
        import threading

        self.acl.rt.set_context(self.context)
        self.threads.append(threading.get_ident())
        while not self.stop:
            self.acl.rt.process_report(300)

    def end(self) -> None:
        self.stop = True
        assert self.acl.util.stop_thread(self.tid) == 0

    def put(self, data: bytes) -> int:
        pointer, ret = self.media.dvpp_malloc(max(len(data), 1))
        assert ret == 0
        if data:
            assert self.acl.rt.memcpy(pointer, len(data), self.acl.util.bytes_to_ptr(data), len(data), 1) == 0
        return pointer

    def get(self, pointer: int, size: int) -> bytes:
        data = bytes(size)
        assert self.acl.rt.memcpy(self.acl.util.bytes_to_ptr(data), size, pointer, size, 2) == 0
        return data

    def stream(self, data: bytes, eos: int = 0) -> int:
        desc = self.media.dvpp_create_stream_desc()
        self.media.dvpp_set_stream_desc_data(desc, self.put(data) if data else 0)
        self.media.dvpp_set_stream_desc_size(desc, len(data))
        self.media.dvpp_set_stream_desc_eos(desc, eos)
        return desc

    def picture(self, kind: int, yuv: np.ndarray | None = None, width: int = WIDTH, height: int = HEIGHT) -> int:
        """A description of which only memory, size and format are set, as programs do it for a decoder."""
        layout = pictures.Layout(pictures.FORMATS[kind], width, height, -(-width // 16) * 16, height)
        buffer = bytearray(layout.size)
        if yuv is not None:
            for plane, made in zip(
                layout.planes(memoryview(buffer)), pictures.gather(yuv, "yuv", layout.format, 0), strict=True
            ):
                plane[:] = made
        desc = self.media.dvpp_create_pic_desc()
        self.media.dvpp_set_pic_desc_data(desc, self.put(bytes(buffer)))
        self.media.dvpp_set_pic_desc_size(desc, layout.size)
        self.media.dvpp_set_pic_desc_format(desc, kind)
        return desc

    def field(self, desc: int, name: str) -> int:
        return getattr(self.media, f"dvpp_get_pic_desc_{name}")(desc)

    def pixels(self, desc: int) -> np.ndarray:
        """Y, U, V of a picture."""
        kind = pictures.FORMATS[self.field(desc, "format")]
        names = ("width", "height", "width_stride", "height_stride")
        layout = pictures.Layout(kind, *(self.field(desc, name) for name in names))
        planes = layout.planes(memoryview(bytearray(self.get(self.field(desc, "data"), layout.size))))
        return pictures.spread(planes, layout)


class Decoder(Program):
    def __init__(self, soc: str = "Ascend310P3", entype: int = 2, kind: int = NV12, **fields: int) -> None:
        super().__init__(soc)
        self.kind = kind
        self.desc = self.media.vdec_create_channel_desc()
        self.media.vdec_set_channel_desc_callback(self.desc, self.callback)
        for name, value in {"thread_id": self.tid, "entype": entype, "out_pic_format": kind, **fields}.items():
            assert getattr(self.media, f"vdec_set_channel_desc_{name}")(self.desc, value) == 0
        assert self.media.vdec_create_channel(self.desc) == 0

    def callback(self, stream: int, picture: int, data: object) -> None:
        import threading

        assert threading.get_ident() == self.threads[0]
        code = self.field(picture, "ret_code") if picture else None
        self.came.append((data, code, self.pixels(picture) if code == 0 else None))
        if picture:
            assert self.media.dvpp_free(self.field(picture, "data")) == 0
            assert self.media.dvpp_destroy_pic_desc(picture) == 0
        assert self.media.dvpp_free(self.media.dvpp_get_stream_desc_data(stream)) == 0
        assert self.media.dvpp_destroy_stream_desc(stream) == 0

    def send(self, data: bytes, number: object) -> int:
        return self.media.vdec_send_frame(self.desc, self.stream(data), self.picture(self.kind), 0, number)

    def finish(self) -> None:
        eos = self.stream(b"", 1)
        assert self.media.vdec_send_frame(self.desc, eos, 0, 0, None) == 0
        assert self.media.vdec_destroy_channel(self.desc) == 0
        assert self.media.vdec_destroy_channel_desc(self.desc) == 0
        assert self.media.dvpp_destroy_stream_desc(eos) == 0
        self.end()


def close(made: np.ndarray, number: int, limit: float = 3.0) -> bool:
    """True if a picture is that picture of the film (its neighbours differ by 8 and more)."""
    return bool(np.abs(made.astype(int) - shown(number)).mean() < limit)


# -- descriptions: these need no PyAV ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "fields"),
    [
        ("vdec", "channel_id thread_id entype out_pic_format out_pic_width out_pic_height ref_frame_num out_mode"),
        ("vdec", "bit_depth"),
        ("venc", "thread_id entype pic_format pic_width pic_height key_frame_interval buf_addr buf_size"),
        ("venc", "max_bit_rate rc_mode src_rate"),
    ],
)
def test_fields_of_channels(acl, unit, fields) -> None:
    media = acl.media
    desc = getattr(media, f"{unit}_create_channel_desc")()
    for value, name in enumerate(fields.split(), 3):
        assert getattr(media, f"{unit}_set_channel_desc_{name}")(desc, value) == 0
    found = [getattr(media, f"{unit}_get_channel_desc_{name}") for name in fields.split()]
    assert [get(desc) for get in found] == [*range(3, len(found) + 3)]
    assert [get(0) for get in found] == [0] * len(found)
    with pytest.raises(RuntimeError, match="no callback"):
        getattr(media, f"{unit}_get_channel_desc_callback")(desc)
    with pytest.raises(TypeError, match="callable"):
        getattr(media, f"{unit}_set_channel_desc_callback")(desc, 5)
    assert getattr(media, f"{unit}_set_channel_desc_callback")(desc, print) == 0
    assert getattr(media, f"{unit}_get_channel_desc_callback")(desc) is print
    destroy = getattr(media, f"{unit}_destroy_channel_desc")
    assert [destroy(desc), destroy(desc), destroy(0)] == [0, 100000, 100000]


def test_parameters_by_number(acl) -> None:
    media = acl.media
    desc = media.vdec_create_channel_desc()
    number = np.array([7], np.uint64)
    pointer = acl.util.numpy_to_ptr(number)
    for kind, name, size in ((1, "out_mode", 4), (2, "thread_id", 8), (5, "entype", 4), (10, "bit_depth", 4)):
        assert media.vdec_set_channel_desc_param(desc, kind, pointer) == (desc, 0)
        assert getattr(media, f"vdec_get_channel_desc_{name}")(desc) == 7
        assert media.vdec_get_channel_desc_param(desc, kind) == (size, 7, 0)
    assert media.vdec_get_channel_desc_param(desc, 3) == (8, 0, 0)
    assert media.vdec_set_channel_desc_param(desc, 11, pointer) == (0, 100000)
    other = media.venc_create_channel_desc()
    assert media.venc_set_channel_desc_param(other, 1, print) == 0
    assert media.venc_set_channel_desc_param(other, 4, 640) == 0
    assert media.venc_get_channel_desc_param(other, 1) == (print, 0)
    assert media.venc_get_channel_desc_param(other, 4) == (640, 0)
    assert media.venc_get_channel_desc_pic_width(other) == 640
    assert media.venc_set_channel_desc_param(other, 13, 1) == 100000
    with pytest.raises(TypeError):
        media.venc_set_channel_desc_param(other, 4, "640")
    config = media.venc_create_frame_config()
    assert [media.venc_set_frame_config_eos(config, 1), media.venc_get_frame_config_eos(config)] == [0, 1]
    assert media.venc_set_frame_config_force_i_frame(config, 1) == 0
    assert media.venc_get_frame_config_force_i_frame(config) == 1
    assert [media.venc_destroy_frame_config(config), media.venc_destroy_frame_config(config)] == [0, 100000]


def test_without_the_extra_the_message_says_how_to_get_it(acl, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    desc = acl.media.vdec_create_channel_desc()
    acl.media.vdec_set_channel_desc_callback(desc, print)
    with pytest.raises(NotEmulatedError, match=r"pip install cannlab\[video\]"):
        acl.media.vdec_create_channel(desc)
    reset_machine("Ascend310P3", 1)
    acl.init()
    acl.rt.set_device(0)
    other = acl.media.venc_create_channel_desc()
    acl.media.venc_set_channel_desc_callback(other, print)
    acl.media.venc_set_channel_desc_pic_format(other, NV12)
    acl.media.venc_set_channel_desc_pic_width(other, 128)
    acl.media.venc_set_channel_desc_pic_height(other, 128)
    with pytest.raises(NotEmulatedError, match=r"pip install cannlab\[video\]"):
        acl.media.venc_create_channel(other)
    assert acl.media.venc_destroy_channel_desc(other) == 0


def test_nothing_imports_pyav_before_it_is_needed() -> None:
    code = "import sys, cannlab.acl; assert 'av' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- decoding ----------------------------------------------------------------------------------------------


@needs_av
@pytest.mark.parametrize(
    ("soc", "entype", "codec", "kind", "options"),
    [
        ("Ascend310P3", 2, "libx264", NV12, {"tune": "zerolatency"}),
        ("Ascend910B1", 3, "libx264", NV21, {}),
        ("Ascend310", 0, "libx265", NV12, {"x265-params": "log-level=none:pools=none"}),
        ("Ascend310P3", 0, "libx265", NV12, {"x265-params": "log-level=none:pools=none:bframes=0", "profile": "main"}),
    ],
)
def test_pictures_come_back_in_order(soc, entype, codec, kind, options) -> None:
    bframes = 2 if not options or codec == "libx265" else 0
    program = Decoder(soc, entype, kind)
    for number, data in enumerate(film(8, codec, bframes, **options)):
        assert program.send(data, ["user", number]) == 0
    program.finish()
    assert [data for data, _, _ in program.came] == [["user", number] for number in range(8)]
    assert all(close(made, number) for number, (_, code, made) in enumerate(program.came) if code == 0)
    assert [code for _, code, _ in program.came] == [0] * 8
    assert program.m.devices[0].memory_used == 0
    # The thread loops over process_report before and after the channel, as programs let it.
    assert {fault["rule"] for fault in program.m.record.faults} <= {"runtime.thread_subscribed"}


@needs_av
def test_the_decoder_works_while_callbacks_run_and_the_time_is_its_own() -> None:
    program = Decoder()
    streams = program.m.devices[0].streams
    for number, data in enumerate(film(4, tune="zerolatency")):
        program.send(data, number)
    program.finish()
    assert program.m.devices[0].streams == streams - 2
    rows = list(program.m.record.tasks.rows())
    names = program.m.record.strings
    decoded = [row for row in rows if names[row["name"]] == "VideoDecode"]
    called = [row for row in rows if names[row["name"]] == "callback"]
    assert len(decoded) == len(called) == 4
    assert all(row["end"] - row["start"] == 30_000 + WIDTH * HEIGHT for row in decoded)
    assert all(call["start"] >= work["end"] for call, work in zip(called, decoded, strict=True))
    assert all(one["end"] <= two["start"] for one, two in pairwise(called))
    # The engine of pictures is free meanwhile.
    start = min(row["start"] for row in decoded)
    assert program.m.devices[0].occupy(Engine.DVPP, start, 1000) == start
    assert program.m.devices[0].occupy(Engine.VDEC, start, 1000) > start


@needs_av
def test_another_size_of_the_output() -> None:
    program = Decoder(out_pic_width=88, out_pic_height=72)
    program.send(film(1, tune="zerolatency")[0], 0)
    program.finish()
    ((_, code, made),) = program.came
    assert (code, made.shape) == (0, (72, 88, 3))
    assert np.abs(made.astype(int) - pictures.resize(shown(0), 88, 72)).mean() < 6


@needs_av
def test_skipped_pictures_are_decoded_for_the_next_ones() -> None:
    program = Decoder()
    packets = film(3, tune="zerolatency")
    program.send(packets[0], 0)
    assert program.media.vdec_send_skipped_frame(program.desc, program.stream(packets[1]), 0, "skipped") == 0
    program.send(packets[2], 2)
    program.finish()
    assert [(data, code) for data, code, _ in program.came] == [(0, 0), ("skipped", None), (2, 0)]
    assert close(program.came[2][2], 2)


@needs_av
def test_what_is_damaged_has_ret_code_1_and_its_turn() -> None:
    program = Decoder()
    packets = film(3, tune="zerolatency")
    program.send(packets[0], 0)
    assert program.send(b"no video at all", 1) == 0
    small = program.picture(NV12)
    program.media.dvpp_set_pic_desc_size(small, 100)
    assert program.media.vdec_send_frame(program.desc, program.stream(packets[1]), small, 0, 2) == 0
    program.send(packets[2], 3)
    program.finish()
    assert [(data, code) for data, code, _ in program.came] == [(0, 0), (1, 1), (2, 1), (3, 0)]
    assert {"media.video_damaged", "media.picture"} <= {fault["rule"] for fault in program.m.record.faults}


@needs_av
def test_order_of_calls_on_a_decoder() -> None:
    program = Decoder()
    media, desc = program.media, program.desc
    assert media.vdec_create_channel(desc) == 100000
    assert media.vdec_destroy_channel_desc(desc) == 100000
    assert media.vdec_set_channel_desc_entype(desc, 1) == 100000
    twin = media.vdec_create_channel_desc()
    assert media.vdec_create_channel(twin) == 100000
    with pytest.raises(RuntimeError, match="callback"):
        media.vdec_send_frame(twin, 0, 0, 0, None)
    media.vdec_set_channel_desc_callback(twin, print)
    media.vdec_set_channel_desc_thread_id(twin, program.tid)
    assert media.vdec_create_channel(twin) == 100000  # the number is taken
    media.vdec_set_channel_desc_channel_id(twin, 1)
    media.vdec_set_channel_desc_thread_id(twin, 12345)
    assert media.vdec_create_channel(twin) == 107012
    assert media.vdec_send_frame(twin, program.stream(b"x"), 0, 0, None) == 100000
    host = program.stream(b"")
    data = np.zeros(64, np.uint8)
    media.dvpp_set_stream_desc_data(host, program.acl.util.numpy_to_ptr(data))
    media.dvpp_set_stream_desc_size(host, 64)
    assert media.vdec_send_frame(desc, host, program.picture(NV12), 0, None) != 0
    plain = program.picture(NV12)
    media.dvpp_set_pic_desc_data(plain, program.acl.rt.malloc(1 << 16, 0)[0])
    assert media.vdec_send_frame(desc, program.stream(b"x"), plain, 0, None) == 100000
    eos = program.stream(b"", 1)
    assert media.vdec_send_frame(desc, eos, 0, 0, None) == 0
    assert media.vdec_send_frame(desc, eos, 0, 0, None) == 100000
    assert media.vdec_destroy_channel(desc) == 0
    assert media.vdec_destroy_channel(desc) == 100000
    assert program.came == []
    program.end()


@needs_av
def test_a_channel_that_nobody_reports_for_does_not_hang() -> None:
    m = reset_machine("Ascend310P3", 1)
    acl_package.init()
    acl_package.rt.set_device(0)
    import threading

    media = acl_package.media
    desc = media.vdec_create_channel_desc()
    media.vdec_set_channel_desc_callback(desc, print)
    media.vdec_set_channel_desc_thread_id(desc, threading.get_ident())
    assert media.vdec_create_channel(desc) == 0
    stream = media.dvpp_create_stream_desc()
    packet = film(1, tune="zerolatency")[0]
    pointer = media.dvpp_malloc(len(packet))[0]
    acl_package.rt.memcpy(pointer, len(packet), acl_package.util.bytes_to_ptr(packet), len(packet), 1)
    media.dvpp_set_stream_desc_data(stream, pointer)
    media.dvpp_set_stream_desc_size(stream, len(packet))
    picture = media.dvpp_create_pic_desc()
    media.dvpp_set_pic_desc_data(picture, media.dvpp_malloc(1 << 16)[0])
    media.dvpp_set_pic_desc_size(picture, 1 << 16)
    assert media.vdec_send_frame(desc, stream, picture, 0, None) == 0
    assert media.vdec_destroy_channel(desc) != 0
    assert m.record.faults[-1]["rule"] == "runtime.callback_never_run"


# -- encoding ----------------------------------------------------------------------------------------------


class Encoder(Program):
    def __init__(self, soc: str = "Ascend310P3", entype: int = 2, kind: int = NV12, **fields: int) -> None:
        super().__init__(soc)
        self.desc = self.media.venc_create_channel_desc()
        self.media.venc_set_channel_desc_callback(self.desc, self.callback)
        base = {"thread_id": self.tid, "entype": entype, "pic_format": kind, "pic_width": WIDTH, "pic_height": HEIGHT}
        for name, value in {**base, "key_frame_interval": 16, **fields}.items():
            assert getattr(self.media, f"venc_set_channel_desc_{name}")(self.desc, value) == 0
        self.code = self.media.venc_create_channel(self.desc)
        self.config = self.media.venc_create_frame_config()

    def callback(self, picture: int, stream: int, data: object) -> None:
        assert self.media.dvpp_get_stream_desc_ret_code(stream) == 0
        pointer, size = self.media.dvpp_get_stream_desc_data(stream), self.media.dvpp_get_stream_desc_size(stream)
        self.came.append((picture, data, self.get(pointer, size), stream, pointer))

    def finish(self) -> None:
        self.media.venc_set_frame_config_eos(self.config, 1)
        assert self.media.venc_send_frame(self.desc, 0, 0, self.config, None) == 0
        assert self.media.venc_destroy_channel(self.desc) == 0
        self.end()


@needs_av
@pytest.mark.parametrize(
    ("soc", "entype", "kind", "name"),
    [
        ("Ascend310", 1, NV12, "h264"),
        ("Ascend310P3", 2, NV21, "h264"),
        ("Ascend310B1", 3, NV12, "h264"),
        ("Ascend310P3", 0, NV12, "hevc"),
    ],
)
def test_what_is_encoded_decodes_to_the_same_pictures(soc, entype, kind, name) -> None:
    program = Encoder(soc, entype, kind)
    sent = [program.picture(kind, shown(number)) for number in range(5)]
    for number, picture in enumerate(sent):
        assert program.media.venc_send_frame(program.desc, picture, 0, program.config, number) == 0
    program.finish()
    assert [(picture, data) for picture, data, *_ in program.came] == list(zip(sent, range(5), strict=True))
    context = av.CodecContext.create(name, "r")
    frames = [frame for _, _, data, *_ in program.came for frame in context.decode(av.Packet(data))]
    frames += context.decode(None)
    assert len(frames) == 5
    for number, frame in enumerate(frames):
        plane = frame.planes[0]
        luma = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:HEIGHT, :WIDTH].astype(int)
        assert np.abs(luma - shown(number)[..., 0]).mean() < 4
    _, _, _, stream, pointer = program.came[-1]
    assert program.media.dvpp_get_stream_desc_size(stream) == 0  # gone with its callback
    room = bytes(16)
    assert program.acl.rt.memcpy(program.acl.util.bytes_to_ptr(room), 16, pointer, 16, 2) != 0
    names = program.m.record.strings
    rows = [row for row in program.m.record.tasks.rows() if names[row["name"]] == "VideoEncode"]
    assert [row["end"] - row["start"] for row in rows] == [30_000 + WIDTH * HEIGHT * 4] * 5


@needs_av
def test_key_pictures_by_interval_and_on_request() -> None:
    def kinds(program: Encoder, forced: int) -> list[bool]:
        for number in range(6):
            program.media.venc_set_frame_config_force_i_frame(program.config, int(number == forced))
            picture = program.picture(NV12, shown(number))
            assert program.media.venc_send_frame(program.desc, picture, 0, program.config, number) == 0
        program.finish()
        context = av.CodecContext.create("h264", "r")
        return [frame.key_frame for _, _, data, *_ in program.came for frame in context.decode(av.Packet(data))]

    assert kinds(Encoder(key_frame_interval=3), -1) == [True, False, False] * 2
    assert kinds(Encoder(key_frame_interval=60), 4) == [True, False, False, False, True, False]


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1", "Ascend910_9391"])
def test_chips_without_an_encoder(soc) -> None:
    program = Encoder(soc)
    assert program.code == 200006
    program.end()


@pytest.mark.parametrize(
    ("soc", "fields"),
    [
        ("Ascend310P3", {"pic_width": 126}),
        ("Ascend310P3", {"pic_width": 177}),
        ("Ascend310", {"pic_width": 2048}),
        ("Ascend310P3", {"pic_format": 12}),
        ("Ascend310P3", {"entype": 4}),
        ("Ascend310P3", {"buf_size": 100}),
        ("Ascend310P3", {"key_frame_interval": 0}),
    ],
)
def test_encoders_that_cannot_be(soc, fields) -> None:
    program = Encoder(soc, **fields)
    assert program.code == 100000
    program.end()


@needs_av
def test_order_of_calls_on_an_encoder() -> None:
    program = Encoder()
    media, desc = program.media, program.desc
    send = media.venc_send_frame
    empty = media.dvpp_create_pic_desc()
    assert send(desc, empty, 0, program.config, None) == 100000
    assert send(desc, 0, 0, program.config, None) == 100000
    assert send(desc, program.picture(NV12), 1, program.config, None) == 100000
    wrong = program.picture(NV12)
    media.dvpp_set_pic_desc_width(wrong, 64)
    assert send(desc, wrong, 0, program.config, None) == 100000
    assert media.venc_destroy_channel_desc(desc) == 100000
    program.finish()
    assert media.venc_destroy_channel(desc) == 100000
    assert media.venc_destroy_channel_desc(desc) == 0
    assert program.came == []


@needs_av
def test_two_runs_give_the_same_record() -> None:
    def run() -> str:
        program = Decoder()
        for number, data in enumerate(film(5, bframes=2)):
            program.send(data, number)
        program.finish()
        return program.m.record.digest()

    assert run() == run()


def test_the_codec_says_what_is_missing(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(video.MissingCodec, match="not installed"):
        video.Decoder(video.H264_MAIN)
