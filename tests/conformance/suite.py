"""The ONNX package's backend suite as cases: a model, inputs, expected outputs; each as it is and, where its opset is
not one that ATC knows, made again at an opset that is."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
from onnx import TensorProto, helper, numpy_helper

from cannlab.atc import support

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
LOWEST, HIGHEST = 8, 18
TARGETS = (18, 17, 14, 13, 11, 9)
"""Opsets that a case may be made again at, the newest first."""


@dataclass
class Case:
    """One case of the suite.

    Attributes:
        name: as the suite calls it, with its kind before it ("node/test_abs").
        rtol, atol: the suite's tolerance.
    """

    name: str
    rtol: float
    atol: float
    source: Any = field(repr=False)

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model."""
        if self.source.model is not None:
            return self.source.model
        return onnx.load(self._folder / "model.onnx" if self.source.model_dir else self._light)

    @property
    def opset(self) -> int:
        """Version of the default domain; 0 if the model does not import it."""
        return max((item.version for item in self.model.opset_import if item.domain in ("", "ai.onnx")), default=0)

    @property
    def _folder(self) -> Path:
        return Path(self.source.model_dir)

    @property
    def _light(self) -> Path:
        return Path(onnx.__file__).parents[1] / self.source.url

    def data(self) -> tuple[list[Any], list[Any]]:
        """Inputs and expected outputs of the first data set."""
        if self.source.data_sets:
            inputs, outputs = self.source.data_sets[0]
            return list(inputs), list(outputs)
        if self.source.model_dir is None:
            return self._light_data()
        folder = next(iter(sorted(self._folder.glob("test_data_set_*"))))
        graph = self.model.graph
        return (
            [_read(folder / f"input_{at}.pb", info.type) for at, info in enumerate(_real_inputs(graph, folder))],
            [_read(folder / f"output_{at}.pb", info.type) for at, info in enumerate(graph.output)],
        )

    def _light_data(self) -> tuple[list[Any], list[Any]]:
        # What the suite's own runner feeds to the light models.
        constants = {item.name for item in self.model.graph.initializer}
        info = next(info for info in self.model.graph.input if info.name not in constants)
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        size = int(np.prod(shape))
        image = (np.arange(size).reshape(shape) / size).astype(np.float32)
        output = Path(str(self._light).replace(".onnx", "_output_0.pb"))
        return [image], [numpy_helper.to_array(TensorProto.FromString(output.read_bytes()))]


def _real_inputs(graph: onnx.GraphProto, folder: Path) -> list[onnx.ValueInfoProto]:
    count = len(list(folder.glob("input_*.pb")))
    return list(graph.input)[:count]


def _read(path: Path, kind: onnx.TypeProto) -> Any:
    data = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(TensorProto.FromString(data))


def load(kinds: tuple[str, ...] = KINDS) -> list[Case]:
    """All cases of these kinds, in order of their names."""
    from onnx.backend.test.loader import load_model_tests

    found: list[Case] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for kind in kinds:
            for item in load_model_tests(kind=kind):
                found.append(Case(f"{kind}/{item.name}", item.rtol, item.atol, item))
    return sorted(found, key=lambda case: case.name)


def again(case: Case) -> Iterator[tuple[str, onnx.ModelProto, list[Any]]]:
    """The case made again as its user would: at an opset where every operator of it has a parser, with constants for
    the inputs that decide shapes, the newest opset first. Each is proven by ONNX Runtime's numbers. Yields opset,
    model and inputs.

    The converter of ONNX is tried first, then the same nodes under the older version. Last, "18 edited": what atc says
    to do about Shape with start and end (Slice) and about CastLike (Cast) is done.
    """
    inputs, outputs = case.data()
    fixed, left = fix(case.model, inputs)
    if case.model.graph.input and not left:
        fixed, left = copy.deepcopy(case.model), inputs
    for source, mark in ((fixed, ""), (_edited(fixed), " edited")):
        for target in TARGETS:
            if source is None or target > case.opset >= LOWEST:
                continue
            for made in _candidates(source, target):
                if _parsable(made, target) and _same(made, left, outputs, case):
                    yield f"{target}{mark}", made, left
                    break


def _candidates(model: onnx.ModelProto, target: int) -> Iterator[onnx.ModelProto]:
    with contextlib.suppress(Exception):
        yield _plain(onnx.version_converter.convert_version(model, target))
    made = copy.deepcopy(model)
    for item in made.opset_import:
        if item.domain in ("", "ai.onnx"):
            item.version = target
    made.ir_version = min(made.ir_version, 8)
    with contextlib.suppress(Exception):
        onnx.checker.check_model(made, full_check=True)
        yield _plain(made)


def _edited(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model without CastLike and without start and end of Shape; None if it has none of these."""
    if not any(node.op_type == "CastLike" or (node.op_type == "Shape" and node.attribute) for node in model.graph.node):
        return None
    made = _plain(copy.deepcopy(model))
    inferred = onnx.shape_inference.infer_shapes(made)
    infos = (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output)
    types = {info.name: info.type.tensor_type.elem_type for info in infos}
    types.update((item.name, item.data_type) for item in made.graph.initializer)
    nodes = list(made.graph.node)
    types.update((node.output[0], node.attribute[0].t.data_type) for node in nodes if node.op_type == "Constant")
    del made.graph.node[:]
    for node in nodes:
        if node.op_type == "CastLike":
            node = helper.make_node("Cast", node.input[:1], node.output, to=types[node.input[1]])
        if node.op_type == "Shape" and node.attribute:
            bounds = {item.name: item.i for item in node.attribute}
            whole = f"{node.output[0]}_whole"
            made.graph.node.append(helper.make_node("Shape", node.input, [whole]))
            ends = []
            for key, value in (("start", bounds.get("start", 0)), ("end", bounds.get("end", 2**31 - 1))):
                ends.append(f"{node.output[0]}_{key}")
                tensor = numpy_helper.from_array(np.array([value], np.int64))
                made.graph.node.append(helper.make_node("Constant", [], ends[-1:], value=tensor))
            node = helper.make_node("Slice", [whole, *ends], node.output)
        made.graph.node.append(node)
    return made


def plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model with constants stored as tensors."""
    return _plain(copy.deepcopy(model))


def _plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """Constants stored as tensors, the only form that the parser reads."""
    model.ir_version = min(model.ir_version, 8)
    _plain_graph(model.graph)
    return model


def _plain_graph(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _plain_graph(attribute.g)
        if node.op_type != "Constant" or node.attribute[0].name in ("value", "sparse_value"):
            continue
        form = node.attribute[0].name
        value = helper.get_attribute_value(node.attribute[0])
        if "string" in form:
            continue
        dtype = np.int64 if "int" in form else np.float32
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.array(value, dtype))))


def operators(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Domain and type of all nodes, those of branches included."""
    for node in graph.node:
        yield node.domain or "ai.onnx", node.op_type
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from operators(attribute.g)


DECIDING = {
    "Reshape": (1,),
    "Expand": (1,),
    "Tile": (1,),
    "Pad": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "TopK": (1,),
    "OneHot": (1,),
    "Range": (0, 1, 2),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    "Split": (1,),
    "ConstantOfShape": (0,),
    "Upsample": (1,),
    "Resize": (1, 2, 3),
    "MaxUnpool": (2,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "AffineGrid": (1,),
    "CumSum": (1,),
}
"""Inputs that decide the shape of the result (all inputs but the first of the Reduce family do)."""


def deciding(graph: onnx.GraphProto) -> set[str]:
    """Inputs of a graph that decide a shape."""
    found = set()
    for node in graph.node:
        places = (1,) if node.op_type.startswith("Reduce") else DECIDING.get(node.op_type, ())
        found.update(name for at, name in enumerate(node.input) if at in places)
    return found & {info.name for info in graph.input}


def fix(model: onnx.ModelProto, inputs: list[Any]) -> tuple[onnx.ModelProto, list[Any]]:
    """The model with the inputs that decide shapes stored as constants, and the inputs that are left."""
    made = copy.deepcopy(model)
    chosen = deciding(made.graph)
    left = []
    for info, value in zip(list(made.graph.input), inputs, strict=False):
        if info.name in chosen:
            made.graph.input.remove(info)
            made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), info.name))
        else:
            left.append(value)
    return made, left


def _parsable(model: onnx.ModelProto, opset: int) -> bool:
    return all(
        domain == "ai.onnx" and support.has_parser(domain, op_type, opset) for domain, op_type in operators(model.graph)
    )


def in_table(model: onnx.ModelProto) -> bool:
    """True if every operator of the model is one that some opset has a parser for."""
    return all(
        op_type in support.BUILT_IN or support.find(domain, op_type) is not None
        for domain, op_type in operators(model.graph)
    )


def _same(model: onnx.ModelProto, inputs: list[Any], outputs: list[Any], case: Case) -> bool:
    """True if ONNX Runtime gives the expected numbers with a model; ONNX's own evaluator where it has no kernel."""
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

    names = [info.name for info in model.graph.input][: len(inputs)]
    feeds = dict(zip(names, inputs, strict=False))
    try:
        with np.errstate(all="ignore"):
            try:
                results = _run_ort(model, feeds)
            except NoKernel:
                results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        return len(results) == len(outputs) and all(
            close(got, wanted, case.rtol, case.atol) for got, wanted in zip(results, outputs, strict=True)
        )
    except Exception:
        return False


def _run_ort(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: np.asarray(value) for name, value in feeds.items()})


def close(got: Any, wanted: Any, rtol: float, atol: float) -> bool:
    """True if two outputs are the same within a tolerance, shapes included."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return False
    if wanted.dtype.kind in "OSU" or got.dtype.kind in "OSU":
        return bool((got.astype(str) == wanted.astype(str)).all())
    return bool(np.allclose(got.astype(wide(got)), wanted.astype(wide(wanted)), rtol, atol, equal_nan=True))


def wide(array: Any) -> Any:
    """A dtype in which two arrays can be compared."""
    return np.complex128 if array.dtype.kind == "c" else np.float64


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for one trial."""
    return tempfile.TemporaryDirectory(prefix="conformance-", dir=os.environ.get("TMPDIR"))
