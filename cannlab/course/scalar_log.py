"""Training curves in TensorBoard's own file format, for machines on which TensorBoard is not installed.

``SummaryWriter`` has the names of ``torch.utils.tensorboard.SummaryWriter`` for scalars; TensorBoard opens its files.
``scalars`` reads what either of them wrote. A file is a row of records (TFRecord): length, masked CRC-32C of the
length, the bytes of a message ``tensorflow.Event``, masked CRC-32C of the bytes; all numbers little-endian.
Source: the TFRecord section of TensorFlow's documentation, and ``event.proto`` and ``summary.proto`` of TensorBoard.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

_POLYNOMIAL = 0x82F63B78
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTH = {_FIXED64: 8, _FIXED32: 4}
Field = tuple[int, int | bytes]


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """CRC-32C (Castagnoli) of the bytes, rotated and offset as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class SummaryWriter:
    """Writes scalars into one new event file of a folder.

    Args:
        log_dir: the folder; made if it is not there.
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        number = 0
        while True:
            try:
                path = folder / f"events.out.tfevents.{int(time.time()):010}.cannlab.{os.getpid()}.{number}"
                self._file = path.open("xb")
                break
            except FileExistsError:
                number += 1
        self._write(_double(1, time.time()) + _bytes(3, b"brain.Event:2"))

    def add_scalar(
        self, tag: str, scalar_value: float, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """One point of a curve.

        Args:
            tag: the curve's name ("loss/train").
            scalar_value: a number, or anything that float() takes; kept as float32.
            global_step: where it stands on the axis, from 0; 0 if None.
            walltime: seconds since 1970; now if None.
        """
        value = _bytes(1, tag.encode()) + b"\x15" + struct.pack("<f", float(scalar_value))
        now = time.time() if walltime is None else walltime
        self._write(_double(1, now) + b"\x10" + _varint(global_step or 0) + _bytes(5, _bytes(1, value)))

    def flush(self) -> None:
        """Everything so far is in the file."""
        self._file.flush()

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        parts = (length, struct.pack("<I", masked_crc(length)), event, struct.pack("<I", masked_crc(event)))
        self._file.write(b"".join(parts))


def scalars(log_dir: str | os.PathLike[str]) -> dict[str, list[tuple[int, float]]]:
    """The curves in all event files of a folder: tag -> (step, value) in the order in which they were written.

    A record that is cut off (its program is still writing) ends its file.

    Raises:
        ValueError: a record's checksum is wrong.
    """
    curves: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(Path(log_dir).glob("*tfevents*")):
        for event in _events(path):
            fields = dict(_fields(event))
            step = fields.get(2, 0)
            for number, value in _fields(_as_bytes(fields.get(5, b""))):
                if number != 1:
                    continue
                point = dict(_fields(_as_bytes(value)))
                if 2 in point and isinstance(step, int):
                    tag = _as_bytes(point[1]).decode()
                    curves.setdefault(tag, []).append((step, struct.unpack("<f", _as_bytes(point[2]))[0]))
    return curves


def _events(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        end = at + 12 + length
        if end + 4 > len(data):
            return
        event = data[at + 12 : end]
        sums = struct.unpack_from("<I", data, at + 8) + struct.unpack_from("<I", data, end)
        if sums != (masked_crc(data[at : at + 8]), masked_crc(event)):
            raise ValueError(f"{path.name}: the record at byte {at} is damaged; write the curves again")
        yield event
        at = end + 4


def _fields(message: bytes) -> Iterator[Field]:
    """The fields of a protobuf message: number, and an integer (varint) or bytes (all other types)."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            width, at = _read_varint(message, at)
        else:
            width = _WIDTH[kind]
        yield number, message[at : at + width]
        at += width


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a field of this event file has another type than TensorBoard gives it")
    return value


def _varint(value: int) -> bytes:
    out = bytearray()
    value &= 0xFFFFFFFFFFFFFFFF
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
