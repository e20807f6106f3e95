"""The command: options in, files and console text out. Console contract: pyacl-and-atc 3.1 and 3.2."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx

from cannlab import om
from cannlab import soc as socs
from cannlab.atc import compiler, console, model_info, model_json, options, precision, source
from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.options import Options
from cannlab.atc.passes import result, switches
from cannlab.errors import CannlabError
from cannlab.soc import Soc

FAILED = 255
NAME_MAX = 255


def main(argv: Sequence[str] | None = None) -> int:
    """Run atc.

    Args:
        argv: the arguments after the command's name; ``sys.argv[1:]`` by default.

    Returns:
        The exit status: 0, or 255 after an error, which is printed.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    console.say(console.START)
    try:
        chosen = options.parse(words)
        if "help" in chosen:
            console.say(options.usage())
            return 0
        lines = _run(chosen)
    except CannlabError as error:
        found = error.diagnoses if isinstance(error, AtcError) else (error.diagnosis,)
        for line in ("...", console.FAILURE, console.error_block(found)):
            console.say(line)
        return FAILED
    for line in ("...", *lines):
        console.say(line)
    return 0


def _run(chosen: Options) -> list[str]:
    """Do what the options ask for; returns the lines of the verdict."""
    if chosen["mode"] == "1":
        _convert_to_json(chosen)
        return [console.SUCCESS]
    if chosen["mode"] == "6":
        _require(chosen, "om")
        return [model_info.text(om.read(chosen["om"])), console.SUCCESS]
    return _convert(chosen)


def _convert(chosen: Options) -> list[str]:
    """``--mode=0``: an ONNX model to an om."""
    log = console.Log(chosen["log"])
    _require(chosen, "model")
    if not chosen["framework"]:
        raise atc_error("bad_framework", option="--framework", value="", known=", ".join(_frameworks()))
    _require(chosen, "output")
    request = _request(chosen)
    target = _target(chosen["output"])
    made = compiler.compile_model(_load(chosen, log), request, log)
    _save(lambda: om.write(made.om, target), target)
    log("info", f"wrote {target.name}")
    if chosen["export_compile_stat"] != "0":
        try:
            result.write(made.reports)
        except OSError as problem:
            log("warning", f"{result.FILE} could not be written: {problem.strerror}")
    lines = [model_info.text(made.om)] if chosen["display_model_info"] == "1" else []
    return [*lines, console.SUCCESS, *(console.warning_line(item) for item in made.warnings)]


def _load(chosen: Options, log: console.Log) -> onnx.ModelProto:
    """The model. Nobody but the compiler keeps it, so that its memory is free once it is parsed."""
    model = source.load(chosen["model"], chosen["framework"])
    log("info", f"read {os.path.basename(chosen['model'])}")
    return model


def _request(chosen: Options) -> compiler.Request:
    if chosen["precision_mode"] and chosen["precision_mode_v2"]:
        raise atc_error("exclusive", first="--precision_mode", second="--precision_mode_v2")
    return compiler.Request(
        soc=_soc(chosen["soc_version"]),
        input_shape=chosen["input_shape"],
        input_format=chosen["input_format"],
        out_nodes=chosen["out_nodes"],
        output_type=chosen["output_type"],
        input_fp16_nodes=chosen["input_fp16_nodes"],
        precision_mode=precision.mode(chosen["precision_mode"], chosen["precision_mode_v2"]),
        weight_clip=chosen["is_weight_clip"] == "1",
        switches=switches.read(chosen["fusion_switch_file"]),
        command=chosen.command,
    )


def _convert_to_json(chosen: Options) -> None:
    """``--mode=1``: an om or an ONNX model to JSON."""
    _require(chosen, "om")
    _require(chosen, "json")
    target = _checked(chosen["json"], "--json", "")
    if chosen["framework"]:
        text = model_json.of_onnx(source.load(chosen["om"], chosen["framework"]))
    else:
        text = model_json.of_om(om.read(chosen["om"]))
    _save(lambda: _write_text(target, text), target)


def _frameworks() -> tuple[str, ...]:
    return options.table()["framework"].values


def _require(chosen: Options, name: str) -> None:
    if not chosen[name]:
        raise atc_error("option_empty", option=f"--{name}")


def _soc(name: str) -> Soc:
    if not name:
        raise atc_error("soc_empty")
    found = socs.table().get(name)
    if found is None:
        near = next((known for known in socs.table() if known.endswith(name) or known.startswith(name)), "Ascend910B1")
        raise atc_error("bad_soc", value=name, near=near, known=", ".join(socs.table()))
    return found


def _target(output: str) -> Path:
    """The om's path: ``.om`` is always added."""
    return _checked(output, "--output", ".om")


def _checked(text: str, option: str, suffix: str) -> Path:
    """A path to write to, checked before any work is done."""
    path = Path(text + suffix)
    if text.endswith(os.sep) or Path(text).is_dir():
        raise atc_error("no_file_name", option=option, path=text)
    if len(os.fsencode(path.name)) + len(".part") > NAME_MAX or len(os.fsencode(text)) > 4096:
        raise atc_error("path_too_long", option=option, size=len(os.fsencode(text)), most=NAME_MAX)
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        reason = "no write permission" if folder.is_dir() else f"{folder.name} is a file"
        raise atc_error("no_folder", option=option, path=str(path.parent), reason=reason)
    if path.is_dir():
        raise atc_error("not_written", path=str(path), reason="it is a directory")
    return path


def _save(write: Callable[[], None], path: Path) -> None:
    """Write a file with ``write``; folders that are missing are made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write()
    except OSError as problem:
        raise atc_error("not_written", path=str(path), reason=problem.strerror or str(problem)) from problem


def _write_text(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
