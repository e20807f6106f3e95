"""acl.prof: the order of calls, the PROF_ directory, marks, iterations, subscriptions."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from cannlab import om
from cannlab.acl.functions.prof_subscriptions import DESC_SIZE
from cannlab.profiler.operands import tensor_cells
from cannlab.trace import Record
from tests.pyacl.test_models import add_one

API, TASKS, METRICS, MARKS, STEPS, MEMORY = 0x1, 0x2, 0x4, 0x80, 0x40, 0x1000
PIPE = 1


def load(acl, tmp_path):
    """A loaded model and a function that runs it."""
    om.write(add_one(), tmp_path / "net.om")
    number, code = acl.mdl.load_from_file(str(tmp_path / "net.om"))
    assert code == 0
    datasets = []
    for count in (1, 2):
        dataset = acl.mdl.create_dataset()
        for _ in range(count):
            pointer, _ = acl.rt.malloc(128, 0)
            acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, 128))
        datasets.append(dataset)
    return number, lambda: acl.mdl.execute(number, *datasets)


@pytest.fixture
def model(acl, tmp_path):
    return load(acl, tmp_path)


def only(folder: Path) -> Path:
    (found,) = folder.glob("PROF_*")
    return found


def table(folder: Path, name: str) -> list[dict[str, str]]:
    (path,) = (only(folder) / "mindstudio_profiler_output").glob(f"{name}_*.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# -- the order of calls --------------------------------------------------------------------------------


def test_order(acl, tmp_path, rules) -> None:
    config = acl.prof.create_config([0], PIPE, 0, API | TASKS)
    assert config
    assert acl.prof.start(config) == 100043
    assert acl.prof.stop(config) == 100043
    assert acl.prof.finalize() == 100043
    assert acl.prof.set_config(1, "500MB") == 100043
    assert acl.prof.init("") == 100000
    assert acl.prof.init(str(tmp_path / "deep" / "er")) == 0
    assert acl.prof.init(str(tmp_path)) == 100002
    assert acl.prof.stop(config) == 100043
    assert acl.prof.start(config) == 0
    assert acl.prof.start(config) == 100042
    other = acl.prof.create_config([0], PIPE, 0, TASKS)
    assert acl.prof.stop(other) == 100000
    second = acl.prof.create_config([1], PIPE, 0, TASKS)
    assert acl.prof.start(second) == 0
    assert acl.prof.stop(second) == 0
    assert acl.prof.stop(config) == 0
    assert acl.prof.finalize() == 0
    assert acl.prof.finalize() == 100043
    assert [acl.prof.destroy_config(entry) for entry in (config, other, second)] == [0, 0, 0]
    assert acl.prof.destroy_config(0) == 100000
    assert set(rules()) >= {"prof.not_running", "prof.repeat_init", "prof.already_running", "prof.different_stop"}
    assert len(list((tmp_path / "deep" / "er").glob("PROF_*"))) == 2


def test_a_file_in_the_way(acl, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    assert acl.prof.init(str(tmp_path / "file")) == 100003
    assert acl.prof.finalize() == 100043


@pytest.mark.parametrize(
    ("devices", "events", "mask"), [([2], 0, 1), ([0, 0], 0, 1), ([], 0, 1), ([0], 5, 1), ([1, 0, 7], 0, 0x80)]
)
def test_no_configuration_of_this(acl, rules, devices, events, mask) -> None:
    assert acl.prof.create_config(devices, PIPE, events, mask) == 0
    assert rules() == ["prof.bad_config"]


def test_arguments(acl, tmp_path, rules) -> None:
    assert acl.prof.create_config([], PIPE, 0, MARKS)
    for bad in ((0,), "0"):
        with pytest.raises(TypeError, match="argument 1 is not list"):
            acl.prof.create_config(bad, PIPE, 0, 1)
    with pytest.raises(TypeError, match="not list of int"):
        acl.prof.create_config(["0"], PIPE, 0, 1)
    with pytest.raises(ValueError, match="PyLong_AsUnsignedLong"):
        acl.prof.create_config([-1], PIPE, 0, 1)
    strange = acl.prof.create_config([0], PIPE, 0, 1 << 50)
    acl.prof.init(str(tmp_path))
    assert acl.prof.start(strange) == 200007
    assert acl.prof.start(0) == 100000
    assert not list(tmp_path.glob("PROF_*"))


def test_settings(acl, tmp_path) -> None:
    acl.prof.init(str(tmp_path))
    good = {1: "500MB", 2: "1", 3: "50", 4: "read", 5: "100", 6: "50", 7: "1", 8: "cpu,mem", 9: "cpu", 10: "50"}
    assert [acl.prof.set_config(kind, value) for kind, value in good.items()] == [0] * 10
    bad = {1: "100MB", 2: "99", 3: "0", 4: "all", 5: "101", 6: "51", 7: "x", 8: "cpu,gpu", 9: "", 10: "-1"}
    assert [acl.prof.set_config(kind, value) for kind, value in bad.items()] == [100010] * 10
    assert [acl.prof.set_config(kind, "1") for kind in (0, 11, -1)] == [100000] * 3
    assert acl.prof.set_config(1, "5" * 257) == 100000
    acl.prof.start(acl.prof.create_config([0], PIPE, 0, API))
    sample = json.loads((only(tmp_path) / "device_0" / "sample.json").read_text())
    assert sample["storage_limit"] == "500MB"
    assert sample["devices"] == [0]


# -- the directory -------------------------------------------------------------------------------------


def test_what_ran_between_start_and_stop(acl, m, model, tmp_path) -> None:
    number, run = model
    out = tmp_path / "out"
    acl.prof.init(str(out))
    config = acl.prof.create_config([0, 1], PIPE, 0, API | TASKS | METRICS | MEMORY)
    run()
    assert acl.prof.start(config) == 0
    pointer, _ = acl.rt.malloc(2 << 20, 0)
    before = len(m.record.tasks)
    run()
    run()
    acl.rt.free(pointer)
    assert acl.prof.stop(config) == 0
    run()
    acl.prof.finalize()

    folder = only(out)
    assert folder.name.split("_")[1] == "000001"
    assert len(folder.name.split("_")[2]) == 17
    assert sorted(path.name for path in folder.iterdir()) == [
        "device_0",
        "device_1",
        "host",
        "mindstudio_profiler_output",
    ]
    info = json.loads((folder / "device_1" / "info.json.1").read_text())
    assert info["DeviceInfo"] == [
        {"id": 1, "ai_core_num": m.soc.cube_cores, "aiv_num": m.soc.vector_cores}
        | {"aic_frequency": m.soc.cube_mhz, "aiv_frequency": m.soc.vector_mhz}
    ]
    rows = [row for row in list(m.record.tasks.rows())[before:] if row["parent"] >= 0][:4]
    summary = table(out, "op_summary")
    assert [row["Op Name"] for row in summary] == ["add", "mul"] * 2
    assert [row["OP Type"] for row in summary] == ["Add", "Mul"] * 2
    assert {row["Model ID"] for row in summary} == {str(number)}
    assert {row["Input Shapes"] for row in summary} == {row["Output Shapes"] for row in summary} == {"2,16"}
    assert {row["Input Data Types"] for row in summary} == {row["Output Data Types"] for row in summary} == {"FLOAT"}
    assert {row["Input Formats"] for row in summary} == {row["Output Formats"] for row in summary} == {"ND"}
    assert {row["Task Type"] for row in summary} == {"AI_VECTOR_CORE"}
    assert [row["Task Start Time(us)"] for row in summary] == [f"{row['start'] / 1000:.3f}\t" for row in rows]
    assert [row["Task Duration(us)"] for row in summary] == [f"{(r['end'] - r['start']) / 1000:.3f}" for r in rows]
    assert summary[0]["aiv_time(us)"] == summary[0]["Task Duration(us)"]
    assert summary[0]["aic_mac_ratio"] == "N/A"
    statistic = {row["OP Type"]: row for row in table(out, "op_statistic")}
    assert statistic["Add"]["Count"] == statistic["Mul"]["Count"] == "2"
    calls = {row["API Name"]: row for row in table(out, "api_statistic")}
    assert calls["acl.mdl.execute"]["Count"] == "2"
    assert calls["acl.rt.malloc"]["Count"] == "1"
    assert "acl.mdl.load_from_file" not in calls
    assert [row["Total Allocated(KB)"] for row in table(out, "memory_record")] == ["2048.000", "0.000"]
    assert [row["kernel_name"] for row in table(out, "task_time")] == ["add", "mul"] * 2
    kept = Record.load(folder / "host" / "data" / "record.npz")
    assert len(kept.tasks) == 6
    assert [row["parent"] for row in kept.tasks.rows()] == [-1, 0, 0, -1, 3, 3]
    (trace,) = (folder / "mindstudio_profiler_output").glob("msprof_*.json")
    assert {event["name"] for event in json.loads(trace.read_text())} >= {"add", "mul", "AscendCL@acl.mdl.execute"}


def test_the_shapes_are_those_that_the_chip_stores() -> None:
    image = om.OmTensor("x", 1, om.Format.NC1HWC0, (1, 3, 8, 8))
    brain = om.OmTensor("y", 27, om.Format.ND, (4,))
    assert tensor_cells((image, brain), (brain,)) == (
        ("1,1,8,8,16;4", "FLOAT16;DT_BF16", "NC1HWC0;ND") + ("4", "DT_BF16", "ND")
    )
    assert tensor_cells((om.OmTensor("x", 1, om.Format.ND, (-1, 3)),), ()) == ()


def test_the_model_ids_of_what_is_loaded_later_and_of_single_operators(acl, tmp_path) -> None:
    acl.prof.init(str(tmp_path / "out"))
    config = acl.prof.create_config([0], PIPE, 0, TASKS)
    acl.prof.start(config)
    number, run = load(acl, tmp_path)
    assert run() == 0
    assert acl.mdl.unload(number) == 0
    stream, _ = acl.rt.create_stream()
    pointer, _ = acl.rt.malloc(16, 0)
    desc = acl.create_tensor_desc(0, [4], 2)
    buffer = acl.create_data_buffer(pointer, 16)
    assert acl.op.execute_v2("Add", [desc, desc], [buffer, buffer], [desc], [buffer], 0, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.prof.stop(config) == 0
    ids = [row["Model ID"] for row in table(tmp_path / "out", "op_summary")]
    assert ids == [str(number), str(number), "4294967295"]


def test_only_what_was_asked_for(acl, model, tmp_path) -> None:
    acl.prof.init(str(tmp_path / "out"))
    config = acl.prof.create_config([0], PIPE, 0, 0x800)
    acl.prof.start(config)
    model[1]()
    acl.prof.finalize()
    names = [path.name for path in (only(tmp_path / "out") / "mindstudio_profiler_output").iterdir()]
    assert sorted(name.rpartition("_")[0] for name in names if name != "README.txt") == ["msprof", "task_time"]


def test_other_devices_are_left_out(acl, tmp_path) -> None:
    acl.prof.init(str(tmp_path))
    config = acl.prof.create_config([1], PIPE, 0, TASKS)
    acl.prof.start(config)
    for device in (0, 1):
        acl.rt.set_device(device)
        pointer, _ = acl.rt.malloc(64, 0)
        acl.rt.memset(pointer, 64, 0, 64)
    acl.prof.stop(config)
    assert [row["Device_id"] for row in table(tmp_path, "task_time")] == ["1"]


# -- marks and steps -----------------------------------------------------------------------------------


def test_marks(acl, m, tmp_path) -> None:
    assert acl.prof.create_stamp() == 0
    acl.prof.init(str(tmp_path))
    config = acl.prof.create_config([], PIPE, 0, MARKS)
    acl.prof.start(config)
    stream, _ = acl.rt.create_stream()
    first, second = acl.prof.create_stamp(), acl.prof.create_stamp()
    assert first
    assert second
    assert first != second
    assert acl.prof.pop() == -1
    assert acl.prof.push(0) == -1
    assert acl.prof.set_stamp_trace_message(first, "outer range", 5) == 0
    assert acl.prof.set_stamp_trace_message(first, "x" * 128, 128) == -1
    assert acl.prof.set_stamp_trace_message(first, "x", 2) == -1
    assert acl.prof.set_stamp_trace_message(second, "inner", 5) == 0
    assert acl.prof.push(first) == 0
    begun = m.thread.now
    assert acl.prof.push(second) == 0
    assert acl.prof.pop() == 0
    assert acl.prof.mark(second) == 0
    assert acl.prof.pop() == 0
    number, code = acl.prof.range_start(second)
    assert code == 0
    assert acl.prof.range_stop(number + 1) == -1
    assert acl.prof.range_stop(number) == 0
    assert acl.prof.range_stop(number) == -1
    assert acl.prof.mark_ex("here", 0) == -1
    assert acl.prof.mark_ex("", stream) == -1
    assert acl.prof.mark_ex("here", stream) == 0
    assert acl.prof.destroy_stamp(first) is None
    assert acl.prof.stop(config) == 0
    assert acl.prof.mark(second) == -1
    rows = table(tmp_path, "msprof_tx")
    assert [(row["event_type"], row["message"]) for row in rows] == [
        ("push/pop", "inner"),
        ("marker", "inner"),
        ("push/pop", "outer"),
        ("start/end", "inner"),
        ("marker_ex", "here"),
    ]
    assert float(rows[2]["Start_time(us)"]) <= begun / 1000 < float(rows[2]["End_time(us)"])
    assert float(rows[2]["Start_time(us)"]) < float(rows[0]["Start_time(us)"])
    assert rows[1]["Start_time(us)"] == rows[1]["End_time(us)"]
    assert rows[0]["pid"] == str(os.getpid())


def test_steps(acl, m, model, tmp_path) -> None:
    acl.prof.init(str(tmp_path))
    config = acl.prof.create_config([0], PIPE, 0, TASKS | STEPS)
    acl.prof.start(config)
    stream, _ = acl.rt.create_stream()
    pointer, _ = acl.rt.malloc(1 << 20, 0)
    infos = [acl.prof.create_step_info() for _ in range(2)]
    assert acl.prof.get_step_timestamp(infos[0], 2, stream) == 100000
    for info in infos:
        assert acl.prof.get_step_timestamp(info, 0, stream) == 0
        acl.rt.memset_async(pointer, 1 << 20, 0, 1 << 20, stream)
        assert acl.prof.get_step_timestamp(info, 1, stream) == 0
    acl.rt.synchronize_stream(stream)
    acl.prof.stop(config)
    rows = table(tmp_path, "step_trace")
    strings = m.record.strings
    marks = [row["start"] for row in m.record.tasks.rows() if strings[row["core_type"]] == "PROFILER_TRACE_EX"]
    assert [row["Iteration ID"] for row in rows] == ["1", "2"]
    assert [row["Iteration Time(us)"] for row in rows] == [
        f"{(marks[1] - marks[0]) / 1000:.3f}",
        f"{(marks[3] - marks[2]) / 1000:.3f}",
    ]
    assert marks[1] > marks[0]
    assert rows[1]["Iteration End(us)"] == f"{marks[3] / 1000:.3f}\t"
    assert acl.prof.destroy_step_info(infos[0]) is None
    assert acl.prof.get_step_timestamp(infos[0], 0, stream) == 100000


# -- subscriptions -------------------------------------------------------------------------------------


def blocks(read: int) -> bytes:
    with os.fdopen(read, "rb") as file:
        return file.read()


def test_a_subscription_gives_the_operators(acl, m, model) -> None:
    number, run = model
    read, write = os.pipe()
    config = acl.prof.create_subscribe_config(1, PIPE, write)
    assert acl.prof.model_subscribe(number, config) == 0
    assert acl.prof.model_subscribe(number, config) == 148046
    assert acl.prof.init("/tmp") == 148047
    run()
    run()
    assert acl.prof.model_unsubscribe(number) == 0
    assert acl.prof.model_un_subscribe(number) == 100043
    run()
    data = blocks(read)
    size, code = acl.prof.get_op_desc_size()
    assert (size, code) == (DESC_SIZE, 0)
    assert len(data) == 4 * size
    pointer = acl.util.bytes_to_ptr(data)
    assert acl.prof.get_op_num(pointer, len(data)) == (4, 0)
    rows = [row for row in m.record.tasks.rows() if row["parent"] >= 0][:4]
    for at, row in enumerate(rows):
        assert acl.prof.get_op_start(pointer, len(data), at) == row["start"]
        assert acl.prof.get_op_end(pointer, len(data), at) == row["end"]
        assert acl.prof.get_op_duration(pointer, len(data), at) == row["end"] - row["start"]
        assert acl.prof.get_model_id(pointer, len(data), at) == number
    assert acl.prof.get_op_name_len(pointer, len(data), 1) == (4, 0)
    assert acl.prof.get_op_name(pointer, len(data), 1, 4097) == ("", 100000)
    assert acl.prof.get_op_name(pointer, len(data), 1, 2) == ("", 100000)
    assert acl.prof.get_op_name(pointer, len(data), 1, 4) == ("mul", 0)
    assert acl.prof.get_op_name(pointer, len(data), 1, 4) == ("", 100000)
    assert acl.prof.get_op_type_v2(pointer, len(data), 2) == ("Add", 0)
    assert acl.prof.get_op_type_v2(pointer, len(data), 2) == (None, 100000)
    assert acl.prof.get_op_type_len(pointer, len(data), 3) == (4, 0)
    assert acl.prof.get_op_type(pointer, len(data), 3, 4) == ("Mul", 0)
    assert acl.prof.get_op_name_v2(pointer, len(data), 0) == ("add", 0)
    assert acl.prof.get_op_num(pointer, len(data) - 1) == (0, 100000)
    assert acl.prof.get_op_start(pointer, len(data), 4) == 0
    assert acl.prof.get_op_num(0, size) == (0, 100000)
    damaged = bytearray(data)
    damaged[10] ^= 1
    pointer = acl.util.bytes_to_ptr(bytes(damaged))
    assert acl.prof.get_op_num(pointer, len(data)) == (0, 100000)


def test_two_models_share_a_pipe_and_nothing_comes_without_times(acl, model, tmp_path) -> None:
    number, run = model
    other, _ = acl.mdl.load_from_file(str(tmp_path / "net.om"))
    read, write = os.pipe()
    quiet = acl.prof.create_subscribe_config(0, PIPE, write)
    assert acl.prof.model_subscribe(number, quiet) == 0
    assert acl.prof.model_subscribe(other, quiet) == 0
    run()
    assert acl.prof.model_unsubscribe(number) == 0
    assert acl.prof.model_unsubscribe(other) == 0
    assert blocks(read) == b""
    assert acl.prof.destroy_subscribe_config(quiet) == 0


def test_subscriptions_that_cannot_be(acl, model, tmp_path, rules) -> None:
    number, _ = model
    read, write = os.pipe()
    config = acl.prof.create_subscribe_config(1, PIPE, write)
    assert acl.prof.model_subscribe(number + 5, config) == 100011
    assert acl.prof.model_unsubscribe(number + 5) == 100011
    assert acl.prof.model_subscribe(number, 0) == 100000
    os.close(write)
    os.close(read)
    assert acl.prof.model_subscribe(number, config) == 100000
    acl.prof.init(str(tmp_path))
    assert acl.prof.model_subscribe(number, config) == 148047
    assert rules()[-2:] == ["prof.bad_pipe", "prof.api_conflict"]


def test_a_full_pipe_holds_up_nobody(acl, model) -> None:
    number, run = model
    read, write = os.pipe()
    acl.prof.model_subscribe(number, acl.prof.create_subscribe_config(1, PIPE, write))
    for _ in range(600):
        run()
    acl.prof.model_unsubscribe(number)
    assert len(blocks(read)) == 1200 * DESC_SIZE > 65536


# -- the file of acl.init ------------------------------------------------------------------------------


def configured(tmp_path: Path, **profiler: str) -> str:
    path = tmp_path / "acl.json"
    path.write_text(json.dumps({"profiler": {"switch": "on", "output": str(tmp_path / "out"), **profiler}}))
    return str(path)


def test_the_file_of_init_profiles_until_finalize(m, tmp_path) -> None:
    import cannlab.acl as acl

    assert acl.init(configured(tmp_path, aic_metrics="PipeUtilization", task_memory="on")) == 0
    assert acl.prof.init(str(tmp_path)) == 100042
    assert acl.prof.finalize() == 100042
    acl.rt.set_device(0)
    pointer, _ = acl.rt.malloc(64, 0)
    acl.rt.memset(pointer, 64, 1, 64)
    assert acl.finalize() == 0
    assert [row["Device_id"] for row in table(tmp_path / "out", "task_time")] == ["0"]
    assert {row["API Name"] for row in table(tmp_path / "out", "api_statistic")} >= {"acl.rt.malloc"}
    assert acl.prof.init(str(tmp_path)) == 0


def test_switched_off_or_wrong(m, tmp_path) -> None:
    import cannlab.acl as acl

    assert acl.init(configured(tmp_path, aic_metrics="Pipes")) == 100000
    assert acl.init(configured(tmp_path, colour="red")) == 100000
    assert acl.init(configured(tmp_path, switch="off")) == 0
    acl.finalize()
    assert not (tmp_path / "out").exists()
