"""Pictures in DVPP memory: their checks, and queueing work of DVPP. Source: pyacl-semantics 12.1, 12.2.

The checks are made when the work is queued, and give 100000 (a choice: the library is closed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cannlab.acl.checks import refuse, take, take_stream
from cannlab.acl.functions.dvpp_descs import ChannelDesc, PicDesc
from cannlab.machine import Engine, Machine, MemoryKind, TaskFault, Work
from cannlab.machine.api_costs import dvpp_ns
from cannlab.machine.pictures import FORMATS, Layout
from cannlab.trace import TaskKind

VPC, JPEGD, JPEGE, PNGD = 1, 2, 4, 8
"""Bits of a channel's mode."""
_NAMES = {VPC: "VPC", JPEGD: "JPEGD", JPEGE: "JPEGE", PNGD: "PNGD"}
_LEAST, _MOST = (10, 6), 4096
_OLD = ("Ascend310", "Ascend910")
_NEW = ("Ascend310B", "Ascend910B", "Ascend910_93")
MOST_8K = 8192
_8K = ((1, 2), (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
"""Formats of pictures above 4096 pixels on a side: of the first chips, of the 310P. Source: pyacl-semantics 12.2."""


def align(value: int, unit: int) -> int:
    """Rounded up to a multiple."""
    return -(-value // unit) * unit


def decode_strides(m: Machine) -> tuple[int, int]:
    """Alignment of the strides of a decoded picture: width, height. Source: pyacl-semantics 12.3."""
    return (128, 16) if m.soc.short in _OLD else (64, 16)


def channel(m: Machine, handle: int, unit: int) -> ChannelDesc:
    """An open channel that may use a unit."""
    entry = take(m, handle, ChannelDesc)
    if entry.context is None:
        raise refuse(m, "media.channel_state", state="not open", call="acl.media.dvpp_create_channel")
    if not entry.mode & unit:
        raise refuse(m, "media.channel_mode", mode=entry.mode, unit=_NAMES[unit], bit=unit)
    return entry


def memory(m: Machine, address: int, size: int, alignment: int, what: str, *, write: bool) -> memoryview:
    """DVPP memory. Raises Refused ``media.not_dvpp`` or ``media.unaligned``, or what the memory refuses."""
    view = m.memory.resolve(address, size, "device", write=write)
    if view.block is None or view.block.kind is not MemoryKind.DVPP:
        raise refuse(m, "media.not_dvpp", what=what, memory=view.name)
    if address % alignment:
        raise refuse(m, "media.unaligned", what=what, alignment=alignment)
    return m.memory.view(address, size, "device", write=write)


def layout(
    m: Machine,
    picture: PicDesc,
    what: str,
    *,
    least: tuple[int, int] = _LEAST,
    most: int = _MOST,
    stride: int | None = None,
) -> Layout:
    """The layout that a description means, checked by the rules of the chip.

    Args:
        stride: what the width stride is a multiple of; None leaves it to the format.

    Raises:
        Refused: ``media.picture``, ``media.format``.
    """
    kind = FORMATS.get(picture.format)
    if kind is None:
        raise refuse(m, "media.format", what=what, format=picture.format)

    def bad(reason: str) -> Exception:
        return refuse(m, "media.picture", what=what, reason=reason)

    width, height = picture.width, picture.height
    if not least[0] <= width <= most or not least[1] <= height <= most:
        raise bad(f"{width} x {height} pixels are not within {least[0]} x {least[1]} to {most} x {most}")
    if kind.across == 2 and width % 2:
        raise bad(f"its width {width} is odd")
    if kind.down == 2 and height % 2:
        raise bad(f"its height {height} is odd")
    if max(width, height) > _MOST and m.soc.short not in _NEW and kind.number not in _8K[m.soc.short == "Ascend310P"]:
        raise bad(f"{kind.name} pictures have at most {_MOST} pixels on a side")
    bytes_across = width * kind.pixel_bytes
    unit = stride or (1 if m.soc.short in _NEW else 16 * kind.pixel_bytes)
    rows = 2 if kind.down == 2 or m.soc.short in _OLD else 1
    if picture.width_stride < bytes_across or picture.width_stride % unit:
        allowed = _allowed(bytes_across, unit)
        raise bad(f"its width stride is {picture.width_stride}; for rows of {bytes_across} bytes it must be {allowed}")
    if picture.height_stride < height or picture.height_stride % rows:
        raise bad(
            f"its height stride is {picture.height_stride}; for {height} rows it must be {_allowed(height, rows)}"
        )
    found = Layout(kind, width, height, picture.width_stride, picture.height_stride)
    # The first chips give grey pictures the size of 4:2:0 ones.
    needed = found.size * 3 // 2 if kind.family == "grey" and m.soc.short in _OLD else found.size
    if picture.size < needed:
        raise bad(f"its size {picture.size} is below the {needed} bytes of its strides")
    return found


def _allowed(least: int, unit: int) -> str:
    """The strides that hold so much, in words."""
    first = -(-least // unit) * unit
    return f"{first} or a larger multiple of {unit}" if unit > 1 else f"{first} or more"


def submit(
    m: Machine, unit: int, name: str, stream: int, work: Callable[[], int], written: Sequence[PicDesc], bytes: int
) -> int:
    """Queue work of DVPP.

    Args:
        work: does it and returns the pixels that it handled; it may raise TaskFault.
        written: descriptions whose ret_code becomes 0, or 1 if the work fails.
    """
    target = take_stream(m, stream)

    def run() -> Work:
        for picture in written:
            picture.ret_code = 1
        pixels = work()
        for picture in written:
            picture.ret_code = 0
        return Work(dvpp_ns(_NAMES[unit], pixels))

    return target.submit(
        TaskKind.OPERATOR, name, run, engine=Engine.DVPP, op_type=name, core_type="DVPP", bytes=bytes, blocks=1
    )


def failed(m: Machine, rule: str, **facts: object) -> TaskFault:
    """A fault of work that has begun."""
    return TaskFault(refuse(m, rule, **facts).diagnosis)
