"""What the header of a JPEG or PNG says, read without decoding it. Source: ITU-T T.81 B; PNG specification 11.2.2."""

from __future__ import annotations

import struct
from dataclasses import dataclass

S444, S422, S420, GREY, S440, S411, SOTHER = 0, 1, 2, 3, 4, 5, 1000
"""acldvppJpegFormat."""
_SAMPLINGS = {(1, 1): S444, (2, 1): S422, (2, 2): S420, (1, 2): S440, (4, 1): S411}
_BASELINE, _EXTENDED = 0xC0, 0xC1
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE = frozenset((0x01, *range(0xD0, 0xD9)))
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}


@dataclass(frozen=True)
class JpegHeader:
    """``supported`` says why the hardware cannot decode it ("" if it can)."""

    width: int
    height: int
    components: int
    sampling: int
    supported: str


def jpeg(data: bytes) -> JpegHeader | None:
    """The header of a JPEG; None if the bytes are none."""
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF or marker in _ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in _FRAMES:
            return _frame(data[at + 4 : at + 2 + length], marker)
        at += 2 + length
    return None


def _frame(body: bytes, marker: int) -> JpegHeader | None:
    if len(body) < 6 or len(body) < 6 + 3 * body[5]:
        return None
    precision, height, width, components = struct.unpack_from(">BHHB", body)
    factors = [(body[7 + 3 * at] >> 4, body[7 + 3 * at] & 15) for at in range(components)]
    reason = ""
    if marker not in (_BASELINE, _EXTENDED):
        reason = "it is progressive, lossless or arithmetically coded"
    elif precision != 8:
        reason = f"it has {precision} bits a sample"
    elif components not in (1, 3):
        reason = f"it has {components} components"
    if components == 1:
        sampling = GREY
    elif components == 3 and factors[1:] == [(1, 1), (1, 1)]:
        sampling = _SAMPLINGS.get(factors[0], SOTHER)
    else:
        sampling = SOTHER
    if not reason and sampling in (S411, SOTHER):
        reason = "its sampling is not 4:4:4, 4:2:2, 4:2:0, 4:4:0 or grey"
    return JpegHeader(width, height, components, sampling, reason)


def png(data: bytes) -> tuple[int, int, int] | None:
    """Width, height and channels of a PNG; None if the bytes are none."""
    if data[:8] != _PNG or data[12:16] != b"IHDR" or len(data) < 26:
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height, _PNG_CHANNELS.get(data[25], 0)
