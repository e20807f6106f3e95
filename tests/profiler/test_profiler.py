"""The profiler on records that are built by hand: every expected number is written out here."""

from __future__ import annotations

import csv
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannlab.profiler import (
    KernelSpan,
    OperatorTable,
    chrome_trace,
    kernel_spans,
    kernel_timeline,
    timeline,
    write_chrome_trace,
)
from cannlab.trace import Record, TaskKind
from cannlab.trace.whole_file import write_whole


def call(record: Record, name: str, start: int, end: int, line: int, thread: int = 0, code: int = 0) -> None:
    text = record.strings.number
    record.calls.append(thread, text(name), start, end, code, text("prog.py"), line)


def task(record: Record, kind: TaskKind, name: str, times: tuple[int, int, int], line: int = 0, **more: Any) -> int:
    text = record.strings.number
    queued, start, end = times
    return record.tasks.append(
        more.get("device", 0),
        more.get("stream", 0),
        kind,
        text(name),
        text(more.get("op_type", "")),
        text(more.get("core_type", "")),
        queued,
        start,
        end,
        more.get("bytes", 0),
        more.get("blocks", 0),
        more.get("parent", -1),
        more.get("kernel", -1),
        text("prog.py") if line else 0,
        line,
    )


@pytest.fixture
def record() -> Record:
    """One model of two operators between two copies on device 0, one kernel on device 1, an event."""
    made = Record("Ascend910B1", 2, "8.1")
    call(made, "acl.rt.memcpy_async", 100, 350, line=10)
    call(made, "acl.mdl.execute_async", 400, 900, line=11)
    call(made, "acl.rt.synchronize_stream", 1000, 9001, line=12, thread=1, code=507015)
    task(made, TaskKind.COPY_H2D, "memcpy", (350, 350, 1351), 10, core_type="MEMCPY_ASYNC", bytes=4096)
    model = task(made, TaskKind.MODEL, "net", (900, 1351, 7351), 11)
    conv = {"op_type": "Conv2D", "core_type": "AI_CORE", "parent": model, "blocks": 20}
    task(made, TaskKind.OPERATOR, "conv1", (900, 1351, 5351), 11, **conv)
    task(made, TaskKind.OPERATOR, "conv2", (900, 5351, 7351), 11, **conv)
    task(made, TaskKind.EVENT_RECORD, "", (900, 7351, 7351), 11)
    task(made, TaskKind.KERNEL, "vadd", (900, 1000, 3000), 0, device=1, stream=3, op_type="vadd", blocks=8)
    text = made.strings.number
    made.memory.append(0, text("DEVICE"), 50, 0, 4096, 0, 0)
    made.memory.append(-1, text("HOST"), 60, 1, 1000, 0, 0)
    made.memory.append(0, text("DEVICE"), 60, 2, 1024, 0, 0)
    made.memory.append(0, text("DEVICE"), 9500, 0, -4096, 0, 0)
    return made


def bars(trace: dict[str, Any], process: str | None = None) -> list[dict[str, Any]]:
    events = trace["traceEvents"]
    named = {event["pid"]: event["args"] for event in events if event["name"] == "process_labels"}
    return [e for e in events if e["ph"] == "X" and process in (None, named[e["pid"]]["labels"])]


def test_bars_keep_every_nanosecond(record: Record) -> None:
    found = {bar["name"]: (bar["ts"], bar["dur"]) for bar in bars(chrome_trace(record))}
    assert found["memcpy"] == (0.35, 1.001)
    assert found["conv1"] == (1.351, 4.0)
    assert found["conv2"] == (5.351, 2.0)
    assert found["AscendCL@acl.rt.synchronize_stream"] == (1.0, 8.001)


@pytest.mark.parametrize("ns", [1, 999, 1_000_001, 123_456_789_012_345])
def test_a_time_prints_as_whole_nanoseconds(ns: int) -> None:
    made = Record("Ascend910B1", 1, "8.1")
    task(made, TaskKind.MEMSET, "memset", (0, ns, ns + 1))
    text = json.dumps(bars(chrome_trace(made))[0]["ts"])
    whole, _, part = text.partition(".")
    assert len(part) <= 3
    assert int(whole) * 1000 + int(part.ljust(3, "0")) == ns


def test_processes_and_threads_are_named(record: Record) -> None:
    events = chrome_trace(record)["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(threads.values()) == ["Stream 0", "Stream 3", "Thread 0", "Thread 1"]
    drawn = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    assert drawn == set(threads)
    assert {bar["name"] for bar in bars(chrome_trace(record), "NPU 1")} == {"vadd"}


def test_operators_lie_inside_their_model(record: Record) -> None:
    on_device = bars(chrome_trace(record), "NPU 0")
    names = [bar["name"] for bar in on_device]
    assert names.index("net") < names.index("conv1") < names.index("conv2")
    outer = next(bar for bar in on_device if bar["name"] == "net")
    for bar in on_device:
        if bar["name"].startswith("conv"):
            assert outer["ts"] <= bar["ts"]
            assert bar["ts"] + bar["dur"] <= outer["ts"] + outer["dur"] + 1e-9


def test_arrows_lead_from_the_queueing_call_to_the_task(record: Record) -> None:
    events = chrome_trace(record)["traceEvents"]
    starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
    assert starts == {0: 0.1, 1: 0.4, 4: 0.4}  # the copy; the model; the event, but no operator of the model
    assert ends == {0: 0.35, 1: 1.351, 4: 7.351}


def test_no_arrow_from_a_call_that_had_already_returned() -> None:
    made = Record("Ascend910B1", 1, "8.1")
    call(made, "acl.rt.memcpy_async", 0, 10, line=4)
    task(made, TaskKind.COPY_H2D, "memcpy", (500, 500, 600), 4)
    assert not [e for e in chrome_trace(made)["traceEvents"] if e["ph"] in "sf"]


def test_memory_counter_adds_up_device_memory_only(record: Record) -> None:
    events = chrome_trace(record)["traceEvents"]
    assert [(e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C"] == [
        (0.05, 4096),
        (0.06, 5120),
        (9.5, 1024),
    ]


def test_kernel_spans_become_tracks_of_core_pipes(record: Record) -> None:
    kernel = task(record, TaskKind.KERNEL, "mul", (900, 20_000, 30_000), device=1, stream=3, kernel=0)
    assert kernel >= 0
    spans = [KernelSpan(0, "MTE2", "data_copy", 100, 600, 7), KernelSpan(2, "V", "mul", 600, 700)]
    trace = chrome_trace(record, {0: spans})
    drawn = {bar["name"]: (bar["ts"], bar["dur"]) for bar in bars(trace) if bar["cat"] == "instruction"}
    assert drawn == {"data_copy": (20.1, 0.5), "mul": (20.6, 0.1)}
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {"Core 0 MTE2", "Core 2 V"} <= names


def test_an_empty_record_gives_an_empty_trace() -> None:
    assert chrome_trace(Record("Ascend910B1", 1, "8.1"))["traceEvents"] == []


def test_trace_file_is_json_and_says_that_it_is_emulated(record: Record, tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    write_chrome_trace(record, target)
    read = json.loads(target.read_text())
    assert read["otherData"]["cann"] == "8.1 (emulated)"
    assert len(read["traceEvents"]) == len(chrome_trace(record)["traceEvents"])


def test_a_failed_write_leaves_the_old_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "trace.json"
    target.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(target, b"new")
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]


# -- operator table -----------------------------------------------------------------------------------


def test_types_count_total_average_share(record: Record) -> None:
    table = OperatorTable(record)
    rows = {(row.device, row.op_type): row for row in table.types}
    conv = rows[0, "Conv2D"]
    assert (conv.count, conv.total, conv.shortest, conv.longest, conv.average) == (2, 6000, 2000, 4000, 3000)
    assert conv.share == pytest.approx(100 * 6000 / 7001)
    assert rows[0, "COPY_H2D"].share == pytest.approx(100 * 1001 / 7001)
    assert rows[1, "vadd"].share == 100
    assert [(row.device, row.op_type) for row in table.types] == [(0, "Conv2D"), (0, "COPY_H2D"), (1, "vadd")]


def test_a_model_counts_by_its_operators_or_else_itself(record: Record) -> None:
    assert "net" not in [row.name for row in OperatorTable(record).tasks]
    alone = Record("Ascend910B1", 1, "8.1")
    task(alone, TaskKind.MODEL, "net", (0, 10, 30))
    assert [(row.name, row.duration, row.wait) for row in OperatorTable(alone).tasks] == [("net", 20, 10)]


def test_csv_holds_the_columns_of_the_real_tool(record: Record, tmp_path: Path) -> None:
    table = OperatorTable(record)
    table.write_csv(tmp_path / "op_statistic.csv")
    rows = list(csv.DictReader((tmp_path / "op_statistic.csv").open()))
    assert rows[0]["OP Type"] == "Conv2D"
    assert rows[0]["Total Time(us)"] == "6.000"
    assert rows[0]["Ratio(%)"] == "85.702"
    table.write_csv(tmp_path / "op_summary.csv", tasks=True)
    rows = list(csv.DictReader((tmp_path / "op_summary.csv").open()))
    assert [row["Task Wait Time(us)"] for row in rows] == ["0.000", "0.451", "4.451", "0.100"]


def test_text_and_html_show_names_as_they_are() -> None:
    made = Record("Ascend910B1", 1, "8.1")
    task(made, TaskKind.OPERATOR, "<a>[bold]", (0, 0, 5), op_type="<b>[red]Add")
    table = OperatorTable(made)
    assert "<b>[red]Add" in table.text()
    assert "<a>[bold]" in table.text(tasks=True)
    assert "&lt;b&gt;[red]Add" in table._repr_html_()
    assert "<b>" not in table._repr_html_()


def test_an_empty_table_is_printed() -> None:
    assert "OP Type" in OperatorTable(Record("Ascend910B1", 1, "8.1")).text()


# -- pictures -----------------------------------------------------------------------------------------


def png_chunks(data: bytes) -> dict[bytes, bytes]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0]
        found[kind] = found.get(kind, b"") + body
        at += 12 + size
    return found


def pixels(data: bytes) -> np.ndarray[Any, Any]:
    import io

    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(data), format="png"))


def has_colour(data: bytes, colour: str) -> bool:
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return bool((np.abs(pixels(data)[..., :3] - wanted).max(axis=-1) < 0.004).any())


def test_picture_is_the_same_twice_and_names_no_program(record: Record) -> None:
    first, second = timeline(record).png, timeline(record).png
    assert first == second
    assert b"Software" not in png_chunks(first).get(b"tEXt", b"")


def test_picture_draws_each_kind_in_its_colour(record: Record) -> None:
    from cannlab.profiler.timeline import _COLOURS

    drawn = timeline(record).png
    for group in ("host", "copy in", "operator", "model", "kernel"):
        assert has_colour(drawn, _COLOURS[group]), group
    assert not has_colour(drawn, _COLOURS["copy out"])


def test_picture_grows_with_its_lanes(record: Record) -> None:
    one = Record("Ascend910B1", 1, "8.1")
    task(one, TaskKind.MEMSET, "memset", (0, 0, 10))
    assert pixels(timeline(record).png).shape[0] > pixels(timeline(one).png).shape[0]


def test_picture_does_not_depend_on_the_users_style(record: Record) -> None:
    import matplotlib

    plain = timeline(record).png
    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 20}):
        assert timeline(record).png == plain


def test_window_shows_a_part(record: Record) -> None:
    from cannlab.profiler.timeline import _COLOURS

    part = timeline(record, window=(1400, 5000)).png
    assert has_colour(part, _COLOURS["operator"])
    assert not has_colour(part, _COLOURS["copy in"])
    whole = timeline(record, window=(100, 9001)).png
    assert pixels(whole).shape == pixels(timeline(record).png).shape
    with pytest.raises(ValueError, match="empty"):
        timeline(record, window=(5, 5))


def test_window_has_only_the_lanes_that_it_needs(record: Record) -> None:
    whole, part = timeline(record), timeline(record, window=(8000, 9000))
    assert pixels(part.png).shape[0] < pixels(whole.png).shape[0]
    assert repr(part) == "<picture>"


def test_pictures_of_nothing_are_drawn() -> None:
    assert timeline(Record("Ascend910B1", 1, "8.1")).png
    assert kernel_timeline([]).png


def test_picture_is_saved_whole(record: Record, tmp_path: Path) -> None:
    picture = timeline(record)
    picture.save(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes() == picture.png == picture._repr_png_()
    with pytest.raises(FileNotFoundError):
        picture.save(tmp_path / "missing" / "run.png")


# -- a kernel that the machine ran ----------------------------------------------------------------------


def test_kernel_spans_of_a_real_launch() -> None:
    from cannlab.machine.core import HardEvent, Launch, Pipe, Space, run
    from cannlab.machine.core.opcodes import BY_NAME

    copy, set_flag, wait_flag = (BY_NAME[name].number for name in ("data_copy", "set_flag", "wait_flag"))
    event = (int(HardEvent.MTE2_MTE3), 0)

    def body(launch: Launch) -> None:
        at = launch.block * 512
        move = (1, 512, 0, 0, 0)
        launch.issue(copy, int(Pipe.MTE2), 0, move, ((int(Space.UB), 0, 512), (0, at, 512)))
        launch.issue(set_flag, int(Pipe.S), 0, event)
        launch.issue(wait_flag, int(Pipe.S), 0, event)
        launch.issue(copy, int(Pipe.MTE3), 0, move, ((1, at, 512), (int(Space.UB), 0, 512)))

    source, target = np.arange(256, dtype=np.float32), np.zeros(256, dtype=np.float32)
    result = run("copy", body, [source, target], 2)
    assert not result.diagnoses
    spans = kernel_spans(result.trace)
    assert [(span.pipe, span.name) for span in spans] == [("MTE2", "data_copy"), ("MTE3", "data_copy")] * 2
    assert {span.core for span in spans} == {0, 1}
    for read, write in zip(spans[::2], spans[1::2], strict=True):
        assert 0 < read.start < read.end <= write.start < write.end <= result.timing.ns
    assert has_colour(kernel_timeline(spans).png, "#2a9d8f")
    assert all(span.line for span in spans)
