"""init, finalize, versions, messages, the application log. Source: pyacl-semantics 2, 13, 14."""

from __future__ import annotations

import os
from typing import Any

from cannlab.acl import dumps, init_config, profiling
from cannlab.acl.binding import api
from cannlab.acl.checks import refuse
from cannlab.acl.config_file import read_json
from cannlab.acl.dump_config import DumpConfig, InvalidDump, parse
from cannlab.acl.plog import write_app_log, write_event
from cannlab.acl.state import acl_state
from cannlab.errors import diagnose
from cannlab.machine import Machine

VERSION = (1, 13, 0)
"""ACL_MAJOR_VERSION, ACL_MINOR_VERSION and ACL_PATCH_VERSION of acl.h."""


@api("acl.init")
def init(m: Machine, config_path: str | None = None) -> int:
    """init([config_path]) -> ret: 0; 100002 when it was called before (counted all the same)."""
    state = acl_state(m)
    config = _read_config(m, config_path) if config_path else {}
    if state.config is not None and config != state.config:
        name = os.path.basename(config_path or "")
        raise refuse(m, "runtime.config_invalid", file=name, reason="another content than at the first init")
    dump = _read_dump(m, config, config_path)
    if dump is not None and not dumps.dump_state(m).ready:
        dumps.dump_state(m).from_init = True
        dumps.configure(m, dump)
    if state.config is None:
        for part in init_config.not_emulated(config):
            m.report(diagnose("runtime.config_ignored", where=m.here().place, part=part))
    state.config = config
    m.default_device = init_config.default_device(config)
    state.inits += 1
    if state.inits > 1:
        raise refuse(m, "runtime.repeat_init")
    profiler = config.get("profiler") or {}
    if profiler.get("switch") == "on" and profiling.prof_state(m).mode is profiling.Mode.OFF:
        profiling.begin_configured(m, profiler)
    write_event("init")
    return 0


def _read_config(m: Machine, path: str) -> dict[str, Any]:
    config = read_json(m, path)
    reason = init_config.problem(config, len(m.devices))
    if reason:
        raise refuse(m, "runtime.config_invalid", file=os.path.basename(path), reason=reason)
    return config


def _read_dump(m: Machine, config: dict[str, Any], path: str | None) -> DumpConfig | None:
    try:
        return parse(config.get("dump"))
    except InvalidDump as problem:
        name = os.path.basename(path or "")
        raise refuse(m, "dump.config_invalid", file=name, reason=str(problem)) from None


def _finalize(m: Machine) -> None:
    state = acl_state(m)
    m.finish()
    profiling.end_configured(m)
    dump = dumps.dump_state(m)
    dump.ready = dump.from_init = False
    dumps.configure(m, None)
    state.inits = 0
    state.finalized = True
    m.default_device = None
    write_event("finalize")


@api("acl.finalize")
def finalize(m: Machine) -> int:
    """finalize() -> ret: 0, or 100037 when it was called before and not initialised since."""
    state = acl_state(m)
    if state.inits == 0 and state.finalized:
        raise refuse(m, "runtime.repeat_finalize")
    _finalize(m)
    return 0


@api("acl.finalize_reference")
def finalize_reference(m: Machine) -> tuple[int, int]:
    """finalize_reference() -> (count, ret): takes back one init; the last one finalizes."""
    state = acl_state(m)
    if state.inits < 1:
        raise refuse(m, "runtime.repeat_finalize")
    if state.inits > 1:
        state.inits -= 1
    else:
        _finalize(m)
    return state.inits, 0


@api("acl.get_version")
def get_version(m: Machine) -> tuple[int, int, int, int]:
    """get_version() -> (major, minor, patch, ret): the version of the interface."""
    return *VERSION, 0


@api("acl.get_soc_name")
def get_soc_name(m: Machine) -> str:
    """get_soc_name() -> name: as atc takes it for --soc_version."""
    return m.soc.name


@api("acl.get_recent_err_msg")
def get_recent_err_msg(m: Machine) -> str | None:
    """get_recent_err_msg() -> text: the thread's messages since the last call, the newest first; None without."""
    config = acl_state(m).config or {}
    whole_process = isinstance(config, dict) and config.get("err_msg_mode") == "1"
    threads = m.clock.threads if whole_process else [m.thread]
    messages = [message for thread in threads for message in thread.messages]
    for thread in threads:
        thread.messages.clear()
    return "\n".join(reversed(messages)) or None


@api("acl.app_log")
def app_log(m: Machine, level: int, message: str) -> None:
    """app_log(level, text): a line of module APP in the process log; 0 debug, 1 info, 2 warning, 3 error."""
    write_app_log(level, message, m.here())
