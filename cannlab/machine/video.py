"""H.264 and H.265 through PyAV, the optional extra: packets to planes and back. Source: pyacl-semantics 12.5, 12.6.

One thread each, so that the same input gives the same bytes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Plane = NDArray[np.uint8]

H265_MAIN, H264_BASELINE, H264_MAIN, H264_HIGH = 0, 1, 2, 3
"""acldvppStreamFormat."""
_DECODERS = {H265_MAIN: "hevc", H264_BASELINE: "h264", H264_MAIN: "h264", H264_HIGH: "h264"}
_ENCODERS = {"hevc": ("libx265",), "h264": ("libx264", "libopenh264")}
_PROFILES = {H265_MAIN: "main", H264_BASELINE: "baseline", H264_MAIN: "main", H264_HIGH: "high"}
FORMATS = tuple(_DECODERS)


class MissingCodec(Exception):
    """PyAV is not installed, or its build lacks a codec."""


class Damaged(Exception):
    """Bytes that are no video of the format."""


def _av() -> Any:
    try:
        import av
    except ImportError as problem:
        raise MissingCodec("PyAV is not installed") from problem
    return av


class Decoder:
    """Turns encoded pictures into planes, in the order in which they are shown.

    Raises:
        MissingCodec: without PyAV.
    """

    def __init__(self, format: int) -> None:
        self._av = _av()
        self._name = _DECODERS[format]
        self._open()

    def _open(self) -> None:
        self._context = self._av.CodecContext.create(self._name, "r")
        self._context.thread_count = 1

    def decode(self, data: bytes) -> list[Plane]:
        """Feed one encoded picture; gives the pictures (h, w, 3; Y, U, V) that are complete now. Raises Damaged."""
        return self._run(self._av.Packet(data))

    def flush(self) -> list[Plane]:
        """The end of the stream: the pictures that were held back. What comes next is a new stream."""
        found = self._run(None)
        self._open()
        return found

    def _run(self, packet: Any) -> list[Plane]:
        try:
            return [_planes(frame) for frame in self._context.decode(packet)]
        except (self._av.error.FFmpegError, EOFError, ValueError) as problem:
            raise Damaged(str(problem)) from None


def _planes(frame: Any) -> Plane:
    """A decoded frame as (h, w, 3); chroma is repeated."""
    import numpy as np

    if frame.format.name not in ("yuv420p", "yuvj420p"):
        frame = frame.reformat(format="yuv420p")
    planes = []
    for at, plane in enumerate(frame.planes):
        raw = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height, : plane.width]
        planes.append(raw.repeat(2, 0).repeat(2, 1)[: frame.height, : frame.width] if at else raw)
    return np.stack(planes, -1)


class Encoder:
    """Turns pictures into encoded ones, each at once: no picture waits for a later one.

    Args:
        width, height: pixels, even. key_interval: pictures from one key picture to the next.
        rate: pictures a second. kilobits: a second; 0 leaves the quality constant.

    Raises:
        MissingCodec: without PyAV, or a build of it without that encoder.
    """

    def __init__(self, format: int, width: int, height: int, *, key_interval: int, rate: int, kilobits: int) -> None:
        self._av = av = _av()
        family = _DECODERS[format]
        name = next((name for name in _ENCODERS[family] if name in av.codecs_available), None)
        if name is None:
            raise MissingCodec(f"this build of PyAV has no encoder for {family}")
        self._context = context = av.CodecContext.create(name, "w")
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.time_base, context.framerate = Fraction(1, rate), Fraction(rate)
        context.thread_count = 1
        context.gop_size = key_interval
        context.max_b_frames = 0
        if kilobits:
            context.bit_rate = kilobits * 1000
        options = {"preset": "veryfast", "tune": "zerolatency", "profile": _PROFILES[format]}
        if name == "libx265":
            options["x265-params"] = f"log-level=none:pools=none:frame-threads=1:keyint={key_interval}:repeat-headers=1"
        context.options = options if name != "libopenh264" else {}
        self._count = 0

    def encode(self, picture: Plane, *, key: bool = False) -> bytes:
        """One picture (h, w, 3; Y, U, V, chroma repeated) as bytes; ``key`` asks for a key picture."""
        import numpy as np

        height, width = picture.shape[:2]
        chroma = [np.ascontiguousarray(picture[::2, ::2, at]) for at in (1, 2)]
        flat = np.concatenate([picture[..., 0].reshape(-1), *(plane.reshape(-1) for plane in chroma)])
        frame = self._av.VideoFrame.from_ndarray(flat.reshape(height * 3 // 2, width), format="yuv420p")
        frame.pts, frame.time_base = self._count, self._context.time_base
        frame.pict_type = self._av.video.frame.PictureType.I if key else self._av.video.frame.PictureType.NONE
        self._count += 1
        return b"".join(bytes(packet) for packet in self._context.encode(frame))

    def flush(self) -> bytes:
        """What the encoder still holds."""
        return b"".join(bytes(packet) for packet in self._context.encode(None))
