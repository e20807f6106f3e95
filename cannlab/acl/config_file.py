"""Reading the JSON files of acl.init and acl.mdl.set_dump. Source: pyacl-semantics 2."""

from __future__ import annotations

import json
import os
from typing import Any

from cannlab.acl.checks import refuse
from cannlab.machine import Machine

_MOST_BYTES = 10 << 20
_MOST_DEPTH = 10


def read_json(m: Machine, path: str) -> dict[str, Any]:
    """The object of a configuration file.

    Raises:
        Refused: ``runtime.config_missing`` (100003), ``runtime.config_invalid`` (100000).
    """
    name = os.path.basename(path)

    def invalid(reason: str) -> Exception:
        return refuse(m, "runtime.config_invalid", file=name, reason=reason)

    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        raise refuse(m, "runtime.config_missing", file=name) from None
    if len(data) > _MOST_BYTES:
        raise invalid("larger than 10 MB")
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise invalid(f"not JSON ({problem})") from None
    if not isinstance(config, dict):
        raise invalid("not a JSON object")
    if _depth(config, dict) > _MOST_DEPTH or _depth(config, list) > _MOST_DEPTH:
        raise invalid("nested too deep")
    return config


def _depth(value: Any, kind: type) -> int:
    """How deep objects (or arrays) are nested."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, kind) + max((_depth(item, kind) for item in inner), default=0)
