"""Every function exists; docs/pyacl.md says which are emulated."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from cannlab.acl import surface
from cannlab.acl.binding import NotEmulatedError, is_emulated
from cannlab.acl.not_emulated import _REASONS, reason
from cannlab.acl.signatures import signatures

PAGE = Path(__file__).parents[2] / "docs" / "pyacl.md"
FITTING = {"s": "x", "O": [], "f": 1.0, "d": 1.0}


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == surface.page(), "run python -m cannlab.acl.surface docs/pyacl.md"


def test_the_page_names_every_function_once() -> None:
    lines = surface.page().splitlines()
    named = [line.split("(")[0].removeprefix("- `") for line in lines if line.startswith("- `")]
    assert sorted(named) == sorted(signatures())


@pytest.mark.parametrize("name", [name for name in signatures() if not is_emulated(name)])
def test_what_is_not_emulated_names_itself(name) -> None:
    signature = signatures()[name]
    function = getattr(import_module(signature.module.replace("acl", "cannlab.acl", 1)), name.rpartition(".")[2])
    with pytest.raises(NotEmulatedError, match=f"^{name} is not emulated: "):
        function(*[FITTING.get(letter, 1) for letter in signature.formats])


def test_a_reason_belongs_to_something_that_is_missing() -> None:
    for start in _REASONS:
        names = [name for name in signatures() if name.startswith(start)]
        assert names, start
        assert not any(is_emulated(name) for name in names), start


def test_what_is_whole() -> None:
    """Every function of these modules is emulated, but for those that need machine code of kernels."""
    for name in signatures():
        module = name.rpartition(".")[0]
        if module in ("acl", "acl.mdl", "acl.prof", "acl.util", "acl.rt", "acl.op"):
            assert is_emulated(name) or "only the chip can run" in reason(name), name
