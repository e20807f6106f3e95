"""init, finalize, messages, the log, conversions, descriptions."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

import cannlab.acl as acl


def test_init_counts(m) -> None:
    assert [acl.init(), acl.init(), acl.init()] == [0, 100002, 100002]
    assert [acl.finalize_reference() for _ in range(4)] == [(2, 0), (1, 0), (0, 0), (0, 100037)]
    assert acl.init() == 0


def test_finalize(m) -> None:
    assert acl.finalize(1) == 0
    assert acl.finalize() == 100037
    assert [acl.init(), acl.init(), acl.finalize(), acl.finalize()] == [0, 100002, 0, 100037]


def test_config_files(m, tmp_path) -> None:
    assert acl.init(str(tmp_path / "missing.json")) == 100003
    path = tmp_path / "acl.json"
    deep = "{}"
    for _ in range(10):
        deep = '{"a": ' + deep + "}"
    for bad in ("", "[]", "{", '{"err_msg_mode": "2"}', deep):
        path.write_text(bad)
        assert acl.init(str(path)) == 100000, bad
    path.write_text("{}")
    assert acl.init(str(path)) == 0
    path.write_text(json.dumps({"max_opqueue_num": "10"}))
    assert acl.init(str(path)) == 100000


def test_names_and_versions(m) -> None:
    assert acl.get_soc_name() == "Ascend910B1"
    assert acl.get_version() == (1, 13, 0, 0)


def test_messages_are_given_once_and_newest_first(acl) -> None:
    assert acl.get_recent_err_msg() is None
    acl.rt.free(0)
    acl.rt.set_device(99)
    text = acl.get_recent_err_msg()
    assert text.index("107001") < text.index("100000")
    assert "test_session.py, line" in text
    assert acl.get_recent_err_msg() is None


def test_diagnoses_are_printed_once(m, monkeypatch, capsys) -> None:
    monkeypatch.delenv("CANNLAB_DIAGNOSES")
    for _ in range(3):
        assert acl.rt.set_device(7) == 107001
    assert capsys.readouterr().err.count("No such device") == 1
    assert len(m.record.faults) == 3


def test_float16(m) -> None:
    values = [0.0, -0.0, 1.0, 1 / 3, 65504.0, 2.0**-24, -2.5]
    for value in values:
        assert acl.float_to_float16(value) == int(np.float16(value).view(np.uint16))
    assert acl.float_to_float16(1e6) == 0x7C00
    assert acl.float_to_float16(-1e6) == 0xFC00
    assert math.isnan(acl.float16_to_float(0x7E00))
    for bits in (0, 1, 0x3C01, 0x7BFF, 0x7C00, 0xFC00):
        assert acl.float16_to_float(bits) == float(np.uint16(bits).view(np.float16))
    with pytest.raises(TypeError):
        acl.float_to_float16("1")


def test_app_log(m, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path))
    assert acl.app_log(3, "broken") is None
    acl.app_log(1, "quiet")
    monkeypatch.setenv("ASCEND_MODULE_LOG_LEVEL", "APP=1")
    acl.app_log(1, "heard" + "x" * 2000)
    (file,) = (tmp_path / "debug" / "plog").glob("plog-*.log")
    lines = file.read_text().splitlines()
    form = r"\[ERROR\] APP\(\d+,[^)]*\):\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} \d+ test_app_log:"
    assert re.match(form + r'test_session\.py:\d+: "broken"$', lines[0])
    assert len(lines) == 2
    assert lines[1].endswith("...[truncated]")
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1")
    acl.app_log(3, "seen")
    assert "seen" in capsys.readouterr().out


def test_data_buffers(acl, rules) -> None:
    buffer = acl.create_data_buffer(0, 2**33 + 1)
    assert acl.get_data_buffer_size(buffer) == 1
    assert acl.get_data_buffer_size_v2(buffer) == 2**33 + 1
    assert acl.update_data_buffer(buffer, 64, 32) == 0
    assert (acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size(buffer)) == (64, 32)
    assert acl.get_data_buffer_addr(0) == acl.get_data_buffer_size(0) == 0
    assert acl.destroy_data_buffer(buffer) == 0
    assert acl.destroy_data_buffer(buffer) == 100000
    assert rules() == ["runtime.stale_handle"]
    assert acl.destroy_data_buffer(12345) == 100000
    assert rules() == ["runtime.bad_handle"]


def test_tensor_descs(acl) -> None:
    desc = acl.create_tensor_desc(1, [2, 3, 4], 2)
    assert acl.get_tensor_desc_type(desc) == 1
    assert acl.get_tensor_desc_format(desc) == 2
    assert acl.get_tensor_desc_element_count(desc) == 24
    assert acl.get_tensor_desc_size(desc) == 48
    assert acl.get_tensor_desc_num_dims(desc) == 3
    assert [acl.get_tensor_desc_dim(desc, index) for index in range(4)] == [2, 3, 4, -1]
    assert acl.get_tensor_desc_dim_v2(desc, 1) == (3, 0)
    assert acl.get_tensor_desc_dim_v2(desc, 3)[1] == 100000
    acl.set_tensor_desc_name(desc, "x")
    assert acl.get_tensor_desc_name(desc) == "x"
    assert acl.destroy_tensor_desc(desc) is None
    assert acl.destroy_tensor_desc(0) is None
    assert acl.get_tensor_desc_element_count(acl.create_tensor_desc(0, [], 2)) == 1
    assert acl.get_tensor_desc_element_count(acl.create_tensor_desc(0, [2, -1], 2)) == 0
    assert acl.get_tensor_desc_num_dims(acl.create_tensor_desc(0, [-2], 2)) == 2**64 - 2
    with pytest.raises(TypeError, match=r"acl\.create_tensor_desc args parse failed"):
        acl.create_tensor_desc(0, (2, 3), 2)
    with pytest.raises(ValueError, match="64 bits"):
        acl.create_tensor_desc(0, [2**64], 2)


@pytest.mark.parametrize(
    ("size", "dtypes"),
    [(0, [-1, 13]), (1, [2, 4, 12, 29]), (2, [1, 6, 27]), (4, [0, 3, 33]), (8, [9, 16, 99]), (16, [17])],
)
def test_data_type_size(m, dtypes, size) -> None:
    assert [acl.data_type_size(dtype) for dtype in dtypes] == [size] * len(dtypes)
