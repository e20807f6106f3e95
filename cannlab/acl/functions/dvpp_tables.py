"""VPC by values: histograms, tables of values, pyramids. Source: pyacl-semantics 12.2 and acl_dvpp.h.

Assumed: channels are Y, U, V or R, G, B whatever their order in memory, and a picture has as many as its format; the
filter of the pyramid (a 5 x 5 binomial one, the edge reflected); that it takes grey and semi-planar pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cannlab.acl import dvpp
from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take
from cannlab.acl.functions.dvpp_descs import PicDesc
from cannlab.machine import Machine, pictures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cannlab.machine.pictures import Layout, Plane

_CHANNELS, _VALUES = 3, 256
_ADDRESS = 16
_PYRAMIDS = ("grey", "yuv")


class Table:
    """A number for each value of each channel, in host memory that the program may read and write."""

    def __init__(self, m: Machine, kind: str) -> None:
        import numpy as np

        self.rows: NDArray[Any] = np.zeros((_CHANNELS, _VALUES), kind)
        m.memory.known_host(self.rows.ctypes.data, self.rows.nbytes, self.rows)

    def row(self, m: Machine, channel: int) -> tuple[int, int, int]:
        """Address and number of elements of a channel, and 0."""
        if channel >= _CHANNELS:
            raise refuse(m, "runtime.bad_parameter", argument="dim", value=channel, allowed="0 to 2")
        return int(self.rows[channel].ctypes.data), _VALUES, 0


class Histogram(Table):
    """How often each value occurs; ``ret_code`` is 0 once that is known."""

    def __init__(self, m: Machine) -> None:
        super().__init__(m, "uint32")
        self.ret_code = 0


class LutMap(Table):
    """What becomes of each value."""

    def __init__(self, m: Machine) -> None:
        super().__init__(m, "uint8")


name_kind(Histogram, "histogram", "acl.media.dvpp_destroy_hist")
name_kind(LutMap, "table of values", "acl.media.dvpp_destroy_lut_map")


@api("acl.media.dvpp_create_hist")
def dvpp_create_hist(m: Machine) -> int:
    """dvpp_create_hist() -> histogram: three channels of 256 counts, all 0."""
    return opened(m, Histogram(m))


@api("acl.media.dvpp_destroy_hist")
def dvpp_destroy_hist(m: Machine, histogram: int) -> int:
    """dvpp_destroy_hist(histogram) -> ret: its counts go with it."""
    take(m, histogram, Histogram)
    m.handles.close(histogram, m.here())
    return 0


@api("acl.media.dvpp_get_hist_dims")
def dvpp_get_hist_dims(m: Machine, histogram: int) -> int:
    """dvpp_get_hist_dims(histogram) -> channels: 3; 0 for 0."""
    return len(take(m, histogram, Histogram).rows) if histogram else 0


@api("acl.media.dvpp_get_hist_data")
def dvpp_get_hist_data(m: Machine, histogram: int, channel: int) -> tuple[int, int, int]:
    """dvpp_get_hist_data(histogram, channel) -> (pointer, length, ret): uint32 counts in host memory."""
    return take(m, histogram, Histogram).row(m, channel)


@api("acl.media.dvpp_get_hist_ret_code")
def dvpp_get_hist_ret_code(m: Machine, histogram: int) -> int:
    """dvpp_get_hist_ret_code(histogram) -> value: 0 once the counts are there."""
    return take(m, histogram, Histogram).ret_code if histogram else 0


@api("acl.media.dvpp_clear_hist")
def dvpp_clear_hist(m: Machine, histogram: int) -> int:
    """dvpp_clear_hist(histogram) -> ret: all counts become 0."""
    entry = take(m, histogram, Histogram)
    entry.rows[:] = 0
    entry.ret_code = 0
    return 0


@api("acl.media.dvpp_create_lut_map")
def dvpp_create_lut_map(m: Machine) -> int:
    """dvpp_create_lut_map() -> table: three channels of 256 values, all 0."""
    return opened(m, LutMap(m))


@api("acl.media.dvpp_destroy_lut_map")
def dvpp_destroy_lut_map(m: Machine, table: int) -> int:
    """dvpp_destroy_lut_map(table) -> ret."""
    take(m, table, LutMap)
    m.handles.close(table, m.here())
    return 0


@api("acl.media.dvpp_get_lut_map_dims")
def dvpp_get_lut_map_dims(m: Machine, table: int) -> int:
    """dvpp_get_lut_map_dims(table) -> channels: 3; 0 for 0."""
    return len(take(m, table, LutMap).rows) if table else 0


@api("acl.media.dvpp_get_lut_map_data")
def dvpp_get_lut_map_data(m: Machine, table: int, channel: int) -> tuple[int, int, int]:
    """dvpp_get_lut_map_data(table, channel) -> (pointer, length, ret): uint8 values in host memory, to be written."""
    return take(m, table, LutMap).row(m, channel)


def _input(m: Machine, picture: PicDesc) -> Layout:
    layout = dvpp.layout(m, picture, "the input")
    dvpp.memory(m, picture.data, layout.size, _ADDRESS, "the input", write=False)
    return layout


def _output(m: Machine, picture: PicDesc) -> Layout:
    layout = dvpp.layout(m, picture, "the output")
    dvpp.memory(m, picture.data, layout.size, _ADDRESS, "the output", write=True)
    return layout


def _planes(m: Machine, picture: PicDesc, layout: Layout, *, write: bool) -> list[Plane]:
    what = "the output" if write else "the input"
    return layout.planes(dvpp.memory(m, picture.data, layout.size, _ADDRESS, what, write=write))


def _reserved(m: Machine, value: int) -> None:
    if value:
        raise refuse(m, "runtime.bad_parameter", argument="reserve", value=value, allowed="0")


@api("acl.media.dvpp_vpc_calc_hist_async")
def dvpp_vpc_calc_hist_async(m: Machine, channel: int, source: int, histogram: int, reserve: int, stream: int) -> int:
    """dvpp_vpc_calc_hist_async(channel, input, histogram, 0, stream) -> ret: counts the values of each channel."""
    dvpp.channel(m, channel, dvpp.VPC)
    picture, entry = take(m, source, PicDesc), take(m, histogram, Histogram)
    _reserved(m, reserve)
    layout = _input(m, picture)

    def work() -> int:
        entry.ret_code = 1
        counts: NDArray[np.uint32] = pictures.histogram(_planes(m, picture, layout, write=False), layout.format)
        entry.rows[:] = 0
        entry.rows[: len(counts)] = counts
        entry.ret_code = 0
        return layout.width * layout.height

    return dvpp.submit(m, dvpp.VPC, "VpcCalcHist", stream, work, [], layout.size)


@api("acl.media.dvpp_vpc_equalize_hist_async")
def dvpp_vpc_equalize_hist_async(m: Machine, channel: int, source: int, target: int, table: int, stream: int) -> int:
    """dvpp_vpc_equalize_hist_async(channel, input, output, table, stream) -> ret: each value becomes its entry of the
    table of its channel; format and size of the output are those of the input."""
    dvpp.channel(m, channel, dvpp.VPC)
    picture, made, entry = take(m, source, PicDesc), take(m, target, PicDesc), take(m, table, LutMap)
    by, to = _input(m, picture), _output(m, made)
    if (by.format, by.width, by.height) != (to.format, to.width, to.height):
        raise refuse(m, "media.picture", what="the output", reason="its format or size is not that of the input")

    def work() -> int:
        wanted = _planes(m, made, to, write=True)
        pictures.mapped(_planes(m, picture, by, write=False), wanted, by.format, list(entry.rows))
        return by.width * by.height

    return dvpp.submit(m, dvpp.VPC, "VpcEqualizeHist", stream, work, [made], by.size + to.size)


@api("acl.media.dvpp_vpc_pyr_down_async")
def dvpp_vpc_pyr_down_async(m: Machine, channel: int, source: int, target: int, reserve: int, stream: int) -> int:
    """dvpp_vpc_pyr_down_async(channel, input, output, 0, stream) -> ret: half the width and height, rounded up."""
    dvpp.channel(m, channel, dvpp.VPC)
    picture, made = take(m, source, PicDesc), take(m, target, PicDesc)
    _reserved(m, reserve)
    by, to = _input(m, picture), _output(m, made)
    if by.format.family not in _PYRAMIDS:
        raise refuse(m, "media.format", what="the input", format=picture.format)
    wanted = ((by.width + 1) // 2, (by.height + 1) // 2)
    if by.format != to.format or (to.width, to.height) != wanted:
        reason = f"it is not a {by.format.name} picture of {wanted[0]} x {wanted[1]} pixels, half the input"
        raise refuse(m, "media.picture", what="the output", reason=reason)

    def work() -> int:
        planes = zip(_planes(m, made, to, write=True), _planes(m, picture, by, write=False), strict=True)
        for at, (plane, given) in enumerate(planes):
            half = pictures.pyramid_down(given)
            plane[:] = half[: plane.shape[0], : plane.shape[1]]
            assert plane.shape == half.shape or at
        return by.width * by.height

    return dvpp.submit(m, dvpp.VPC, "VpcPyrDown", stream, work, [made], by.size + to.size)
