"""Checks of 02_acl_first."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from cannlab.course.spec import (
    Attempt,
    CaseRun,
    Change,
    Check,
    Misconception,
    Sign,
    all_codes_zero,
    call,
    called,
    calls,
    change,
    copies,
    everything_destroyed,
    everything_freed,
    exact,
    fails_where,
    fault,
    gives,
    got,
    how_many_right,
    order,
    raises,
    read,
    require,
    sign,
    source,
    streams,
    unmet,
)
from cannlab.trace import TaskKind

LESSON = "02_acl_first"


def _bytes(rng: Generator, size: int) -> dict[str, Any]:
    """Distinct bytes; never all zero, because the exercises use zeros as a sentinel."""
    return {"data": (rng.integers(1, 256, size, dtype=np.uint8)).tobytes()}


def _tasks(case: CaseRun, kind: TaskKind) -> list[dict[str, int]]:
    assert case.record is not None
    return [row for row in case.record.tasks.rows() if row["kind"] == kind]


def _allocations(case: CaseRun) -> list[dict[str, int]]:
    """Changes of memory: bytes above 0 when allocated, below when freed."""
    assert case.record is not None
    return list(case.record.memory.rows())


def _call_rows(case: CaseRun, *names: str) -> list[int]:
    assert case.record is not None
    strings = case.record.strings
    return [number for number, row in enumerate(case.record.calls.rows()) if strings[row["name"]] in names]


_NO_FAULT = sign(lambda attempt: not attempt.fault_rules)
"""A sign: the machine found nothing wrong, so a missing copy was never asked for."""


def _stays_on_the_host(exercise: str, head: str, wrong: str) -> Misconception:
    """The misconception of an answer that never goes through the device."""
    return Misconception(
        "stays_on_the_host",
        f"# exercise: {LESSON}.{exercise}\n{head}\n    return {wrong}",
        sign(
            lambda attempt: all(
                case.record is not None and not _tasks(case, TaskKind.COPY_H2D) and not _tasks(case, TaskKind.COPY_D2H)
                for case in attempt.cases
            )
        )
        & _NO_FAULT
        & sign(lambda attempt: all(case.raised is None for case in attempt.cases)),
        what="the data never went through the device.",
        why="The record of the run shows no copy to the device and none back.",
        do="Allocate device memory with acl.rt.malloc, copy the data there, and copy it back.",
    )


_WAITS = (
    "acl.rt.synchronize_stream",
    "acl.rt.synchronize_stream_with_timeout",
    "acl.rt.synchronize_device",
    "acl.rt.synchronize_device_with_timeout",
    "acl.rt.synchronize_event",
    "acl.rt.synchronize_event_with_timeout",
    "acl.rt.stream_query",
    "acl.rt.query_event",
    "acl.rt.query_event_status",
)

# -- 1 first_program ---------------------------------------------------------------------------------

_SEVEN = (
    "acl.init",
    "acl.rt.set_device",
    "acl.rt.malloc",
    "acl.rt.memcpy",
    "acl.rt.free",
    "acl.rt.reset_device",
    "acl.finalize",
)

_FIRST_PROGRAM = Check(
    f"{LESSON}.first_program",
    run=call("first_program"),
    draw=lambda rng, size: {"device": int(rng.integers(1, 8)), **_bytes(rng, size)},
    sizes=(1, 31, 32, 33, 1000),
    reference=lambda device, data: [0] * len(_SEVEN),
    must=(
        order(*_SEVEN),
        all_codes_zero(),
        require(
            "device",
            lambda case: {row["device"] for row in _allocations(case)} == {case.inputs["device"]},
            holds="the memory lies on the device that was asked for",
            fails="the memory does not lie on the device that was asked for",
            do="Pass the argument device on to acl.rt.set_device.",
        ),
        copies("h2d", at_least=1, at_most=1),
        require(
            "all_bytes",
            lambda case: [row["bytes"] for row in _tasks(case, TaskKind.COPY_H2D)] == [len(case.inputs["data"])],
            holds="all bytes were copied",
            fails="the copy did not carry exactly the bytes of data",
            do="Copy len(data) bytes.",
        ),
        everything_freed(),
    ),
    misconceptions=(
        Misconception(
            "no_device",
            change("codes = [acl.init(), acl.rt.set_device(device)]", "codes = [acl.init()]"),
            fault("runtime.no_context") & ~calls("set_device"),
            what="memory was asked for before a device was set.",
            why="acl.init makes no context; set_device does, and memory needs one.",
            do="Call acl.rt.set_device(device) right after acl.init().",
        ),
        Misconception(
            "device_0",
            change("acl.rt.set_device(device)", "acl.rt.set_device(0)", "reset_device(device)", "reset_device(0)"),
            unmet("device") & calls("set_device"),
            what="another device was used than the one that was asked for.",
            why="A node has several devices; the caller chooses with the argument device.",
            do="Pass device to set_device and to reset_device.",
        ),
        Misconception(
            "reset_other_device",
            change("reset_device(device)", "reset_device(0)"),
            fault="runtime.device_not_set",
        ),
        Misconception(
            "copy_to_host",
            change("count, H2D)", "count, D2H)"),
            fault("memory.wrong_direction"),
            what="the direction of the copy says device to host.",
            why="The destination comes first in memcpy, and here it is the device.",
            do="Pass H2D (1) as the last argument.",
        ),
        Misconception(
            "not_freed",
            change("    codes.append(acl.rt.free(pointer))\n", ""),
            unmet("everything_freed") & calls("acl.rt.malloc") & ~calls("acl.rt.free"),
            what="the device memory is never freed.",
            why="reset_device and finalize do not replace free: what you allocate you give back.",
            do="Call acl.rt.free(pointer) before acl.rt.reset_device.",
        ),
        Misconception(
            "finalize_first",
            change(
                "    codes.append(acl.rt.reset_device(device))\n    codes.append(acl.finalize())",
                "    codes.append(acl.finalize())\n    codes.append(acl.rt.reset_device(device))",
            ),
            unmet("order") & calls("acl.finalize") & calls("reset_device"),
            what="the calls do not stand in the order of the lesson.",
            why="What is taken last is given back first: memory, then the device, then pyACL itself.",
            do="End with acl.rt.free, acl.rt.reset_device, acl.finalize.",
        ),
        Misconception(
            "no_finalize",
            change("    codes.append(acl.finalize())\n", ""),
            unmet("order") & calls("acl.init") & ~calls("acl.finalize"),
            what="pyACL is never ended.",
            why="acl.finalize ends what acl.init began; it also waits for the logs of the device.",
            do="Call acl.finalize() last and keep its code.",
        ),
        Misconception(
            "bytes_as_pointer",
            change("acl.util.bytes_to_ptr(data)", "data"),
            raises("TypeError", "acl.rt.memcpy") & ~calls("bytes_to_ptr"),
            what="memcpy was given the bytes object itself.",
            why="pyACL takes addresses, which are plain ints; another type is a TypeError.",
            do="Pass acl.util.bytes_to_ptr(data).",
        ),
        Misconception(
            "tuple_as_code",
            change(
                "pointer, ret = acl.rt.malloc(count, HUGE_FIRST)\n    codes.append(ret)",
                "pointer = acl.rt.malloc(count, HUGE_FIRST)\n    codes.append(pointer)",
            ),
            raises("TypeError", "acl.rt.memcpy"),
            what="what malloc returns was used as the pointer.",
            why="acl.rt.malloc returns two values: the pointer and the code.",
            do="Write pointer, ret = acl.rt.malloc(len(data), 0).",
        ),
        Misconception(
            "codes_written_down",
            "# exercise: 02_acl_first.first_program\ndef first_program(device, data):\n    return [0] * 7",
            unmet("order") & ~calls("acl.init"),
            what="the list is right and no call was made.",
            why="A return code is what a call returns; it says nothing without the call.",
            do="Make the seven calls and collect what they return.",
        ),
    ),
)

# -- 2 round_trip ------------------------------------------------------------------------------------


def _array(rng: Generator, size: tuple[tuple[int, ...], str]) -> dict[str, Any]:
    shape, dtype = size
    if np.dtype(dtype).kind == "f":
        return {"array": (rng.standard_normal(shape) * 8).astype(dtype)}
    return {"array": rng.integers(1, 120, shape).astype(dtype)}


_ROUND_TRIP = Check(
    f"{LESSON}.round_trip",
    run=call("round_trip"),
    draw=_array,
    sizes=(
        ((1,), "float16"),
        ((7,), "uint8"),
        ((31,), "float32"),
        ((32,), "int32"),
        ((33,), "float16"),
        ((3, 5), "float32"),
        ((4, 3, 50), "float64"),
    ),
    reference=lambda array: array,
    compare=exact(),
    must=(copies("h2d", at_least=1, at_most=1), copies("d2h", at_least=1, at_most=1), everything_freed()),
    misconceptions=(
        _stays_on_the_host("round_trip", "def round_trip(array):", "array.copy()"),
        Misconception(
            "len_for_bytes",
            change("size = array.nbytes", "size = len(array)"),
            source(r"len\(array\)") & fails_where(lambda array: len(array) != array.nbytes),
            what="len(array) was taken for the size in bytes.",
            why="len(array) is the length of the first dimension; memory is counted in bytes.",
            do="Use array.nbytes.",
        ),
        Misconception(
            "elements_for_bytes",
            change("size = array.nbytes", "size = array.size"),
            fails_where(lambda array: array.itemsize > 1) & source(r"\.size\b"),
            what="elements were counted where bytes are needed: only arrays with one byte an element came back whole.",
            why="acl.rt.malloc and acl.rt.memcpy count bytes; array.size counts elements.",
            do="Use array.nbytes.",
        ),
        Misconception(
            "float32_assumed",
            change("array.dtype", "np.float32"),
            fails_where(lambda array: array.dtype != np.float32),
            what="only float32 arrays came back right: the bytes were read as float32.",
            why="Device memory holds bytes; how to read them only you know.",
            do="Read them with array.dtype.",
        ),
        Misconception(
            "flat",
            change(".reshape(array.shape)", ""),
            fails_where(lambda array: array.ndim > 1),
            what="arrays with several dimensions come back flat.",
            why="Device memory holds bytes without a shape.",
            do="End with .reshape(array.shape).",
        ),
        Misconception(
            "freed_too_early",
            change(
                "    acl.rt.memcpy(acl.util.bytes_to_ptr(target), size, memory, size, D2H)\n    acl.rt.free(memory)\n",
                "    acl.rt.free(memory)\n    acl.rt.memcpy(acl.util.bytes_to_ptr(target), size, memory, size, D2H)\n",
            ),
            fault="memory.use_after_free",
        ),
        Misconception(
            "not_freed",
            change("    acl.rt.free(memory)\n", ""),
            unmet("everything_freed"),
            what="the device memory is never freed.",
            why="Each call would lose some memory until malloc fails with 207001.",
            do="Call acl.rt.free(memory) after the copy back.",
        ),
        Misconception(
            "wrong_way",
            change("size, memory, size, D2H)", "size, memory, size, H2D)"),
            fault="memory.wrong_direction",
        ),
        Misconception(
            "source_and_destination",
            change(
                "acl.rt.memcpy(memory, size, acl.util.bytes_to_ptr(source), size, H2D)",
                "acl.rt.memcpy(acl.util.bytes_to_ptr(source), size, memory, size, D2H)",
            ),
            sign(lambda attempt: any(len(_tasks(case, TaskKind.COPY_D2H)) == 2 for case in attempt.cases)),
            what="nothing was copied to the device.",
            why="The destination comes first in memcpy: memcpy(destination, its size, source, bytes, direction).",
            do="For the way there the device pointer is the first argument and the direction is H2D.",
        ),
        Misconception(
            "never_back",
            "# exercise: 02_acl_first.round_trip\n"
            "def round_trip(array):\n"
            "    source, size = array.tobytes(), array.nbytes\n"
            "    memory, ret = acl.rt.malloc(size, 0)\n"
            "    acl.rt.memcpy(memory, size, acl.util.bytes_to_ptr(source), size, H2D)\n"
            "    acl.rt.free(memory)\n"
            "    return array.copy()",
            unmet("copies_d2h") & _NO_FAULT,
            what="the array was returned without a copy back from the device.",
            why="The exercise is the way back: a result that a kernel computes is only on the device.",
            do="Copy from the device into new host memory with the direction D2H, and return that.",
        ),
    ),
)

# -- 3 read_a_code -----------------------------------------------------------------------------------

# What a call of the exercise returns, as patterns; {n}: any number drawn. The solved cell makes the calls, so
# the gates hold this table against the machine.
_CODES = {
    "acl.rt.synchronize_stream(0)": 0,
    "acl.rt.synchronize_event(e)": 0,
    "acl.rt.memcpy(p, 64, h, 0, {direction})": 0,
    "acl.rt.memcpy_async(p, 64, h, {count}, 1, s)": 0,
    "acl.rt.set_device(0)": 0,
    "acl.rt.malloc(0, {policy})[1]": 100000,
    "acl.rt.free(0)": 100000,
    "acl.rt.memcpy(p, 64, 0, {count}, 1)": 100000,
    "acl.rt.memcpy(p, 64, h, {count}, {direction})": 100000,
    "acl.rt.destroy_stream(0)": 100000,
    "acl.rt.record_event(0, s)": 100000,
    "acl.rt.set_context(0)": 100000,
    "acl.rt.memcpy(p, 64, h, {more}, 1)": 107000,
    "acl.rt.memcpy(p, 0, h, {count}, 1)": 107000,
    "acl.rt.synchronize_stream_with_timeout(s, 0)": 107000,
    "acl.rt.set_device({beyond})": 107001,
    "acl.rt.create_context({beyond})[1]": 107001,
    "acl.init()": 100002,
    "acl.rt.event_elapsed_time(e, e)[1]": 507000,
    "acl.rt.reset_device({other})": 507007,
}
_RANGES = {
    "policy": (0, 3),
    "count": (1, 65),
    "more": (65, 200),
    "direction": (6, 100),
    "beyond": (8, 20),
    "other": (1, 8),
}


def _pattern(template: str) -> tuple[re.Pattern[str], list[str]]:
    """A template as a regular expression; the numbers must lie in their ranges."""
    parts = re.split(r"\{(\w+)\}", template)
    names = parts[1::2]
    text = "".join(re.escape(part) if number % 2 == 0 else r"(\d+)" for number, part in enumerate(parts))
    return re.compile(text), names


def _code_of(text: str) -> int:
    for template, code in _CODES.items():
        pattern, names = _pattern(template)
        found = pattern.fullmatch(text)
        if found and all(
            low <= int(number) < high
            for number, (low, high) in zip(found.groups(), (_RANGES[name] for name in names), strict=True)
        ):
            return code
    raise KeyError(text)


def _four_calls(rng: Generator, size: None) -> dict[str, Any]:
    """Four calls, in any order: one that is fine, one 100000, one 107xxx, one of the others."""
    families = (
        lambda c: c == 0,
        lambda c: c == 100000,
        lambda c: 107000 <= c < 108000,
        lambda c: c in (100002, 507000, 507007),
    )
    chosen = []
    for family in families:
        templates = [template for template, code in _CODES.items() if family(code)]
        template = templates[int(rng.integers(len(templates)))]
        chosen.append(template.format(**{name: int(rng.integers(low, high)) for name, (low, high) in _RANGES.items()}))
    return {"calls": [chosen[number] for number in rng.permutation(4)]}


def _answers(change_code: Callable[[str, int], int]) -> Sign:
    """The wrong answer in which each right code is replaced by ``change_code(call text, code)``."""
    return gives(lambda calls: [change_code(text, _code_of(text)) for text in calls])


def _codes_list(expression: str) -> Change:
    return change("codes = [eval(call) for call in calls]", f"codes = {expression}")


def _pairs(attempt: Attempt) -> Iterator[tuple[str, Any, int]]:
    for case in attempt.cases:
        if isinstance(case.got, list) and len(case.got) == 4:
            for text, answer in zip(case.inputs["calls"], case.got, strict=True):
                yield text, answer, _code_of(text)


def _some(test: Callable[[str, Any, int], bool]) -> Sign:
    """A sign: for some call the wrong number satisfies ``test(call text, number, right code)``."""
    return sign(
        lambda attempt: any(answer != right and test(text, answer, right) for text, answer, right in _pairs(attempt))
    )


_READ_A_CODE = Check(
    f"{LESSON}.read_a_code",
    run=read("codes"),
    draw=_four_calls,
    reference=lambda calls: [_code_of(text) for text in calls],
    compare=exact(),
    must=(how_many_right("codes are"),),
    faults=(
        "memory.zero_size",
        "memory.free_null",
        "memory.null_pointer",
        "memory.bad_kind",
        "memory.dest_max",
        "memory.leak",
        "runtime.null_handle",
        "runtime.sync_timeout",
        "runtime.bad_device",
        "runtime.repeat_init",
        "runtime.event_not_recorded",
        "runtime.device_not_set",
        "runtime.bad_parameter",
    ),
    misconceptions=(
        Misconception(
            "not_four_numbers",
            _codes_list("[str(eval(call)) for call in calls]"),
            got(
                lambda result, calls: (
                    not isinstance(result, (list, tuple))
                    or len(result) != 4
                    or any(type(item) is not int for item in result)
                )
            ),
            what="codes is not a list of four numbers.",
            why="A return code is a plain int, and there are four calls.",
            do="Write codes = [0, 100000, 107000, 100002] with your own numbers, without quotes.",
        ),
        Misconception(
            "all_fine",
            _codes_list("[0, 0, 0, 0]"),
            _answers(lambda text, code: 0),
            what="you expect that every call succeeds.",
            why="Three of the four calls cannot succeed; pyACL raises nothing, it returns a code.",
            do="Look at each argument for a null pointer, a size of 0, or a number beyond what the machine has.",
        ),
        Misconception(
            "minus_one",
            _codes_list("[-1 if eval(call) else 0 for call in calls]"),
            got(lambda result, calls: any(item in (-1, 1) for item in result)),
            what="a failure was written as -1 or 1.",
            why="pyACL does not return -1 like a C function: each kind of failure has a code of its own.",
            do="Find the code of that failure: 100000, 100002, 107000, 107001, 507000 or 507007.",
        ),
        Misconception(
            "one_code_for_all",
            _codes_list("[100000 if eval(call) else 0 for call in calls]"),
            _answers(lambda text, code: 100000 if code else 0),
            what="every failure has the code 100000.",
            why="100000 says that a value can never be right; other codes say that it does not fit here or now.",
            do="Give another code to a call that would be right on another machine or at another time.",
        ),
        Misconception(
            "nothing_to_copy",
            _codes_list("[100000 if eval(call) == 0 else eval(call) for call in calls]"),
            _some(lambda text, answer, right: right == 0),
            what="you expect a failure from a call that is fine.",
            why="Nothing to do is no mistake (a count of 0, an idle stream), and set_device may be repeated.",
            do="Find the call that asks for nothing impossible and give it 0.",
        ),
        Misconception(
            "device_range",
            _codes_list(
                "[100000 if eval(call) == 107001 else 0 if eval(call) in (107000,) else eval(call) for call in calls]"
            ),
            _some(lambda text, answer, right: 107000 <= right < 108000),
            what="a value that does not fit was not recognised.",
            why="107000: more bytes than the destination holds, or a timeout of 0. 107001: no device has that number.",
            do="Compare the numbers in that call with 64 bytes and with 8 devices (0 to 7).",
        ),
        Misconception(
            "history",
            _codes_list("[0 if eval(call) in (100002, 507000, 507007) else eval(call) for call in calls]"),
            _some(lambda text, answer, right: right in (100002, 507000, 507007)),
            what="a call that comes at the wrong time was not recognised.",
            why="100002: started already. 507000: the event was never recorded. 507007: that device was never set.",
            do="Ask for that call what must have happened before it.",
        ),
        Misconception(
            "null_or_unknown",
            _codes_list("[107000 if eval(call) == 100000 else eval(call) for call in calls]"),
            _some(lambda text, answer, right: right == 100000),
            what="a value that can never be right was not recognised.",
            why="A null pointer, a null handle, a size of 0 and a direction that does not exist give 100000.",
            do="Look for a 0 in the place of a pointer or a size, and for a direction above 5.",
        ),
    ),
)

# -- 4 too_early -------------------------------------------------------------------------------------


def _touched_early(what: str) -> Sign:
    """A sign: the host read or wrote pinned memory that a queued copy still needed."""
    return sign(
        lambda attempt: any(
            found["rule"] == "memory.host_in_flight" and found["facts"].get("what") == what
            for case in attempt.cases
            for found in case.faults
        )
    )


def _host_waited(case: CaseRun) -> bool:
    """memset began after the copy to the device had ended, ptr_to_bytes after the copy back had."""
    assert case.record is not None
    (there,), (back,) = _tasks(case, TaskKind.COPY_H2D), _tasks(case, TaskKind.COPY_D2H)
    starts = {case.record.strings[row["name"]]: row["start"] for row in case.record.calls.rows()}
    return there["end"] <= starts["acl.rt.memset"] and back["end"] <= starts["acl.util.ptr_to_bytes"]


_SYNCHRONISE = "    acl.rt.synchronize_stream(stream)\n"
_MEMSET = "    acl.rt.memset(pinned, size, 0, size)  # mutate: skip any other bytes than the data do\n"
_RESULT = "    result = acl.util.ptr_to_bytes(pinned, size)\n"

_TOO_EARLY = Check(
    f"{LESSON}.too_early",
    run=call("there_and_back"),
    draw=_bytes,
    sizes=(1, 32, 33, 4096, 100_003),
    reference=lambda data: data,
    must=(
        called("acl.rt.memcpy_async", at_least=2, at_most=2),
        called("acl.rt.memset"),
        require(
            "filled",
            lambda case: {row["bytes"] for row in _tasks(case, TaskKind.MEMSET)} == {len(case.inputs["data"])},
            holds="the memset filled the whole buffer",
            fails="the memset did not fill the whole buffer",
            do="It is memset(pointer, size of the memory, value, count): fill size bytes with 0.",
        ),
        copies("h2d", at_least=1, at_most=1),
        copies("d2h", at_least=1, at_most=1),
        require(
            "in_time",
            _host_waited,
            holds="the host touched the buffer only when each copy had ended",
            fails="the host touched the buffer before a copy had ended",
            do="Call acl.rt.synchronize_stream(stream) before the memset and before ptr_to_bytes.",
        ),
        everything_freed(),
        everything_destroyed(),
    ),
    picture=streams(),
    misconceptions=(
        _stays_on_the_host("too_early", "def there_and_back(data):", "bytes(data)"),
        Misconception(
            "sleeping",
            change(_SYNCHRONISE + _MEMSET, "    import time\n    time.sleep(0.001)\n" + _MEMSET),
            source(r"\bsleep\("),
            what="the program sleeps instead of waiting for the stream.",
            why="How long a copy takes nobody promises; a sleep is too short one day and too long every other day.",
            do="Replace it by acl.rt.synchronize_stream(stream): it returns exactly when the queue is empty.",
        ),
        Misconception(
            "default_stream",
            change("synchronize_stream(stream)", "synchronize_stream(0)"),
            source(r"synchronize_stream\(0\)") & fault("memory.host_in_flight"),
            what="another stream was waited for.",
            why="0 is the default stream of the context; the copies are in the stream that you made.",
            do="Pass stream to acl.rt.synchronize_stream.",
        ),
        Misconception(
            "asked_once",
            change("acl.rt.synchronize_stream(stream)", "acl.rt.stream_query(stream)"),
            calls("stream_query") & unmet("in_time"),
            what="the stream was asked, not waited for.",
            why="acl.rt.stream_query tells whether the queue is empty and returns at once.",
            do="Use acl.rt.synchronize_stream(stream).",
        ),
        Misconception(
            "blocking_copies",
            change("acl.rt.memcpy_async(", "acl.rt.memcpy(", "H2D, stream)", "H2D)", "D2H, stream)", "D2H)"),
            unmet("acl.rt.memcpy_async") & calls("acl.rt.memcpy", 2),
            what="the asynchronous copies were replaced by blocking ones.",
            why="That is right and slow: the host can do nothing else during the copies.",
            do="Keep memcpy_async and wait at the two places where the host needs the buffer.",
        ),
        Misconception(
            "no_memset",
            change(_SYNCHRONISE + _MEMSET, ""),
            unmet("acl.rt.memset"),
            what="the memset between the copies is gone.",
            why="Without it the old bytes in the buffer hide the mistake: the result looks right before the copy back.",
            do="Keep the memset and wait before it.",
        ),
        Misconception(
            "still_written_early",
            change(_SYNCHRONISE + _MEMSET, _MEMSET + _SYNCHRONISE),
            _touched_early("written"),
            what="the buffer is filled with zeros while the copy to the device is queued: zeros go there.",
            why="A queued copy reads its source when it runs, not when it is queued.",
            do="Call acl.rt.synchronize_stream(stream) before the memset.",
        ),
        Misconception(
            "still_read_early",
            change(_SYNCHRONISE + _RESULT, _RESULT + _SYNCHRONISE),
            _touched_early("read"),
            what="the result is read while the copy back is still queued.",
            why="Until the stream is synchronised the buffer holds the old bytes.",
            do="Call acl.rt.synchronize_stream(stream) between the second copy and ptr_to_bytes.",
        ),
        Misconception(
            "no_copy_back",
            change("    acl.rt.memcpy_async(pinned, size, device, size, D2H, stream)\n", ""),
            unmet("copies_d2h") & _NO_FAULT,
            what="nothing was copied back from the device.",
            why="The buffer holds what the memset wrote; the data is only on the device.",
            do="Keep both copies and wait after each.",
        ),
        Misconception(
            "freed_too_early",
            change(
                "    acl.rt.free(device)\n",
                "",
                "    acl.rt.memcpy_async(pinned, size, device, size, D2H, stream)\n",
                "    acl.rt.memcpy_async(pinned, size, device, size, D2H, stream)\n    acl.rt.free(device)\n",
            ),
            fault="memory.use_after_free",
        ),
    ),
)

# -- 5 leak ------------------------------------------------------------------------------------------


def _parts(rng: Generator, size: tuple[int, ...]) -> dict[str, Any]:
    return {"parts": [rng.integers(0, 256, length, dtype=np.uint8).tobytes() for length in size]}


def _copied(parts: list[bytes]) -> tuple[int, int]:
    """What copy_all returns: the first code, and the bytes copied before it."""
    total = 0
    for part in parts:
        if not part:
            return 100000, total
        total += len(part)
    return 0, total


def _peak(case: CaseRun) -> int:
    """The most bytes that were allocated at one time."""
    now = most = 0
    for row in _allocations(case):
        now += row["bytes"]
        most = max(most, now)
    return most


_CLEANUP = "    finally:\n        for pointer in pointers:\n            acl.rt.free(pointer)"

_LEAK = Check(
    f"{LESSON}.leak",
    run=call("copy_all"),
    draw=_parts,
    sizes=((6, 11, 7), (6, 33, 0), (8, 0, 3), (0, 5), (1,), (2000, 31, 32, 0, 9)),
    reference=_copied,
    faults=("memory.zero_size",),
    must=(
        require(
            "together",
            lambda case: _peak(case) == _copied(case.inputs["parts"])[1],
            holds="all parts were on the device at the same time",
            fails="the parts were not all on the device at the same time",
            do="Free the parts at the end, not one by one in the loop.",
        ),
        require(
            "copied",
            lambda case: (
                sum(row["bytes"] for row in _tasks(case, TaskKind.COPY_H2D)) == _copied(case.inputs["parts"])[1]
            ),
            holds="every part before the failure was copied",
            fails="the bytes copied are not those of the parts before the failure",
            do="Copy each part right after its malloc.",
        ),
        require(
            "everything_freed",
            lambda case: sum(row["bytes"] for row in _allocations(case)) == 0,
            holds="every allocation was freed",
            fails="memory was left behind",
            do="Follow the function for a list that holds an empty part.",
        ),
    ),
    misconceptions=(
        Misconception(
            "frees_the_null_pointer",
            change(
                "                return ret, total\n",
                "                acl.rt.free(pointer)\n                return ret, total\n",
            ),
            fault="memory.free_null",
        ),
        Misconception(
            "frees_twice",
            change(
                "                return ret, total\n",
                "                for pointer in pointers:\n                    acl.rt.free(pointer)\n"
                "                return ret, total\n",
            ),
            fault="memory.double_free",
        ),
        Misconception(
            "skips_the_failure",
            change("                return ret, total\n", "                continue\n"),
            gives(lambda parts: (0, sum(map(len, parts)))),
            what="an empty part is skipped, and the caller is told that all went well.",
            why="The function promises the first code that is not 0; who swallows it hides the failure.",
            do="Stop at the failure and return its code, after the cleanup.",
        ),
        Misconception(
            "return_in_finally",
            change(_CLEANUP, _CLEANUP + "\n        return 0, total"),
            gives(lambda parts: (0, _copied(parts)[1])),
            what="the code of the failure is lost: 0 is returned in its place.",
            why="A return in finally replaces the one that was under way; a break alone forgets the code too.",
            do="Leave finally to the cleanup, and return ret from the place of the failure.",
        ),
        Misconception(
            "freed_in_the_loop",
            change(
                "            total += len(part)\n",
                "            total += len(part)\n            acl.rt.free(pointers.pop())\n",
            ),
            unmet("together") & ~unmet("copied"),
            what="each part is freed before the next one is copied.",
            why="The parts are needed on the device together: what reads them all comes after the loop.",
            do="Keep the pointers in the list and free them at the end.",
        ),
        Misconception(
            "reset_for_free",
            change(
                "        for pointer in pointers:\n            acl.rt.free(pointer)", "        acl.rt.reset_device(0)"
            ),
            unmet("everything_freed") & calls("reset_device"),
            what="the device is reset in place of freeing the memory.",
            why="reset_device takes the device from the whole program; the function owns nothing but its memory.",
            do="Call acl.rt.free for every pointer, and leave the device alone.",
        ),
        Misconception(
            "last_one_forgotten",
            change("        for pointer in pointers:", "        for pointer in pointers[:-1]:"),
            unmet("everything_freed") & fails_where(lambda parts: bool(parts[0])),
            what="something is left behind on every way out.",
            why="Each pointer that malloc returned with the code 0 must be freed, the last one too.",
            do="Free every pointer of the list.",
        ),
        Misconception(
            "only_when_it_fails",
            "# exercise: 02_acl_first.leak\ndef copy_all(parts):\n    pointers, total = [], 0\n    for part in parts:\n"
            "        pointer, ret = acl.rt.malloc(len(part), 0)\n        if ret != 0:\n"
            "            for old in pointers:\n                acl.rt.free(old)\n            return ret, total\n"
            "        pointers.append(pointer)\n"
            "        acl.rt.memcpy(pointer, len(part), acl.util.bytes_to_ptr(part), len(part), H2D)\n"
            "        total += len(part)\n    return 0, total",
            unmet("everything_freed") & fails_where(lambda parts: all(parts)),
            what="the way out after a failure is clean; the good way out leaks.",
            why="Every way out needs the cleanup: that is why it belongs into one place.",
            do="Use try and finally, or free before both returns.",
        ),
        Misconception(
            "error_path_leaks",
            "# exercise: 02_acl_first.leak\ndef copy_all(parts):\n    pointers, total = [], 0\n    for part in parts:\n"
            "        pointer, ret = acl.rt.malloc(len(part), 0)\n        if ret:\n            return ret, total\n"
            "        pointers += [pointer]\n"
            "        acl.rt.memcpy(pointer, len(part), acl.util.bytes_to_ptr(part), len(part), H2D)\n"
            "        total += len(part)\n    while pointers:\n        acl.rt.free(pointers.pop())\n    return 0, total",
            unmet("everything_freed"),
            what="after a failure the pointers of the parts before it are lost.",
            why="return leaves the function at once; the loop that frees stands behind it and is never reached.",
            do="Put the loop into try and the freeing into finally.",
        ),
    ),
)

# -- 6 relay -----------------------------------------------------------------------------------------


def _in_order_on_the_device(case: CaseRun) -> bool:
    (there,), (back,) = _tasks(case, TaskKind.COPY_H2D), _tasks(case, TaskKind.COPY_D2H)
    return there["end"] <= back["start"]


def _host_waits_at_the_end(case: CaseRun) -> bool:
    waits = _call_rows(case, *_WAITS)
    if waits and min(waits) < max(_call_rows(case, "acl.rt.memcpy_async")):
        return False
    # A large copy is still under way when the second one is queued, unless its call itself waited.
    (there,), (back,) = _tasks(case, TaskKind.COPY_H2D), _tasks(case, TaskKind.COPY_D2H)
    return len(case.inputs["data"]) < _LARGE or back["queued"] < there["end"]


def _two_streams(case: CaseRun) -> bool:
    (there,), (back,) = _tasks(case, TaskKind.COPY_H2D), _tasks(case, TaskKind.COPY_D2H)
    return there["stream"] != back["stream"]


_LARGE = 1_000_000
"""A copy of so many bytes takes much longer than the few calls between two copies."""

_RECORD = "    acl.rt.record_event(event, up)\n"
_WAIT = "    acl.rt.stream_wait_event(down, event)\n"
_UP = "    acl.rt.memcpy_async(device, size, source, size, H2D, up)\n"
_DOWN = "    acl.rt.memcpy_async(target, size, device, size, D2H, down)\n"
_WAIT_DOWN = "    acl.rt.synchronize_stream(down)\n"
_WAIT_UP = "    acl.rt.synchronize_stream(up)  # mutate: skip down has waited for up already\n"

_RELAY = Check(
    f"{LESSON}.relay",
    run=call("relay"),
    draw=_bytes,
    sizes=(1, 31, 4096, 100_003, 3_000_000),
    reference=lambda data: data,
    must=(
        copies("h2d", at_least=1, at_most=1),
        copies("d2h", at_least=1, at_most=1),
        called("acl.rt.memcpy_async", at_least=2, at_most=2),
        require(
            "host_free",
            _host_waits_at_the_end,
            holds="the host waited only after everything was queued",
            fails="the host waited before the second copy was queued",
            do="Let the stream wait, not the host: acl.rt.stream_wait_event.",
        ),
        require(
            "two_streams",
            _two_streams,
            holds="the copies are in two streams",
            fails="both copies are in one stream",
            do="Keep the first copy in up and the second in down.",
        ),
        require(
            "in_order",
            _in_order_on_the_device,
            holds="the copy back began after the copy there had ended",
            fails="the copy back began before the copy there had ended",
            do="Record an event in up after the first copy; let down wait for it before the second.",
        ),
        everything_freed(),
        everything_destroyed(),
    ),
    picture=streams(),
    misconceptions=(
        _stays_on_the_host("relay", "def relay(data):", "bytes(data)"),
        Misconception(
            "pageable_source",
            change(
                "(device, size, source, size, H2D, up)", "(device, size, acl.util.bytes_to_ptr(data), size, H2D, up)"
            ),
            unmet("host_free") & source(r"memcpy_async\(\w+, \w+, acl\.util\.bytes_to_ptr"),
            what="the first copy comes from ordinary host memory, so its call waits until it is done.",
            why="Only a copy with pinned memory is asynchronous.",
            do="Copy from source, which malloc_host made.",
        ),
        Misconception(
            "host_waits",
            change(_RECORD + _WAIT, "    acl.rt.synchronize_stream(up)\n"),
            unmet("host_free") & ~calls("synchronize_event"),
            what="the host waits for the first copy before it queues the second.",
            why="The result is right, and while it waits the host can queue nothing for anybody.",
            do="Record an event in up and let the stream down wait for it with acl.rt.stream_wait_event(down, event).",
        ),
        Misconception(
            "host_waits_for_the_event",
            change(_WAIT, "    acl.rt.synchronize_event(event)\n"),
            unmet("host_free"),
            what="the host waits for the event.",
            why="acl.rt.synchronize_event stops the host; acl.rt.stream_wait_event puts the wait into a stream.",
            do="Use acl.rt.stream_wait_event(down, event).",
        ),
        Misconception(
            "one_stream",
            change(_DOWN, _DOWN.replace("down)", "up)")),
            unmet("two_streams"),
            what="both copies are in one stream.",
            why="One stream keeps the order by itself; the exercise is to keep it between two.",
            do="Put the second copy into down and let down wait for an event of up.",
        ),
        Misconception(
            "arguments_exchanged",
            change("stream_wait_event(down, event)", "stream_wait_event(event, down)"),
            fault("runtime.bad_handle") & calls("stream_wait_event"),
            what="a call was given a stream where an event is needed, or the reverse.",
            why="It is stream_wait_event(stream, event), but record_event(event, stream).",
            do="Exchange the two arguments.",
        ),
        Misconception(
            "waits_before_recorded",
            change(_RECORD + _WAIT, "", _UP, _WAIT + _UP + _RECORD),
            unmet("in_order") & sign(lambda attempt: _wait_comes_first(attempt)),
            what="down waits for an event that is not recorded yet.",
            why="Waiting for an event that was never recorded does not wait at all.",
            do="Call acl.rt.record_event(event, up) before acl.rt.stream_wait_event(down, event).",
        ),
        Misconception(
            "recorded_too_early",
            change(_RECORD, "", _UP, _RECORD + _UP),
            unmet("in_order") & source(r"record_event\(\w+, up\)[\s\S]*H2D, up\)"),
            what="the event is recorded before the first copy is queued.",
            why="An event captures what was queued in its stream before it.",
            do="Record it after the first copy.",
        ),
        Misconception(
            "wrong_stream_waits",
            change("stream_wait_event(down, event)", "stream_wait_event(up, event)"),
            unmet("in_order") & source(r"stream_wait_event\(up,"),
            what="up waits for its own event.",
            why="The stream that has to be held up is the one with the second copy.",
            do="Let down wait: acl.rt.stream_wait_event(down, event).",
        ),
        Misconception(
            "recorded_in_the_wrong_stream",
            change("record_event(event, up)", "record_event(event, down)"),
            unmet("in_order") & source(r"record_event\(\w+, down\)"),
            what="the event is recorded in the stream that waits for it.",
            why="An event captures the work of the stream in which it is recorded; down has done nothing yet.",
            do="Record it in up, after the first copy.",
        ),
        Misconception(
            "recorded_and_not_awaited",
            change(_WAIT, ""),
            unmet("in_order") & calls("record_event") & ~calls("stream_wait_event"),
            what="an event is recorded and nobody waits for it.",
            why="An event is only a mark; it holds up nothing until somebody waits for it.",
            do="Add acl.rt.stream_wait_event(down, event) before the second copy.",
        ),
        Misconception(
            "event_left",
            change("    acl.rt.destroy_event(event)\n", ""),
            unmet("everything_destroyed") & calls("create_event") & ~calls("destroy_event"),
            what="the event stays open.",
            why="A chip has a limited number of events, and each call of the function takes one more.",
            do="Call acl.rt.destroy_event(event) at the end.",
        ),
        Misconception(
            "synchronised_in_order",
            change(
                _RECORD + _WAIT,
                "",
                _WAIT_DOWN + _WAIT_UP,
                _WAIT_UP + _WAIT_DOWN,
            ),
            unmet("in_order") & ~calls("stream_wait_event"),
            what="the second copy does not wait for the first.",
            why="Streams run side by side; in which order the host waits for them at the end changes nothing.",
            do="Record an event in up after the first copy and let down wait for it before the second.",
        ),
    ),
)


def _wait_comes_first(attempt: Attempt) -> bool:
    """True if in some case stream_wait_event was called before the first record_event."""
    for case in attempt.cases:
        waits, records = _call_rows(case, "acl.rt.stream_wait_event"), _call_rows(case, "acl.rt.record_event")
        if waits and (not records or min(waits) < min(records)):
            return True
    return False


CHECKS = [_FIRST_PROGRAM, _ROUND_TRIP, _READ_A_CODE, _TOO_EARLY, _LEAK, _RELAY]
