"""What a device is and has: cores, memory, ids, health, peers. Source: pyacl-semantics 3; acl_rt.h."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take_device
from cannlab.machine import Device, Machine

_ALL = 0xFFFF_FFFF
_UUID_BYTES = 16
_MOST_RANGES = 128
NORMAL, ABNORMAL = 0, 1
HCCS, PIX, SYS, SIO, HCCS_SWITCH = 1, 2, 16, 32, 64
_HCCS_GROUP = 4
"""So many 910 of a server are linked by HCCS."""


def _attribute(device: Device, attribute: int) -> int | None:
    """A number of aclrtDevAttr; None for one that this emulation does not know."""
    soc = device.soc
    return {
        101: soc.ai_cores,
        102: soc.cube_cores,
        201: soc.vector_cores,
        204: soc.ub_bytes,
        301: soc.memory_bytes,
        302: soc.l2_bytes,
        402: device.index,
        501: 0,
    }.get(attribute)


@api("acl.rt.get_device_info")
def get_device_info(m: Machine, device_id: int, attribute: int) -> tuple[int, int]:
    """get_device_info(device, attribute) -> (value, ret): cores, memory, ids; narrowed to 32 bits as the real one.

    107000 for an attribute that is not emulated: 1 and 202 to 212 (threads), 401, 403 to 409 (pods), 601.
    """
    value = _attribute(take_device(m, device_id), attribute)
    if value is None:
        allowed = "101, 102, 201, 204, 301, 302, 402, 501"
        raise refuse(m, "runtime.invalid_parameter", argument="attr", value=attribute, allowed=allowed)
    low = value & _ALL
    return low - (1 << 32) if low >> 31 else low, 0


@api("acl.get_device_capability")
def get_device_capability(m: Machine, device_id: int, info: int) -> tuple[int, int]:
    """get_device_capability(device, info) -> (value, ret): 0 AI cores, 1 vector cores, 2 bytes of L2."""
    device = take_device(m, device_id)
    values = (device.soc.ai_cores, device.soc.vector_cores, device.soc.l2_bytes)
    if info >= len(values):
        raise refuse(m, "runtime.bad_parameter", argument="info_type", value=info, allowed="0, 1, 2")
    return values[info], 0


@api("acl.rt.get_device_capability")
def rt_get_device_capability(m: Machine, device_id: int, feature: int) -> tuple[int, int]:
    """get_device_capability(device, feature) -> (0, ret): the features 1 and 21 are not supported."""
    take_device(m, device_id)
    if feature not in (1, 21):
        raise refuse(m, "runtime.invalid_parameter", argument="feature", value=feature, allowed="1, 21")
    return 0, 0


@api("acl.rt.query_device_status")
def query_device_status(m: Machine, device_id: int) -> tuple[int, int]:
    """query_device_status(device) -> (status, ret): 0 normal, 1 abnormal (a lost device)."""
    return ABNORMAL if take_device(m, device_id).lost else NORMAL, 0


@api("acl.rt.device_get_uuid", empty=dict)
def device_get_uuid(m: Machine, device_id: int) -> tuple[dict[str, list[int]], int]:
    """device_get_uuid(device) -> ({"bytes": 16 numbers}, ret): the same for a SoC and an id in every run."""
    device = take_device(m, device_id)
    digest = hashlib.sha256(f"{m.soc.name}:{device.index}".encode()).digest()
    return {"bytes": list(digest[:_UUID_BYTES])}, 0


@api("acl.rt.get_logic_dev_id_by_user_dev_id")
def get_logic_dev_id_by_user_dev_id(m: Machine, device_id: int) -> tuple[int, int]:
    """get_logic_dev_id_by_user_dev_id(id) -> (id, ret): every device is visible, the ids are the same."""
    return take_device(m, device_id).index, 0


@api("acl.rt.get_user_dev_id_by_logic_dev_id")
def get_user_dev_id_by_logic_dev_id(m: Machine, device_id: int) -> tuple[int, int]:
    """get_user_dev_id_by_logic_dev_id(id) -> (id, ret)."""
    return take_device(m, device_id).index, 0


@api("acl.rt.get_logic_dev_id_by_phy_dev_id")
def get_logic_dev_id_by_phy_dev_id(m: Machine, device_id: int) -> tuple[int, int]:
    """get_logic_dev_id_by_phy_dev_id(id) -> (id, ret)."""
    return take_device(m, device_id).index, 0


@api("acl.rt.get_phy_dev_id_by_logic_dev_id")
def get_phy_dev_id_by_logic_dev_id(m: Machine, device_id: int) -> tuple[int, int]:
    """get_phy_dev_id_by_logic_dev_id(id) -> (id, ret)."""
    return take_device(m, device_id).index, 0


@api("acl.rt.device_peer_access_status")
def device_peer_access_status(m: Machine, device_id: int, peer_device_id: int) -> tuple[int, int]:
    """device_peer_access_status(device, peer) -> (status, ret): 1 when access was enabled, else 0."""
    device, peer = take_device(m, device_id), take_device(m, peer_device_id)
    if device is peer:
        raise refuse(m, "runtime.bad_parameter", argument="peer_device_id", value=device_id, allowed="another device")
    return int(peer.index in device.peers), 0


@api("acl.rt.get_mem_uce_info", empty=list)
def get_mem_uce_info(m: Machine, device_id: int, array_size: int) -> tuple[list[dict[str, int]], int]:
    """get_mem_uce_info(device, array_size) -> ([], ret): emulated memory has no errors that cannot be corrected."""
    take_device(m, device_id)
    if not 0 < array_size <= _MOST_RANGES:
        raise refuse(m, "runtime.bad_parameter", argument="array_size", value=array_size, allowed="1 to 128")
    return [], 0


@api("acl.rt.mem_uce_repair")
def mem_uce_repair(m: Machine, device_id: int, infos: Any) -> int:
    """mem_uce_repair(device, [{"addr", "len"}, ...]) -> ret: nothing to do, emulated memory has no such errors."""
    take_device(m, device_id)
    if not isinstance(infos, list) or not all(isinstance(info, dict) for info in infos):
        raise TypeError("acl.rt.mem_uce_repair args parse failed")
    if not 0 < len(infos) <= _MOST_RANGES:
        raise refuse(m, "runtime.bad_parameter", argument="infos", value=len(infos), allowed="1 to 128 ranges")
    return 0


@api("acl.rt.get_devices_topo")
def get_devices_topo(m: Machine, device_id: int, other_device_id: int) -> tuple[int, int]:
    """get_devices_topo(device, other) -> (link, ret): 1 HCCS, 2 PCIe switch, 16 SMP, 32 the other die of a chip, 64
    HCCS switch. The server that is emulated is the usual one of each chip; how devices are linked there is inferred."""
    device, other = take_device(m, device_id), take_device(m, other_device_id)
    if m.soc.short.startswith("Ascend910_93"):
        return SIO if device.index // 2 == other.index // 2 else HCCS_SWITCH, 0
    if m.soc.short == "Ascend910":
        return HCCS if device.index // _HCCS_GROUP == other.index // _HCCS_GROUP else SYS, 0
    return HCCS if m.soc.split else PIX, 0


@api("acl.rt.device_get_bare_tgid")
def device_get_bare_tgid(m: Machine) -> tuple[int, int]:
    """device_get_bare_tgid() -> (pid, ret): the process, as others name it for sharing."""
    return os.getpid(), 0
