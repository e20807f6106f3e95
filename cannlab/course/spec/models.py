"""Models that checks make: an ONNX file of nodes, and what atc makes of one."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import NodeProto

Dims = Sequence[int | str | None]


def model_bytes(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Dims],
    outputs: Mapping[str, Dims | None],
    weights: Mapping[str, NDArray[Any]] | None = None,
    *,
    inner: Mapping[str, Dims] | None = None,
    name: str = "net",
    opset: int = 17,
    domains: Sequence[str] = (),
    out_type: int = 1,
) -> bytes:
    """An ONNX file, the same bytes for the same arguments.

    Args:
        nodes: in the order of the file.
        inputs: name -> shape of the float32 inputs; a text stands for an open dimension.
        outputs: name -> shape, or None where it is not said.
        weights: name -> array, as it is; float64 becomes float32.
        inner: name -> shape of tensors in between.
        domains: other domains that the nodes come from.
        out_type: element type of the outputs (1 is float32).
    """
    import numpy as np
    from onnx import ModelProto, TensorProto, helper, numpy_helper

    def single(array: NDArray[Any]) -> NDArray[Any]:
        return array.astype(np.float32) if array.dtype == np.float64 else array

    def floats(shapes: Mapping[str, Dims]) -> list[Any]:
        return [helper.make_tensor_value_info(key, TensorProto.FLOAT, list(dims)) for key, dims in shapes.items()]

    graph = helper.make_graph(
        list(nodes),
        name,
        floats(inputs),
        [
            helper.make_tensor_value_info(key, out_type, None if dims is None else list(dims))
            for key, dims in outputs.items()
        ],
        [numpy_helper.from_array(single(array), key) for key, array in (weights or {}).items()],
        value_info=floats(inner or {}),
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    data: bytes = ModelProto.SerializeToString(model, deterministic=True)
    return data


@contextlib.contextmanager
def converted(model: bytes, soc: str, *options: str, files: Mapping[str, str] | None = None) -> Iterator[Path]:
    """A folder with net.onnx, net.om and fusion_result.json, in which atc ran; it goes when the block ends.

    Args:
        model: the ONNX file's bytes.
        soc: --soc_version. options: further words of the command.
        files: name -> text of files that stand beside the model.

    Raises:
        ValueError: atc made nothing; with what it printed.
    """
    from cannlab.atc import main

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.joinpath("net.onnx").write_bytes(model)
        for each, text in (files or {}).items():
            folder.joinpath(each).write_text(text, encoding="utf-8")
        words = ["--model=net.onnx", "--framework=5", "--output=net", f"--soc_version={soc}", *options]
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as console:
            if main(words) != 0:
                raise ValueError(console.getvalue())
        yield folder
