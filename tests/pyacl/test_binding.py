"""Functions behave as the builtins of the C extension."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import cannlab.acl
from cannlab.acl.binding import NotEmulatedError
from cannlab.acl.signatures import modules, signatures


def test_every_function_of_the_real_module_exists() -> None:
    assert len(signatures()) == 739
    for module, names in modules().items():
        target = cannlab.acl
        for part in module.split(".")[1:]:
            target = getattr(target, part)
        for name in names:
            assert callable(getattr(target, name)), f"{module}.{name}"
            assert name in dir(target)


def test_modules_are_real_and_show_real_names_only() -> None:
    assert inspect.ismodule(cannlab.acl.util)
    public = {name for name in dir(cannlab.acl.util) if not name.startswith("__")}
    assert public == set(modules()["acl.util"])
    public = {name for name in dir(cannlab.acl) if not name.startswith("__")}
    assert public == set(modules()["acl"]) | {"rt", "mdl", "op", "media", "blas", "util", "prof", "himpi", "fv"}
    assert not any(name.startswith("ACL_") for name in vars(cannlab.acl.rt))


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3), (1.5, 0), ("1", 0), (None, 0), (4, 2**31), (4, 1.0)])
def test_wrong_arguments_of_malloc(acl, arguments) -> None:
    with pytest.raises(TypeError) as caught:
        acl.rt.malloc(*arguments)
    assert str(caught.value) == "acl.rt.malloc args parse failed"


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ((1,), "acl.rt.malloc takes 2 arguments (size, policy), and 1 was given."),
        (((5, 0), 0), "argument 1 (size) must be an int; a tuple was given. A call that makes something returns"),
        ((4, None), "argument 2 (policy) must be an int; None was given."),
        ((b"x", 0), "argument 1 (size) must be an int; a bytes was given. Pass its address"),
        ((1.5, 0), "argument 1 (size) must be an int; a float was given. Convert it"),
        ((4, 2**31), "argument 2 (policy) is out of range: it must fit into 32 bits."),
        ((object(), 0), "argument 1 (size) must be an int; an object was given. pyACL takes sizes"),
    ],
)
def test_the_note_names_the_argument(acl, arguments, note) -> None:
    with pytest.raises(TypeError) as caught:
        acl.rt.malloc(*arguments)
    assert caught.value.__notes__[0].startswith(note)


def test_keywords_are_refused(acl) -> None:
    with pytest.raises(TypeError):
        acl.rt.malloc(size=4, policy=0)


def test_a_function_without_parameters_ignores_its_arguments(acl) -> None:
    assert acl.rt.get_run_mode(1, "x") == (1, 0)


def test_pointers_are_masked_and_numpy_integers_refused(acl) -> None:
    assert acl.get_data_buffer_size_v2(acl.create_data_buffer(0, -1)) == 2**64 - 1
    buffer = acl.create_data_buffer(2**64 + 5, 7)
    assert acl.get_data_buffer_addr(buffer) == 5
    with pytest.raises(TypeError, match="args parse failed"):
        acl.create_data_buffer(np.int64(5), 7)


def test_int_arguments_take_numpy_integers_and_check_their_range(acl) -> None:
    assert acl.data_type_size(np.int32(9)) == 8
    assert acl.data_type_size(-1) == 0
    with pytest.raises(TypeError):
        acl.data_type_size(2**31)


def test_unsigned_letters_mask(acl) -> None:
    assert acl.float16_to_float(0x3C00 + 0x10000) == 1.0


def test_text_arguments(acl) -> None:
    for bad in (b"x", 5, "a\0b"):
        with pytest.raises(TypeError, match=r"acl\.mdl\.load_from_file args parse failed"):
            acl.mdl.load_from_file(bad)


def test_what_is_not_emulated_says_so_by_name(acl) -> None:
    with pytest.raises(NotEmulatedError, match=r"acl\.fv\.create_init_para"):
        acl.fv.create_init_para(1)
    with pytest.raises(TypeError, match=r"acl\.fv\.create_init_para args parse failed"):
        acl.fv.create_init_para()


def test_names_and_documentation() -> None:
    function = cannlab.acl.rt.malloc
    assert (function.__name__, function.__module__) == ("malloc", "acl.rt")
    assert "207001" in function.__doc__


@pytest.mark.parametrize("name", ["rt.free", "mdl.destroy_desc", "mdl.destroy_dataset", "destroy_data_buffer"])
def test_zero_gives_100000(acl, name) -> None:
    target = acl
    for part in name.split("."):
        target = getattr(target, part)
    assert target(0) == 100000
