"""acl.mdl and acl.op: switching dumps on and off. Source: runtime documentation, dump configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cannlab.acl import dumps
from cannlab.acl.binding import api
from cannlab.acl.checks import refuse
from cannlab.acl.config_file import read_json
from cannlab.acl.dump_config import InvalidDump, parse
from cannlab.acl.state import acl_state
from cannlab.machine import Machine

_ARGUMENTS = 1
"""ACL_OP_DUMP_OP_AICORE_ARGS."""


def _require_init(m: Machine) -> None:
    if acl_state(m).inits == 0:
        raise refuse(m, "dump.not_initialised")


def _require_ready(m: Machine) -> dumps.DumpState:
    _require_init(m)
    state = dumps.dump_state(m)
    if not state.ready:
        raise refuse(m, "dump.not_running")
    return state


@api("acl.mdl.init_dump")
def init_dump(m: Machine) -> int:
    """init_dump() -> ret: 100001 before acl.init, 100044 if its file has switched dump on, 100002 the second time."""
    _require_init(m)
    state = dumps.dump_state(m)
    if state.from_init:
        raise refuse(m, "dump.configured")
    if state.ready:
        raise refuse(m, "dump.repeat")
    state.ready = True
    return 0


@api("acl.mdl.set_dump")
def set_dump(m: Machine, path: str | None = None) -> int:
    """set_dump([path]) -> ret: by this file from now on, for models that are loaded later; 100045 without init_dump,
    100009 for a bad configuration."""
    _require_ready(m)
    if path is None:
        raise refuse(m, "runtime.bad_parameter", argument="path", value="missing", allowed="a file")
    config = read_json(m, path)
    try:
        dumps.configure(m, parse(config.get("dump")))
    except InvalidDump as problem:
        raise refuse(m, "dump.config_invalid", file=os.path.basename(path), reason=str(problem)) from None
    return 0


@api("acl.mdl.finalize_dump")
def finalize_dump(m: Machine) -> int:
    """finalize_dump() -> ret: nothing more is dumped; 100045 without init_dump."""
    state = _require_ready(m)
    state.ready = False
    dumps.configure(m, None)
    return 0


@api("acl.mdl.dump_reg_callback")
def dump_reg_callback(m: Machine, function: Any, flag: int) -> int:
    """dump_reg_callback(fn, flag) -> ret: fn({"file_name", "data_buf", "buf_len", "is_last_chunk", "offset", "flag"})
    gets what would go into files; the address is good until fn returns."""
    if not callable(function):
        raise TypeError("parameter must be callable")
    dumps.dump_state(m).callback = function
    return 0


@api("acl.mdl.dump_unreg_callback")
def dump_unreg_callback(m: Machine) -> None:
    """dump_unreg_callback()."""
    dumps.dump_state(m).callback = None


@api("acl.op.start_dump_args")
def start_dump_args(m: Machine, kind: int, path: str) -> int:
    """start_dump_args(1, folder) -> ret: from now on a JSON file for each operator and shape that acl.op runs."""
    folder = Path(path)
    if kind != _ARGUMENTS:
        raise refuse(m, "runtime.bad_parameter", argument="dump_type", value=kind, allowed="1")
    # os.path, not pathlib: a path that the system cannot even look up is no folder either.
    if not os.path.isdir(path) or not os.access(path, os.W_OK):
        allowed = "a folder that can be written"
        raise refuse(m, "runtime.bad_parameter", argument="path", value=folder.name, allowed=allowed)
    dumps.dump_state(m).arguments = folder.resolve()
    return 0


@api("acl.op.stop_dump_args")
def stop_dump_args(m: Machine, kind: int) -> int:
    """stop_dump_args(1) -> ret."""
    if kind != _ARGUMENTS:
        raise refuse(m, "runtime.bad_parameter", argument="dump_type", value=kind, allowed="1")
    dumps.dump_state(m).arguments = None
    return 0
