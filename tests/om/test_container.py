"""The om file: what is written comes back, and whatever happens to the bytes is an error with its code."""

import hashlib
import os
import struct

import pytest

from cannlab import om
from cannlab.om import Cost, Format, OmError, OmModel, OmTensor, Task


def make(weights: bytes = bytes(range(256)) * 5) -> OmModel:
    x = OmTensor("x", 0, Format.NCHW, (1, 3, 8, 8))
    y = OmTensor("conv:0:y", 1, Format.ND, (1, 4))
    cost = Cost(bytes_in=10, bytes_out=20, bytes_weights=30, cube=(1, 64, 144, 16), vector_elements=7)
    task = Task("conv", "Conv2D", "AI_CORE", ("conv", "relu"), ("conv", "relu"), (x,), (y,), cost)
    return OmModel(
        name="net",
        soc="Ascend310P3",
        cann="8.1",
        cannlab="0.1.0",
        inputs=(x,),
        outputs=(y,),
        tasks=(task,),
        graph_bytes=b"graph" * 20,
        weight_bytes=weights,
        work_size=1234,
        command="atc --model=net.onnx",
        gears={"batch": [1, 2]},
        aipp={"mode": "static"},
    )


def test_round_trip(tmp_path):
    path = tmp_path / "net.om"
    om.write(make(), path)
    back = om.read(path)
    assert back == make()
    assert back.inputs[0].size == 3 * 64 * 4
    assert back.outputs[0].size == 4 * 2
    assert back.tasks[0].cost.macs == 64 * 144 * 16
    assert back.weight_size == 1280
    assert om.read(path.read_bytes()) == make()
    assert list(tmp_path.iterdir()) == [path]


def test_equal_models_give_equal_bytes():
    assert om.to_bytes(make()) == om.to_bytes(make())
    assert om.to_bytes(make()) != om.to_bytes(make(b"other"))


def test_magic_is_not_the_real_one():
    assert om.to_bytes(make())[:4] != b"IMOD"


@pytest.mark.parametrize("sixteenth", range(16))
def test_truncated(sixteenth):
    data = om.to_bytes(make())
    with pytest.raises(OmError) as caught:
        om.read(data[: len(data) * sixteenth // 16])
    assert caught.value.code == 145006


def test_longer_than_stated():
    with pytest.raises(OmError) as caught:
        om.read(om.to_bytes(make()) + b"x")
    assert caught.value.code == 145006


def test_every_flipped_byte_is_refused():
    data = bytearray(om.to_bytes(make()))
    codes = set()
    for at in range(len(data)):
        data[at] ^= 0x55
        with pytest.raises(OmError) as caught:
            om.read(bytes(data))
        codes.add(caught.value.code)
        data[at] ^= 0x55
    assert codes == {145006, 545001, 545002, 545003, 545004}
    assert om.read(bytes(data)) == make()


@pytest.mark.parametrize(("part", "code"), [(b"graph", 545002), (bytes(range(256)), 545003), (b'"Conv2D"', 545004)])
def test_damage_names_the_partition(part, code):
    data = bytearray(om.to_bytes(make()))
    data[data.index(part) + 1] ^= 1
    with pytest.raises(OmError) as caught:
        om.read(data)
    assert caught.value.code == code


def test_missing_directory_and_unreadable(tmp_path):
    for path in (tmp_path / "none.om", tmp_path):
        with pytest.raises(OmError) as caught:
            om.read(path)
        assert caught.value.code == 145002
        assert str(tmp_path) not in str(caught.value)
    with pytest.raises(OmError) as caught:
        om.read("nul\0in.om")
    assert caught.value.code == 145002


def test_no_permission(tmp_path):
    path = tmp_path / "net.om"
    om.write(make(), path)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(OmError) as caught:
        om.read(path)
    assert caught.value.code == 145002


def test_empty_file(tmp_path):
    path = tmp_path / "empty.om"
    path.touch()
    with pytest.raises(OmError) as caught:
        om.read(path)
    assert caught.value.code == 145006


def test_real_om_is_refused_by_name():
    with pytest.raises(OmError) as caught:
        om.read(b"IMOD" + bytes(1000))
    assert caught.value.diagnosis.rule == "om.real"
    with pytest.raises(OmError) as caught:
        om.read(b"\x08\x07\x12\x05torch" + bytes(1000))
    assert caught.value.diagnosis.rule == "om.foreign"


def test_other_soc():
    data = om.to_bytes(make())
    assert om.read(data, soc="Ascend310P3").soc == "Ascend310P3"
    with pytest.raises(OmError) as caught:
        om.read(data, soc="Ascend910B1")
    assert caught.value.diagnosis.rule == "om.other_soc"
    assert "--soc_version=Ascend910B1" in str(caught.value)


def test_other_format_version():
    data = bytearray(om.to_bytes(make()))
    data[8:12] = struct.pack("<I", 9)
    data[224:256] = hashlib.sha256(data[:224]).digest()
    with pytest.raises(OmError) as caught:
        om.read(data)
    assert caught.value.diagnosis.rule == "om.version"


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "net.om"
    path.write_bytes(b"old")

    def interrupt(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(path), "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        om.write(make(), path)
    assert [item.name for item in tmp_path.iterdir()] == ["net.om"]
    assert path.read_bytes() == b"old"
