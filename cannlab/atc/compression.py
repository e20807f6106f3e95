"""``--compression_optimize_conf``: its file is checked; what it asks for needs a device and the compression tool AMCT.

``enable_first_layer_quantization: true`` and ``calibration: { key: value ... }``, a field on each line. Source:
documentation of the option.
"""

from __future__ import annotations

import re

from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.source import read_file

OPTION = "--compression_optimize_conf"
FORM = "The file holds enable_first_layer_quantization: true or false, and calibration: { input_data_dir: ... }."
NEEDED = ("input_data_dir", "input_shape", "infer_soc")
FIELDS = (*NEEDED, "config_file", "infer_aicore_num", "infer_device_id", "infer_ip", "infer_port", "log")
PRECISE = frozenset(("force_fp32", "must_keep_origin_dtype"))
"""Precision modes that do not go together with calibration."""


def check(path: str, mode: str) -> None:
    """Check the file; "" is none.

    Args:
        mode: the precision mode, as ``--precision_mode`` names it.

    Raises:
        AtcError: rules of :func:`source.read_file`, and ``atc.config_content``, ``atc.not_both``.
    """
    if not path:
        return
    text = re.sub(r"#[^\n]*", "", read_file(path, OPTION).decode("utf-8", "replace"))
    match = re.search(r"calibration\s*:?\s*\{([^{}]*)\}", text)
    plain = text if match is None else text[: match.start()] + text[match.end() :]
    for key, value in _fields(path, plain):
        if key != "enable_first_layer_quantization" or value not in ("true", "false"):
            raise _bad(path, f"{key}: {value} is none of its fields")
    if match is None:
        return
    found = dict(_fields(path, match[1]))
    unknown = next((key for key in found if key not in FIELDS), None)
    missing = next((key for key in NEEDED if not found.get(key)), None)
    if unknown or missing:
        raise _bad(path, f"calibration has no field {unknown}" if unknown else f"calibration needs {missing}")
    if mode in PRECISE:
        raise atc_error("not_both", first=f"calibration in {OPTION}", second=f"--precision_mode={mode}")


def _fields(path: str, text: str) -> list[tuple[str, str]]:
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        key, colon, value = line.partition(":")
        if not colon or not re.fullmatch(r"\w+", key.strip()):
            raise _bad(path, f"{line!r} is no field")
        found.append((key.strip(), value.strip().strip('"')))
    return found


def _bad(path: str, reason: str) -> AtcError:
    return atc_error("config_content", option=OPTION, path=path, reason=reason, form=FORM)
