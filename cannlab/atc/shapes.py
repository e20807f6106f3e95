"""``--input_shape`` and ``--input_shape_range``: their grammar, and the shapes of a graph's inputs.

A dimension is (least, most): (4, 4) is fixed, (1, 10) a range, and most is -1 where there is no limit.
Source: pyacl-and-atc 3.3 and 3.4; learner-problems ATC-02, ATC-04, ATC-15, ATC-28.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph

Dim = tuple[int, int]
Dims = tuple[Dim, ...]

UNLIMITED = -1
REFERENCE = 224
"""What a dimension without a limit is taken as where the compiler needs a number: it changes no result."""


def parse(text: str) -> dict[str, Dims]:
    """Shapes by input name from ``name1:n,c,h,w;name2:...``. Names may hold colons; ``name:`` is a scalar.

    Raises:
        AtcError: rules ``atc.shape_syntax``, ``atc.shape_not_positive``.
    """
    shapes: dict[str, Dims] = {}
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


def _dim(text: str, part: str) -> Dim:
    low, tilde, high = text.partition("~")
    least = _number(low, text, part)
    if not tilde:
        if least == UNLIMITED:
            return (0, UNLIMITED)
        if least <= 0:
            raise atc_error("shape_not_positive", text=part, value=least)
        return (least, least)
    most = _number(high, text, part)
    if least < 0 or (most != UNLIMITED and (most <= 0 or most < least)):
        reason = f"{text} is no range: write the least, ~ and the most, or -1 for no limit"
        raise atc_error("shape_syntax", text=part, reason=reason)
    return (least, most)


def _number(word: str, text: str, part: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise atc_error("shape_syntax", text=part, reason=f"{text!r} is not a whole number") from None


def parse_range(text: str, inputs: list[str]) -> dict[str, Dims]:
    """Shapes from the old ``--input_shape_range``: ``name1:[1~20,3];name2:[...]``, or ``[...],[...]`` in order.

    Raises:
        AtcError: rules ``atc.range_syntax``, and those of :func:`parse`.
    """
    if not re.fullmatch(
        r"\s*(\[[^\[\]]*\]|[^\[\]]+:\s*\[[^\[\]]*\])(\s*[;,]\s*([^\[\]]+:\s*)?\[[^\[\]]*\])*\s*;?\s*", text
    ):
        raise atc_error("range_syntax", text=text)
    parts = re.findall(r"(?:([^\[\];]+):)?\s*\[([^\[\]]*)\]", text)
    names = [name.strip(" ,") for name, _ in parts]
    if not any(names):
        names = inputs[: len(parts)]
    if len(names) != len(parts) or not all(names):
        raise atc_error("range_syntax", text=text)
    return parse(";".join(f"{name}:{dims}" for name, (_, dims) in zip(names, parts, strict=True)))


def check(graph: Graph, shapes: Mapping[str, Dims]) -> None:
    """Check shapes against the model's inputs.

    Raises:
        AtcError: rules ``atc.not_in_model``, ``atc.not_an_input``, ``atc.rank``, ``atc.shape_missing``.
    """
    for name, wanted in shapes.items():
        require_input(graph, name, "--input_shape")
        dims = graph.types[name][1]
        if dims is not None and len(dims) != len(wanted):
            raise atc_error("rank", name=name, given=len(wanted), rank=len(dims), dims=_shown(dims))
    for name in graph.inputs:
        if name not in shapes and graph.shape(name) is None:
            dims = graph.types[name][1]
            example = ",".join("1" if dim is None else str(dim) for dim in dims or (1, 3, 224, 224))
            raise atc_error("shape_missing", name=name, dims=_shown(dims), example=f"{name}:{example}")


def freeze(graph: Graph, shapes: Mapping[str, tuple[int | None, ...]]) -> None:
    """Give the graph's inputs these shapes; None is a dimension that stays open."""
    for name, dims in shapes.items():
        graph.types[name] = (graph.types[name][0], dims)


def is_fixed(dims: Dims) -> bool:
    """True if every dimension is one number."""
    return all(least == most for least, most in dims)


def references(shapes: Mapping[str, Dims]) -> dict[str, tuple[int, ...]]:
    """A number for every dimension, for what needs one while the model is compiled.

    Open dimensions of several inputs often have to be equal, so all get the same number where their ranges allow it.
    """
    ranges = [dim for dims in shapes.values() for dim in dims if dim[0] != dim[1]]
    most = min((high for _, high in ranges if high != UNLIMITED), default=REFERENCE)
    common = min(most, REFERENCE)
    if any(low > common for low, _ in ranges):
        return {name: tuple(_largest(dim) for dim in dims) for name, dims in shapes.items()}
    return {name: tuple(low if low == high else common for low, high in dims) for name, dims in shapes.items()}


def _largest(dim: Dim) -> int:
    return max(dim[0], REFERENCE) if dim[1] == UNLIMITED else dim[1]


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
