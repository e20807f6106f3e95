"""What crosses between processes: plain values survive, everything else is refused."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from cannlab.course import wire
from cannlab.course.values import Foreign

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
ARRAYS = npst.arrays(
    st.sampled_from([np.float16, np.float32, np.int8, np.int64, np.bool_, np.complex64]),
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


def _crossed(value: Any) -> Any:
    ((message, blob),) = wire.Frames(1 << 20).feed(wire.pack_value(value))
    return wire.untree(message, blob)


@given(PLAIN)
def test_plain_values_come_back(value: Any) -> None:
    back = _crossed(value)
    assert back == value
    assert type(back) is type(value)


@given(ARRAYS)
def test_arrays_come_back(value: Any) -> None:
    back = _crossed({"a": value})["a"]
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    assert back.tobytes() == value.tobytes()


def test_special_numbers_and_tuples_come_back() -> None:
    assert _crossed((1, (2,))) == (1, (2,))
    assert _crossed(float("-inf")) == float("-inf")
    assert np.isnan(_crossed(float("nan")))
    assert _crossed({3, 4}) == {3, 4}
    assert _crossed(np.float16(1.5)).dtype == np.float16


class Always(list):  # type: ignore[type-arg]
    """A list that equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Loud:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [Always([1]), Loud(), (n for n in [1]), lambda: 1, np.array([object()]), type])
def test_other_objects_become_foreign(value: Any) -> None:
    assert isinstance(_crossed(value), Foreign)
    assert isinstance(_crossed([value])[0], Foreign)


def test_torch_tensors_arrive_as_arrays() -> None:
    torch = pytest.importorskip("torch")
    back = _crossed(torch.ones((2, 3), dtype=torch.bfloat16, requires_grad=True))
    assert (back.dtype.name, back.shape, back.astype(float).sum()) == ("bfloat16", (2, 3), 6.0)


def test_a_value_above_the_limit_is_refused_before_it_is_copied() -> None:
    with pytest.raises(wire.TooLarge):
        wire.tree([np.zeros(100), np.zeros(100)], wire.Blob(1000))


@pytest.mark.parametrize(
    "node",
    [
        {"array": ["float32", [1000000000000], 0, 4]},
        {"array": ["float32", [1], 5, 4]},
        {"array": ["float32", [1], -4, 4]},
        {"array": ["object", [1], 0, 8]},
        {"array": ["float32", [-1], 0, 4]},
        {"array": ["float32"]},
        {"bytes": [0, 99]},
        {"set": [{"list": []}]},
        {"pickle": "gASV"},
        {"int": "z"},
        {},
        [1],
    ],
)
def test_a_forged_value_is_refused(node: Any) -> None:
    with pytest.raises(wire.BrokenFrame):
        wire.untree(node, b"\0" * 4)


@pytest.mark.parametrize(
    ("data", "large"),
    [
        (struct.pack("<QQ", 1 << 60, 0), True),
        (struct.pack("<QQ", 3, 0) + b"abc", False),
        (b"x" * 3000, True),
        (struct.pack("<QQ", 500, 0) + b"[" * 500, False),
    ],
)
def test_a_forged_frame_is_refused(data: bytes, large: bool) -> None:
    with pytest.raises(wire.BrokenFrame) as caught:
        wire.Frames(2000).feed(data)
    assert caught.value.large is large


@given(st.lists(st.integers(1, 50), max_size=30))
def test_frames_may_arrive_in_any_pieces(cuts: list[int]) -> None:
    messages = [{"n": n} for n in range(5)]
    data = b"".join(wire.pack(message, json.dumps(message).encode()) for message in messages)
    frames = wire.Frames(10_000)
    found = []
    for size in [*cuts, len(data)]:
        found += frames.feed(data[:size])
        data = data[size:]
    assert [message for message, _ in found] == messages
