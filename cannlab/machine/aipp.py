"""AIPP: the AI Core's preprocessing of images, from bytes to the model's float16 tensor.

Order: channel swap, crop, colour space conversion, normalisation, padding. Source: pyacl-and-atc 3.5.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DATA_INPUT = "ascend_dynamic_aipp_data"
"""The input that atc adds for dynamic AIPP: it holds the parameters."""

HEAD_BYTES = 64
BATCH_BYTES = 96


class ImageFormat(IntEnum):
    """Image formats with aclAippInputFormat's numbers, those that the kernels of these chips take."""

    YUV420SP_U8 = 1
    XRGB8888_U8 = 2
    RGB888_U8 = 3
    YUV400_U8 = 4

    @property
    def channels(self) -> int:
        """Channels of a pixel after unpacking."""
        return {1: 3, 2: 4, 3: 3, 4: 1}[self]

    @property
    def last_dim(self) -> int:
        """The C of the om's input (N, H, W, C); planes of YUV420SP count as 1."""
        return 1 if self is ImageFormat.YUV420SP_U8 else self.channels

    @property
    def is_yuv(self) -> bool:
        """True if the conversion goes from YUV, so that the input bias counts."""
        return self in (ImageFormat.YUV420SP_U8, ImageFormat.YUV400_U8)

    def bytes(self, width: int, height: int) -> int:
        """Bytes of one image."""
        if self is ImageFormat.YUV420SP_U8:
            return width * height * 3 // 2
        return width * height * self.channels


@dataclass(frozen=True, slots=True)
class BatchAipp:
    """What may differ between the images of a batch. Sizes in pixels."""

    crop: bool = False
    crop_w: int = 0
    crop_h: int = 0
    crop_size_w: int = 0
    crop_size_h: int = 0
    padding: bool = False
    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0
    mean: tuple[int, ...] = (0, 0, 0, 0)
    minimum: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    var_reci: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Aipp:
    """All parameters of one input.

    Attributes:
        format: what the bytes are.
        width, height: of the source image.
        csc: convert the colour space.
        swap_rb: exchange R and B (U and V).
        swap_ax: the first of four channels becomes the last.
        matrix: nine coefficients, row by row, in 1/256.
        input_bias, output_bias: subtracted before (from YUV), added after (to YUV).
        padding_value: of the pixels around.
        batch: one for each image; one alone counts for all.
    """

    format: ImageFormat
    width: int
    height: int
    csc: bool = False
    swap_rb: bool = False
    swap_ax: bool = False
    matrix: tuple[int, ...] = (0,) * 9
    input_bias: tuple[int, ...] = (0, 0, 0)
    output_bias: tuple[int, ...] = (0, 0, 0)
    padding_value: float = 0.0
    batch: tuple[BatchAipp, ...] = (BatchAipp(),)

    def image(self, index: int) -> BatchAipp:
        """The parameters of one image of the batch."""
        return self.batch[index if len(self.batch) > 1 else 0]

    def output_size(self, index: int = 0) -> tuple[int, int]:
        """(height, width) of what it makes of one image."""
        image = self.image(index)
        height, width = (image.crop_size_h, image.crop_size_w) if image.crop else (self.height, self.width)
        if image.padding:
            height, width = height + image.top + image.bottom, width + image.left + image.right
        return height, width

    @property
    def image_bytes(self) -> int:
        """Bytes of one source image."""
        return self.format.bytes(self.width, self.height)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "format": self.format.name}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Aipp:
        """The inverse of :meth:`to_json`."""
        batch = tuple(BatchAipp(**_tuples(one)) for one in data["batch"])
        plain = _tuples({key: value for key, value in data.items() if key not in ("format", "batch")})
        return cls(format=ImageFormat[data["format"]], batch=batch, **plain)


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists where the parameters have tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}


# -- arithmetic ------------------------------------------------------------------------------------------


def unfit(made: Aipp, images: int, size: tuple[int, int], most: int) -> str:
    """Why parameters of dynamic AIPP do not fit a model; "" if they do.

    Args:
        images, size, most: the model's batch, (height, width) and max_src_image_size (bytes).
    """
    if not made.width or not made.height:
        return "the size of the source image is not set"
    if made.format is ImageFormat.YUV420SP_U8 and (made.width % 2 or made.height % 2):
        return f"YUV420SP_U8 needs an even source size, not {made.width} x {made.height}"
    if made.format is ImageFormat.YUV400_U8 and made.csc:
        return "YUV400_U8 has one channel: csc_switch cannot be 1"
    if made.image_bytes * len(made.batch) > most:
        return f"the images have {made.image_bytes * len(made.batch)} bytes, max_src_image_size is {most}"
    if len(made.batch) != images:
        return f"the parameters are for {len(made.batch)} images, the model has a batch of {images}"
    for index, image in enumerate(made.batch):
        right, bottom = image.crop_w + image.crop_size_w, image.crop_h + image.crop_size_h
        if image.crop and (right > made.width or bottom > made.height):
            return f"the crop of image {index} ends at {right} x {bottom}, outside the source image"
        if image.crop and made.format is ImageFormat.YUV420SP_U8 and (image.crop_w % 2 or image.crop_h % 2):
            return f"the crop of image {index} starts at an odd place, which YUV420SP_U8 does not allow"
        if made.output_size(index) != size:
            return f"image {index} becomes {made.output_size(index)} (height, width), the model reads {size}"
    return ""


def apply(data: NDArray[np.uint8], images: int, channels: int, aipp: Aipp) -> NDArray[np.float16]:
    """Preprocess a batch.

    Args:
        data: the images' bytes one after another; more are left alone.
        images: how many.
        channels: channels of the result; the first ones of what AIPP makes.
        aipp: the parameters.

    Returns:
        float16, (images, channels, height, width).
    """
    import numpy as np

    flat = data.reshape(-1).view(np.uint8)
    size = aipp.image_bytes
    return np.stack(
        [_one(flat[index * size : (index + 1) * size], channels, aipp, aipp.image(index)) for index in range(images)]
    )


def _one(data: NDArray[np.uint8], channels: int, aipp: Aipp, image: BatchAipp) -> NDArray[np.float16]:
    import numpy as np

    pixels = _unpack(data, aipp)
    if image.crop:
        rows = slice(image.crop_h, image.crop_h + image.crop_size_h)
        pixels = pixels[rows, image.crop_w : image.crop_w + image.crop_size_w]
    if aipp.csc:
        pixels = _convert(pixels[..., :3], aipp)
    pixels = pixels[..., :channels]
    count = pixels.shape[-1]
    mean = np.array(image.mean[:count], np.float32)
    minimum = np.array(image.minimum[:count], np.float16).astype(np.float32)
    factor = np.array(image.var_reci[:count], np.float16).astype(np.float32)
    with np.errstate(over="ignore"):
        values = ((pixels.astype(np.float32) - mean - minimum) * factor).astype(np.float16)
    if image.padding:
        edges = ((image.top, image.bottom), (image.left, image.right), (0, 0))
        values = np.pad(values, edges, constant_values=np.float16(aipp.padding_value))
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def _unpack(data: NDArray[np.uint8], aipp: Aipp) -> NDArray[np.int32]:
    """Pixels as (height, width, channels), channels swapped as asked for."""
    import numpy as np

    height, width = aipp.height, aipp.width
    if aipp.format is ImageFormat.YUV420SP_U8:
        luma = data[: height * width].reshape(height, width, 1)
        chroma = data[height * width :].reshape(height // 2, width // 2, 2)
        chroma = chroma[..., ::-1] if aipp.swap_rb else chroma
        pixels = np.concatenate([luma, chroma.repeat(2, axis=0).repeat(2, axis=1)], axis=-1)
        return pixels.astype(np.int32)
    pixels = data.reshape(height, width, aipp.format.channels).astype(np.int32)
    if aipp.format is ImageFormat.XRGB8888_U8 and aipp.swap_ax:
        pixels = np.roll(pixels, -1, axis=-1)
    if aipp.swap_rb and aipp.format.channels >= 3:
        pixels = np.concatenate([pixels[..., 2::-1], pixels[..., 3:]], axis=-1)
    return pixels


def _convert(pixels: NDArray[np.int32], aipp: Aipp) -> NDArray[np.int32]:
    """The colour space conversion, in integers; a result outside a byte is clipped to it."""
    import numpy as np

    matrix = np.array(aipp.matrix, np.int32).reshape(3, 3)
    if aipp.format.is_yuv:
        made = (pixels - np.array(aipp.input_bias, np.int32)) @ matrix.T >> 8
    else:
        made = (pixels @ matrix.T >> 8) + np.array(aipp.output_bias, np.int32)
    clipped: NDArray[np.int32] = np.clip(made, 0, 255)
    return clipped


# -- the block of dynamic parameters -----------------------------------------------------------------------

_HEAD = struct.Struct("<B4b3x2i9h6x6B2x16x")
_BATCH = struct.Struct("<4b4x12i4h4H4H16x")
assert (_HEAD.size, _BATCH.size) == (HEAD_BYTES, BATCH_BYTES)


def block_bytes(images: int) -> int:
    """Bytes of the parameter block for so many images."""
    return HEAD_BYTES + images * BATCH_BYTES


def pack(aipp: Aipp) -> bytes:
    """The parameters as the block that a dynamic AIPP model reads (padding pixels are 0 there)."""
    head = _HEAD.pack(
        aipp.format,
        aipp.csc,
        aipp.swap_rb,
        aipp.swap_ax,
        min(len(aipp.batch), 127),
        aipp.width,
        aipp.height,
        *aipp.matrix,
        *aipp.output_bias,
        *aipp.input_bias,
    )
    return head + b"".join(_pack_image(image) for image in aipp.batch)


def _pack_image(image: BatchAipp) -> bytes:
    return _BATCH.pack(
        image.crop,
        0,
        image.padding,
        0,
        image.crop_w,
        image.crop_h,
        image.crop_size_w,
        image.crop_size_h,
        *(0, 0, 0, 0),
        image.top,
        image.bottom,
        image.left,
        image.right,
        *image.mean,
        *_halves(image.minimum),
        *_halves(image.var_reci),
    )


def _halves(values: tuple[float, ...]) -> tuple[int, ...]:
    return struct.unpack("<4H", struct.pack("<4e", *values))


def _floats(halves: tuple[int, ...]) -> tuple[float, ...]:
    return struct.unpack("<4e", struct.pack("<4H", *halves))


def unpack(block: bytes, images: int) -> Aipp:
    """The inverse of :func:`pack`.

    Raises:
        ValueError: it holds no image format, or sizes that cannot be.
    """
    head = _HEAD.unpack_from(block)
    format, csc, swap_rb, swap_ax, _, width, height, *rest = head
    made = Aipp(
        format=ImageFormat(format),
        width=width,
        height=height,
        csc=bool(csc),
        swap_rb=bool(swap_rb),
        swap_ax=bool(swap_ax),
        matrix=tuple(rest[:9]),
        output_bias=tuple(rest[9:12]),
        input_bias=tuple(rest[12:15]),
    )
    batch = []
    for index in range(images):
        fields = _BATCH.unpack_from(block, HEAD_BYTES + index * BATCH_BYTES)
        crop, _, padding, _, crop_w, crop_h, size_w, size_h, _, _, _, _, top, bottom, left, right, *channels = fields
        image = BatchAipp(
            crop=bool(crop),
            crop_w=crop_w,
            crop_h=crop_h,
            crop_size_w=size_w,
            crop_size_h=size_h,
            padding=bool(padding),
            top=top,
            bottom=bottom,
            left=left,
            right=right,
            mean=tuple(channels[:4]),
            minimum=_floats(tuple(channels[4:8])),
            var_reci=_floats(tuple(channels[8:])),
        )
        batch.append(image)
    made = replace(made, batch=tuple(batch))
    if width <= 0 or height <= 0:
        raise ValueError(f"an image of {width} x {height}")
    return made
