"""The language of the checks: signs, requirements read from a record, and the kinds of run."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cannlab.course import spec
from cannlab.course.bundle import Bundle
from cannlab.course.judge import Judge, Terms
from cannlab.course.kernel_replay import Refused, Replay, Replayed, machine_replay
from cannlab.course.manifest import Exercise, Kind, Lesson, Level
from cannlab.course.result import Result, Verdict
from cannlab.course.runner import runner
from cannlab.course.spec import Attempt, CaseRun, Check, Fact, Misconception, Raised
from cannlab.course.spec.compare import exact
from cannlab.course.workbook import Part
from cannlab.errors import diagnose
from cannlab.trace import Instruction, KernelTrace, Record, TaskKind


def judge(
    check: Check,
    source: str,
    *,
    solution: str = "",
    setup: str = "import numpy as np",
    kind: Kind = Kind.CODE,
    replay: Replay | None = None,
    **terms: Any,
) -> Result:
    """Judge an answer to a check that stands alone."""
    exercise = Exercise(check.exercise, "t", kind)
    part = Part(check.exercise, 1, "pass", (setup,), solution, ("h",), "e")
    bundle = Bundle(Lesson("l", "t", Level.BASIC, 1), exercise, part, check, "")
    found = Judge(bundle, runner(), replay) if replay is not None else Judge(bundle, runner())
    return found.judge(source, Terms(**terms))


# -- signs -----------------------------------------------------------------------------------------------


def _attempt(
    source: str = "", results: dict[int, Any] | None = None, expected: Callable[[int], Any] = lambda n: n
) -> Attempt:
    cases = []
    for number, (n, result) in enumerate((results or {}).items(), 1):
        case = CaseRun(number, n, {"n": n}, expected=expected(n), got=result)
        case.difference = exact().difference(result, case.expected)
        cases.append(case)
    return Attempt(source, cases)


def test_gives_needs_every_result_and_one_failure() -> None:
    assert spec.gives(lambda n: n + 1)(_attempt(results={1: 2, 5: 6}))
    assert not spec.gives(lambda n: n + 1)(_attempt(results={1: 2, 5: 7}))
    assert not spec.gives(lambda n: n)(_attempt(results={1: 1, 5: 5}))
    assert not spec.gives(lambda n: n / 0)(_attempt(results={1: 2}))
    assert not spec.gives(lambda n: n)(_attempt())


def test_fails_where_names_exactly_the_failing_cases() -> None:
    attempt = _attempt(results={8: 8, 9: 0, 16: 16, 17: 0})
    assert spec.fails_where(lambda n: n % 8)(attempt)
    assert not spec.fails_where(lambda n: n > 16)(attempt)
    assert not spec.fails_where(lambda n: False)(_attempt(results={8: 8}))


def test_signs_of_the_source_look_at_code_only() -> None:
    source = '# acl.rt.free(p)\nimport acl\nacl.rt.free( p )\nacl.rt.free(q)\nx = "a"'
    attempt = Attempt(source, [])
    assert spec.calls("acl.rt.free", at_least=2)(attempt)
    assert spec.calls("free")(attempt)
    assert not spec.calls("acl.rt.free", at_least=3)(attempt)
    assert not spec.calls("ee")(attempt)
    assert spec.source(r"x = 'a'")(attempt)
    assert not spec.source(r"#")(attempt)


def test_signs_join_and_never_raise() -> None:
    yes, no = spec.sign(lambda a: True), spec.sign(lambda a: False)
    bad = spec.sign(lambda a: 1 / 0 > 0)
    attempt = Attempt("(", [])
    assert (yes & ~no)(attempt)
    assert (no | yes)(attempt)
    assert not (yes & no)(attempt)
    assert not bad(attempt)
    assert not spec.calls("x")(attempt)


def test_raises_got_unmet_ends_slow() -> None:
    attempt = _attempt(results={1: 0})
    attempt.cases[0].facts = (Fact("freed", False, "t"),)
    attempt.cases.append(CaseRun(2, None, {}, raised=Raised("KeyError", "'depth'")))
    attempt.cost_ratio, attempt.cost_target = 2.0, 1.5
    attempt.ending = spec.Ending.TIMEOUT
    assert spec.raises("KeyError", "depth")(attempt)
    assert not spec.raises("KeyError", "width")(attempt)
    assert spec.got(lambda result, n: result == 0 and n == 1)(attempt)
    assert spec.unmet("freed")(attempt)
    assert not spec.unmet("other")(attempt)
    assert spec.ends("timeout")(attempt)
    assert spec.slow()(attempt)


def test_a_change_must_fit_the_solution() -> None:
    assert spec.change("a", "b", "c", "d").apply("a c a") == "b d b"
    with pytest.raises(ValueError, match="no 'z'"):
        spec.change("z", "y").apply("a")
    with pytest.raises(ValueError, match="changes nothing"):
        spec.change("a", "a").apply("a")
    with pytest.raises(ValueError, match="pairs"):
        spec.change("a")


# -- requirements ------------------------------------------------------------------------------------------


def _record() -> Record:
    record = Record("Ascend910B1", 1, "8.1")
    number = record.strings.number
    for row, (name, code) in enumerate([("acl.init", 0), ("acl.rt.malloc", 0), ("acl.rt.free", 0), ("acl.rt.free", 7)]):
        record.calls.append(0, number(name), row * 10, row * 10 + 5, code, 0, 1)
    for kind, size in ((TaskKind.COPY_H2D, 64), (TaskKind.COPY_H2D, 64), (TaskKind.COPY_D2H, 32), (TaskKind.KERNEL, 0)):
        record.tasks.append(0, 0, kind, 0, 0, 0, 0, 100, 150, size, 4 if kind == TaskKind.KERNEL else 0, -1, -1, 0, 1)
    record.memory.append(0, 0, 1, 1, 64, 0, 1)
    record.memory.append(0, 0, 2, 2, 32, 0, 1)
    record.memory.append(0, 0, 3, 1, -64, 0, 1)
    return record


@pytest.mark.parametrize(
    ("requirement", "ok", "text"),
    [
        (spec.everything_freed(), False, "1 allocation of 2 not freed (32 bytes)"),
        (spec.copies("h2d", at_most=1), False, "2 host to device copies where at most 1 should be"),
        (spec.copies("h2d", at_least=1, at_most=2), True, "2 host to device copies"),
        (spec.copies("d2h", at_least=1, at_most=1), True, "1 device to host copy"),
        (spec.copies("p2p", at_least=1), False, "0 copies where at least 1 should be"),
        (spec.called("acl.rt.free", at_most=1), False, "acl.rt.free called 2 times"),
        (spec.called("acl.finalize"), False, "acl.finalize called 0 times"),
        (spec.order("acl.init", "acl.rt.malloc", "acl.rt.free"), True, "in order"),
        (spec.order("acl.rt.free", "acl.init"), False, "acl.init is missing or comes too early"),
        (spec.all_codes_zero(), False, "acl.rt.free returned 7"),
        (spec.all_codes_zero(except_for=("acl.rt.free",)), True, "all 4 API calls returned 0"),
        (spec.kernel_blocks(4), True, "4 blocks used"),
        (spec.kernel_blocks(5), False, "4 blocks used"),
        (spec.require("r", lambda case: case.missing, holds="h", fails="f", do="d"), False, "f"),
    ],
)
def test_requirements_read_the_record(requirement: Any, ok: bool, text: str) -> None:
    fact = requirement(CaseRun(1, None, {}, record=_record()))
    assert fact.ok is ok
    assert text in fact.text
    assert ok or fact.do


@pytest.mark.parametrize(
    ("calls", "ok", "text"),
    [
        (
            "rt.create_stream rt.create_event rt.destroy_event rt.destroy_stream_force",
            True,
            "given back: 1 stream, 1 event",
        ),
        ("rt.create_stream rt.create_stream_with_config rt.destroy_stream", False, "1 stream of 2 not given back"),
        ("rt.create_event rt.destroy_event!", False, "1 event of 1 not given back"),
        ("rt.create_event! rt.create_context rt.destroy_context", True, "given back: 1 context"),
        ("mdl.load_from_mem mdl.create_desc mdl.destroy_desc", False, "1 model of 1 not given back"),
        ("create_data_buffer", False, "1 data buffer of 1 not given back"),
        ("init", True, ""),
    ],
)
def test_what_a_program_makes_it_gives_back(calls: str, ok: bool, text: str) -> None:
    record = Record("Ascend910B1", 1, "8.1")
    for row, name in enumerate(calls.split()):
        number = record.strings.number(f"acl.{name.rstrip('!')}")
        record.calls.append(0, number, row * 10, row * 10 + 5, 7 if name.endswith("!") else 0, 0, 1)
    fact = spec.everything_destroyed()(CaseRun(1, None, {}, record=record))
    assert (fact.ok, fact.text) == (ok, text)
    assert ok or fact.do.startswith("Call acl.")


def test_without_a_record_nothing_holds() -> None:
    case = CaseRun(1, None, {})
    for requirement in (spec.everything_freed(), spec.all_codes_zero(), spec.called("a"), spec.order("a")):
        assert requirement(case).ok is False
    assert (spec.simulated_time(case), spec.device_time(case), spec.bytes_copied(case)) == (0, 0, 0)


def test_costs_are_read_from_the_record() -> None:
    case = CaseRun(1, None, {}, record=_record())
    assert (spec.simulated_time(case), spec.device_time(case), spec.bytes_copied(case)) == (150, 200, 160)
    case.replay_ns = 77
    assert spec.simulated_time(case) == 77


# -- kinds of run --------------------------------------------------------------------------------------------


def _atc(arguments: list[str]) -> int:
    """A compiler of our own for these tests."""
    print("ATC run success" if "--model=m.onnx" in arguments else "ATC run failed")
    if "--model=m.onnx" not in arguments:
        return 255
    with open("m.om", "wb") as file:
        file.write(b"om")
    return 0


@pytest.fixture
def atc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module that answers the command atc, replaced."""
    module = types.ModuleType("cannlab.atc")
    module.main = _atc  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cannlab.atc", module)


COMMAND = Check(
    "l.c",
    run=spec.command("command", files=("m.om",)),
    draw=lambda rng, _: {"model": spec.File("m.onnx", b"x")},
    reference=lambda model: 0,
    must=(
        spec.exit_status(),
        spec.file_made("m.om"),
        spec.printed_has("success", what="the success line"),
        spec.require(
            "soc",
            lambda c: "--soc_version=A" in c.arguments,
            holds="for A",
            fails="not for A",
            do="Add --soc_version=A.",
        ),
    ),
)


@pytest.mark.usefixtures("atc")
@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("atc --model=m.onnx --soc_version=A", ""),
        ("atc --model=m.onnx", "course.requirement"),
        ("atc --model=n.onnx --soc_version=A", "course.wrong_value"),
        ("atc --model=m.onnx; --soc_version=A", "course.requirement"),
        ("atc --model=m.onnx --list='1;2' --soc_version=A; ls", ""),
        ("act --model=m.onnx", "course.command_word"),
        ("", "course.command_word"),
        ("atc --x='open", "course.command_quotes"),
    ],
)
def test_a_command_line_is_run(line: str, rule: str) -> None:
    result = judge(COMMAND, f"command = {line!r}", kind=Kind.COMMAND)
    assert ("" if result.diagnosis is None else result.diagnosis.rule) == rule
    assert result.passed is (rule == "")


@pytest.mark.usefixtures("atc")
def test_a_command_may_be_made_in_steps_and_must_be_text() -> None:
    good = 'command = "atc"\ncommand += f" --model={model} --soc_version=A"'
    assert judge(COMMAND, good, kind=Kind.COMMAND).passed
    wrong = judge(COMMAND, "command = ['atc']", kind=Kind.COMMAND).diagnosis
    assert wrong is not None
    assert wrong.rule == "course.command_text"
    assert wrong.what == "command is a list; a command must be a text."


TESTS = Check(
    "l.t",
    run=spec.catches(
        "test_add",
        "add",
        right={"a right add": "def add(a, b):\n    return a + b"},
        wrong={
            "an add that ignores b": "def add(a, b):\n    return a",
            "an add that is wrong for negatives": "def add(a, b):\n    return abs(a) + abs(b)",
        },
    ),
)


@pytest.mark.parametrize(
    ("body", "rule", "right"),
    [
        ("assert add(1, 2) == 3 and add(-1, 2) == 1", "", 3),
        ("assert add(1, 2) == 3", "course.not_caught", 2),
        ("pass", "course.not_caught", 1),
        ("assert False", "course.false_alarm", 2),
    ],
)
def test_a_learners_test_must_catch_every_wrong_program(body: str, rule: str, right: int) -> None:
    result = judge(TESTS, f"def test_add(add):\n    {body}", kind=Kind.TEST)
    assert ("" if result.diagnosis is None else result.diagnosis.rule) == rule
    assert (result.right, result.cases) == (right, 3)


def test_a_choice_names_each_wrong_option() -> None:
    options = {letter: (f"{letter} is wrong.", "w.", "d.") for letter in "acdef"}
    check = spec.choice("l.c", right="b", options=options)
    assert judge(check, 'answer = "B "', kind=Kind.CHOICE).passed
    for misconception in check.misconceptions:
        result = judge(check, misconception.source(""), kind=Kind.CHOICE)
        assert result.misconception == misconception.name
        assert result.case is None or result.case.expected == ""
    other = judge(check, "answer = 2", kind=Kind.CHOICE)
    assert other.diagnosis is not None
    assert other.diagnosis.rule == "course.wrong_type"


def test_the_solution_can_be_the_reference_and_the_measure_of_cost() -> None:
    check = Check(
        "l.s",
        run=spec.read("y"),
        draw=lambda rng, n: {"x": rng.integers(0, 9, n)},
        sizes=(3, 4),
        reference=spec.SOLUTION,
        cost=spec.Cost(1.5, of=lambda case: len(case.printed), unit="letters"),
    )
    solution = "y = x + 1\nprint('1234')"
    good = judge(check, "y = 1 + x\nprint('123456', end='')", solution=solution)
    assert good.passed
    assert good.cost is not None
    assert (good.cost.got, good.cost.reference, good.cost.ratio) == (12, 10, 1.2)
    slow = judge(check, "y = 1 + x\nprint('1' * 9)", solution=solution)
    assert slow.diagnosis is not None
    assert (slow.diagnosis.rule, slow.right) == ("course.cost", 2)
    assert not judge(check, "y = x", solution=solution).passed
    with pytest.raises(RuntimeError, match=r"the solution of l\.s raised"):
        judge(check, "y = x", solution="1 / 0")


def test_faults_of_the_machine_fail_a_case_with_its_own_diagnosis() -> None:
    source = (
        "def f():\n    from cannlab.machine import machine\n    from cannlab.errors import diagnose\n"
        "    machine().report(diagnose('soc.device_count', value='0'))\n    return 1"
    )
    check = Check("l.f", run=spec.call("f"), reference=lambda: 1)
    result = judge(check, source)
    assert result.verdict is Verdict.FAILED
    assert result.diagnosis is not None
    assert result.diagnosis.rule == "soc.device_count"
    named = Misconception("n", "", fault="soc.device_count")
    again = judge(Check("l.f", run=spec.call("f"), reference=lambda: 1, misconceptions=(named,)), source)
    assert again.misconception == "n"
    assert again.diagnosis == result.diagnosis
    allowed = Check("l.f", run=spec.call("f"), reference=lambda: 1, faults=("soc.device_count",))
    assert judge(allowed, source).passed


# -- kernels ---------------------------------------------------------------------------------------------------

LAUNCH = (
    "from cannlab.machine import machine\nfrom cannlab.trace import KernelTrace, Instruction\ndef launch(x, z):\n"
    "    trace = KernelTrace({'name': 'k'})\n    trace.append(Instruction(OP, 0, 0, 0, 0, 0, (), ()))\n"
    "    machine().record.kernels.append(trace)\n    z[:] = CLAIM"
)
KERNEL = Check(
    "l.k",
    run=spec.kernel("launch", out="z"),
    draw=lambda rng, n: {"x": rng.standard_normal(n), "z": np.full(n, -1.0)},
    sizes=(3, 8),
    reference=lambda x, z: 2 * x,
    cost=spec.Cost(1.5),
)


def _double(trace: KernelTrace, inputs: Any, soc: str, sync: str) -> Replayed:
    """A machine of one instruction: opcode 2 doubles x into z, 3 copies it slowly, 9 breaks a rule."""
    x, z = inputs.values()
    (instruction,) = trace
    assert isinstance(instruction, Instruction)
    assert (z == -1).all()
    found = (diagnose("soc.device_count", value="9"),) if instruction.op == 9 else ()
    z = x * 2 if instruction.op in (2, 4, 9) else x
    return Replayed({"x": x, "z": z}, found, {2: 100, 4: 200}.get(instruction.op, 50), None)


SOLVED = LAUNCH.replace("OP", "2").replace("CLAIM", "2 * x")


def _kernel(op: int, claim: str = "2 * x") -> Result:
    answer = LAUNCH.replace("OP", str(op)).replace("CLAIM", claim)
    return judge(KERNEL, answer, solution=SOLVED, kind=Kind.KERNEL, replay=_double)


def test_a_kernel_is_believed_by_its_record_only() -> None:
    assert _kernel(2).passed
    wrong = _kernel(3, "12345")
    assert wrong.diagnosis is not None
    assert wrong.diagnosis.rule == "course.wrong_value"
    assert "12345" not in wrong.text()


def test_what_the_answer_claims_can_only_harm_it() -> None:
    host, swapped = _kernel(3), _kernel(2, "x")
    assert host.diagnosis is not None
    assert host.diagnosis.rule == "course.kernel_elsewhere"
    assert swapped.diagnosis is not None
    assert swapped.diagnosis.rule == "course.kernel_order"


def test_a_replayed_kernel_gives_rules_and_cost() -> None:
    broken, slow = _kernel(9), _kernel(4)
    assert broken.diagnosis is not None
    assert broken.diagnosis.rule == "soc.device_count"
    assert slow.cost is not None
    assert slow.cost.ratio == 2.0
    assert slow.diagnosis is not None
    assert slow.diagnosis.rule == "course.cost"


def test_an_answer_that_launches_nothing_is_told_so() -> None:
    result = judge(
        KERNEL,
        "def launch(x, z):\n    z[:] = 2 * x",
        solution=SOLVED,
        kind=Kind.KERNEL,
        replay=_double,
    )
    assert result.verdict is Verdict.FAILED
    assert result.diagnosis is not None
    assert result.diagnosis.rule == "course.no_launch"


def test_the_machine_replays_a_launch_on_the_judges_inputs() -> None:
    core = pytest.importorskip("cannlab.machine.core")
    x, z = np.arange(8, dtype=np.float32), np.full((2, 4), -1, np.float16)
    trace = core.run("idle", lambda launch: None, [x, z], 1).trace
    replayed = machine_replay(trace, {"x": x + 1, "n": 3, "z": z * 2}, "Ascend910B1")
    assert np.array_equal(replayed.arguments["x"], x + 1)
    assert (replayed.arguments["z"].dtype, replayed.arguments["z"].shape) == (z.dtype, z.shape)
    assert (replayed.arguments["z"] == -2).all()
    assert replayed.ns > 0
    for inputs in ({"x": x, "z": z[:1]}, {"z": z, "x": x}, {"x": x}, {"x": x.view(np.int32), "z": z}):
        with pytest.raises(Refused) as refused:
            machine_replay(trace, inputs, "Ascend910B1")
        assert refused.value.diagnosis.rule == "course.kernel_arguments"
    with pytest.raises(Refused, match="Ascend910B1"):
        machine_replay(trace, {"x": x, "z": z}, "Ascend910B4")


def test_a_trace_that_cannot_be_replayed_fails() -> None:
    def refuse(trace: KernelTrace, inputs: Any, soc: str, sync: str) -> Replayed:
        raise Refused(diagnose("course.kernel_record", message="the record has other arguments"))

    result = judge(KERNEL, SOLVED, kind=Kind.KERNEL, replay=refuse)
    assert result.verdict is Verdict.FAILED
    assert "other arguments" in result.text()


ADD = """
import asc
@asc.jit
def add(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, n: asc.ConstExpr[int]):
    gx, gy, gz = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    gx.set_global_buffer(x); gy.set_global_buffer(y); gz.set_global_buffer(z)
    a = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, n)
    b = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, n*4, n)
    c = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, n*8, n)
    asc.data_copy(a, gx, count=n)
    asc.data_copy(b, gy, count=n)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.add(c, a, b, count=n)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(gz, c, count=n)
def launch(x, y, z):
    add[1](x, y, z, len(x))
"""
REAL = Check(
    "l.k",
    run=spec.kernel("launch", out="z"),
    draw=lambda rng, n: {
        "x": rng.standard_normal(n).astype(np.float32),
        "y": rng.standard_normal(n).astype(np.float32),
        "z": np.full(n, -1, np.float32),
    },
    sizes=(8, 1000),
    reference=lambda x, y, z: x + y,
    cost=spec.Cost(1.2),
)


def _real(source: str) -> Result:
    return judge(REAL, source, solution=ADD, setup="import cannlab\ncannlab.activate()", kind=Kind.KERNEL)


def test_a_kernel_in_the_real_language_is_judged_on_the_emulated_core() -> None:
    pytest.importorskip("cannlab.ascendc")
    assert _real(ADD).passed
    wrong, unsynchronised = (
        _real(ADD.replace("asc.add", "asc.sub")),
        _real(ADD.replace("HardEvent.MTE2_V", "HardEvent.V_S")),
    )
    assert wrong.diagnosis is not None
    assert wrong.diagnosis.rule == "course.wrong_value"
    assert unsynchronised.diagnosis is not None
    assert unsynchronised.diagnosis.rule == "kernel.race"
    assert unsynchronised.diagnosis.where is not None
    assert unsynchronised.diagnosis.where.file == "cell"


# -- what a learner is shown -----------------------------------------------------------------------------

NAMES = Check(
    "01_x.y",
    run=spec.read("answer"),
    reference=lambda: {"a": "one", "b": "two", "c": "three"},
    compare=spec.text(),
    must=(spec.how_many_right("words are"),),
)
SUMS = Check(
    "01_x.y",
    run=spec.call("f"),
    draw=lambda rng, n: {"rows": [{"left": n, "right": f"a long text, number {n}", "other": n} for n in range(n)]},
    sizes=(1, 3),
    reference=lambda rows: len(rows),
    must=(spec.require("good", lambda case: True, holds="all is well", fails="nothing is well", do="Do."),),
)


def _facts(result: Result) -> list[str]:
    return [fact.text for fact in result.facts]


def test_how_many_are_right_and_which_are_missing() -> None:
    some = judge(NAMES, 'answer = {"a": "One", "b": "", "x": "three"}', kind=Kind.CHOICE)
    assert _facts(some) == ["1 of 3 words are right; missing: b, c"]
    assert _facts(judge(NAMES, "answer = None", kind=Kind.CHOICE)) == ["0 of 3 words are right; missing: a, b, c"]
    right = judge(NAMES, 'answer = {"a": "one", "b": "two", "c": "three"}', kind=Kind.CHOICE)
    assert right.passed
    assert right.facts == ()


def test_a_whole_number_may_be_written_as_a_float() -> None:
    check = Check(
        "01_x.y",
        run=spec.read("answer"),
        reference=lambda: [4, 2.5],
        compare=exact(dtype=False),
        must=(spec.how_many_right("numbers are"),),
    )
    assert judge(check, "answer = [4.0, 2.5]", kind=Kind.PREDICTION).passed
    assert _facts(judge(check, "answer = [4.5, 2.5]", kind=Kind.PREDICTION)) == ["1 of 2 numbers are right"]


@pytest.mark.parametrize(("reference", "rule"), [(lambda: 3, "course.requirement"), (None, "course.not_fulfilled")])
def test_only_a_reference_makes_a_result_right(reference: Callable[[], int] | None, rule: str) -> None:
    check = Check(
        "01_x.y",
        run=spec.read("answer"),
        reference=reference,
        must=(spec.require("never", lambda case: False, holds="it is so", fails="it is not so", do="Do."),),
    )
    diagnosis = judge(check, "answer = 3").diagnosis
    assert diagnosis is not None
    assert diagnosis.rule == rule


def test_a_crash_shows_no_success_and_its_note() -> None:
    crashed = (
        "def f(rows):\n    e = ValueError('bad')\n    e.add_note('the second row')\n    raise e if rows[1:] else e"
    )
    assert _facts(judge(SUMS, "def f(rows): return 0")) == ["all is well"]
    result = judge(SUMS, crashed)
    assert result.facts == ()
    assert result.diagnosis is not None
    assert "bad\nthe second row" in result.diagnosis.what
    late = judge(SUMS, "def f(rows):\n    if len(rows) == 3: raise ValueError\n    return len(rows)")
    assert late.right == 1
    assert late.facts == ()


def test_a_long_list_is_shown_entry_by_entry() -> None:
    result = judge(SUMS, "def f(rows): return len(rows) if len(rows) < 3 else 0")
    assert result.case is not None
    assert [name for name, _ in result.case.inputs] == ["rows[0]", "rows[1]", "rows[2]"]


def test_much_output_is_shown_from_the_beginning() -> None:
    result = judge(SUMS, "def f(rows):\n    for n in range(500): print('line', n)\n    return -1")
    assert result.printed.splitlines() == [*(f"line {n}" for n in range(5)), "... 495 more lines"]
    assert judge(SUMS, "def f(rows):\n    print('a')\n    print('b')").printed == "a\nb"


def test_nothing_allocated_is_no_success_to_show() -> None:
    check = Check(
        "01_x.y", run=spec.read("x"), reference=lambda: 1, must=(spec.everything_freed(), spec.all_codes_zero())
    )
    setup = "import cannlab.acl as acl"
    two = "acl.init(); acl.rt.set_device(0); acl.util.bytes_to_ptr(b'abcd'); x = "
    assert _facts(judge(check, two + "1", setup=setup)) == ["all 2 API calls returned 0"]
    assert judge(check, two + "1", setup=setup).passed
    freed = "p, ret = acl.rt.malloc(8, 0); acl.rt.free(p)"
    assert _facts(judge(check, two + "1; " + freed, setup=setup))[0] == "every allocation freed (1)"


# -- pictures ------------------------------------------------------------------------------------------------


def test_a_picture_shows_what_ran_at_the_same_time() -> None:
    record = Record("Ascend910B1", 1, "8.1")
    number = record.strings.number
    record.calls.append(0, number("acl.rt.memcpy_async"), 0, 100, 0, 0, 1)
    record.calls.append(0, number("acl.init"), -900, -800, 0, 0, 1)  # before anything was queued
    for stream, kind, start, end in ((1, TaskKind.COPY_H2D, 100, 500), (2, TaskKind.COPY_D2H, 300, 700)):
        record.tasks.append(0, stream, kind, 0, 0, 0, 60, start, end, 64, 0, -1, -1, 0, 1)
    found = spec.streams()(CaseRun(1, None, {}, record=record)).splitlines()
    assert found == [
        "host     " + "-" * 4 + "." * 60,
        "stream 1 " + "." * 4 + ">" * 40 + "." * 20,
        "stream 2 " + "." * 24 + "<" * 40,
        "         0.6 us; - in a call, > copy to the device, < copy to the host",
    ]
    assert (
        spec.streams()(CaseRun(1, None, {})) == spec.streams()(CaseRun(1, None, {}, record=Record("x", 1, "8"))) == ""
    )
    assert spec.pipes()(CaseRun(1, None, {})) == ""


def test_a_picture_is_shown_of_the_first_failing_case_and_costs_nothing_when_it_breaks() -> None:
    def check(picture: Any) -> Check:
        return Check(
            "l.p",
            run=spec.read("x"),
            draw=lambda rng, n: {"n": n},
            sizes=(1, 2),
            reference=lambda n: 1,
            picture=picture,
        )

    drawn = judge(check(lambda case: f"case {case.number}\n <b>"), "x = n")
    assert drawn.picture == "case 2\n <b>"
    assert "when it ran:\n    case 2\n     <b>" in drawn.text()
    assert "case 2\n &lt;b&gt;" in drawn._repr_html_()
    assert judge(check(lambda case: "seen"), "x = 1").picture == ""
    assert judge(check(lambda case: "seen"), "x = 1 / 0").picture == ""
    broken = judge(check(lambda case: case.missing), "x = n")
    assert (broken.picture, broken.verdict) == ("", Verdict.FAILED)
