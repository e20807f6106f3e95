"""Every public name of pyasc exists, and the table of what is emulated is fresh."""

from importlib import import_module
from pathlib import Path

import pytest

import cannlab.ascendc as asc
from cannlab.ascendc import coverage
from cannlab.ascendc.lib.placeholders import NotEmulated, api

DOCS = Path(__file__).parents[2] / "docs" / "asc-coverage.md"


@pytest.mark.parametrize("module", [name for name in api() if not name.endswith("__init__")])
def test_every_public_name_exists(module):
    home = import_module(module.replace("asc", "cannlab.ascendc", 1))
    for kinds in api()[module].values():
        for name in kinds:
            assert hasattr(home, name), name
    with pytest.raises(AttributeError):
        home.no_such_name  # noqa: B018


def test_every_operation_is_there():
    assert len(coverage.operations()) == 188
    assert coverage.emulated(asc.add)
    for name in coverage.operations():
        value = coverage.look_up(name)
        if isinstance(value, NotEmulated):
            with pytest.raises(NotImplementedError, match=f"{name.rpartition('.')[2]} is not emulated yet"):
                value(1, 2)
            with pytest.raises(NotImplementedError):
                value.attribute  # noqa: B018
        else:
            assert callable(value)


def test_names_are_where_pyasc_has_them():
    from cannlab.ascendc.language.adv.math import exp as adv_exp
    from cannlab.ascendc.language.basic.vec_brcb import brcb

    assert brcb is asc.brcb
    assert adv_exp is asc.adv.exp
    with pytest.raises(AttributeError, match=r"pyasc has it in asc\.language\.core\.struct"):
        asc.Struct  # noqa: B018


def test_the_table_is_fresh():
    assert DOCS.read_text(encoding="utf-8") == coverage.table(), "run python -m cannlab.ascendc.coverage"


def test_what_is_left_out_has_a_reason():
    missing = {module for module, names in coverage.names().items() if not all(names.values())} - {"asc"}
    assert missing == set(coverage.REASONS)
    homes = {name for module in missing for name, there in coverage.names()[module].items() if not there}
    assert {name for name, there in coverage.names()["asc"].items() if not there} <= homes


def test_the_runtime_knows_kinds_of_cores():
    from cannlab.ascendc.lib import runtime as rt

    assert rt.CoreType.AiCore.value == "AiCore"
    assert [rt.magic_elf_value(kind) for kind in rt.CoreType] == [0x43554245, 0x41415246, 0x41494343, 0x41415243]
    assert [rt.msprof_task_type(kind) for kind in rt.CoreType] == [0, 2, 0, 1]
    for ask in (rt.magic_elf_value, rt.msprof_task_type):
        with pytest.raises(RuntimeError, match="Core type is not supported!"):
            ask(0)
    module, info = rt.DeviceModuleType, rt.DeviceInfoType
    assert rt.device_info(module.RT_MODULE_TYPE_AICORE, info.INFO_TYPE_CORE_NUM) == 24
    assert rt.device_info(module.RT_MODULE_TYPE_VECTOR_CORE, info.INFO_TYPE_CORE_NUM) == 48
    with pytest.raises(RuntimeError, match="returned 107001"):
        rt.device_info(module.RT_MODULE_TYPE_AICORE, info.INFO_TYPE_CORE_NUM, 99)
    with pytest.raises(NotImplementedError, match="npu-smi"):
        rt.device_info(module.RT_MODULE_TYPE_CCPU, info.INFO_TYPE_IP)
