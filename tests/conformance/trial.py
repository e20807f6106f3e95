"""One case through atc and acl, and what came of it."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import suite

from cannlab import acl, atc
from cannlab.machine import reset_machine
from cannlab.om import dtypes

SOC = "Ascend910B1"
MODE = "must_keep_origin_dtype"
"""Precision mode: the suite's float32 cases are computed in float32."""

ILL_CONDITIONED = {"real/test_squeezenet": "Globalavgpoolpass"}
"""Cases whose numbers say nothing with a pass: here a Softmax sees 1000 means of equal numbers of 1e10, and a mean that
adds in another order than the reference's differs by more than 1."""

TOLERANCE = {np.dtype(np.float16): (1e-2, 1e-3)}
"""rtol and atol where the suite's own is below the type's precision."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes:
        result: "right", "deployed" (other numbers, and atc said so), "refused_opset", "refused_operator",
            "refused_attribute", "refused_type", "refused_shape", "refused_graph", "not_emulated",
            "wrong", "crash" or "timeout".
        code: the code that atc gave ("" if it converted).
        detail: what is known beyond that.
    """

    result: str
    code: str = ""
    detail: str = ""


GOOD = ("right", "deployed", "not_emulated")
REFUSALS = {
    "no_parser": "operator",
    "no_parser_opset": "opset",
    "no_parser_quantised": "operator",
    "no_domain": "graph",
    "no_inputs": "graph",
    "shape_not_positive": "shape",
    "no_outputs": "graph",
    "no_graph": "graph",
    "bad_tensor": "type",
    "kernel_types": "type",
    "no_engine": "type",
    "types_differ": "type",
    "infer_shape": "shape",
    "plugin_shape": "shape",
    "plugin_refuses": "attribute",
    "plugin_io": "attribute",
    "bad_data": "attribute",
    "dropout_mask": "attribute",
    "kernel_refuses": "kernel",
    "dangling": "graph",
    "sparse_initializer": "graph",
}
"""Rules of atc, and the kind of refusal that each is."""


def attempt(case: suite.Case, model: onnx.ModelProto, inputs: list[Any], mode: str = MODE) -> Outcome:
    """Convert and run a case."""
    _, outputs = case.data()
    with suite.scratch() as folder:
        said = io.StringIO()
        found: list[Any] = []
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()), watched(found):
            onnx.save(model, f"{folder}/case.onnx")
            words = ["--framework=5", f"--model={folder}/case.onnx", f"--output={folder}/case", f"--soc_version={SOC}"]
            if case.name in ILL_CONDITIONED:
                Path(f"{folder}/switch.cfg").write_text(f"{ILL_CONDITIONED[case.name]}:off\n")
                words.append(f"--fusion_switch_file={folder}/switch.cfg")
            with contextlib.chdir(folder):
                status = atc.main([*words, f"--precision_mode={mode}", *shapes(model, inputs)])
        if status != 0:
            return refusal(said.getvalue(), found[0] if found else None, suite.Case.opset.fget(Named(model)))  # type: ignore[attr-defined]
        noted = [line for line in said.getvalue().splitlines() if line.startswith("cannlab:")]
        noted = [line.removeprefix("cannlab: ")[:160] for line in noted if "is assumed" not in line]
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                results = run(Path(folder) / "case.om", [item for item in inputs if item is not None])
        except Failed as failure:
            if failure.code == RUN_FAILED and noted:
                return Outcome("deployed", "", noted[0])  # atc said why it cannot run
            raise
    return judge(case, results, outputs, noted)


@dataclass
class Named:
    """A model, to ask :class:`suite.Case` for its opset."""

    model: onnx.ModelProto


@contextlib.contextmanager
def watched(found: list[Any]) -> Any:
    """Keep the diagnoses of a conversion that fails."""
    from cannlab.atc import console

    original = console.error_block

    def keep(diagnoses: Any) -> str:
        found.append(tuple(diagnoses))
        return original(diagnoses)

    console.error_block = keep  # type: ignore[assignment]
    try:
        yield
    finally:
        console.error_block = original


def shapes(model: onnx.ModelProto, inputs: list[Any]) -> list[str]:
    """``--input_shape`` where the model's inputs do not state theirs."""
    parts = []
    constants = {item.name for item in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in constants]
    for info, value in zip(infos, inputs, strict=False):
        dims = info.type.tensor_type.shape.dim
        if not info.type.HasField("tensor_type") or isinstance(value, list):
            continue
        if not info.type.tensor_type.HasField("shape") or any(not dim.HasField("dim_value") for dim in dims):
            parts.append(f"{info.name}:{','.join(map(str, np.asarray(value).shape))}")
    return [f"--input_shape={';'.join(parts)}"] if parts else []


def refusal(text: str, diagnoses: Any, opset: int) -> Outcome:
    """The outcome of a conversion that failed."""
    if diagnoses is None:
        return Outcome("crash", "", text[-200:])
    first = diagnoses[0]
    rule = first.rule.removeprefix("atc.")
    detail = re.sub(r"/\S*/", "", first.what)[:160]
    if first.code == "E10055":
        return Outcome("not_emulated", first.code, f"{rule}: {detail}")
    kind = REFUSALS[rule]
    if rule == "no_parser_opset" and any(item.rule != first.rule for item in diagnoses):
        kind = "operator"
    return Outcome(f"refused_{kind}", first.code, detail)


def run(path: Path, inputs: list[Any]) -> list[np.ndarray[Any, Any]]:
    """Outputs of an om through acl."""
    reset_machine()
    ok(acl.init())
    ok(acl.rt.set_device(0))
    model, code = acl.mdl.load_from_file(str(path))
    ok(code)
    desc = acl.mdl.create_desc()
    ok(acl.mdl.get_desc(desc, model))
    given = acl.mdl.create_dataset()
    got = acl.mdl.create_dataset()
    assert acl.mdl.get_num_inputs(desc) == len(inputs), f"{acl.mdl.get_num_inputs(desc)} inputs, {len(inputs)} given"
    keep = []
    for index, array in enumerate(inputs):
        array = np.ascontiguousarray(array)
        keep.append(array)
        size = acl.mdl.get_input_size_by_index(desc, index)
        assert size == array.nbytes, f"input {index} has {size} bytes, {array.nbytes} given"
        pointer, code = acl.rt.malloc(max(size, 1), 0)
        ok(code)
        if size:
            ok(acl.rt.memcpy(pointer, size, array.ctypes.data, size, 1))
        acl.mdl.add_dataset_buffer(given, acl.create_data_buffer(pointer, size))
    shapes = []
    for index in range(acl.mdl.get_num_outputs(desc)):
        dims, code = acl.mdl.get_output_dims(desc, index)
        ok(code)
        shapes.append(dims["dims"])
        size, pointer = acl.mdl.get_output_size_by_index(desc, index), 0
        if -1 not in shapes[-1]:  # else the library provides memory, once the size is known
            pointer, code = acl.rt.malloc(max(size, 1), 0)
            ok(code)
        acl.mdl.add_dataset_buffer(got, acl.create_data_buffer(pointer, size))
    ok(acl.mdl.execute(model, given, got))
    results = []
    for index, known in enumerate(shapes):
        buffer, dims = acl.mdl.get_dataset_buffer(got, index), known
        if -1 in known:
            described = acl.mdl.get_dataset_tensor_desc(got, index)
            count = acl.get_tensor_desc_num_dims(described)
            dims = [acl.get_tensor_desc_dim_v2(described, axis)[0] for axis in range(count)]
        dtype = np.dtype(DTYPES[acl.mdl.get_output_data_type(desc, index)])
        size = int(np.prod(dims)) * dtype.itemsize
        host = np.empty(size, np.uint8)
        if size:
            ok(acl.rt.memcpy(host.ctypes.data, size, acl.get_data_buffer_addr(buffer), size, 2))
        results.append(host.view(dtype).reshape(dims))
    return results


DTYPES = {
    0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 6: "int16", 7: "uint16", 8: "uint32", 9: "int64",
    10: "uint64", 11: "float64", 12: "bool", 27: dtypes.BFLOAT16.numpy,
}  # fmt: skip
"""numpy dtypes by aclDataType."""


RUN_FAILED = 507011


class Failed(Exception):
    """A call of acl gave a code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"acl gave {code}")
        self.code = code


def ok(code: int) -> None:
    """An acl call must succeed."""
    if code != 0:
        raise Failed(code)


def judge(case: suite.Case, results: list[Any], outputs: list[Any], noted: list[str]) -> Outcome:
    """Compare with what the suite expects."""
    if len(results) != len(outputs):
        return Outcome("wrong", "", f"{len(results)} outputs, {len(outputs)} expected")
    types = []
    for index, (got, wanted) in enumerate(zip(results, outputs, strict=True)):
        wanted = np.asarray(wanted)
        rtol, atol = TOLERANCE.get(got.dtype, (0.0, 0.0))
        if not suite.close(got, wanted, max(rtol, case.rtol), max(atol, case.atol)):
            kind = f"output {index} is {got.dtype}{list(got.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
            if noted:
                return Outcome("deployed", "", noted[0])
            return Outcome("wrong", "", kind)
        if got.dtype != wanted.dtype:
            types.append(f"output {index} is {got.dtype}, not {wanted.dtype}")
    return Outcome("right", "", "; ".join(types))
