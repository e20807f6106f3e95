"""acl.prof: what is collected, from when to when. Source: pyacl-semantics 15; runtime documentation, profiling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cannlab.acl import profiling
from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take
from cannlab.acl.profiling import KNOWN, MARKS, Mode, Session, prof_state
from cannlab.machine import Machine

_LONGEST_PATH, _LONGEST_SETTING = 4096, 256
_STORAGE = re.compile(r"(\d{1,10})MB")
_LEAST_STORAGE, _MOST_STORAGE = 200, (1 << 32) - 1
_FREQUENCIES = {
    3: ("sys_hardware_mem_freq", 10_000),
    5: ("sys_io_sampling_freq", 100),
    6: ("sys_interconnection_freq", 50),
    7: ("dvpp_freq", 100),
    10: ("host_sys_usage_freq", 50),
}
_WORDS = {
    4: ("llc_profiling", ("read", "write", "capacity", "bandwidth")),
    8: ("host_sys", ("cpu", "mem", "disk", "network", "osrt")),
    9: ("host_sys_usage", ("cpu", "mem")),
}


@dataclass(frozen=True)
class ProfConfig:
    """What is to be collected: devices, group of AI Core metrics, ACL_PROF_ bits."""

    devices: frozenset[int]
    metrics: int
    data_types: int


name_kind(ProfConfig, "profiling configuration", "acl.prof.destroy_config")


@api("acl.prof.create_config")
def create_config(m: Machine, device_ids: Any, metrics: int, events: int, data_types: int) -> int:
    """create_config([device, ...], metrics, 0, data_types) -> config: 0 for devices that do not exist or stand twice,
    for events, and without any device unless marks are wanted."""
    if not isinstance(device_ids, list):
        raise TypeError("argument 1 is not list")
    if not all(isinstance(device, int) for device in device_ids):
        raise TypeError("the first argument is not list of int")
    if not all(0 <= device < 1 << 64 for device in device_ids):
        raise ValueError("PyLong_AsUnsignedLong failed")
    devices = [device & 0xFFFF_FFFF for device in device_ids]
    unknown = [device for device in devices if device >= len(m.devices)]
    reason = ""
    if events:
        reason = "events are not 0"
    elif unknown:
        reason = f"there is no device {unknown[0]}"
    elif len(set(devices)) < len(devices):
        reason = "a device stands twice"
    elif not devices and not data_types & MARKS:
        reason = "no device is named and no marks are wanted"
    if reason:
        raise refuse(m, "prof.bad_config", reason=reason)
    return opened(m, ProfConfig(frozenset(devices), metrics, data_types))


@api("acl.prof.destroy_config")
def destroy_config(m: Machine, config: int) -> int:
    """destroy_config(config) -> ret."""
    take(m, config, ProfConfig)
    m.handles.close(config, m.here())
    return 0


@api("acl.prof.init")
def init(m: Machine, path: str) -> int:
    """init(folder) -> ret: where the PROF_ directories go; made if missing. 100002 the second time, 100003 for a folder
    that cannot be used."""
    if not 0 < len(path.encode()) <= _LONGEST_PATH:
        allowed = f"1 to {_LONGEST_PATH} bytes"
        raise refuse(m, "runtime.bad_parameter", argument="path", value=f"{len(path.encode())} bytes", allowed=allowed)
    state = prof_state(m)
    if state.mode is Mode.API:
        raise refuse(m, "prof.repeat_init")
    _refuse_others(m)
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".cannlab_write_test"
        probe.touch()
        probe.unlink()
    except OSError as problem:
        raise refuse(m, "prof.path", folder=folder.name, reason=problem.strerror or str(problem)) from None
    state.mode, state.folder = Mode.API, folder.resolve()
    state.settings.clear()
    return 0


def _refuse_others(m: Machine) -> None:
    """Raises Refused if profiling runs that was not begun by acl.prof.init: 100042, 148047."""
    mode = prof_state(m).mode
    if mode is Mode.CONFIGURED:
        facts = {"state": "the file of acl.init has switched profiling on", "remedy": "Leave one of the two out."}
        raise refuse(m, "prof.already_running", **facts)
    if mode is Mode.SUBSCRIPTION:
        raise refuse(m, "prof.api_conflict", other="acl.prof.model_subscribe")


def _require_init(m: Machine) -> None:
    _refuse_others(m)
    if prof_state(m).mode is Mode.OFF:
        raise refuse(m, "prof.not_running", state="before acl.prof.init", before="acl.prof.init")


def _checked(m: Machine, config: int) -> ProfConfig:
    entry = take(m, config, ProfConfig)
    unknown = entry.data_types & ~KNOWN
    if unknown:
        raise refuse(m, "prof.unsupported", given=hex(entry.data_types), unknown=hex(unknown))
    return entry


@api("acl.prof.start")
def start(m: Machine, config: int) -> int:
    """start(config) -> ret: collects from now on; makes a PROF_ directory. 100042 for a device that is profiled."""
    entry = _checked(m, config)
    _require_init(m)
    state = prof_state(m)
    twice = [device for session in state.sessions for device in session.devices & entry.devices]
    if twice or (not entry.devices and state.sessions):
        said = f"device {twice[0]} is profiled" if twice else "marks are collected"
        raise refuse(m, "prof.already_running", state=f"{said} already", remedy="Call acl.prof.stop first.")
    settings = {
        "devices": sorted(entry.devices),
        "data_types": hex(entry.data_types),
        "aic_metrics": entry.metrics,
        **state.settings,
    }
    wanted = profiling.wanted(entry.data_types, entry.metrics, settings)
    session = Session(entry.devices, entry.data_types, wanted, m.thread.now)
    profiling.make_directory(m, session, entry.devices)
    profiling.begin(m, session)
    return 0


@api("acl.prof.stop")
def stop(m: Machine, config: int) -> int:
    """stop(config) -> ret: ends what start with an equal configuration began, and writes the files."""
    entry = _checked(m, config)
    _require_init(m)
    running = [session for session in prof_state(m).sessions if session.devices == entry.devices]
    if not running:
        raise refuse(m, "prof.not_running", state="for devices that no start named", before="acl.prof.start")
    (session,) = running
    if session.data_types != entry.data_types:
        raise refuse(m, "prof.different_stop", given=hex(entry.data_types), started=hex(session.data_types))
    profiling.close(m, session)
    return 0


@api("acl.prof.finalize")
def finalize(m: Machine) -> int:
    """finalize() -> ret: ends profiling, and what was not stopped."""
    _require_init(m)
    state = prof_state(m)
    for session in list(state.sessions):
        profiling.close(m, session)
    state.mode = Mode.OFF
    return 0


@api("acl.prof.set_config")
def set_config(m: Machine, kind: int, value: str) -> int:
    """set_config(type, text) -> ret: further settings, before start. They are checked and kept in sample.json; of the
    host's and the system's samples nothing is collected here. 100000 for an unknown type, 100010 for a bad value."""
    if not 1 <= kind <= 10:
        raise refuse(m, "runtime.bad_parameter", argument="config_type", value=kind, allowed="1 to 10")
    if len(value.encode()) > _LONGEST_SETTING:
        allowed = f"at most {_LONGEST_SETTING} bytes"
        given = f"{len(value.encode())} bytes"
        raise refuse(m, "runtime.bad_parameter", argument="config", value=given, allowed=allowed)
    state = prof_state(m)
    if state.mode is Mode.OFF:
        raise refuse(m, "prof.not_running", state="before acl.prof.init", before="acl.prof.init")
    name, rule = _setting(kind, value)
    if rule:
        raise refuse(m, "prof.setting", kind=kind, value=value, allowed=rule)
    state.settings[name] = value
    return 0


def _setting(kind: int, value: str) -> tuple[str, str]:
    """The name of a setting, and the rule that the value breaks ("" if it breaks none)."""
    if kind in _FREQUENCIES:
        name, most = _FREQUENCIES[kind]
        fits = value.isdecimal() and 1 <= int(value) <= most
        return name, "" if fits else f"It is a number of Hz from 1 to {most}."
    if kind in _WORDS:
        name, words = _WORDS[kind]
        fits = bool(value) and all(word in words for word in value.split(","))
        return name, "" if fits else f"It is made of the words {', '.join(words)}, with commas between."
    if kind == 1:
        match = _STORAGE.fullmatch(value)
        fits = match is not None and _LEAST_STORAGE <= int(match[1]) <= _MOST_STORAGE
        return "storage_limit", "" if fits else f"It is a size such as 500MB, {_LEAST_STORAGE}MB at least."
    fits = value.isdecimal() and (int(value) < len(profiling.METRIC_NAMES) or int(value) == profiling.NO_METRICS)
    return "aiv_metrics", "" if fits else "It is the number of a group of AI Core metrics."
