"""load_image: a part of an image in global memory to L1, as the preprocessing without settings hands it on.

Each pixel becomes 32 bytes of L1: its channels, then zeros (32 channels of int8, 16 of half). Bytes above 127 saturate
in int8. Immediates: ``(format, pixels of a source row, first column, first row, columns, rows, columns of zeros on the
left, on the right)``. Source: the toolkit's pages of SetAippFunctions and LoadImageToLocal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core.dtypes import CODES, NUMPY, SIZES, unpack
from cannlab.machine.core.layout import Spans
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.pipes import BLOCK

Imm = tuple[int, ...]
Operands = tuple[tuple[int, int, int], ...]

YUV420SP, XRGB8888, RGB888, YUV400 = 0, 1, 4, 9
"""Formats, with the numbers of AippInputFormat."""
CHANNELS = {YUV420SP: 1, XRGB8888: 4, RGB888: 3, YUV400: 1}
"""Bytes of a pixel where the image lies; YUV420SP: of its first plane."""
BYTE = CODES["uint8"]


def _rows(pitch: int, left: int, top: int, length: int, count: int) -> Spans:
    """Byte spans of ``count`` rows."""
    if left == 0 and length == pitch:
        return ((top * pitch, (top + count) * pitch),)
    return tuple((row * pitch + left, row * pitch + left + length) for row in range(top, top + count))


def read(dtype: int, imm: Imm) -> Spans:
    """Bytes of the image (of YUV420SP: of the brightness)."""
    kind, width, left, top, columns, rows, _, _ = imm
    size = CHANNELS[kind]
    return _rows(width * size, left * size, top, columns * size, rows)


def read_colours(dtype: int, imm: Imm) -> Spans:
    """Bytes of the plane with the colours of YUV420SP: one pair for 2 x 2 pixels."""
    _, width, left, top, columns, rows, _, _ = imm
    return _rows(width, left, top // 2, -(-columns // 2) * 2, -(-rows // 2))


def written(dtype: int, imm: Imm) -> Spans:
    """Bytes of L1: 32 for each pixel."""
    return ((0, imm[5] * (imm[4] + imm[6] + imm[7]) * BLOCK),)


def _cut(memory: Memory, operand: tuple[int, int, int], spans: Spans, rows: int) -> NDArray[Any]:
    """The bytes of the rows, (rows, bytes of a row)."""
    view = memory.view(operand, BYTE)
    if len(spans) != rows:
        return view[spans[0][0] : spans[-1][1]].reshape(rows, -1)
    return np.stack([view[start:end] for start, end in spans])


def load(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """Operands (dst, image) or (dst, brightness, colours)."""
    columns, rows, left, right = imm[4:]
    code = unpack(dtype)[0]
    pixels = _cut(memory, operands[1], read(dtype, imm), rows).reshape(rows, columns, -1)[..., :3]
    if len(operands) > 2:
        half = _cut(memory, operands[2], read_colours(dtype, imm), -(-rows // 2)).reshape(-1, -(-columns // 2), 2)
        colours = half.repeat(2, axis=0).repeat(2, axis=1)[:rows, :columns]
        pixels = np.concatenate([pixels, colours], axis=-1)
    if NUMPY[code].kind == "i":
        pixels = np.minimum(pixels, 127)
    target = memory.view(operands[0], code).reshape(rows, left + columns + right, BLOCK // SIZES[code])
    target[...] = 0
    target[:, left : left + columns, : pixels.shape[-1]] = pixels
