"""Reading the model file: from a path to an ONNX model, with the code of each thing that can be wrong with a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from cannlab.atc import external
from cannlab.atc.errors import AtcError, atc_error
from cannlab.errors import diagnose
from cannlab.om.container import MAGIC, REAL_MAGIC
from cannlab.om.model import graphs


def require_file(path: str, option: str) -> None:
    """Check that a file named by an option exists. Raises AtcError ``atc.no_file``."""
    file = Path(path)
    try:
        found = file.exists()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise atc_error("not_opened", path=path, option=option, reason=reason) from problem
    if not found:
        raise atc_error("no_file", path=path, option=option, reason=_where(file))


def read_file(path: str, option: str) -> bytes:
    """The bytes of a file named by an option.

    Raises:
        AtcError: rules ``atc.no_file``, ``atc.not_opened``, ``atc.empty_file``.
    """
    file = Path(path)
    try:
        if not file.exists():
            raise atc_error("no_file", path=path, option=option, reason=_where(file))
        data = file.read_bytes()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise atc_error("not_opened", path=path, option=option, reason=reason) from problem
    if not data:
        raise atc_error("empty_file", path=path)
    return data


def load(path: str, framework: str = "5") -> onnx.ModelProto:
    """The ONNX model in a file. Weights beside it stay where they are; :func:`external.array` maps them.

    Raises:
        AtcError: the rules of :func:`read_file`, and ``atc.not_onnx``, ``atc.no_graph``, ``atc.external_data``,
            ``atc.wrong_framework``, ``atc.framework_not_emulated``.
    """
    data = read_file(path, "--model")
    try:
        model = onnx.ModelProto.FromString(data)
        if not model.HasField("graph") and not model.opset_import:
            raise DecodeError("no field of an ONNX model")
    except (DecodeError, RuntimeError) as problem:
        if framework != "5":
            raise atc_error("framework_not_emulated", value=framework) from problem
        found = [diagnose(f"atc.{rule}", path=path, reason=_what(data)) for rule in ("not_onnx", "not_parsed")]
        raise AtcError(found) from problem
    if framework != "5":
        raise atc_error("wrong_framework", value=framework, path=path)
    if not model.HasField("graph"):
        raise atc_error("no_graph", path=path)
    if not all(isinstance(text, str) for text in _texts(model)):
        reason = "a name in it is not text, so the file is damaged"
        raise AtcError([diagnose(f"atc.{rule}", path=path, reason=reason) for rule in ("not_onnx", "not_parsed")])
    try:
        for tensor in _tensors(model.graph):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                external.locate(tensor, Path(path).absolute().parent)
    except external.NotThere as problem:
        raise atc_error("external_data", path=path, reason=str(problem)) from problem
    return model


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All tensors in a graph and its branches."""
    for part in graphs(graph):
        yield from part.initializer
        yield from (item.t for node in part.node for item in node.attribute if item.HasField("t"))


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    """All names in a model. Protobuf gives bytes for one that is not UTF-8."""
    for opset in model.opset_import:
        yield opset.domain
    for graph in graphs(model.graph):
        yield graph.name
        for named in (*graph.input, *graph.output, *graph.initializer):
            yield named.name
        for node in graph.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)


def _where(file: Path) -> str:
    """What to look at when a file is missing."""
    near = sorted(item.name for item in file.parent.glob("*.onnx"))[:3] if file.parent.is_dir() else []
    if near:
        return f"that folder holds {', '.join(near)}"
    return "no such file" if file.parent.is_dir() else "no such folder"


def _what(data: bytes) -> str:
    """What a file is that is no ONNX model."""
    if data.startswith(b"version https://git-lfs"):
        return "it is a pointer of git-lfs, not the model: run git lfs pull"
    if data.startswith((MAGIC, REAL_MAGIC)):
        return "it is an om, which is already converted"
    if data.startswith(b"PK"):
        return "it is a zip archive (a PyTorch file?): export the model with torch.onnx.export"
    return "it is cut off or in another format"
