"""Pictures as DVPP keeps them: pixel formats, strides, planes; colour conversion, resizing, borders, histograms.

Arithmetic is that of NumPy: bilinear interpolation with pixel centres at halves and no prefilter, rounded to nearest;
chroma is repeated when it is spread and averaged when it is reduced. The chips' own filters are not published.
Source: pyacl-semantics 12.2 (formats and sizes); BT.601 and BT.709 for the matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Plane = NDArray[np.uint8]

YUV400, NV12, NV21, RGB888, BGR888, UNKNOWN = 0, 1, 2, 12, 13, 10000


@dataclass(frozen=True)
class PixelFormat:
    """One acldvppPixelFormat.

    Attributes:
        family: "grey", "yuv" (semi-planar), "packed" (YUV in one plane) or "rgb" (packed).
        across, down: how many pixels share one chroma sample.
        order: the bytes in memory; for semi-planar formats those of the second plane, for packed ones those of
            ``across`` pixels.
    """

    number: int
    name: str
    family: str
    across: int = 1
    down: int = 1
    order: str = ""

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a pixel in the first (or only) plane."""
        return len(self.order) // self.across if self.family in ("rgb", "packed") else 1

    def steps(self, plane: int) -> tuple[int, int]:
        """How many pixels, across and down, one element of a plane stands for."""
        if plane == 0:
            return (self.across, 1) if self.family == "packed" else (1, 1)
        return self.across, self.down

    @property
    def channels(self) -> int:
        """1 for grey pictures, else 3 (alpha does not count)."""
        return 1 if self.family == "grey" else 3

    def size(self, width_stride: int, height_stride: int) -> int:
        """Bytes of a picture; strides in bytes and rows."""
        area = width_stride * height_stride
        if self.family == "yuv":
            return area + area * 2 // (self.across * self.down)
        return area


FORMATS = {
    entry.number: entry
    for entry in (
        PixelFormat(YUV400, "YUV400", "grey"),
        PixelFormat(NV12, "YUV420SP (NV12)", "yuv", 2, 2, "UV"),
        PixelFormat(NV21, "YVU420SP (NV21)", "yuv", 2, 2, "VU"),
        PixelFormat(3, "YUV422SP", "yuv", 2, 1, "UV"),
        PixelFormat(4, "YVU422SP", "yuv", 2, 1, "VU"),
        PixelFormat(5, "YUV444SP", "yuv", 1, 1, "UV"),
        PixelFormat(6, "YVU444SP", "yuv", 1, 1, "VU"),
        PixelFormat(7, "YUYV packed 4:2:2", "packed", 2, 1, "YUYV"),
        PixelFormat(8, "UYVY packed 4:2:2", "packed", 2, 1, "UYVY"),
        PixelFormat(9, "YVYU packed 4:2:2", "packed", 2, 1, "YVYU"),
        PixelFormat(10, "VYUY packed 4:2:2", "packed", 2, 1, "VYUY"),
        PixelFormat(11, "YUV packed 4:4:4", "packed", 1, 1, "YUV"),
        PixelFormat(RGB888, "RGB888", "rgb", order="RGB"),
        PixelFormat(BGR888, "BGR888", "rgb", order="BGR"),
        PixelFormat(14, "ARGB8888", "rgb", order="ARGB"),
        PixelFormat(15, "ABGR8888", "rgb", order="ABGR"),
        PixelFormat(16, "RGBA8888", "rgb", order="RGBA"),
        PixelFormat(17, "BGRA8888", "rgb", order="BGRA"),
    )
}


@dataclass(frozen=True)
class Layout:
    """How a picture lies in memory: format, pixels, strides (bytes of a row, rows of the first plane)."""

    format: PixelFormat
    width: int
    height: int
    width_stride: int
    height_stride: int

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self.format.size(self.width_stride, self.height_stride)

    def planes(self, data: memoryview) -> list[Plane]:
        """Writable views of the pixels: (height, width, channels) of the first plane, then of the chroma plane.

        A packed 4:2:2 picture is one plane of (height, width / 2, 4): two pixels share their chroma.
        """
        import numpy as np

        flat = np.frombuffer(data, np.uint8)
        kind = self.format
        first = flat[: self.width_stride * self.height_stride].reshape(self.height_stride, self.width_stride)
        rows = self.width * kind.pixel_bytes
        wide, _ = kind.steps(0)
        found = [first[: self.height, :rows].reshape(self.height, self.width // wide, kind.pixel_bytes * wide)]
        if kind.family == "yuv":
            height, width = -(-self.height // kind.down), -(-self.width // kind.across)
            stride = self.width_stride * 2 // kind.across
            start = self.width_stride * self.height_stride
            chroma = flat[start : start + stride * (self.height_stride // kind.down)].reshape(-1, stride)
            found.append(chroma[:height, : width * 2].reshape(height, width, 2))
        return found


# -- colours -----------------------------------------------------------------------------------------------

MATRICES = {0: (0.299, 0.114, False), 1: (0.299, 0.114, True), 2: (0.2126, 0.0722, False), 3: (0.2126, 0.0722, True)}
"""acldvppCscMatrix: weights of red and blue, and whether the range is narrow (16 to 235)."""


def _rounded(values: NDArray[Any]) -> Plane:
    import numpy as np

    return np.clip(np.floor(values + 0.5), 0, 255).astype(np.uint8)


def to_rgb(yuv: Plane, matrix: int) -> Plane:
    """(h, w, 3) Y, U, V to R, G, B."""
    import numpy as np

    red, blue, narrow = MATRICES[matrix]
    y, u, v = (yuv[..., at].astype(np.float32) for at in range(3))
    u, v = u - 128, v - 128
    if narrow:
        y, u, v = (y - 16) * (255 / 219), u * (255 / 224), v * (255 / 224)
    green = 1 - red - blue
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    g = (y - red * r - blue * b) / green
    return _rounded(np.stack([r, g, b], -1))


def to_yuv(rgb: Plane, matrix: int) -> Plane:
    """(h, w, 3) R, G, B to Y, U, V."""
    import numpy as np

    red, blue, narrow = MATRICES[matrix]
    r, g, b = (rgb[..., at].astype(np.float32) for at in range(3))
    y = red * r + (1 - red - blue) * g + blue * b
    u, v = (b - y) / (2 * (1 - blue)), (r - y) / (2 * (1 - red))
    if narrow:
        y, u, v = y * (219 / 255) + 16, u * (224 / 255), v * (224 / 255)
    return _rounded(np.stack([y, u + 128, v + 128], -1))


def spread(planes: Sequence[Plane], layout: Layout) -> Plane:
    """The planes of a picture as one (h, w, 3) array of its family: Y, U, V or R, G, B."""
    import numpy as np

    kind = layout.format
    if kind.family == "rgb":
        return planes[0][..., [kind.order.index(channel) for channel in "RGB"]]
    luma = planes[0]
    if kind.family == "packed":
        at = [[place for place, name in enumerate(kind.order) if name == channel] for channel in "YUV"]
        y = luma[..., at[0]].reshape(layout.height, layout.width)
        return np.stack([y, *(luma[..., place[0]].repeat(kind.across, 1) for place in at[1:])], -1)
    if kind.family == "grey":
        return np.concatenate([luma, np.full((*luma.shape[:2], 2), 128, np.uint8)], -1)
    chroma = planes[1].repeat(kind.down, 0).repeat(kind.across, 1)[: layout.height, : layout.width]
    return np.concatenate([luma, chroma[..., [kind.order.index(channel) for channel in "UV"]]], -1)


def gather(whole: Plane, family: str, kind: PixelFormat, matrix: int) -> list[Plane]:
    """The inverse of :func:`spread` for another format: planes of an (h, w, 3) array of ``family``."""
    import numpy as np

    if kind.family == "rgb":
        rgb = whole if family == "rgb" else to_rgb(whole, matrix)
        # Alpha becomes 0, as on the chips.
        channels = {"R": rgb[..., 0], "G": rgb[..., 1], "B": rgb[..., 2], "A": np.zeros(rgb.shape[:2], np.uint8)}
        return [np.stack([channels[channel] for channel in kind.order], -1)]
    yuv = whole if family != "rgb" else to_yuv(whole, matrix)
    if kind.family == "grey":
        return [yuv[..., :1]]
    height, width = yuv.shape[:2]
    chroma = yuv[..., 1:].astype(np.float32)
    chroma = np.pad(chroma, ((0, -height % kind.down), (0, -width % kind.across), (0, 0)), mode="edge")
    blocks = chroma.reshape(chroma.shape[0] // kind.down, kind.down, chroma.shape[1] // kind.across, kind.across, 2)
    reduced = _rounded(blocks.mean((1, 3)))
    if kind.family == "packed":
        luma = yuv[..., 0].reshape(height, width // kind.across, kind.across)
        samples = {"U": iter([reduced[..., 0]]), "V": iter([reduced[..., 1]]), "Y": iter(np.moveaxis(luma, -1, 0))}
        return [np.stack([next(samples[channel]) for channel in kind.order], -1)]
    return [yuv[..., :1], reduced[..., ["UV".index(channel) for channel in kind.order]]]


# -- geometry ----------------------------------------------------------------------------------------------


def resize(plane: Plane, width: int, height: int, *, nearest: bool = False) -> Plane:
    """A plane (h, w, channels) at another size."""
    import numpy as np

    if plane.shape[:2] == (height, width):
        return plane
    if nearest:
        rows = np.arange(height) * plane.shape[0] // height
        columns = np.arange(width) * plane.shape[1] // width
        chosen: Plane = plane[rows][:, columns]
        return chosen
    values = plane.astype(np.float32)
    for axis, wanted in ((0, height), (1, width)):
        length = values.shape[axis]
        at = np.clip((np.arange(wanted) + 0.5) * (length / wanted) - 0.5, 0, length - 1)
        low = np.floor(at).astype(np.int64)
        high = np.minimum(low + 1, length - 1)
        shape = [1, 1, 1]
        shape[axis] = wanted
        share = (at - low).astype(np.float32).reshape(shape)
        values = values.take(low, axis) * (1 - share) + values.take(high, axis) * share
    return _rounded(values)


BORDERS = ("constant", "edge", "symmetric", "reflect")
"""acldvppBorderType by number, as numpy calls them: constant, replicate, reflect, reflect 101."""


def bordered(whole: Plane, top: int, bottom: int, left: int, right: int, kind: int, values: Sequence[int]) -> Plane:
    """A picture (h, w, 3) with a border round it; ``values`` fills a constant one."""
    import numpy as np

    widths = ((top, bottom), (left, right))
    if BORDERS[kind] != "constant":
        padded: Plane = np.pad(whole, (*widths, (0, 0)), mode=BORDERS[kind])  # type: ignore[call-overload]
        return padded
    channels = [np.pad(whole[..., at], widths, constant_values=values[at]) for at in range(3)]
    return np.stack(channels, -1)


_PYRAMID = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


def pyramid_down(plane: Plane) -> Plane:
    """A plane (h, w, channels) at half its size, rounded up: a 5 x 5 binomial filter, then every second pixel.

    The edge is reflected without repeating the outermost pixel.
    """
    import numpy as np

    values = plane.astype(np.float32)
    for axis in (0, 1):
        length = values.shape[axis]
        widths = [(2, 2) if at == axis else (0, 0) for at in range(3)]
        padded = np.pad(values, widths, mode="reflect" if length > 2 else "edge")
        values = sum(  # type: ignore[assignment]
            weight * padded.take(np.arange(at, at + length, 2), axis) for at, weight in enumerate(_PYRAMID)
        )
    return _rounded(values)


# -- values ------------------------------------------------------------------------------------------------


def _samples(planes: Sequence[Plane], kind: PixelFormat) -> list[Plane]:
    """Writable views of the samples of each channel: Y, U, V or R, G, B."""
    if kind.family == "grey":
        return [planes[0][..., 0]]
    if kind.family == "yuv":
        return [planes[0][..., 0], *(planes[1][..., kind.order.index(name)] for name in "UV")]
    if kind.family == "packed" and kind.across == 2:
        # Two pixels: their Ys stand at every second byte.
        return [planes[0][..., kind.order.index("Y") :: 2], *(planes[0][..., kind.order.index(name)] for name in "UV")]
    return [planes[0][..., kind.order.index(name)] for name in ("RGB" if kind.family == "rgb" else "YUV")]


def histogram(planes: Sequence[Plane], kind: PixelFormat) -> NDArray[np.uint32]:
    """How often each of the 256 values occurs in each channel: (channels, 256), Y, U, V or R, G, B."""
    import numpy as np

    counts = [np.bincount(samples.reshape(-1), minlength=256) for samples in _samples(planes, kind)]
    return np.stack(counts).astype(np.uint32)


def mapped(given: Sequence[Plane], wanted: Sequence[Plane], kind: PixelFormat, tables: Sequence[Plane]) -> None:
    """Write each sample's entry of its channel's table (256 values) into another picture of the same format."""
    for plane, target in zip(given, wanted, strict=True):
        target[:] = plane
    for samples, target, table in zip(_samples(given, kind), _samples(wanted, kind), tables, strict=False):
        target[:] = table[samples]
