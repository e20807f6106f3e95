"""JPEG decoding and encoding, PNG decoding. Source: pyacl-semantics 12.3, 12.4. Decoding and encoding are Pillow's.

Assumed: the strides of decoded PNGs, the predicted size of a JPEG (the formula is not published), that the sizes of
get_image_info are those after the EXIF orientation.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from cannlab.acl import dvpp
from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take
from cannlab.acl.functions.dvpp_descs import JpegeConfig, PicDesc
from cannlab.machine import Machine, jpeg_header, pictures
from cannlab.machine.jpeg_header import GREY, S420, S422, S440, S444, JpegHeader
from cannlab.machine.pictures import FORMATS, NV12, NV21, UNKNOWN, YUV400, Layout

if TYPE_CHECKING:
    from cannlab.machine.pictures import Plane

_OWN = {S420: NV21, S422: 4, S444: 6, GREY: YUV400, S440: 4}
"""The format that PIXEL_FORMAT_UNKNOWN decodes to, by sampling: V before U."""
_SEMI_PLANAR = {S420: (NV12, NV21), S422: (3, 4, NV12, NV21), S444: (5, 6, NV12, NV21), S440: (NV12, NV21)}
_SEMI_PLANAR[GREY] = (YUV400, NV12, NV21)
_ENCODABLE = (NV12, NV21, 7, 8, 9, 10)
"""Formats of pictures that become JPEGs: 4:2:0, and packed 4:2:2."""
_ORIENTATION = 0x0112
_TURNED = (5, 6, 7, 8)
_JPEG_ADDRESS = 128
_LEAST_JPEG = 32
_HEADER_ROOM = 4096
_UNREADABLE = (OSError, ValueError, SyntaxError, EOFError)


def _host(m: Machine, pointer: int, size: int) -> bytes:
    if pointer == 0 or size == 0:
        raise refuse(m, "runtime.bad_parameter", argument="data or size", value=0, allowed="a file in host memory")
    return bytes(m.memory.view(pointer, size, "host", write=False))


def _jpeg(m: Machine, data: bytes) -> JpegHeader:
    """The header of a JPEG that the hardware decodes. Raises Refused ``media.jpeg`` (148052)."""
    found = jpeg_header.jpeg(data)
    if found is None:
        raise refuse(m, "media.jpeg", reason="it is no JPEG, or cut off in the header")
    if found.supported:
        raise refuse(m, "media.jpeg", reason=found.supported)
    if _orientation(data) in _TURNED:
        return JpegHeader(found.height, found.width, found.components, found.sampling, "")
    return found


def _orientation(data: bytes) -> int:
    if b"Exif\0\0" not in data[: 64 << 10]:
        return 1
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            return int(image.getexif().get(_ORIENTATION, 1))
    except _UNREADABLE:
        return 1


@api("acl.media.dvpp_jpeg_get_image_info")
def dvpp_jpeg_get_image_info(m: Machine, data: int, size: int) -> tuple[int, int, int, int]:
    """dvpp_jpeg_get_image_info(pointer, size) -> (width, height, components, ret): the file in host memory; 148052 for
    one that the hardware cannot decode."""
    found = _jpeg(m, _host(m, data, size))
    return found.width, found.height, found.components, 0


@api("acl.media.dvpp_jpeg_get_image_info_v2")
def dvpp_jpeg_get_image_info_v2(m: Machine, data: int, size: int) -> tuple[int, int, int, int, int]:
    """dvpp_jpeg_get_image_info_v2(pointer, size) -> (width, height, components, sampling, ret): 0 4:4:4, 1 4:2:2, 2
    4:2:0, 3 grey, 4 4:4:0."""
    found = _jpeg(m, _host(m, data, size))
    return found.width, found.height, found.components, found.sampling, 0


def _target(m: Machine, found: JpegHeader, wanted: int) -> pictures.PixelFormat:
    """The format of the decoded picture. Raises Refused ``media.format``."""
    number = _OWN[found.sampling] if wanted == UNKNOWN else wanted
    if number not in (*_SEMI_PLANAR[found.sampling], _OWN[found.sampling]):
        raise refuse(m, "media.format", what="the decoded picture", format=wanted)
    return FORMATS[number]


def _decoded(m: Machine, kind: pictures.PixelFormat, width: int, height: int) -> Layout:
    """The layout of a decoded picture; odd sizes become even where the chroma needs it."""
    across, down = dvpp.decode_strides(m)
    even = (dvpp.align(width, kind.across), dvpp.align(height, kind.down))
    return Layout(kind, *even, dvpp.align(even[0], across), dvpp.align(even[1], down))


@api("acl.media.dvpp_jpeg_predict_dec_size")
def dvpp_jpeg_predict_dec_size(m: Machine, data: int, size: int, output_format: int) -> tuple[int, int]:
    """dvpp_jpeg_predict_dec_size(pointer, size, format) -> (bytes, ret): strides rounded up to 128 x 16 (310, 910) or
    64 x 16, times the bytes of a pixel; format 10000 is that of the file."""
    found = _jpeg(m, _host(m, data, size))
    return _decoded(m, _target(m, found, output_format), found.width, found.height).size, 0


@api("acl.media.dvpp_jpeg_decode_async")
def dvpp_jpeg_decode_async(m: Machine, channel: int, data: int, size: int, output: int, stream: int) -> int:
    """dvpp_jpeg_decode_async(channel, data, size, output, stream) -> ret: data and output in DVPP memory; the output's
    sizes and strides are filled in where they are 0. 148052 for a file that cannot be decoded."""
    dvpp.channel(m, channel, dvpp.JPEGD)
    picture = take(m, output, PicDesc)
    file = bytes(dvpp.memory(m, data, size, _JPEG_ADDRESS, "the JPEG", write=False))
    found = _jpeg(m, file)
    layout = _fitted(m, picture, _decoded(m, _target(m, found, picture.format), found.width, found.height))

    def work() -> int:
        now = bytes(dvpp.memory(m, data, size, _JPEG_ADDRESS, "the JPEG", write=False))
        wanted = layout.planes(dvpp.memory(m, picture.data, layout.size, _JPEG_ADDRESS, "the output", write=True))
        for plane, made in zip(wanted, _decode(m, now, layout), strict=True):
            plane[:] = made
        return layout.width * layout.height

    return dvpp.submit(m, dvpp.JPEGD, "JpegDecode", stream, work, [picture], size + layout.size)


def _fitted(m: Machine, picture: PicDesc, own: Layout) -> Layout:
    """The layout that the program asked for if the decoder can write it; the description is completed."""
    across, down = dvpp.decode_strides(m)
    stride = (picture.width_stride or own.width_stride, picture.height_stride or own.height_stride)
    if (
        stride[0] % across
        or stride[1] % down
        or stride[0] < own.width * own.format.pixel_bytes
        or stride[1] < own.height
    ):
        reason = f"its strides {stride[0]} x {stride[1]} are not multiples of {across} x {down} that hold the picture"
        raise refuse(m, "media.picture", what="the output", reason=reason)
    layout = Layout(own.format, own.width, own.height, *stride)
    if picture.size < layout.size:
        reason = f"its size {picture.size} is below the {layout.size} bytes of the decoded picture"
        raise refuse(m, "media.picture", what="the output", reason=reason)
    dvpp.memory(m, picture.data, layout.size, _JPEG_ADDRESS, "the output", write=True)
    picture.format = layout.format.number
    picture.width = picture.width or layout.width
    picture.height = picture.height or layout.height
    picture.width_stride, picture.height_stride = stride
    return layout


def _decode(m: Machine, file: bytes, layout: Layout) -> list[Plane]:
    import numpy as np
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(file)) as image:
            image.draft("YCbCr" if image.mode != "L" else "L", image.size)
            whole = np.asarray(ImageOps.exif_transpose(image).convert("YCbCr"))
    except _UNREADABLE as problem:
        raise dvpp.failed(m, "media.damaged", kind="JPEG", reason=str(problem)) from None
    height, width = layout.height - whole.shape[0], layout.width - whole.shape[1]
    if min(height, width) < 0 or max(height, width) > 1:
        raise dvpp.failed(m, "media.damaged", kind="JPEG", reason="it is another picture than when it was queued")
    whole = np.pad(whole, ((0, height), (0, width), (0, 0)), mode="edge")
    return pictures.gather(whole, "yuv", layout.format, 0)


# -- encoding ----------------------------------------------------------------------------------------------


def _encodable(m: Machine, picture: PicDesc) -> Layout:
    if picture.format not in _ENCODABLE:
        raise refuse(m, "media.format", what="the picture to encode", format=picture.format)
    least = (_LEAST_JPEG, _LEAST_JPEG)
    return dvpp.layout(m, picture, "the picture to encode", least=least, most=dvpp.MOST_8K, stride=16)


@api("acl.media.dvpp_jpeg_predict_enc_size")
def dvpp_jpeg_predict_enc_size(m: Machine, source: int, config: int) -> tuple[int, int]:
    """dvpp_jpeg_predict_enc_size(picture, config) -> (bytes, ret): room for the JPEG whatever the picture shows."""
    take(m, config, JpegeConfig)
    layout = _encodable(m, take(m, source, PicDesc))
    return layout.width_stride * layout.height_stride * 3 + _HEADER_ROOM, 0


@api("acl.media.dvpp_jpeg_encode_async")
def dvpp_jpeg_encode_async(
    m: Machine, channel: int, source: int, data: int, size_pointer: int, config: int, stream: int
) -> int:
    """dvpp_jpeg_encode_async(channel, picture, data, size_pointer, config, stream) -> ret: at size_pointer (host
    memory, 4 bytes) stands the room at ``data``; after the synchronisation it is the size of the JPEG."""
    dvpp.channel(m, channel, dvpp.JPEGE)
    picture, level = take(m, source, PicDesc), take(m, config, JpegeConfig).level or 100
    layout = _encodable(m, picture)
    dvpp.memory(m, picture.data, layout.size, _JPEG_ADDRESS, "the picture to encode", write=False)
    room = int.from_bytes(m.memory.view(size_pointer, 4, "host", write=False), "little")
    dvpp.memory(m, data, room, 1, "the JPEG", write=True)

    def work() -> int:
        given = dvpp.memory(m, picture.data, layout.size, _JPEG_ADDRESS, "the picture to encode", write=False)
        made = _encode(pictures.spread(layout.planes(given), layout), level, layout.format.down)
        if len(made) > room:
            raise dvpp.failed(m, "media.encode_room", needed=len(made), room=room)
        dvpp.memory(m, data, len(made), 1, "the JPEG", write=True)[:] = made
        m.memory.view(size_pointer, 4, "host")[:] = len(made).to_bytes(4, "little")
        return layout.width * layout.height

    return dvpp.submit(m, dvpp.JPEGE, "JpegEncode", stream, work, [], layout.size)


def _encode(yuv: Plane, level: int, down: int) -> bytes:
    """A JPEG with the sampling of the picture: 4:2:0, or 4:2:2 where rows do not share chroma."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(yuv, "YCbCr").save(file, "JPEG", quality=level, subsampling=down)
    return file.getvalue()


# -- PNG ---------------------------------------------------------------------------------------------------

_PNG_FORMATS = {3: (12,), 4: (12, 16)}
"""Formats that a PNG decodes to, by channels: RGB888, RGBA8888."""


def _png(m: Machine, data: bytes) -> tuple[int, int, int]:
    found = jpeg_header.png(data)
    if found is None or found[2] not in _PNG_FORMATS:
        reason = "it is no PNG" if found is None else f"it has {found[2]} channels, not 3 or 4"
        raise refuse(m, "media.png", reason=reason)
    return found


def _png_layout(m: Machine, found: tuple[int, int, int], wanted: int) -> Layout:
    own = {3: 12, 4: 16}[found[2]]
    number = own if wanted == UNKNOWN else wanted
    if number not in _PNG_FORMATS[found[2]]:
        raise refuse(m, "media.format", what="the decoded picture", format=wanted)
    kind = FORMATS[number]
    across, down = dvpp.decode_strides(m)
    return Layout(kind, *found[:2], dvpp.align(found[0] * kind.pixel_bytes, across), dvpp.align(found[1], down))


@api("acl.media.dvpp_png_get_image_info")
def dvpp_png_get_image_info(m: Machine, data: int, size: int) -> tuple[int, int, int, int]:
    """dvpp_png_get_image_info(pointer, size) -> (width, height, components, ret): the file in host memory."""
    return *_png(m, _host(m, data, size)), 0


@api("acl.media.dvpp_png_predict_dec_size")
def dvpp_png_predict_dec_size(m: Machine, data: int, size: int, output_format: int) -> tuple[int, int]:
    """dvpp_png_predict_dec_size(pointer, size, format) -> (bytes, ret): 12 RGB888, 16 RGBA8888, 10000 as the file."""
    return _png_layout(m, _png(m, _host(m, data, size)), output_format).size, 0


@api("acl.media.dvpp_png_decode_async")
def dvpp_png_decode_async(m: Machine, channel: int, data: int, size: int, output: int, stream: int) -> int:
    """dvpp_png_decode_async(channel, data, size, output, stream) -> ret: data and output in DVPP memory."""
    dvpp.channel(m, channel, dvpp.PNGD)
    picture = take(m, output, PicDesc)
    file = bytes(dvpp.memory(m, data, size, 1, "the PNG", write=False))
    layout = _fitted(m, picture, _png_layout(m, _png(m, file), picture.format))

    def work() -> int:
        now = bytes(dvpp.memory(m, data, size, 1, "the PNG", write=False))
        (plane,) = layout.planes(dvpp.memory(m, picture.data, layout.size, _JPEG_ADDRESS, "the output", write=True))
        plane[:] = _png_pixels(m, now, layout)
        return layout.width * layout.height

    return dvpp.submit(m, dvpp.PNGD, "PngDecode", stream, work, [picture], size + layout.size)


def _png_pixels(m: Machine, file: bytes, layout: Layout) -> Any:
    import numpy as np
    from PIL import Image

    try:
        with Image.open(io.BytesIO(file)) as image:
            found = np.asarray(image.convert(layout.format.order))
    except _UNREADABLE as problem:
        raise dvpp.failed(m, "media.damaged", kind="PNG", reason=str(problem)) from None
    if found.shape[:2] != (layout.height, layout.width):
        raise dvpp.failed(m, "media.damaged", kind="PNG", reason="it is another picture than when it was queued")
    return found
