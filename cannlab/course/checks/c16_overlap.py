"""Checks of 16_overlap."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cannlab.course.checks.c03_model_to_om import atc
from cannlab.course.checks.c07_acl_robust import call_names
from cannlab.course.spec import (
    CaseRun,
    Check,
    Cost,
    File,
    Misconception,
    Sign,
    all_codes_zero,
    allclose,
    call,
    called,
    calls,
    change,
    copies,
    ends,
    everything_destroyed,
    everything_freed,
    fault,
    got,
    how_many_right,
    raises,
    read,
    require,
    sign,
    slow,
    source,
    streams,
    text,
    unmet,
)
from cannlab.trace import TaskKind

LESSON = "16_overlap"
Array = NDArray[Any]
BATCH = (5, 3, 96, 96)
FEATURES = 24
SLOTS = 3
"""What the pipelines are asked to have."""


@cache
def frames_om() -> bytes:
    """Patches of a picture to features: a convolution with stride 4, activation, convolution 1x1."""
    return _om(BATCH, [(FEATURES, 3, 4, 4), (FEATURES, FEATURES, 1, 1)])


@cache
def head_om() -> bytes:
    """What reads those features: a convolution 1x1 to six maps."""
    return _om((BATCH[0], FEATURES, BATCH[2] // 4, BATCH[3] // 4), [(6, FEATURES, 1, 1)])


def _om(dims: tuple[int, ...], layers: list[tuple[int, ...]]) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(16)
    nodes, weights, height, width, last = [], [], dims[2], dims[3], "image"
    for number, shape in enumerate(layers):
        weights.append(numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 4, f"w{number}"))
        size, end = shape[2], "maps" if number == len(layers) - 1 else f"c{number}"
        nodes.append(
            helper.make_node(
                "Conv", [last, f"w{number}"], [end], f"conv{number}", kernel_shape=[size, size], strides=[size, size]
            )
        )
        height, width, last = height // size, width // size, end
        if end != "maps":
            nodes.append(helper.make_node("Relu", [last], [f"r{number}"], f"relu{number}"))
            last = f"r{number}"
    graph = helper.make_graph(
        nodes,
        "frames",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, list(dims))],
        [helper.make_tensor_value_info("maps", TensorProto.FLOAT, [dims[0], layers[-1][0], height, width])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    console, data = atc(
        model.SerializeToString(deterministic=True), "--model=net.onnx", "--framework=5", "--soc_version=Ascend910B1"
    )
    assert data, console
    return data


def _batches(rng: Generator, count: int) -> list[Array]:
    return [rng.integers(0, 256, BATCH).astype(np.float32) for _ in range(count)]


def draw_batches(rng: Generator, count: int) -> dict[str, Any]:
    return {"om_path": File("frames.om", frames_om()), "batches": _batches(rng, count)}


def _run(data: bytes, batch: Array) -> Array:
    from cannlab import om
    from cannlab.machine.executor import Model

    result: Array = Model(om.read(data)).run([batch])[0][0]
    return result


def results_of(om_path: File, batches: list[Array]) -> list[Array]:
    return [_run(om_path.data, batch / 255) for batch in batches]


_CLOSE = allclose(rtol=1e-3, atol=1e-3)


def _tasks(case: CaseRun, *kinds: TaskKind) -> list[dict[str, int]]:
    assert case.record is not None
    return [row for row in case.record.tasks.rows() if row["kind"] in kinds]


def model_streams(case: CaseRun) -> set[int]:
    """The streams in which models ran."""
    return {row["stream"] for row in _tasks(case, TaskKind.MODEL)}


def busy_time(case: CaseRun) -> int:
    """Simulated ns from the first task queued to the end of the last: loading and ending do not count."""
    rows = _tasks(case, TaskKind.COPY_H2D, TaskKind.MODEL, TaskKind.COPY_D2H)
    return max(row["end"] for row in rows) - min(row["queued"] for row in rows)


def _fewer_waits(case: CaseRun) -> bool:
    """The host waits only after the last model was queued."""
    names = call_names(case)
    last = max(number for number, name in enumerate(names) if name == "acl.mdl.execute_async")
    waits = [number for number, name in enumerate(names) if "synchronize" in name]
    return bool(waits) and min(waits) > last


def _in_flight(case: CaseRun) -> int:
    """How many batches were queued when the host waited for the first time."""
    assert case.record is not None
    names = case.record.strings
    wait = min(row["start"] for row in case.record.calls.rows() if "synchronize" in names[row["name"]])
    return sum(row["queued"] < wait for row in _tasks(case, TaskKind.COPY_H2D))


def _flies(test: Callable[[int], bool]) -> Sign:
    """In a case with more than three batches so many are in flight."""
    return sign(
        lambda attempt: any(len(case.inputs["batches"]) > SLOTS and test(_in_flight(case)) for case in attempt.cases)
    )


_THREE_IN_FLIGHT = require(
    "three_in_flight",
    lambda case: _in_flight(case) == min(SLOTS, len(case.inputs["batches"])),
    holds="the host first waited when all three slots were in use, or no batch was left",
    fails="the host first waited with fewer or more than three batches on their way",
    do="Make three slots, and wait for the oldest batch only when all three are in use.",
)


def _too_few_slots(more: str) -> Misconception:
    """Two of everything; ``more`` is the list of slots with three in it."""
    return Misconception(
        "two_in_flight",
        change(
            more, more.replace("range(3)", "range(2)"), "len(busy) == 3", "len(busy) == 2", "number % 3", "number % 2"
        ),
        unmet("three_in_flight") & _flies(lambda count: count < SLOTS),
        what="the host waits before three batches are on their way.",
        why="Three things happen at once: the host prepares, a copy runs, a model runs. With long copies two slots are "
        "too few, and a third slot that is never filled is of no use.",
        do="Make three slots, and wait for the oldest batch when all three are in use.",
    )


def _too_many_slots(more: str) -> Misconception:
    """A slot for every batch; ``more`` is the list of slots with three in it."""
    return Misconception(
        "a_slot_for_each",
        change(
            more, more.replace("range(3)", "range(len(batches))"), "len(busy) == 3", "False", "[number % 3]", "[number]"
        ),
        unmet("three_in_flight") & _flies(lambda count: count > SLOTS),
        what="more than three batches are on their way at once.",
        why="Slots cost pinned and device memory; with a stream of batches without end there is no slot for each.",
        do="Make three slots, and wait for the oldest batch when all three are in use.",
    )


def _slots_without_batch(slots: str) -> Misconception:
    """All ``slots`` are emptied at the end, also those that were never filled."""
    return Misconception(
        "slots_without_batch",
        change(
            "        while busy:\n",
            f"        busy = [{slots}[n % 3] for n in range(len(batches), len(batches) + 3)]\n        while busy:\n",
        ),
        got(lambda result, **inputs: isinstance(result, list) and len(result) > len(inputs["batches"])),
        what="there are more results than batches.",
        why="With fewer than three batches some slots are never filled, and they are emptied all the same.",
        do="After the loop take only the slots that are in use.",
    )


_CLEAN = (everything_freed(), everything_destroyed(), all_codes_zero(except_for=("acl.rt.process_report",)))

# -- 1 predict ---------------------------------------------------------------------------------------


def draw_predict(rng: Generator, size: None) -> dict[str, Any]:
    steps = [int(value) for value in rng.choice(np.arange(20, 120), 3, replace=False)]
    return dict(zip(("copy_in", "model", "copy_out"), steps, strict=True)) | {"batches": int(rng.integers(6, 30))}


def predicted(copy_in: int, model: int, copy_out: int, batches: int) -> dict[str, Any]:
    steps = {"copy_in": copy_in, "model": model, "copy_out": copy_out}
    engine = max(steps, key=lambda name: steps[name])
    whole = sum(steps.values())
    return {
        "one_stream": batches * whole,
        "pipeline": whole + (batches - 1) * steps[engine],
        "limit": batches * steps[engine],
        "engine": engine,
    }


def _says(name: str, formula: str, **texts: str) -> Misconception:
    """Who fills ``name`` with this formula of a, b, c (the steps) and n."""

    def seen(result: Any, copy_in: int, model: int, copy_out: int, batches: int) -> bool:
        names = {"a": copy_in, "b": model, "c": copy_out, "n": batches, "max": max, "min": min}
        right = predicted(copy_in, model, copy_out, batches)[name]
        wrong = eval(formula, {"__builtins__": {}}, names)
        return bool(result[name] == wrong != right)

    cell = (
        f"# exercise: {LESSON}.predict\n"
        "a, b, c, n = copy_in, model, copy_out, batches\n"
        "steps = {'copy_in': a, 'model': b, 'copy_out': c}\n"
        "answer = {'one_stream': n * (a + b + c), 'pipeline': a + b + c + (n - 1) * max(a, b, c),\n"
        "          'limit': n * max(a, b, c), 'engine': max(steps, key=steps.get)}\n"
        f"answer['{name}'] = {formula}\n"
    )
    number = "".join(letter if letter.isalnum() else "_" for letter in formula)
    return Misconception(f"{name}_{number}", cell, got(seen), **texts)


PREDICT = Check(
    f"{LESSON}.predict",
    run=read("answer"),
    draw=draw_predict,
    reference=predicted,
    compare=text(),
    must=(how_many_right("answers are"),),
    misconceptions=(
        _says(
            "one_stream",
            "a + b + c + (n - 1) * max(a, b, c)",
            what="one_stream is computed as if the steps of different batches overlapped.",
            why="A stream is a queue: the next copy starts when the copy back before it has ended.",
            do="Add all steps of all batches.",
        ),
        _says(
            "one_stream",
            "n * max(a, b, c)",
            what="one_stream counts only the busiest engine.",
            why="A stream is a queue: nothing of it overlaps.",
            do="Add all steps of all batches.",
        ),
        _says(
            "pipeline",
            "n * max(a, b, c)",
            what="pipeline forgets how it fills and empties.",
            why="The first batch passes all three engines before the first result is there.",
            do="Add the steps of one batch, then one turn of the busiest engine for each further batch.",
        ),
        _says(
            "pipeline",
            "a + b + c + n * max(a, b, c)",
            what="pipeline counts the busiest engine once too often.",
            why="The first batch is already in a + b + c.",
            do="There are n - 1 further batches.",
        ),
        _says(
            "pipeline",
            "a + c + n * b",
            what="pipeline takes the model for the busiest engine.",
            why="A copy can be longer than the model; then the model waits.",
            do="Take the longest of the three steps.",
        ),
        _says(
            "limit",
            "n * b",
            what="limit takes the model for the busiest engine.",
            why="If a copy is longer than the model, hiding it completely is not possible.",
            do="Take the longest of the three steps.",
        ),
        _says(
            "limit",
            "a + b + c + (n - 1) * max(a, b, c)",
            what="limit is the time of the pipeline, with its fill and drain.",
            why="The question is what no hiding can go below: the busiest engine, from its first batch to its last.",
            do="Count only the longest of the three steps, once for each batch.",
        ),
    ),
)

# -- 2 events ----------------------------------------------------------------------------------------

_RECORD_COPIED = "            ok(acl.rt.record_event(copied[k], copies))\n"
_WAIT_COPIED = "            ok(acl.rt.stream_wait_event(compute, copied[k]))\n"
_RECORD_USED = "            ok(acl.rt.record_event(used[k], compute))"

_HOST_WAITS_LAST = require(
    "host_waits_last",
    _fewer_waits,
    holds="the host waited only after everything was queued",
    fails="the host waited before everything was queued",
    do="Let the streams wait for events; the host waits once, at the end.",
)


def _in_two_streams(case: CaseRun) -> bool:
    there = {row["stream"] for row in _tasks(case, TaskKind.COPY_H2D)}
    return not there & model_streams(case)


def _pairs(case: CaseRun, behind: int) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Each model with the copy to the device so many batches behind it, in the order of the batches."""
    up, models = (
        sorted(_tasks(case, kind), key=lambda row: row["start"]) for kind in (TaskKind.COPY_H2D, TaskKind.MODEL)
    )
    if not len(up) == len(models) == len(case.inputs["batches"]):
        raise ValueError("not one copy and one model for each batch")
    return list(zip(models, up[behind:], strict=False))


def _waits_no_longer(case: CaseRun) -> bool:
    """Each copy to the device starts when it is queued, the copy before it is done and its buffer was read."""
    up, models = (
        sorted(_tasks(case, kind), key=lambda row: row["start"]) for kind in (TaskKind.COPY_H2D, TaskKind.MODEL)
    )
    slack = min(row["end"] - row["start"] for row in _tasks(case, TaskKind.COPY_D2H)) // 2
    for number, copy in enumerate(up):
        free = [copy["queued"]] + [row["end"] for row in up[max(0, number - 1) : number] + models[: max(0, number - 1)]]
        if copy["start"] > max(free) + slack:
            return False
    return True


EVENTS = Check(
    f"{LESSON}.events",
    run=call("run_all"),
    draw=draw_batches,
    sizes=(1, 2, 3, 7),
    reference=results_of,
    compare=_CLOSE,
    cost=Cost(1.1, of=busy_time),
    picture=streams(),
    must=(
        _HOST_WAITS_LAST,
        require(
            "two_streams",
            _in_two_streams,
            holds="copies to the device and models are in two streams",
            fails="copies to the device and models share a stream",
            do="Keep the copies in the stream copies and the models in compute.",
        ),
        require(
            "full",
            lambda case: all(copy["end"] <= model["start"] for model, copy in _pairs(case, 0)),
            holds="each model began after its input had arrived",
            fails="a model began before its input had arrived",
            do="Record copied[k] behind the copy, and let compute wait for it before the model.",
        ),
        require(
            "empty",
            lambda case: all(model["end"] <= copy["start"] for model, copy in _pairs(case, 2)),
            holds="each buffer was filled again only after the model had read it",
            fails="a buffer was filled again before the model had read it",
            do="Record used[k] behind the model, and let copies wait for it before it fills buffer k again.",
        ),
        require(
            "no_longer",
            _waits_no_longer,
            holds="no copy to the device waited longer than its buffer was in use",
            fails="a copy to the device waited although its buffer was free",
            do="Record used[k] directly behind the model, and let copies wait for used[k] of the buffer it fills.",
        ),
        *_CLEAN,
    ),
    misconceptions=(
        Misconception(
            "host_waits",
            change(_WAIT_COPIED, "            ok(acl.rt.synchronize_event(copied[k]))\n"),
            unmet("host_waits_last"),
            what="the host waits inside the loop.",
            why="synchronize_event and synchronize_stream stop the host: it can do nothing else in the meantime, and "
            "whether the next batch is queued in time is luck.",
            do="Use acl.rt.stream_wait_event(stream, event): only the stream waits.",
        ),
        Misconception(
            "one_stream",
            change("copies, compute = new_stream(undo), new_stream(undo)", "copies = compute = new_stream(undo)"),
            unmet("two_streams"),
            what="everything is in one stream: the order is right, and nothing overlaps.",
            why="Within a stream tasks run one after another.",
            do="Keep two streams, and order them with events.",
        ),
        Misconception(
            "full_missing",
            change(_RECORD_COPIED, "", _WAIT_COPIED, ""),
            unmet("full") & ~source(r"stream_wait_event\(compute"),
            what="the model does not wait for its input.",
            why="Streams know nothing of each other.",
            do="Record copied[k] in copies after the copy, and let compute wait for it before the model.",
        ),
        Misconception(
            "waits_before_record",
            change(_RECORD_COPIED + _WAIT_COPIED, _WAIT_COPIED + _RECORD_COPIED),
            source(r"stream_wait_event\(compute, copied\[k\]\)\)\n\s+ok\(acl\.rt\.record_event\(copied"),
            what="compute waits for the event before it is recorded for this batch.",
            why="A wait is for what was recorded last: nothing at first, and an older batch later.",
            do="Record first, then let the other stream wait.",
        ),
        Misconception(
            "event_before_copy",
            change(
                _RECORD_COPIED,
                "",
                "            ok(acl.rt.memcpy_async(buffer.device_in",
                _RECORD_COPIED + "            ok(acl.rt.memcpy_async(buffer.device_in",
            ),
            source(r"record_event\(copied\[k\], copies\)\)\n\s+ok\(acl\.rt\.memcpy_async\(buffer\.device_in"),
            what="copied is recorded in front of the copy.",
            why="An event marks the place where it is recorded: everything before it is done, not what follows.",
            do="Record copied[k] after the copy.",
        ),
        Misconception(
            "empty_missing",
            change("ok(acl.rt.stream_wait_event(copies, used[k]))", "pass", _RECORD_USED, "            pass"),
            unmet("empty") & ~source(r"stream_wait_event\(copies"),
            what="from the third batch on, copies overwrite inputs that the model has not read yet.",
            why="There are two buffers, and the copies run ahead of the models.",
            do="Record used[k] in compute after the model, and let copies wait for it before it fills buffer k again.",
        ),
        Misconception(
            "used_too_early",
            change(
                _RECORD_USED,
                "",
                "            ok(acl.mdl.execute_async",
                _RECORD_USED + "\n            ok(acl.mdl.execute_async",
            ),
            source(r"record_event\(used\[k\], compute\)\)\n\s+ok\(acl\.mdl\.execute_async"),
            what="used is recorded in front of the model.",
            why="An event marks the place where it is recorded: the model that follows may still read the buffer.",
            do="Record used[k] after the model.",
        ),
        Misconception(
            "used_too_late",
            change(
                _RECORD_USED + "\n",
                "",
                "buffer.out_size, D2H, compute))\n",
                "buffer.out_size, D2H, compute))\n" + _RECORD_USED + "\n",
            ),
            unmet("no_longer") & source(r"D2H, compute\)\)\n\s+ok\(acl\.rt\.record_event\(used"),
            what="used is recorded behind the copy back.",
            why="The copy back reads the output. The input is free as soon as the model has read it.",
            do="Record used[k] between the model and the copy back.",
        ),
        Misconception(
            "other_buffer",
            change(
                "            if number >= 2:",
                "            if number >= 1:",
                "wait_event(copies, used[k])",
                "wait_event(copies, used[1 - k])",
            ),
            unmet("no_longer") & ~unmet("empty"),
            what="the copy of a batch waits for the model of the batch before it, which uses the other buffer.",
            why="Then copies and models take turns, and the second buffer is of no use.",
            do="Let copies wait for used[k], the event of the buffer that it fills.",
        ),
    ),
)

# -- 3 callback --------------------------------------------------------------------------------------

_SUBSCRIBE = "        ok(acl.rt.subscribe_report(thread, stream))\n"
_SYNCHRONISE = "        ok(acl.rt.synchronize_stream(stream))\n"
_LOOP = "        for number, batch in enumerate(batches):\n"

CALLBACK = Check(
    f"{LESSON}.callback",
    run=call("collect"),
    draw=draw_batches,
    sizes=(1, 2, 5),
    reference=results_of,
    compare=_CLOSE,
    faults=("runtime.thread_subscribed",),  # the report thread may ask before and after the subscription
    must=(
        require(
            "callbacks",
            # One more may end the report thread.
            lambda case: len(_tasks(case, TaskKind.CALLBACK)) - len(case.inputs["batches"]) in (0, 1),
            holds="a callback ran for each batch",
            fails="the callbacks that ran are not one for each batch",
            do="Launch a callback behind each batch, and give all of them the time to run.",
        ),
        _HOST_WAITS_LAST,
        called("acl.rt.unsubscribe_report", at_most=1),
        called("acl.util.stop_thread"),
        *_CLEAN,
    ),
    misconceptions=(
        Misconception(
            "never_subscribed",
            change(_SUBSCRIBE, "", "        ok(acl.rt.unsubscribe_report(thread, stream))\n", ""),
            ~calls("subscribe_report"),
            what="no thread is subscribed to the stream.",
            why="The stream must know in which thread its callbacks run.",
            do="Call acl.rt.subscribe_report(thread, stream) before the first launch.",
        ),
        Misconception(
            "subscribed_too_late",
            change(_SUBSCRIBE, "", _SYNCHRONISE, _SUBSCRIBE + _SYNCHRONISE),
            fault("runtime.callback_no_thread") | raises("RuntimeError", "107015"),
            what="a callback was launched on a stream that no thread serves.",
            why="launch_callback needs a subscription; without one it returns 107015 and queues nothing.",
            do="Call acl.rt.subscribe_report directly after start_thread, and check the code of every launch.",
        ),
        Misconception(
            "late_number",
            change(
                "def done(number):", "def done(_):", "launch_callback(done, number, 1", "launch_callback(done, None, 1"
            ),
            raises("KeyError")
            & (
                source(r"launch_callback\(\w+, None")
                | (
                    source(r"launch_callback\(lambda")
                    & calls("synchronize_stream")
                    & ~source(r"launch_callback\(.*, 0,")
                )
            ),
            what="every callback stores under the number that the loop has when it runs.",
            why="A Python function looks its outer variables up when it runs, and that is later, in another thread.",
            do="Hand the number over: launch_callback(done, number, 1, stream).",
        ),
        Misconception(
            "unsubscribed_too_early",
            change(_SYNCHRONISE, ""),
            ~calls("synchronize_stream") & ~calls("synchronize_device"),
            what="the subscription ends while callbacks are still to run.",
            why="unsubscribe_report does not wait: callbacks that have not run are dropped.",
            do="Call acl.rt.synchronize_stream(stream) before it; that also waits for the callbacks.",
        ),
        Misconception(
            "stream_goes_on",
            change("launch_callback(done, number, 1, stream)", "launch_callback(done, number, 0, stream)"),
            raises("KeyError") & source(r"launch_callback\(\w+, \w+, 0") & calls("synchronize_stream"),
            what="the last callback has not run when the subscription ends.",
            why="With block type 0 the stream does not wait for the function, and neither does synchronize_stream.",
            do="Use block type 1.",
        ),
        Misconception(
            "thread_ends_too_early",
            change(_SYNCHRONISE + "        running.clear()\n", "        running.clear()\n" + _SYNCHRONISE),
            source(r"running\.clear\(\)\n\s+ok\(acl\.rt\.synchronize"),
            what="running is cleared while callbacks are still to run.",
            why="The report thread sees it and ends; the next callback holds the stream and nobody runs it.",
            do="Synchronise the stream first, then clear running.",
        ),
        Misconception(
            "waits_for_each",
            change("1, stream))\n", "1, stream))\n            ok(acl.rt.synchronize_stream(stream))\n"),
            unmet("host_waits_last"),
            what="the host waits for each batch.",
            why="Then the callback is of no use: the loop stands still while the device works.",
            do="Synchronise once, after the loop.",
        ),
        Misconception(
            "waits_in_python",
            change(
                "launch_callback(done, number, 1, stream)",
                "launch_callback(done, number, 0, stream)",
                "        running.clear()\n",
                "        while len(results) < len(batches):\n            pass\n        running.clear()\n",
            ),
            (ends("timeout") | ends("cpu")) & source(r"launch_callback\(\w+, \w+, 0"),
            what="the host waits in Python for functions that the stream does not wait for.",
            why="Simulated time goes on only in calls of acl; in a loop of Python's it stands still.",
            do="Use block type 1: synchronize_stream then waits for the functions as well.",
        ),
        Misconception(
            "thread_never_ends",
            change("        running.clear()\n", ""),
            ends("timeout") | ends("cpu"),
            what="the report thread never ends, and stop_thread waits for it for ever.",
            why="stop_thread joins the thread; its loop must see that it is to end.",
            do="Clear running before acl.util.stop_thread(thread), and give process_report a timeout.",
        ),
        Misconception(
            "called_at_once",
            change(
                "            ok(acl.rt.launch_callback(done, number, 1, stream))\n",
                "            done(number)\n",
            ),
            ~calls("launch_callback") & calls("done"),
            what="the function is called at once, by the host, before the device has done anything.",
            why="The result is there only when the stream has come so far.",
            do="Put it into the stream: acl.rt.launch_callback(done, number, 1, stream).",
        ),
    ),
)

# -- 4 pipeline --------------------------------------------------------------------------------------

PIPELINE = Check(
    f"{LESSON}.pipeline",
    run=call("run_all"),
    draw=draw_batches,
    sizes=(1, 2, 3, 4, 9),
    reference=results_of,
    compare=_CLOSE,
    cost=Cost(1.1, of=busy_time),
    picture=streams(),
    must=(_THREE_IN_FLIGHT, *_CLEAN),
    misconceptions=(
        _slots_without_batch("slots"),
        Misconception(
            "newest_first",
            change("busy.pop(0)", "busy.pop()"),
            source(r"\.pop\(\)"),
            what="the results come in another order than the batches.",
            why="pop() takes the newest slot; the oldest batch is ready first.",
            do="Take the oldest: busy.pop(0).",
        ),
        Misconception(
            "shared_slot",
            change("[Slot(desc, undo) for _ in range(3)]", "[Slot(desc, undo)] * 3"),
            fault("memory.host_in_flight") & source(r"\] \* \w+"),
            what="the three slots are one and the same.",
            why="[slot] * 3 makes three names for one object.",
            do="Make three: [Slot(desc, undo) for _ in range(3)].",
        ),
        Misconception(
            "slot_not_waited_for",
            change("if len(busy) == 3:", "if False:"),
            fault("memory.host_in_flight"),
            what="a slot was filled again while its batch was still on its way.",
            why="The queued copy reads the pinned memory when it runs, not when it is queued.",
            do="Before you fill a slot again, synchronise its stream and keep its result.",
        ),
        Misconception(
            "last_ones_lost",
            change("        while busy:\n            take_oldest()\n", ""),
            got(lambda result, om_path, batches: isinstance(result, list) and len(result) == max(0, len(batches) - 3)),
            what="the results of the last three batches are missing.",
            why="When the loop ends, the pipeline is still full.",
            do="Empty it after the loop: wait for every slot that is in use, oldest first.",
        ),
        Misconception(
            "one_stream",
            change(
                "[Slot(desc, undo) for _ in range(3)]",
                "(lambda s: [Slot(desc, undo, s) for _ in range(3)])(new_stream(undo))",
            ),
            slow() & source(r"Slot\(desc, undo, \w+\)"),
            what="all slots share one stream.",
            why="Within a stream nothing overlaps: the copy of one batch waits for the copy back of the other.",
            do="Give each slot a stream of its own.",
        ),
        Misconception(
            "one_slot",
            "# exercise: 16_overlap.pipeline\n"
            "def run_all(om_path, batches):\n"
            "    with ExitStack() as undo:\n"
            "        start(undo)\n"
            "        model, desc = load(om_path, undo)\n"
            "        slot, results = Slot(desc, undo), []\n"
            "        for batch in batches:\n"
            "            slot.put(batch)\n"
            "            slot.queue(model)\n"
            "            ok(acl.rt.synchronize_device())\n"
            "            results.append(slot.result())\n"
            "        return results\n",
            slow() & sign(lambda attempt: all(len(model_streams(case)) == 1 for case in attempt.cases)),
            what="the host waits for each batch before it prepares the next.",
            why="While one works the other stands still; the picture shows the gaps.",
            do="Use three slots, and wait for a slot only before you need it again.",
        ),
        Misconception(
            "waits_at_once",
            change("if len(busy) == 3:", "if busy:"),
            slow() & _flies(lambda count: count == 1),
            what="each batch waits for the one before it.",
            why="The wait stands before the host prepares the next batch, so host and device work in turns.",
            do="Wait only when all three slots are in use.",
        ),
        Misconception(
            "in_groups",
            change("            if len(busy) == 3:", "            while busy and number % 3 == 0:"),
            slow() & ~unmet("three_in_flight"),
            what="the host waits for more than the oldest batch.",
            why="If all slots are emptied before one is filled again, the device runs dry each time.",
            do="When all three are in use, wait for the stream of the oldest, fill that slot again and go on.",
        ),
        Misconception(
            "filled_before_it_is_read",
            change(
                "            if len(busy) == 3:",
                "            slots[number % 3].put(batch)\n            if len(busy) == 3:",
                "            slot.put(batch)\n",
                "",
            ),
            got(
                lambda result, om_path, batches: any(
                    np.allclose(found, later, rtol=1e-3, atol=1e-3)
                    for found, later in zip(result, results_of(om_path, batches[SLOTS:]), strict=False)
                )
            ),
            what="a slot's new batch arrives where its old one belongs.",
            why="The new batch was written into pinned memory before the old one's copy had read it.",
            do="Wait for the slot first, then fill it.",
        ),
        _too_few_slots("[Slot(desc, undo) for _ in range(3)]"),
        _too_many_slots("[Slot(desc, undo) for _ in range(3)]"),
    ),
)


# -- 5 chain -----------------------------------------------------------------------------------------


def draw_chain(rng: Generator, count: int) -> dict[str, Any]:
    files = {"first_om": File("frames.om", frames_om()), "second_om": File("head.om", head_om())}
    return files | {"batches": _batches(rng, count)}


def chained(first_om: File, second_om: File, batches: list[Array]) -> list[Array]:
    return [_run(second_om.data, _run(first_om.data, batch / 255)) for batch in batches]


def _one_copy_each_way(kind: TaskKind) -> Any:
    return lambda case: len(_tasks(case, kind)) == len(case.inputs["batches"])


CHAIN = Check(
    f"{LESSON}.chain",
    run=call("chain"),
    draw=draw_chain,
    sizes=(1, 3, 4, 8),
    reference=chained,
    compare=allclose(rtol=5e-3, atol=5e-3),
    cost=Cost(1.1, of=busy_time),
    picture=streams(),
    must=(
        require(
            "up",
            _one_copy_each_way(TaskKind.COPY_H2D),
            holds="one copy to the device for each batch",
            fails="not one copy to the device for each batch",
            do="Only the batch itself goes up.",
        ),
        require(
            "down",
            _one_copy_each_way(TaskKind.COPY_D2H),
            holds="one copy to the host for each batch",
            fails="not one copy to the host for each batch",
            do="Only the last result comes down.",
        ),
        copies("d2d", at_most=0),
        _THREE_IN_FLIGHT,
        *_CLEAN,
    ),
    misconceptions=(
        _slots_without_batch("lanes"),
        Misconception(
            "last_ones_lost",
            change("        while busy:\n            take_oldest()\n", ""),
            got(
                lambda result, **inputs: isinstance(result, list) and len(result) == max(0, len(inputs["batches"]) - 3)
            ),
            what="the results of the last three batches are missing.",
            why="When the loop ends, the pipeline is still full.",
            do="Empty it after the loop: wait for every slot that is in use, oldest first.",
        ),
        Misconception(
            "detour_in_the_queue",
            change(
                "            ok(acl.mdl.execute_async(second, one.outputs, two.outputs, one.stream))\n",
                "            size, D2D = one.out_size, 3\n"
                "            ok(acl.rt.memcpy_async(two.device_in, size, one.device_out, size, D2D, one.stream))\n"
                "            ok(acl.mdl.execute_async(second, two.inputs, two.outputs, one.stream))\n",
            ),
            unmet("copies_d2d"),
            what="the intermediate result is copied on the device.",
            why="A dataset names memory; the second model can read where the first has written.",
            do="Use the first model's output memory as the input of the second.",
        ),
        Misconception(
            "detour_over_the_host",
            change(
                "            ok(acl.mdl.execute_async(second, one.outputs, two.outputs, one.stream))\n",
                "            size = one.out_size\n"
                "            ok(acl.rt.memcpy_async(one.host_out, size, one.device_out, size, D2H, one.stream))\n"
                "            ok(acl.rt.memcpy_async(two.device_in, size, one.host_out, size, H2D, one.stream))\n"
                "            ok(acl.mdl.execute_async(second, two.inputs, two.outputs, one.stream))\n",
            ),
            unmet("up") | unmet("down"),
            what="the intermediate result crosses the link twice.",
            why="It is made on the device and needed on the device.",
            do="Use the first model's output memory as the input of the second.",
        ),
        Misconception(
            "never_filled",
            change("second, one.outputs, two.outputs", "second, two.inputs, two.outputs"),
            fault("memory.uninitialised") | (source(r"second, two\.inputs") & ~unmet("copies_d2d")),
            what="the second model reads memory that nobody has written.",
            why="two.inputs names the second slot's own input memory; the first model wrote to one.device_out.",
            do="Give the second model a dataset of one.device_out: one.outputs is one.",
        ),
        Misconception(
            "two_streams_no_event",
            change(
                "second, one.outputs, two.outputs, one.stream",
                "second, one.outputs, two.outputs, two.stream",
                "two.device_out, two.out_size, D2H, one.stream",
                "two.device_out, two.out_size, D2H, two.stream",
                "acl.rt.synchronize_stream(one.stream)",
                "acl.rt.synchronize_device()",
            ),
            source(r"execute_async\(second, [^)]*two\.stream\)") & ~calls("stream_wait_event"),
            what="the second model runs in a stream of its own and does not wait for the first.",
            why="Streams know nothing of each other.",
            do="Queue both in one stream, or let the second wait for an event.",
        ),
        Misconception(
            "slot_not_waited_for",
            change("if len(busy) == 3:", "if False:"),
            fault("memory.host_in_flight"),
            what="a slot was filled again while its batch was still on its way.",
            why="The queued copy reads the pinned memory when it runs, not when it is queued.",
            do="Before you fill a slot again, synchronise its stream and keep its result.",
        ),
        Misconception(
            "in_turns",
            change("if len(busy) == 3:", "if busy:"),
            slow(),
            what="nothing is copied twice, and still host and device work in turns.",
            why="Each batch waits for the one before it; the picture shows the gaps.",
            do="Wait for a slot only before you need it again.",
        ),
        _too_few_slots("[(Slot(first_desc, undo), Slot(second_desc, undo)) for _ in range(3)]"),
        _too_many_slots("[(Slot(first_desc, undo), Slot(second_desc, undo)) for _ in range(3)]"),
    ),
)

CHECKS = [PREDICT, EVENTS, CALLBACK, PIPELINE, CHAIN]
