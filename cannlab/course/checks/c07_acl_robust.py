"""Checks of 07_acl_robust."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cannlab.course.checks.c03_model_to_om import atc, executions, om_bytes, scores_of
from cannlab.course.spec import (
    CaseRun,
    Check,
    File,
    Misconception,
    Sign,
    allclose,
    call,
    calls,
    catches,
    change,
    everything_destroyed,
    everything_freed,
    fails_where,
    fault,
    got,
    how_many_right,
    lets_pass,
    raises,
    read,
    refuses,
    require,
    sign,
    source,
    text,
    unmet,
)

LESSON = "07_acl_robust"
Array = NDArray[Any]
REQUESTED = ("memory.requested_oom", "runtime.model_exception", "runtime.device_lost")
LEAKS = ("memory.leak", "runtime.leak", "model.not_unloaded")


def call_names(case: CaseRun) -> list[str]:
    """The functions in the order in which they were called."""
    assert case.record is not None
    rows = sorted(case.record.calls.rows(), key=lambda row: row["start"])
    return [case.record.strings[row["name"]] for row in rows]


# -- 1 the checked call ------------------------------------------------------------------------------

_FUNCTIONS = {0: "acl.rt.free", 1: "acl.rt.malloc", 2: "acl.rt.get_mem_info", 3: "acl.mdl.get_input_dims"}


def draw_checked(rng: Generator, size: str) -> dict[str, Any]:
    values: list[Any] = [int(value) for value in rng.integers(1, 10**6, 2)]
    code = int(rng.choice([100000, 107000, 107002, 145003, 207001, 507011])) if "failed" in size else 0
    if size == "zero":
        return {"call": "acl.rt.stream_query", "result": (0, 0)}
    if size == "dict":
        return {"call": "acl.mdl.get_input_dims", "result": ({"name": "image", "dims": values}, 0)}
    count = {"none": 0, "one": 1, "two": 2}[size.partition(" ")[0]]
    if "failed" in size:
        values = [0, 0]  # as a function leaves them that failed
    result = (*values[:count], code)
    return {"call": _FUNCTIONS[count], "result": result if count else code}


def told(call: str, result: Any) -> tuple[Any, ...]:
    *values, code = result if isinstance(result, tuple) else (result,)
    if code:
        return ("raises", call, code)
    return ("returns", None if not values else values[0] if len(values) == 1 else tuple(values))


def _returned(wrong: Callable[[Any], Any]) -> Sign:
    """What the function returns for calls that went well, by a wrong formula."""
    return got(lambda got, call, result: told(call, result)[0] == "returns" and got == ("returns", wrong(result)))


CHECKED = Check(
    f"{LESSON}.checked",
    run=call("trial"),
    draw=draw_checked,
    sizes=("none", "none failed", "one", "one failed", "zero", "two", "two failed", "dict"),
    reference=told,
    misconceptions=(
        Misconception(
            "first_is_code",
            change("*values, code", "code, *values"),
            got(lambda got, call, result: got[0] == "raises" and isinstance(result, tuple) and got[2] == result[0])
            & got(lambda got, call, result: got[0] == "returns" and isinstance(result, tuple) and result[-1] != 0),
            what="the first entry of a tuple is taken for the code.",
            why="pyACL puts the code last: pointer, ret = acl.rt.malloc(...).",
            do="Take the last entry: *values, code = result.",
        ),
        Misconception(
            "tuple_against_0",
            f"# exercise: {LESSON}.checked\n"
            "def checked(call, result):\n    if result != 0:\n        raise AclError(call, result)",
            got(lambda got, call, result: got[0] == "raises" and got[2] == result and isinstance(result, tuple)),
            what="a whole tuple is compared with 0, and so every call with a value fails.",
            why="A tuple never equals 0; the code is its last entry.",
            do="Take the tuple apart before you look at the code.",
        ),
        Misconception(
            "code_kept",
            change("return values[0] if len(values) == 1 else tuple(values)", "return result"),
            _returned(lambda result: result)
            & fails_where(lambda call, result: isinstance(result, tuple) and not result[-1]),
            what="the code is still in what comes back.",
            why="After the check the code has no news; callers want the value: pointer = checked(...).",
            do="Return what stands before the code: nothing, one value, or a tuple of several.",
        ),
        Misconception(
            "nothing_checked",
            change("    if code != 0:\n        raise AclError(call, code)\n", ""),
            fails_where(lambda call, result: told(call, result)[0] == "raises")
            & got(lambda got, call, result: got[0] == "returns" and told(call, result)[0] == "raises"),
            what="no code is an error: the failed calls do not raise.",
            why="A code that nobody looks at is lost, and the program goes on with a pointer of 0.",
            do="raise AclError(call, code) if the code is not 0.",
        ),
        Misconception(
            "assert_for_raise",
            change("    if code != 0:\n        raise AclError(call, code)\n", "    assert code == 0, (call, code)\n"),
            raises("AssertionError"),
            what="a failed call ends in an AssertionError.",
            why="python -O removes every assert, and a caller that handles AclError does not catch it.",
            do="raise AclError(call, code).",
        ),
        Misconception(
            "program_ended",
            change("raise AclError(call, code)", "raise SystemExit(1)"),
            raises("SystemExit"),
            what="a failed call ends the whole program, as the C macro does.",
            why="A service must survive one bad request, and callers must undo what they made.",
            do="raise AclError(call, code), and let the caller decide.",
        ),
        Misconception(
            "first_value_only",
            change("return values[0] if len(values) == 1 else tuple(values)", "return values[0]"),
            fails_where(lambda call, result: told(call, result)[0] == "returns" and np.size(result) == 3),
            what="of two values only the first comes back.",
            why="acl.rt.get_mem_info gives free bytes, total bytes and the code.",
            do="Return tuple(values) if there are several.",
        ),
        Misconception(
            "always_a_tuple",
            change("return values[0] if len(values) == 1 else tuple(values)", "return tuple(values)"),
            _returned(lambda result: result[:-1]),
            what="one value comes back as a tuple with one entry.",
            why="pointer = checked(...) must be a pointer, which the next call takes.",
            do="Return values[0] if there is exactly one.",
        ),
        Misconception(
            "zero_is_nothing",
            change("return values[0] if", "return values[0] or None if"),
            fails_where(lambda call, result: result == (0, 0)),
            what="a value of 0 is turned into None.",
            why="0 can be a good answer: acl.rt.stream_query gives 0 for complete.",
            do="Ask how many values there are, not whether a value is true.",
        ),
        Misconception(
            "empty_tuple",
            change("    if not values:\n        return None\n", ""),
            _returned(lambda result: ()),
            what="a call that gives only a code returns an empty tuple.",
            why="Nothing is left of it, and that is None in Python.",
            do="Return None if there is no value.",
        ),
        Misconception(
            "code_for_none",
            change("        return None\n", "        return code\n"),
            got(lambda got, call, result: not isinstance(result, tuple) and got == ("returns", 0) and result == 0),
            what="a call that gives only a code returns that code.",
            why="After the check the code is 0 for sure: it has no news for the caller.",
            do="Return None if there is no value.",
        ),
        Misconception(
            "name_left_out",
            change("raise AclError(call, code)", 'raise AclError("pyACL", code)'),
            got(lambda got, call, result: got[0] == "raises" and got[1] != call and got[2] == told(call, result)[2]),
            what="the error does not say which call failed.",
            why="The same code comes from many calls; without the name you search the whole program.",
            do="raise AclError(call, code).",
        ),
    ),
)

# -- 2 who tells? ------------------------------------------------------------------------------------

_LOAD, _MALLOC, _SYNCHRONISE = "acl.mdl.load_from_file", "acl.rt.malloc", "acl.rt.synchronize_stream"
_ASYNC = "acl.mdl.execute_async"


def draw_who_tells(rng: Generator, size: None) -> dict[str, Any]:
    faults = [
        f"oom@{rng.integers(1, 3)}",
        f"oom@{rng.integers(3, 5)}",
        f"aicore@{rng.integers(1, 4)}",
        f"lost@{rng.integers(2, 10)}",
        str(rng.choice([f"oom@{rng.integers(5, 9)}", f"aicore@{rng.integers(4, 9)}"])),
        f"slow*{rng.integers(2, 50)}",
    ]
    return {"faults": [faults[index] for index in rng.permutation(len(faults))], "om_path": small_om()}


def small_om() -> File:
    return File("net.om", om_bytes((2, 2, 4, 6), 3))


def who_tells(faults: list[str], om_path: File, **wrong: str) -> dict[str, str]:
    """Who gives the first code; ``wrong`` replaces the answer for a sort of fault: load, malloc, aicore, lost, none."""
    right = {
        "load": f"{_LOAD} 207001",
        "malloc": f"{_MALLOC} 207001",
        "aicore": f"{_SYNCHRONISE} 507011",
        "lost": f"{_SYNCHRONISE} 507010",
        "slow": "nothing",
        "beyond": "nothing",
    } | wrong
    return {fault: right[sort_of(fault)] for fault in faults}


def sort_of(fault: str) -> str:
    name, _, number = fault.replace("*", "@").partition("@")
    if name == "oom":
        return "load" if int(number) < 3 else "malloc" if int(number) < 5 else "beyond"
    if name == "aicore":
        return "aicore" if int(number) < 4 else "beyond"
    return name


def _predicted(name: str, what: str, why: str, do: str, **wrong: str) -> Misconception:
    """The misconception of who answers so for these sorts of faults (and rightly for the others, in the sample)."""
    cell = (
        f"# exercise: {LESSON}.who_tells\n"
        f"wrong = {wrong!r}\n"
        "answer = {}\n"
        "for fault in faults:\n"
        "    name, _, number = fault.replace('*', '@').partition('@')\n"
        "    number, sort = int(number), name\n"
        "    if name == 'oom':\n"
        "        sort = 'load' if number < 3 else 'malloc' if number < 5 else 'beyond'\n"
        "    if name == 'aicore':\n"
        "        sort = 'aicore' if number < 4 else 'beyond'\n"
        f"    right = {{'load': '{_LOAD} 207001', 'malloc': '{_MALLOC} 207001',\n"
        f"             'aicore': '{_SYNCHRONISE} 507011', 'lost': '{_SYNCHRONISE} 507010',\n"
        "             'slow': 'nothing', 'beyond': 'nothing'}\n"
        "    answer[fault] = wrong.get(sort, right[sort])\n"
    )

    def seen(result: Any, faults: list[str], om_path: File) -> bool:
        asked = [fault for fault in faults if sort_of(fault) in wrong]
        said = {fault: " ".join(str(result.get(fault, "")).split()) for fault in asked}
        return bool(asked) and all(said[fault] == wrong[sort_of(fault)] for fault in asked)

    return Misconception(name, cell, got(seen), what=what, why=why, do=do)


WHO_TELLS = Check(
    f"{LESSON}.who_tells",
    run=read("answer"),
    draw=draw_who_tells,
    reference=who_tells,
    compare=text(),
    must=(how_many_right("faults are"),),
    faults=REQUESTED,
    misconceptions=(
        _predicted(
            "queuing_tells",
            "the call that queues the model is said to give its error.",
            "execute_async returns as soon as the task is in the queue; nothing has run then.",
            "Ask which call waits for the queue.",
            aicore=f"{_ASYNC} 507011",
        ),
        _predicted(
            "queuing_tells_507015",
            "the call that queues the model is said to give the error of the core.",
            "execute_async returns as soon as the task is in the queue, and a failed model is 507011.",
            "Ask which call waits for the queue, and which code a model gives.",
            aicore=f"{_ASYNC} 507015",
        ),
        _predicted(
            "code_of_the_core",
            "the code of a single kernel is given for a model.",
            "A model wraps the failure of one of its operators: 507011; the 507015 below it stands in the log.",
            "Take the code of a model.",
            aicore=f"{_SYNCHRONISE} 507015",
        ),
        _predicted(
            "queuing_tells_lost",
            "the call that queues the model is said to tell of the lost device.",
            "execute_async puts a task into the queue and returns 0; the device is lost when a task is due.",
            "Ask which call waits for the queue.",
            lost=f"{_ASYNC} 507010",
        ),
        _predicted(
            "copy_tells",
            "the asynchronous copy is said to tell of the lost device.",
            "memcpy_async puts a task into the queue and returns 0; the device is lost when a task is due.",
            "Ask which call waits for the queue.",
            lost="acl.rt.memcpy_async 507010",
        ),
        _predicted(
            "load_needs_nothing",
            "the first allocations are said to be those of your own malloc.",
            "load_from_file allocates twice before: weights and work memory.",
            "Count the allocations from the start of the program.",
            load=f"{_MALLOC} 207001",
        ),
        _predicted(
            "pinned_counts",
            "pinned host memory is counted as an allocation of device memory.",
            "malloc_host takes memory of the host; the fault counts what lies on the device.",
            "Count load_from_file (twice) and acl.rt.malloc.",
            malloc="acl.rt.malloc_host 207001",
        ),
        _predicted(
            "call_left_out",
            "the codes stand there without the calls.",
            "The same code comes from many calls; who tells is half of the answer.",
            'Write call and code, as in "acl.rt.free 100000".',
            load="207001",
            malloc="207001",
            aicore="507011",
            lost="507010",
        ),
        _predicted(
            "slow_is_an_error",
            "a slow link is said to make a call fail.",
            "Everything takes longer and comes to its end; only a wait with a timeout would notice.",
            "Write nothing for it.",
            slow=f"{_SYNCHRONISE} 507010",
        ),
        _predicted(
            "always_something",
            "a fault is said to happen although the program never gets to that number.",
            "The program allocates four times and runs the model three times.",
            "Count, and write nothing if the number is not reached.",
            beyond=f"{_MALLOC} 207001",
        ),
        _predicted(
            "always_something_aicore",
            "a fault of the cores is said to happen although the model never runs so often.",
            "The program runs the model three times.",
            "Count, and write nothing if the number is not reached.",
            beyond=f"{_SYNCHRONISE} 507011",
        ),
    ),
)

# -- 3 the clean-up ----------------------------------------------------------------------------------

_CODES = {"oom": 207001, "aicore": 507011, "lost": 507010}


def draw_clean_up(rng: Generator, size: tuple[str, int, int]) -> dict[str, Any]:
    fault, batch, count = size
    dims = (2, 4, 6)
    images = rng.standard_normal((count, *dims)).astype(np.float32)
    return {"fault": fault, "om_path": File("net.om", om_bytes((batch, *dims), 5)), "images": images}


def survived(fault: str, om_path: File, images: Array) -> Any:
    return _CODES[fault.partition("@")[0]] if fault else scores_of(om_path, images)


def _given_back_in_order(case: CaseRun) -> bool:
    """Everything is given back before the device, and the device before pyACL ends; nothing comes after that."""
    names = call_names(case)
    last = [name for name in names if name in ("acl.rt.reset_device", "acl.finalize")]
    return last == ["acl.rt.reset_device", "acl.finalize"] == names[-2:]


CLEAN_UP = Check(
    f"{LESSON}.clean_up",
    run=call("under"),
    draw=draw_clean_up,
    sizes=(
        ("", 4, 9),
        ("", 1, 2),
        ("oom@1", 2, 2),
        ("oom@3", 2, 2),
        ("oom@4", 2, 2),
        ("aicore@1", 2, 5),
        ("aicore@2", 2, 5),
        ("lost@1", 2, 4),
        ("lost@3", 2, 4),
        ("lost@5", 2, 4),
    ),
    reference=survived,
    compare=allclose(rtol=1e-3, atol=1e-3),
    faults=REQUESTED,
    must=(
        everything_freed(),
        everything_destroyed(),
        require(
            "executions",
            lambda case: bool(case.inputs["fault"]) or executions(case) == -(-case.size[2] // case.size[1]),
            holds="the model ran once for each batch",
            fails="the model did not run once for each batch",
            do="Step through the images by the batch of the description.",
        ),
        require(
            "order",
            _given_back_in_order,
            holds="the device was given back after everything else, then pyACL ended",
            fails="the run does not end with acl.rt.reset_device and acl.finalize, once each",
            do="Register acl.finalize first and acl.rt.reset_device second: an ExitStack runs backwards.",
        ),
    ),
    misconceptions=(
        Misconception(
            "half_a_result",
            change(
                '            ok("acl.rt.synchronize_stream", acl.rt.synchronize_stream(0))\n',
                "            if acl.rt.synchronize_stream(0) != 0:\n                break\n",
                "        return np.concatenate(scores)",
                "        return np.concatenate(scores) if scores else np.zeros((0, 5), np.float32)",
            ),
            got(
                lambda result, fault, om_path, images: (
                    bool(fault) and isinstance(result, np.ndarray) and len(result) < len(images)
                )
            ),
            what="the loop ends at the error, and part of the scores comes back as if it were all.",
            why="The caller cannot see that images are missing.",
            do="Raise: ok(name, code).",
        ),
        Misconception(
            "synchronisation_unchecked",
            change('ok("acl.rt.synchronize_stream", acl.rt.synchronize_stream(0))', "acl.rt.synchronize_stream(0)"),
            got(lambda result, fault, om_path, images: fault.startswith("aicore") and isinstance(result, np.ndarray)),
            what="a model failed and scores came back.",
            why="execute_async gives the code of queuing; the failure comes out of synchronize_stream.",
            do='Write ok("acl.rt.synchronize_stream", acl.rt.synchronize_stream(0)).',
        ),
        Misconception(
            "device_given_back_first",
            change(
                "        undo.callback(acl.rt.reset_device, 0)\n",
                "",
                "        undo.callback(outputs.free)\n",
                "        undo.callback(outputs.free)\n        undo.callback(acl.rt.reset_device, 0)\n",
            ),
            fault("runtime.no_context") & source(r"undo\.callback\(acl\.rt\.reset_device"),
            what="the device was given back before what lives on it.",
            why="What is registered last runs first, and without a device nothing can be unloaded or freed.",
            do="Register acl.rt.reset_device directly below set_device.",
        ),
        Misconception(
            "freed_twice",
            change(
                "        return np.concatenate(scores)", "        outputs.free()\n        return np.concatenate(scores)"
            ),
            fault("memory.double_free"),
            what="memory is freed on the normal path and again by the stack.",
            why="The stack runs on every path, the normal one included.",
            do="Leave the freeing to the stack alone.",
        ),
        Misconception(
            "registered_together",
            change(
                "        undo.callback(inputs.free)\n",
                "",
                "        undo.callback(outputs.free)\n",
                "        undo.callback(inputs.free)\n        undo.callback(outputs.free)\n",
            ),
            sign(
                lambda attempt: (
                    bool(attempt.failed)
                    and all(case.size[0] == "oom@4" for case in attempt.failed)
                    and any(
                        fact.name == "everything_freed" and not fact.ok
                        for case in attempt.failed
                        for fact in case.facts
                    )
                )
            ),
            what="the input's memory leaks when the output's cannot be had.",
            why="Between making a thing and registering its undo nothing may fail.",
            do="Register inputs.free before you make outputs.",
        ),
        Misconception(
            "error_swallowed",
            change(
                "        batch, scores =",
                "        undo.push(lambda *problem: True)\n        batch, scores =",
            ),
            got(lambda result, fault, om_path, images: bool(fault) and result is None),
            what="the error is gone: the caller gets None and no AclError.",
            why="An error that nobody hears of turns into wrong answers somewhere else.",
            do="Undo, and let the AclError go on to the caller.",
        ),
        Misconception(
            "never_unloaded",
            change("        undo.callback(acl.mdl.unload, model)\n", ""),
            fault("model.not_unloaded") & ~calls("acl.mdl.unload") & ~source(r"acl\.mdl\.unload"),
            what="the model is never unloaded.",
            why="Its weights and its work memory stay on the device.",
            do="Register acl.mdl.unload directly below the load.",
        ),
        Misconception(
            "never_ended",
            change("        undo.callback(acl.finalize)\n", ""),
            unmet("order") & ~source(r"acl\.finalize"),
            what="pyACL is never ended.",
            why="acl.finalize ends what acl.init began, on every path.",
            do="Register acl.finalize directly below acl.init.",
        ),
        Misconception(
            "description_after_check",
            change(
                "        undo.callback(acl.mdl.unload, model)\n",
                "",
                "        undo.callback(inputs.free)\n",
                "        undo.callback(inputs.free)\n        undo.callback(acl.mdl.unload, model)\n",
            ),
            sign(
                lambda attempt: (
                    bool(attempt.failed)
                    and all(case.size[0].startswith("oom@3") for case in attempt.failed)
                    and "model.not_unloaded" in attempt.fault_rules
                )
            ),
            what="the model stays loaded when the input's memory cannot be had.",
            why="Its undo is registered only after the next thing was made.",
            do="Register acl.mdl.unload directly below the load.",
        ),
        Misconception(
            "registered_at_the_end",
            change(
                "        undo.callback(acl.finalize)\n",
                "",
                "        undo.callback(acl.rt.reset_device, 0)\n",
                "",
                "        undo.callback(acl.mdl.unload, model)\n",
                "",
                "        undo.callback(acl.mdl.destroy_desc, desc)\n",
                "",
                "        undo.callback(inputs.free)\n",
                "",
                "        undo.callback(outputs.free)\n",
                "        undo.callback(acl.finalize)\n        undo.callback(acl.rt.reset_device, 0)\n"
                "        undo.callback(acl.mdl.unload, model)\n        undo.callback(acl.mdl.destroy_desc, desc)\n"
                "        undo.callback(inputs.free)\n        undo.callback(outputs.free)\n",
            ),
            sign(
                lambda attempt: (
                    bool(attempt.failed) and {case.size[0] for case in attempt.failed} == {"oom@1", "oom@3", "oom@4"}
                )
            ),
            what="everything is registered in the right order, and too late: after an early error the list is empty.",
            why="The stack can only undo what it knows at that moment.",
            do="Register each undo directly below the line that made the thing.",
        ),
    ),
)

# -- 4 any model -------------------------------------------------------------------------------------


@cache
def several_om(kind: str) -> bytes:
    """An om with several inputs and outputs of different types: three and three.

    "half" reads and writes float16 where it can, and has a fourth output.
    """
    from onnx import TensorProto, helper, numpy_helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["left", "right"], ["product"], "product"),
            helper.make_node("Add", ["product", "bias"], ["scores"], "scores"),
            helper.make_node("Mul", ["count", "two"], ["twice"], "twice"),
            helper.make_node("ArgMax", ["scores"], ["best"], "best", axis=1, keepdims=0),
        ],
        "several",
        [
            value("left", TensorProto.FLOAT, [3, 5]),
            value("count", TensorProto.INT32, [2, 7]),
            value("right", TensorProto.FLOAT, [5, 4]),
        ],
        [
            value("scores", TensorProto.FLOAT, [3, 4]),
            value("twice", TensorProto.INT32, [2, 7]),
            value("best", TensorProto.INT64, [3]),
        ],
        [
            numpy_helper.from_array(np.array([1, -2, 3, -1], np.float32), "bias"),
            numpy_helper.from_array(np.array(2, np.int32), "two"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = ["--model=net.onnx", "--framework=5", "--soc_version=Ascend910B1"]
    if kind == "half":
        options += ["--input_fp16_nodes=left"]
        options += ["--output_type=product:0:FP16;scores:0:FP16;twice:0:INT32;best:0:INT64"]
        options += ["--out_nodes=product:0;scores:0;twice:0;best:0"]
    console, data = atc(model.SerializeToString(deterministic=True), *options)
    assert data, console
    return data


def draw_any_model(rng: Generator, size: str) -> dict[str, Any]:
    if size in ("float", "half"):
        arrays = [
            rng.standard_normal((3, 5)),
            rng.integers(1, 1000, (2, 7)),
            rng.standard_normal((5, 4)).astype(np.float32),
        ]
        return {"om_path": File("several.om", several_om(size)), "arrays": arrays}
    batch = int(size)
    image = rng.standard_normal((batch, 2, 4, 6))
    return {"om_path": File("net.om", om_bytes((batch, 2, 4, 6), 5)), "arrays": [image]}


_NUMPY = {0: np.float32, 1: np.float16, 3: np.int32, 9: np.int64}


def inferred(om_path: File, arrays: list[Array]) -> list[Array]:
    """What the model gives, by the om's own executor."""
    from cannlab import om
    from cannlab.machine.executor import Model

    model = Model(om.read(om_path.data))
    fed = [array.astype(_NUMPY[tensor.dtype]) for array, tensor in zip(arrays, model.om.inputs, strict=True)]
    results, _ = model.run([np.ascontiguousarray(array) for array in fed])
    return [
        np.asarray(result).astype(_NUMPY[tensor.dtype]).reshape(tensor.dims)
        for result, tensor in zip(results, model.om.outputs, strict=True)
    ]


def _outputs(test: Callable[[Any, list[Array]], bool]) -> Sign:
    return got(lambda result, om_path, arrays: test(result, inferred(om_path, arrays)))


ANY_MODEL = Check(
    f"{LESSON}.any_model",
    run=call("in_any_order"),
    draw=draw_any_model,
    sizes=("1", "3", "float", "half"),
    reference=inferred,
    compare=allclose(rtol=2e-2, atol=2e-2),
    must=(everything_freed(), everything_destroyed()),
    misconceptions=(
        Misconception(
            "outputs_as_float32",
            change("dtype, dims = NUMPY[acl.mdl.get_output_data_type(desc, i)],", "dtype, dims = np.float32,"),
            raises("ValueError", "reshape") & ~source("get_output_data_type"),
            what="every output is read as float32.",
            why="Device memory holds bytes; int32, int64 and float16 outputs have other elements.",
            do="Take the type from acl.mdl.get_output_data_type(desc, i).",
        ),
        Misconception(
            "inputs_as_float32",
            change(".astype(NUMPY[acl.mdl.get_input_data_type(desc, i)])", ".astype(np.float32)"),
            ~source("get_input_data_type") & source(r"np\.float32"),
            what="every input is written as float32.",
            why="An int32 input then reads the bits of a float, and a float16 input takes half as many bytes.",
            do="Take the type from acl.mdl.get_input_data_type(desc, i).",
        ),
        Misconception(
            "inputs_as_they_are",
            change(".astype(NUMPY[acl.mdl.get_input_data_type(desc, i)])", ""),
            (~source("get_input_data_type") | ~source(r"astype|dtype=|array\(")) & ~source(r"np\.float32"),
            what="the arrays are sent as they are.",
            why="numpy computes in float64 and int64 by itself: twice the bytes, and other bits than the model reads.",
            do="Convert with astype to the type that acl.mdl.get_input_data_type(desc, i) names.",
        ),
        Misconception(
            "array_gone",
            change(
                ".astype(NUMPY[acl.mdl.get_input_data_type(desc, i)]).tobytes()",
                ".astype(NUMPY[acl.mdl.get_input_data_type(desc, i)])",
                "acl.util.bytes_to_ptr(data), len(data)",
                "acl.util.bytes_to_ptr(data.tobytes()), data.nbytes",
            ),
            fault("memory.host_owner_gone"),
            what="a pointer is used after the bytes behind it are gone.",
            why="bytes_to_ptr keeps no reference: what has no name is thrown away before the copy reads it.",
            do="Give the bytes a name, data = array.tobytes(), and pass that.",
        ),
        Misconception(
            "as_many_outputs_as_inputs",
            change("acl.mdl.get_num_outputs(desc)", "acl.mdl.get_num_inputs(desc)"),
            calls("get_num_inputs", 2) & ~calls("get_num_outputs"),
            what="the outputs are counted by the inputs.",
            why="A model may have more outputs than inputs, or fewer.",
            do="Loop over range(acl.mdl.get_num_outputs(desc)) for the outputs.",
        ),
        Misconception(
            "first_output_only",
            change("for i in range(acl.mdl.get_num_outputs(desc))]", "for i in range(1)]"),
            raises("RuntimeError", "145000")
            | raises("AclError", "145000")
            | sign(lambda attempt: "model.outputs" in attempt.fault_rules)
            | _outputs(lambda result, right: len(result) == 1 < len(right)),
            what="only the first output has memory.",
            why="execute wants one buffer for each output of the model, in the model's order.",
            do="Loop over range(acl.mdl.get_num_outputs(desc)).",
        ),
        Misconception(
            "flat",
            change(".reshape(dims)", ""),
            _outputs(
                lambda result, right: (
                    [np.shape(one) for one in result] == [(one.size,) for one in right]
                    and any(one.ndim > 1 for one in right)
                )
            ),
            what="the outputs come back flat.",
            why="Device memory has no shape; the description has it.",
            do="End with .reshape(dims), with the dims of acl.mdl.get_output_dims(desc, i).",
        ),
        Misconception(
            "buffer_order",
            change(".tobytes()\n            source", ".tobytes('A')\n            source"),
            source(r"tobytes\('[AF]'|order ?= ?'[AFK]'") | (source(r"numpy_to_ptr") & ~source("ascontiguousarray|'C'")),
            what="an array that is not contiguous arrives in another order.",
            why="A transposed array is a view: its memory still holds the old order.",
            do="Write the elements in order: array.astype(dtype).tobytes(), or np.ascontiguousarray first.",
        ),
        Misconception(
            "output_dims_of_input",
            change('acl.mdl.get_output_dims(desc, i)[0]["dims"]', 'acl.mdl.get_input_dims(desc, i)[0]["dims"]'),
            raises("ValueError", "reshape") & ~source("get_output_dims"),
            what="the outputs get the shapes of the inputs.",
            why="Inputs and outputs have lists of their own.",
            do="Ask acl.mdl.get_output_dims(desc, i).",
        ),
        Misconception(
            "sizes_of_inputs",
            change("acl.mdl.get_output_size_by_index(desc, i) for i", "acl.mdl.get_input_size_by_index(desc, i) for i"),
            calls("get_input_size_by_index", 2) & ~calls("get_output_size_by_index"),
            what="the outputs get memory of the size of the inputs.",
            why="Inputs and outputs have sizes of their own.",
            do="Ask acl.mdl.get_output_size_by_index(desc, i).",
        ),
        Misconception(
            "one_memory_for_all",
            change(
                "targets = [memory(size, outputs, undo) for size in sizes]",
                "last = [memory(size, outputs, undo) for size in sizes][-1]\n        targets = [last] * len(sizes)",
            ),
            fault("memory.out_of_bounds")
            | _outputs(lambda result, right: len(result) == len(right) > 1 and np.allclose(result[-1], right[-1])),
            what="all outputs are read from the memory of the last one.",
            why="Every buffer has a pointer of its own.",
            do="Keep the pointers in a list, and copy output i from pointer i.",
        ),
    ),
)

# -- 5 a test that finds the leak --------------------------------------------------------------------

_STACK = """
def copy_all(parts):
    with ExitStack() as undo:
        ok("acl.init", acl.init())
        undo.callback(acl.finalize)
        ok("acl.rt.set_device", acl.rt.set_device(0))
        undo.callback(acl.rt.reset_device, 0)
        pointers = []
        for part in parts:
            pointer, ret = acl.rt.malloc(len(part), HUGE_FIRST)
            ok("acl.rt.malloc", ret)
            undo.callback(acl.rt.free, pointer)
            pointers.append(pointer)
        for pointer, part in zip(pointers, parts):
            ok("memcpy", acl.rt.memcpy(pointer, len(part), acl.util.bytes_to_ptr(part), len(part), H2D))
        out = []
        for pointer, part in zip(pointers, parts):
            back = bytes(len(part))
            ok("memcpy", acl.rt.memcpy(acl.util.bytes_to_ptr(back), len(part), pointer, len(part), D2H))
            out.append(back)
        return b"".join(out)
"""

_ONE_BLOCK = """
def copy_all(parts):
    data = b"".join(parts)
    size, back, pointer = len(data), bytes(len(data)), 0
    ok("acl.init", acl.init())
    ret = acl.rt.set_device(0)
    try:
        ok("acl.rt.set_device", ret)
        pointer, ret = acl.rt.malloc(size, HUGE_FIRST)
        ok("acl.rt.malloc", ret)
        ok("memcpy", acl.rt.memcpy(pointer, size, acl.util.bytes_to_ptr(data), size, H2D))
        ok("memcpy", acl.rt.memcpy(acl.util.bytes_to_ptr(back), size, pointer, size, D2H))
        return back
    finally:
        if pointer:
            acl.rt.free(pointer)
        acl.rt.reset_device(0)
        acl.finalize()
"""

_FINALLY = """
def copy_all(parts):
    pointers, out = [], []
    ok("acl.init", acl.init())
    ok("acl.rt.set_device", acl.rt.set_device(0))
    stream = 0
    try:
        stream, ret = acl.rt.create_stream()
        ok("acl.rt.create_stream", ret)
        for part in parts:
            pointer, ret = acl.rt.malloc(len(part), HUGE_FIRST)
            ok("acl.rt.malloc", ret)
            pointers.append(pointer)
            ok("a", acl.rt.memcpy_async(pointer, len(part), acl.util.bytes_to_ptr(part), len(part), H2D, stream))
            ok("acl.rt.synchronize_stream", acl.rt.synchronize_stream(stream))
        for pointer, part in zip(pointers, parts):
            back = bytes(len(part))
            ok("b", acl.rt.memcpy_async(acl.util.bytes_to_ptr(back), len(part), pointer, len(part), D2H, stream))
            ok("acl.rt.synchronize_stream", acl.rt.synchronize_stream(stream))
            out.append(back)
        return b"".join(out)
    finally:
        for pointer in pointers:
            acl.rt.free(pointer)
        if stream:
            acl.rt.destroy_stream(stream)
        acl.rt.reset_device(0)
        acl.finalize()
"""


def _made(program: str, *texts: str) -> str:
    """A wrong program as a change of a right one."""
    return change(*texts).apply(program)


RIGHT: dict[str, str | tuple[str, ...]] = {
    "gives everything back, an allocation for each part": (_STACK, _FINALLY),
    "gives everything back, one allocation for all parts": _ONE_BLOCK,
}
WRONG: dict[str, str | tuple[str, ...]] = {
    "leaks what it has when an allocation fails": (
        _made(
            _STACK,
            "            undo.callback(acl.rt.free, pointer)\n",
            "",
            '        return b"".join(out)',
            '        for pointer in pointers:\n            acl.rt.free(pointer)\n        return b"".join(out)',
        ),
        _made(
            _FINALLY,
            "        for pointer in pointers:\n            acl.rt.free(pointer)\n        if stream",
            "        for pointer in pointers[: len(parts)] if len(pointers) == len(parts) else []:\n"
            "            acl.rt.free(pointer)\n        if stream",
        ),
    ),
    "leaks when a copy fails": (
        _made(
            _ONE_BLOCK,
            "    finally:\n        if pointer:\n            acl.rt.free(pointer)\n",
            "    finally:\n",
            "        return back\n",
            "        acl.rt.free(pointer)\n        return back\n",
        ),
        _made(
            _FINALLY,
            "        if stream:\n            acl.rt.destroy_stream(stream)\n",
            "        if stream and (len(out) == len(parts) or len(pointers) < len(parts)):\n"
            "            acl.rt.destroy_stream(stream)\n",
        ),
    ),
    "leaks on a good day": (
        _made(
            _STACK,
            "            undo.callback(acl.rt.free, pointer)\n",
            "            pointers and undo.callback(acl.rt.free, pointer)\n",
        ),
        _made(_FINALLY, "        if stream:\n            acl.rt.destroy_stream(stream)\n", ""),
    ),
    "cleans up on a good day only": (
        _made(
            _STACK,
            "    with ExitStack() as undo:\n",
            "    undo = ExitStack()\n    if True:\n",
            '        return b"".join(out)',
            '        undo.close()\n        return b"".join(out)',
        ),
        _made(_FINALLY, "    try:\n", "    if True:\n", '        return b"".join(out)\n    finally:\n', "")
        + '    return b"".join(out)\n',
    ),
    "returns something else": (
        _made(_STACK, 'b"".join(out)', 'b"".join(out[::-1])'),
        _made(_ONE_BLOCK, "        return back\n", "        return back[:-1]\n"),
    ),
    "frees twice after an error": (
        _made(
            _STACK,
            '            ok("acl.rt.malloc", ret)\n',
            "            if ret:\n                for taken in pointers:\n                    acl.rt.free(taken)\n"
            '            ok("acl.rt.malloc", ret)\n',
        ),
        _made(
            _ONE_BLOCK,
            '        ok("memcpy", acl.rt.memcpy(acl.util.bytes_to_ptr(back), size, pointer, size, D2H))\n',
            "        ret = acl.rt.memcpy(acl.util.bytes_to_ptr(back), size, pointer, size, D2H)\n"
            "        if ret:\n            acl.rt.free(pointer)\n"
            '        ok("memcpy", ret)\n',
        ),
    ),
    "does not look at the code of a copy": (
        _made(
            _STACK,
            'ok("memcpy", acl.rt.memcpy(acl.util.bytes_to_ptr(back), len(part), pointer, len(part), D2H))',
            "acl.rt.memcpy(acl.util.bytes_to_ptr(back), len(part), pointer, len(part), D2H)",
        ),
        _made(
            _FINALLY,
            'ok("b", acl.rt.memcpy_async(acl.util.bytes_to_ptr(back), len(part), pointer, len(part), D2H, stream))',
            "acl.rt.memcpy_async(acl.util.bytes_to_ptr(back), len(part), pointer, len(part), D2H, stream)",
            '            ok("acl.rt.synchronize_stream", acl.rt.synchronize_stream(stream))\n            out',
            "            acl.rt.synchronize_stream(stream)\n            out",
        ),
    ),
    "hides a failed allocation": (
        _made(
            _STACK,
            '            ok("acl.rt.malloc", ret)\n',
            "            if ret:\n                break\n",
        ),
        _made(_ONE_BLOCK, '        ok("acl.rt.malloc", ret)\n', "        if ret:\n            return back\n"),
    ),
    "tells another code than the call gave": (
        _made(_STACK, 'ok("acl.rt.malloc", ret)', 'ok("acl.rt.malloc", ret and 100000)'),
        _made(_ONE_BLOCK, 'ok("acl.rt.malloc", ret)', 'ok("acl.rt.malloc", ret and 500000)'),
    ),
}


def _all_said(word: str) -> Sign:
    return sign(lambda attempt: all(case.got[0] == word for case in attempt.cases))


LEAK_TEST = Check(
    f"{LESSON}.leak_test",
    run=catches("test_survives", "copy_all", right=RIGHT, wrong=WRONG),
    faults=(*REQUESTED, *LEAKS, "memory.double_free"),
    misconceptions=(
        Misconception(
            "accepts_everything",
            f"# exercise: {LESSON}.leak_test\n"
            "def test_survives(copy_all):\n"
            "    reset_machine(devices=1)\n"
            "    copy_all([b'one', b'second'])",
            _all_said("passes"),
            what="the test accepts every program.",
            why="Only an assert that does not hold, or another error, tells that a program is wrong.",
            do="Use faults, and assert that the right code came and that nothing is left.",
        ),
        Misconception(
            "refuses_everything",
            f"# exercise: {LESSON}.leak_test\n"
            "def test_survives(copy_all):\n"
            "    reset_machine(devices=1)\n"
            "    assert copy_all([b'one', b'second']) == b'second'",
            _all_said("fails"),
            what="the test refuses every program, the right ones too.",
            why="A right program returns the parts joined, and raises AclError when a call fails.",
            do="Catch AclError in your test, and compare the result with the parts joined.",
        ),
        Misconception(
            "good_days_only",
            change('[("", "", 0), *oom, *lost]', '[("", "", 0)]'),
            lets_pass("leaks what it has when an allocation fails")
            & lets_pass("leaks when a copy fails")
            & refuses("leaks on a good day"),
            what="nothing ever fails in your test, so no error path runs.",
            why="Most leaks stand on paths that nobody has ever run.",
            do='Loop over faults: reset_machine(devices=1, faults="oom@2"), and so on.',
        ),
        Misconception(
            "no_lost_device",
            change('[("", "", 0), *oom, *lost]', '[("", "", 0), *oom]'),
            lets_pass("leaks when a copy fails") & refuses("leaks what it has when an allocation fails"),
            what="only allocations fail in your test.",
            why="A copy can fail too, and other things are held then.",
            do="Add lost@1, lost@2, ...: the device is lost at that task.",
        ),
        Misconception(
            "no_failed_allocation",
            change('[("", "", 0), *oom, *lost]', '[("", "", 0), *lost]'),
            lets_pass("hides a failed allocation")
            & lets_pass("tells another code than the call gave")
            & refuses("leaks when a copy fails"),
            what="no allocation fails in your test.",
            why="Between two allocations the program holds some memory, and its clean-up must know which.",
            do="Add oom@1, oom@2 and oom@3.",
        ),
        Misconception(
            "expects_every_fault",
            change("        if rule in rules:\n", "        if rule:\n"),
            refuses("gives everything back, one allocation for all parts")
            & ~refuses("gives everything back, an allocation for each part"),
            what="a right program is refused because a fault did not happen.",
            why="A program with one allocation never reaches oom@2; then its result must be right.",
            do="Look into machine().record.faults for the rule that you asked for.",
        ),
        Misconception(
            "leaks_not_asked",
            change("        machine().report_leaks()\n", "", "        assert rules <= {rule}", "        pass"),
            lets_pass("leaks on a good day") & refuses("hides a failed allocation"),
            what="nobody asks what is left.",
            why="A leak changes no result and no code.",
            do="Call machine().report_leaks() and assert that machine().record.leaks is empty.",
        ),
        Misconception(
            "only_leaks",
            change("assert rules <= {rule}", "assert not machine().record.leaks"),
            lets_pass("frees twice after an error")
            & refuses("leaks on a good day")
            & refuses("leaks what it has when an allocation fails"),
            what="a program that frees twice passes.",
            why="A double free is no leak; it stands in machine().record.faults with a rule of its own.",
            do="Assert that no rule is there except the one that you asked for.",
        ),
        Misconception(
            "any_code",
            change("            assert told == code\n", "            assert told\n"),
            lets_pass("tells another code than the call gave") & refuses("hides a failed allocation"),
            what="any error will do for your test.",
            why="The caller decides by the code: less memory, another device, or give up.",
            do="Compare error.code with 207001 or 507010.",
        ),
        Misconception(
            "silence_accepted",
            change("            assert told == code\n", "            assert told in (0, code)\n"),
            lets_pass("hides a failed allocation") | lets_pass("does not look at the code of a copy"),
            what="a program that hides the error passes.",
            why="If the fault happened, the result cannot be right; the caller must hear of it.",
            do="If the requested rule is in the record, assert that an AclError with its code came.",
        ),
    ),
)

CHECKS = [CHECKED, WHO_TELLS, CLEAN_UP, ANY_MODEL, LEAK_TEST]
