"""``--input_shape``: its grammar, and fixing the shapes of a graph's inputs."""

from __future__ import annotations

from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph


def parse(text: str) -> dict[str, tuple[int, ...]]:
    """Shapes by input name from ``name1:n,c,h,w;name2:...``. Names may hold colons.

    Raises:
        AtcError: rules ``atc.shape_syntax``, ``atc.shape_not_positive``, ``atc.range_not_emulated``.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        name, colon, dims = part.strip().rpartition(":")
        if not colon or not name:
            raise atc_error("shape_syntax", text=part, reason="there is no 'name:' before the numbers")
        if name in shapes:
            raise atc_error("shape_syntax", text=part, reason=f"{name} stands twice")
        shapes[name] = tuple(_dim(dim.strip(), part) for dim in dims.split(",")) if dims.strip() else ()
    return shapes


def _dim(text: str, part: str) -> int:
    if "~" in text:
        raise atc_error("range_not_emulated", text=part)
    try:
        value = int(text)
    except ValueError:
        raise atc_error("shape_syntax", text=part, reason=f"{text!r} is not a whole number") from None
    if value <= 0:
        raise atc_error("shape_not_positive", text=part, value=value)
    return value


def freeze(graph: Graph, shapes: dict[str, tuple[int, ...]]) -> None:
    """Give the graph's inputs the shapes of the option; every dimension must be known then.

    Raises:
        AtcError: rules ``atc.not_in_model``, ``atc.not_an_input``, ``atc.rank``, ``atc.shape_missing``.
    """
    for name, wanted in shapes.items():
        require_input(graph, name, "--input_shape")
        dtype, dims = graph.types[name]
        if dims is not None and len(dims) != len(wanted):
            raise atc_error("rank", name=name, given=len(wanted), rank=len(dims), dims=_shown(dims))
        graph.types[name] = (dtype, wanted)
    for name in graph.inputs:
        if graph.shape(name) is None:
            dims = graph.types[name][1]
            example = ",".join("1" if dim is None else str(dim) for dim in dims or (1, 3, 224, 224))
            raise atc_error("shape_missing", name=name, dims=_shown(dims), example=f"{name}:{example}")


def require_input(graph: Graph, name: str, option: str) -> None:
    """Check that an option names an input of the model.

    Raises:
        AtcError: rules ``atc.not_in_model``, ``atc.not_an_input``.
    """
    if name in graph.inputs:
        return
    inputs = ", ".join(graph.inputs)
    if any(node.name == name for node in graph.nodes):
        raise atc_error("not_an_input", name=name, option=option, inputs=inputs)
    raise atc_error("not_in_model", name=name, option=option, inputs=inputs)


def _shown(dims: tuple[int | None, ...] | None) -> str:
    return "unknown" if dims is None else ",".join("-1" if dim is None else str(dim) for dim in dims)
