"""Training curves: TensorBoard reads what we write, we read what TensorBoard's writer wrote."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from cannlab.course.scalar_log import SummaryWriter, masked_crc, scalars

# One file of torch.utils.tensorboard.SummaryWriter (TensorBoard 2.21): add_scalar("loss/train", 0.5, 1).
THEIRS = (
    b"H\x00\x00\x00\x00\x00\x00\x00\xfe\x92H\x9d\tYk,v\x85\xc3\xdaA\x1a\rbrain.Event:2R.\n,tensorboard.summary.writer."
    b"event_file_writer\xfd\x0f\x86: \x00\x00\x00\x00\x00\x00\x00)\xed\xa9P\t\xc2v,v\x85\xc3\xdaA\x10\x01*\x13\n\x11\n"
    b"\nloss/train\x15\x00\x00\x00?\xd38\x9ex"
)


def test_the_checksum_is_castagnolis() -> None:
    crc = 0xE3069283  # of b"123456789", the check value of CRC-32C
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_a_file_of_tensorboards_writer_is_read(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.theirs").write_bytes(THEIRS)
    assert scalars(tmp_path) == {"loss/train": [(1, 0.5)]}


def test_an_event_has_the_bytes_of_tensorboards_writer(tmp_path: Path) -> None:
    (walltime,) = struct.unpack_from("<d", THEIRS, 72 + 16 + 12 + 1)
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss/train", 0.5, 1, walltime)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes().endswith(THEIRS[72 + 16 :])


def test_curves_of_several_files_come_back(tmp_path: Path) -> None:
    for start in (0, 200):
        with SummaryWriter(tmp_path) as writer:
            for step in range(start, start + 200, 100):
                writer.add_scalar("loss", step / 4, step)
                writer.add_scalar("größe", -step, step)
    found = scalars(tmp_path)
    assert sorted(found["loss"]) == [(0, 0.0), (100, 25.0), (200, 50.0), (300, 75.0)]
    assert sorted(found["größe"]) == [(0, 0.0), (100, -100.0), (200, -200.0), (300, -300.0)]
    assert scalars(tmp_path / "none") == {}


def test_a_cut_record_is_left_out_and_a_damaged_one_told(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1.0, 1)
        writer.add_scalar("a", 2.0, 2)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    assert scalars(tmp_path) == {"a": [(1, 1.0)]}
    path.write_bytes(data[:-10] + bytes([data[-10] ^ 1]) + data[-9:])
    with pytest.raises(ValueError, match="damaged"):
        scalars(tmp_path)


def test_tensorboard_itself_reads_it(tmp_path: Path) -> None:
    reason = "TENSORBOARD IS NOT INSTALLED: pip install 'cannlab[tensorboard]'"
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason=reason)
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("accuracy/val", 0.25, 3)
    read = module.EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("accuracy/val")] == [(3, 0.25)]
