"""The command: options in, files and console text out. Console contract: pyacl-and-atc 3.1 and 3.2."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnx

from cannlab import om
from cannlab import soc as socs
from cannlab.atc import (
    aipp_config,
    check_report,
    compiler,
    compression,
    console,
    gears,
    hw_layout,
    kernel_files,
    kernel_modes,
    model_info,
    model_json,
    node_precision,
    options,
    original_model,
    parse,
    precision,
    single_ops,
    source,
    support,
    text_graph,
)
from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.options import Options
from cannlab.atc.passes import result, switches
from cannlab.atc.precision_lists import Lists
from cannlab.errors import CannlabError
from cannlab.machine import custom_ops
from cannlab.om import external
from cannlab.om.model import graphs
from cannlab.soc import Soc
from cannlab.trace.whole_file import write_whole

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
    log = console.Log(chosen["log"])
    for level, text in chosen.notes():
        log(level, text)
    if chosen["singleop"]:
        return _convert_single_ops(chosen, log)
    mode = chosen["mode"]
    if mode == "1":
        _convert_to_json(chosen)
    elif mode == "3":
        _check_only(chosen)
    elif mode == "5":
        _require(chosen, "om", "json")
        target = _checked(chosen["json"], "--json", "")
        text = text_graph.to_json(chosen["om"])
        _save(lambda: write_whole(target, text.encode()), target)
    elif mode == "6":
        _require(chosen, "om")
        console.say(model_info.text(om.read(chosen["om"])))
    else:
        return _convert(chosen, log)
    return [console.SUCCESS]


def _convert(chosen: Options, log: console.Log) -> list[str]:
    """``--mode=0``: an ONNX model to an om."""
    _require(chosen, "model")
    _require_framework(chosen)
    _require(chosen, "output")
    request = _request(chosen, log)
    compiler.plan(request)
    debug = kernel_files.read_config(chosen["op_debug_config"])
    for text in debug.warnings:
        log("warning", text)
    target = _target(chosen["output"])
    try:
        made = compiler.compile_model(_load(chosen, log), request, log)
    except AtcError:
        _report(chosen, source.load(chosen["model"], chosen["framework"]), only_failed=True)
        raise
    target = _named_for_host(chosen, made.om, target)
    written = _stored(chosen, made.om, target)
    _save(lambda: om.write(written, target), target)
    log("info", f"wrote {target.name}")
    _write_extras(chosen, made, debug, log)
    lines = [model_info.text(made.om)] if chosen["display_model_info"] == "1" else []
    return [*lines, console.SUCCESS, *(console.warning_line(item) for item in made.warnings)]


def _stored(chosen: Options, made: om.OmModel, target: Path) -> om.OmModel:
    """The om as the options want it in its files."""
    compressed = options.table()["enable_attr_compression"].present and chosen.flag("enable_attr_compression")
    stored = replace(made, compressed=compressed)
    where = chosen["external_weight"]
    return (
        stored if where == "0" else external.outside(stored, f"{target.stem}_weight_combined" if where == "2" else "")
    )


def _write_extras(chosen: Options, made: compiler.Result, debug: kernel_files.DebugConfig, log: console.Log) -> None:
    """The files beside the om: pass statistics, descriptions of kernels, the dumped graph, the original model."""
    written: list[tuple[Path, str]] = []
    kernels = kernel_files.compiled(made.om, chosen, debug)
    folder = Path(chosen["debug_dir"] or ".") / kernel_files.FOLDER
    written += [(folder / name, text) for name, text in kernels.kept.items()]
    if chosen["op_compiler_cache_mode"] != "disable" and kernels.cached:
        _cache(chosen, kernels, made.om.soc, log)
    if chosen.flag("save_original_model"):
        _save_original(chosen, made.om.soc, log)
    if text_graph.wanted():
        name = Path(os.environ.get("DUMP_GRAPH_PATH", ".")) / "ge_proto_00000000_graph_0_Build.txt"
        written.append((name, text_graph.of_json(model_json.om_content(made.om))))
    for path, text in written:
        _save(partial(write_whole, path, text.encode()), path)
    if chosen["export_compile_stat"] != "0":
        try:
            result.write(made.reports)
        except OSError as problem:
            log("warning", f"{result.FILE} could not be written: {problem.strerror}")


def _cache(chosen: Options, kernels: kernel_files.Kernels, soc: str, log: console.Log) -> None:
    """``--op_compiler_cache_mode``."""
    folder = Path(chosen["op_compiler_cache_dir"] or Path.home() / "atc_data")
    empty = chosen["op_compiler_cache_mode"] == "force"
    try:
        found, new = kernel_files.cache(kernels, folder, soc, empty=empty)
    except OSError as problem:
        raise atc_error("not_written", path=str(folder), reason=problem.strerror or str(problem)) from problem
    log("info", f"{found} kernels taken from the cache, {new} compiled")


def _save_original(chosen: Options, soc: str, log: console.Log) -> None:
    """``--save_original_model``: what goes wrong with it does not stop the conversion."""
    target = Path(f"{chosen['output']}_original.om")
    try:
        model = source.load(chosen["model"], chosen["framework"])
        om.write(original_model.make(model, soc, chosen.command), target)
    except (OSError, ValueError) as problem:
        log("warning", f"{target.name} could not be written: {problem}")


def _load(chosen: Options, log: console.Log) -> onnx.ModelProto:
    """The model. Nobody but the compiler keeps it, so that its memory is free once it is parsed."""
    model = source.load(chosen["model"], chosen["framework"])
    log("info", f"read {os.path.basename(chosen['model'])}")
    return model


def _request(chosen: Options, log: console.Log) -> compiler.Request:
    if chosen["precision_mode"] and chosen["precision_mode_v2"]:
        raise atc_error("exclusive", first="--precision_mode", second="--precision_mode_v2")
    soc = _soc(chosen["soc_version"])
    chosen.require_chip(soc.short, soc.name)
    mode = precision.mode(chosen["precision_mode"], chosen["precision_mode_v2"], soc)
    compression.check(chosen["compression_optimize_conf"], mode)
    return compiler.Request(
        soc=soc,
        input_shape=chosen["input_shape"],
        input_format=chosen["input_format"],
        out_nodes=chosen["out_nodes"],
        output_type=chosen["output_type"],
        input_fp16_nodes=chosen["input_fp16_nodes"],
        precision_mode=mode,
        weight_clip=chosen["is_weight_clip"] == "1",
        switches=_switches(chosen, log),
        command=chosen.command,
        dynamic=_dynamic(chosen),
        aipp=_aipp(chosen),
        lists=_lists(chosen, mode, soc, log),
        overrides=node_precision.read(chosen["keep_dtype"], chosen["customize_dtypes"]),
        chip=_chip(chosen, soc),
        reuse_memory=chosen["disable_reuse_memory"] == "0",
        small_channel=chosen["enable_small_channel"] == "1",
        order=chosen["topo_sorting_mode"],
        modes=_modes(chosen),
        hw_inputs=hw_layout.asked(chosen["is_input_adjust_hw_layout"]),
        hw_outputs=hw_layout.asked(chosen["is_output_adjust_hw_layout"]),
        sparse=chosen.flag("sparsity"),
        fold_constants=chosen.flag("oo_constant_folding"),
        drop_branches=chosen.flag("oo_dead_code_elimination"),
        vector_only=chosen["core_type"] == "VectorCore",
    )


def _modes(chosen: Options) -> kernel_modes.KernelModes:
    return kernel_modes.read(
        chosen["op_precision_mode"],
        chosen["op_select_implmode"],
        chosen["optypelist_for_implmode"],
        chosen["allow_hf32"],
    )


def _dynamic(chosen: Options) -> dict[str, str]:
    return {
        gears.BATCH: chosen["dynamic_batch_size"],
        gears.IMAGE: chosen["dynamic_image_size"],
        gears.DIMS: chosen["dynamic_dims"],
        "range": chosen["input_shape_range"],
    }


def _aipp(chosen: Options) -> tuple[aipp_config.AippOp, ...]:
    if chosen["insert_op_conf"] and chosen["dynamic_dims"]:
        raise atc_error("aipp_dims")
    return aipp_config.read(chosen["insert_op_conf"], image_gears=bool(chosen["dynamic_image_size"]))


def _lists(chosen: Options, mode: str, soc: Soc, log: console.Log) -> Lists | None:
    path = chosen["modify_mixlist"]
    if not path:
        return None
    if mode not in precision.MIXED:
        raise atc_error("mixlist_mode", mode=mode)
    lists = Lists.of(support.family(soc)).modified(path)
    for name in lists.missing:
        log("warning", f"{name} is not on the list that --modify_mixlist takes it from")
    return lists


def _switches(chosen: Options, log: console.Log) -> switches.Switches:
    """Which passes run: the switch file and the switches on the command line; at O1 only what models need."""
    if chosen["oo_level"] == "O1":
        return switches.OFF
    found = switches.read(chosen["fusion_switch_file"])
    for text in found.misplaced:
        log("warning", text)
    return switches.Switches({**found.named, **switches.inline(chosen["optimization_switch"]).named}, found.everything)


def _chip(chosen: Options, soc: Soc) -> dict[str, int]:
    found = {}
    if chosen["aicore_num"]:
        count = int(chosen["aicore_num"])
        if count > soc.ai_cores:
            known = f"1 to {soc.ai_cores} on {soc.name}"
            raise atc_error("bad_value", option="--aicore_num", value=count, known=known)
        found["cores"] = count
    if chosen["core_type"] == "VectorCore":
        found["cores"] = min(found.get("cores", soc.vector_cores), soc.vector_cores)
    if chosen["buffer_optimize"] == "off_optimize":
        found["l2"] = 0
    return found


def _named_for_host(chosen: Options, made: om.OmModel, target: Path) -> Path:
    """An om that holds code for the host (a custom operator's) is named for the machine, if the options name it."""
    host = [chosen["host_env_os"], chosen["host_env_cpu"]]
    model = made.graph()
    opsets = {item.domain or "ai.onnx": item.version for item in model.opset_import}
    nodes = (node for part in graphs(model.graph) for node in part.node)
    found = (custom_ops.find(node.domain, node.op_type, opsets.get(node.domain or "ai.onnx")) for node in nodes)
    if not all(host) or all(op is None or custom_ops.is_built_in(op) for op in found):
        return target
    return target.with_name(f"{target.stem}_{host[0]}_{host[1]}.om")


def _check_only(chosen: Options) -> None:
    """``--mode=3``: the report on a model, and nothing else.

    Raises:
        AtcError: what the check found, after the report is written.
    """
    _require(chosen, "model")
    _require_framework(chosen)
    model = source.load(chosen["model"], chosen["framework"])
    _report(chosen, model, only_failed=False)
    parse.parse(model, [])


def _report(chosen: Options, model: onnx.ModelProto, *, only_failed: bool) -> None:
    """Write the check report. Path: the option, else ``ASCEND_WORK_PATH``, else the working directory."""
    report = check_report.make(model)
    if only_failed and report["result"] == "success":
        return
    folder = os.environ.get("ASCEND_WORK_PATH", "")
    path = Path(chosen["check_report"])
    if "check_report" not in chosen and folder:
        path = Path(folder) / path
    _save(lambda: write_whole(path, check_report.text(report).encode()), path)


def _convert_single_ops(chosen: Options, log: console.Log) -> list[str]:
    """``--singleop``: an om for each described operator, in the folder that ``--output`` names."""
    _require(chosen, "output")
    soc = _soc(chosen["soc_version"])
    chosen.require_chip(soc.short, soc.name)
    folder = Path(chosen["output"])
    if folder.exists() and not folder.is_dir():
        raise atc_error("no_folder", option="--output", path=str(folder), reason=f"{folder.name} is a file")
    precisions = chosen["precision_mode"] or chosen["precision_mode_v2"]
    mode = _request(chosen, log).precision_mode if precisions else "must_keep_origin_dtype"
    made: list[tuple[Path, compiler.Result]] = []
    for op in single_ops.read(chosen["singleop"]):
        request = compiler.Request(
            soc=soc,
            input_shape=op.input_shape,
            precision_mode=mode,
            weight_clip=chosen["is_weight_clip"] == "1",
            command=chosen.command,
            modes=_modes(chosen),
        )
        target = _checked(str(folder / op.file_name), "--output", ".om")
        made.append((target, compiler.compile_model(single_ops.to_onnx(op), request, log)))
    for target, result_of in made:
        _save(partial(om.write, result_of.om, target), target)
        log("info", f"wrote {target.name}")
    warnings = [console.warning_line(item) for _, result_of in made for item in result_of.warnings]
    return [console.SUCCESS, *warnings]


def _convert_to_json(chosen: Options) -> None:
    """``--mode=1``: an om or an ONNX model to JSON."""
    _require(chosen, "om", "json")
    target = _checked(chosen["json"], "--json", "")
    if chosen["framework"]:
        model = source.load(chosen["om"], chosen["framework"])
        text = model_json.of_onnx(model, shapes=chosen["dump_mode"] == "1")
    else:
        text = model_json.of_om(om.read(chosen["om"]))
    _save(lambda: write_whole(target, text.encode()), target)


def _require_framework(chosen: Options) -> None:
    if not chosen["framework"]:
        raise atc_error("bad_framework", option="--framework", value="", known=", ".join(_frameworks()))


def _frameworks() -> tuple[str, ...]:
    return options.table()["framework"].values


def _require(chosen: Options, *names: str) -> None:
    for name in names:
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
