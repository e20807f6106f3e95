"""What host calls and copies cost: the only place of these numbers.

All of them are assumed: no public source gives the host time of single AscendCL calls or the PCIe rate of a
system. They are round numbers of the right order; a calibration may replace them. Unit: ns, bytes, bytes per second.
"""

from __future__ import annotations

from cannlab.soc import Soc

FAMILIES: dict[str, int] = {"acl.rt": 1_000, "acl.mdl": 500, "acl.util": 100, "acl": 100}
"""Calls that are not in the table below, by the part of their name before the last dot."""
DEFAULT_CALL = 1_000

CALLS: dict[str, int] = {
    "acl.init": 50_000_000,
    "acl.finalize": 5_000_000,
    "acl.rt.set_device": 20_000_000,
    "acl.rt.reset_device": 5_000_000,
    "acl.rt.reset_device_force": 5_000_000,
    "acl.rt.create_context": 500_000,
    "acl.rt.destroy_context": 300_000,
    "acl.rt.create_stream": 100_000,
    "acl.rt.create_stream_with_config": 100_000,
    "acl.rt.destroy_stream": 50_000,
    "acl.rt.malloc": 20_000,
    "acl.rt.malloc_align32": 20_000,
    "acl.rt.malloc_cached": 20_000,
    "acl.rt.malloc_with_cfg": 20_000,
    "acl.rt.free": 10_000,
    "acl.rt.malloc_host": 20_000,
    "acl.rt.free_host": 10_000,
    "acl.media.dvpp_malloc": 20_000,
    "acl.media.dvpp_free": 10_000,
    "acl.rt.memcpy": 5_000,
    "acl.rt.memcpy_async": 2_000,
    "acl.rt.memset": 5_000,
    "acl.rt.memset_async": 2_000,
    "acl.rt.record_event": 1_500,
    "acl.rt.synchronize_stream": 3_000,
    "acl.rt.synchronize_device": 3_000,
    "acl.rt.synchronize_event": 3_000,
    "acl.mdl.load_from_file": 50_000_000,
    "acl.mdl.load_from_mem": 45_000_000,
    "acl.mdl.load_from_file_with_mem": 50_000_000,
    "acl.mdl.load_from_mem_with_mem": 45_000_000,
    "acl.mdl.unload": 2_000_000,
    "acl.mdl.execute": 15_000,
    "acl.mdl.execute_async": 12_000,
}


def call_ns(name: str) -> int:
    """Host time of one call."""
    cost = CALLS.get(name)
    if cost is None:
        cost = CALLS[name] = FAMILIES.get(name.rpartition(".")[0], DEFAULT_CALL)
    return cost


COPY_LATENCY = 4_000
"""From the start of a copy over PCIe to its first byte."""
DEVICE_COPY_LATENCY = 1_500
PCIE_BYTES_PER_S = 25_000_000_000
"""One direction of PCIe 4.0 x16, after protocol overhead."""
PAGEABLE_PENALTY = 2
"""Pageable host memory is staged through a pinned buffer: half the rate."""
HOST_BYTES_PER_S = 10_000_000_000
KERNEL_LAUNCH = 5_000
"""Host time to queue one kernel."""


DVPP_LAUNCH = 30_000
"""From the start of work of DVPP to its first pixel. Assumed."""
DVPP_PIXEL_PS = {"VPC": 400, "JPEGD": 700, "JPEGE": 1_000, "PNGD": 4_000, "VDEC": 1_000, "VENC": 4_000}
"""Time of a pixel, ps, by unit: some hundred 1080p pictures a second each. Assumed."""


def dvpp_ns(unit: str, pixels: int) -> int:
    """Duration of work of DVPP on so many pixels."""
    return DVPP_LAUNCH + pixels * DVPP_PIXEL_PS[unit] // 1000


def transfer_ns(count: int, *, pinned: bool) -> int:
    """Duration of a copy of ``count`` bytes between host and device."""
    penalty = 1 if pinned else PAGEABLE_PENALTY
    return COPY_LATENCY + count * penalty * 1_000_000_000 // PCIE_BYTES_PER_S


def device_copy_ns(count: int, soc: Soc) -> int:
    """Duration of a copy inside a device: each byte is read and written, so half the memory's bandwidth."""
    return DEVICE_COPY_LATENCY + int(count * 2 / soc.ddr_gbps)


def device_set_ns(count: int, soc: Soc) -> int:
    """Duration of filling ``count`` bytes of device memory."""
    return DEVICE_COPY_LATENCY + int(count / soc.ddr_gbps)


def host_copy_ns(count: int) -> int:
    """Duration of a copy inside the host."""
    return count * 1_000_000_000 // HOST_BYTES_PER_S
