"""Versions and abilities of the emulated CANN. Source: acl.h (aclsysGetCANNVersion), acl_base.h (aclCannAttr)."""

from __future__ import annotations

from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse
from cannlab.env import versions
from cannlab.machine import Machine

_PACKAGES = ("cann", "runtime", "compiler", "hccl", "toolkit", "opp", "opp_kernel", "driver")
"""aclCANNPackageName, by number."""
INF_NAN, BF16, JIT_COMPILE = 0, 1, 2


def _version(package: str) -> str:
    found = versions.emulated()
    return found.driver if package == "driver" else found.cann


@api("acl.get_cann_version", empty=dict)
def get_cann_version(m: Machine, package: int) -> tuple[dict[str, Any], int]:
    """get_cann_version(package) -> ({version, major_version, ...}, ret): 0 CANN, 1 runtime, ... 7 driver."""
    if package >= len(_PACKAGES):
        raise refuse(m, "runtime.bad_parameter", argument="package", value=package, allowed="0 to 7")
    text = _version(_PACKAGES[package])
    parts = [*text.split("."), "", "", ""]
    names = ("major_version", "minor_version", "release_version", "patch_version")
    return {"version": text, **dict(zip(names, parts[: len(names)], strict=True)), "reserved": ""}, 0


@api("acl.get_version_str")
def get_version_str(m: Machine, package_name: str) -> tuple[str, int]:
    """get_version_str(name) -> (version, ret): of cann, runtime, compiler, hccl, toolkit, opp, opp_kernel, driver."""
    if package_name not in _PACKAGES:
        allowed = ", ".join(_PACKAGES)
        raise refuse(m, "runtime.bad_parameter", argument="package_name", value=package_name, allowed=allowed)
    return _version(package_name), 0


def _abilities(m: Machine) -> dict[int, int]:
    """1 for what the chip can do: inf and nan and bf16 came with the chips that part cube and vector."""
    return {INF_NAN: int(m.soc.split), BF16: int(m.soc.split), JIT_COMPILE: 1}


@api("acl.get_cann_attribute_list", empty=list)
def get_cann_attribute_list(m: Machine) -> tuple[list[int], int, int]:
    """get_cann_attribute_list() -> (attributes, count, ret): 0 inf and nan, 1 bf16, 2 compilation at run time."""
    found = sorted(_abilities(m))
    return found, len(found), 0


@api("acl.get_cann_attribute")
def get_cann_attribute(m: Machine, attribute: int) -> tuple[int, int]:
    """get_cann_attribute(attribute) -> (value, ret): 1 if the chip has it."""
    found = _abilities(m).get(attribute)
    if found is None:
        raise refuse(m, "runtime.bad_parameter", argument="attr", value=attribute, allowed="0, 1, 2")
    return found, 0
