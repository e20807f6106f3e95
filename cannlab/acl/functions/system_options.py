"""Options of the process and of a context, saturation mode. Source: acl_rt.h (aclSysParamOpt)."""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, refuse
from cannlab.machine import Machine

_OPTIONS = (0, 1, 3)
_KEY = "acl.rt.system_options"
SATURATE, INF_NAN = 0, 1


def _checked(m: Machine, option: int, value: int | None = None) -> int:
    if option not in _OPTIONS:
        raise refuse(m, "runtime.bad_parameter", argument="opt", value=option, allowed="0, 1, 3")
    if value not in (None, 0, 1):
        raise refuse(m, "runtime.bad_parameter", argument="value", value=value, allowed="0, 1")
    return option


def _get(m: Machine, options: dict[int, int], option: int) -> tuple[int, int]:
    found = options.get(_checked(m, option))
    if found is None:
        raise refuse(m, "runtime.option_not_set", option=option)
    return found, 0


@api("acl.rt.set_sys_param_opt")
def set_sys_param_opt(m: Machine, option: int, value: int) -> int:
    """set_sys_param_opt(option, value) -> ret: 0 deterministic, 1 debug kernels, 3 early start. Kept: results here
    are always deterministic."""
    m.faces.setdefault(_KEY, {})[_checked(m, option, value)] = value
    return 0


@api("acl.rt.get_sys_param_opt")
def get_sys_param_opt(m: Machine, option: int) -> tuple[int, int]:
    """get_sys_param_opt(option) -> (value, ret): 107021 before it was set."""
    return _get(m, m.faces.setdefault(_KEY, {}), option)


@api("acl.rt.ctx_set_sys_param_opt")
def ctx_set_sys_param_opt(m: Machine, option: int, value: int) -> int:
    """ctx_set_sys_param_opt(option, value) -> ret: for the current context."""
    current_context(m).options[_checked(m, option, value)] = value
    return 0


@api("acl.rt.ctx_get_sys_param_opt")
def ctx_get_sys_param_opt(m: Machine, option: int) -> tuple[int, int]:
    """ctx_get_sys_param_opt(option) -> (value, ret): 107021 before it was set."""
    return _get(m, current_context(m).options, option)


@api("acl.rt.set_device_sat_mode")
def set_device_sat_mode(m: Machine, mode: int) -> int:
    """set_device_sat_mode(mode) -> ret: 0 saturate, 1 inf and nan. 207000 for 0 on chips that compute inf and nan.

    The emulated arithmetic follows IEEE (mode 1); saturation is not emulated.
    """
    current_context(m)
    if mode not in (SATURATE, INF_NAN):
        raise refuse(m, "runtime.bad_parameter", argument="mode", value=mode, allowed="0, 1")
    if mode == SATURATE:
        raise refuse(m, "runtime.not_supported", what="saturation mode is not emulated: results follow IEEE")
    return 0


@api("acl.rt.get_device_sat_mode")
def get_device_sat_mode(m: Machine) -> tuple[int, int]:
    """get_device_sat_mode() -> (1, ret): the emulated arithmetic gives inf and nan."""
    current_context(m)
    return INF_NAN, 0
