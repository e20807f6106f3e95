"""Groups of AI cores. They exist only where programs run on the control CPU of a 310P; the emulated host is a server.

Source: runtime documentation, groups.
"""

from __future__ import annotations

from typing import NoReturn

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, refuse
from cannlab.machine import Machine


def _none(m: Machine) -> NoReturn:
    current_context(m)
    raise refuse(m, "runtime.not_supported", what="groups exist only on the control CPU of a 310P, not on a server")


@api("acl.rt.set_group")
def set_group(m: Machine, group_id: int) -> int:
    """set_group(group) -> 207000: no groups here."""
    _none(m)


@api("acl.rt.get_group_count")
def get_group_count(m: Machine, dummy: int) -> tuple[int, int]:
    """get_group_count(dummy) -> (0, 207000): no groups here."""
    _none(m)


@api("acl.rt.create_group_info")
def create_group_info(m: Machine) -> int:
    """create_group_info() -> 0: no groups here."""
    return 0


@api("acl.rt.destroy_group_info")
def destroy_group_info(m: Machine, info: int) -> int:
    """destroy_group_info(info) -> 100000: nothing can have been created."""
    raise refuse(m, "runtime.null_handle" if info == 0 else "runtime.bad_handle", kind="group info")


@api("acl.rt.get_all_group_info")
def get_all_group_info(m: Machine, info: int) -> int:
    """get_all_group_info(info) -> 100000 for 0, else 207000."""
    if info == 0:
        raise refuse(m, "runtime.null_handle", kind="group info")
    _none(m)


@api("acl.rt.get_group_info_detail")
def get_group_info_detail(m: Machine, info: int, group_id: int, attribute: int) -> tuple[list[int], int]:
    """get_group_info_detail(info, group, attribute): RuntimeError, as the real function raises when it fails."""
    raise RuntimeError("aclrtGetGroupInfoDetail failed")
