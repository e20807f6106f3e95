"""One exercise of each kind, with its gates; and what a kernel answer cannot get away with."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannlab.course import bundle
from cannlab.course.client import Client
from cannlab.course.gates import LessonGates, manifest_gate
from cannlab.course.judge import Terms, draw_cases
from cannlab.course.layout import Layout
from cannlab.course.manifest import Kind
from cannlab.course.result import Result, Verdict
from cannlab.course.spec import CaseRun
from cannlab.machine import core
from cannlab.machine.core import soundness
from cannlab.machine.core.pipes import Pipe, Space
from cannlab.trace import KernelTrace
from cannlab.trace.kernel import Instruction

KINDS = Layout(Path(__file__).parent / "fixtures" / "kinds")
LESSON = KINDS.course.lessons[0]
ADD = 1
Check = Callable[..., Result]


@pytest.fixture
def kernel(client: Client) -> Check:
    """Checks an answer to the kernel exercise; by default its solution with texts replaced."""

    def run(*changes: str, append: str = "", source: str = "", **terms: Any) -> Result:
        text = source or bundle.load(KINDS, "01_kinds.kernel").part.solution
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        return client.check(KINDS.root, "01_kinds.kernel", f"{text}\n{append}", terms)

    return run


def _rule(result: Result) -> str:
    assert result.verdict is Verdict.FAILED, result.text()
    assert result.diagnosis is not None
    return result.diagnosis.rule


# -- gates -------------------------------------------------------------------------------------------


def test_every_kind_is_there_and_its_files_agree() -> None:
    assert {exercise.kind for exercise in LESSON.exercises} == set(Kind)
    assert manifest_gate(KINDS) == []
    assert [str(problem) for problem in LessonGates(KINDS, LESSON).forms()] == []


@pytest.mark.slow
@pytest.mark.parametrize("exercise", LESSON.exercises, ids=lambda exercise: str(exercise.kind))
def test_the_gates_of_each_kind_hold(exercise: Any, client: Client) -> None:
    assert [str(problem) for problem in LessonGates(KINDS, LESSON).prove(client, exercise)] == []


@pytest.mark.parametrize("exercise", LESSON.exercises, ids=lambda exercise: str(exercise.kind))
def test_the_solution_passes_and_the_first_wrong_answer_is_told_apart(exercise: Any, client: Client) -> None:
    loaded = bundle.load(KINDS, exercise.id)
    result = client.check(KINDS.root, exercise.id, loaded.part.solution, {"secret": "s"})
    assert result.passed, result.text()
    assert result.explanation == loaded.part.explanation
    first = loaded.check.misconceptions[0]
    wrong = client.check(KINDS.root, exercise.id, first.source(loaded.part.solution), {"compare_placeholder": False})
    assert (wrong.verdict, wrong.misconception) == (Verdict.FAILED, first.name)
    assert wrong.explanation == ""


# -- predictions and tests ---------------------------------------------------------------------------


def test_a_prediction_is_another_for_each_learner_also_when_graded(client: Client) -> None:
    loaded = bundle.load(KINDS, "01_kinds.traffic")
    cases = {
        name: draw_cases(loaded.check, loaded.exercise.kind, Terms(learner=name, secret="s"))[0].inputs["elements"]
        for name in ("ann", "ben")
    }
    assert cases["ann"] != cases["ben"]
    source = f"# exercise: 01_kinds.traffic\nmoved = {4 * cases['ann']}"
    for name, passes in (("ann", True), ("ben", False)):
        result = client.check(KINDS.root, "01_kinds.traffic", source, {"learner": name, "secret": "s"})
        assert result.passed is passes


def test_specimens_come_in_an_order_of_the_seed(client: Client) -> None:
    """A test that knows how many right programs come first would need no test at all."""
    loaded = bundle.load(KINDS, "01_kinds.tester")
    orders = {
        tuple(case.size for case in draw_cases(loaded.check, loaded.exercise.kind, Terms(secret=secret)))
        for secret in "abcdef"
    }
    assert len(orders) > 1
    counting = """
# exercise: 01_kinds.tester
import builtins
def test(split):
    builtins.calls = getattr(builtins, "calls", 0) + 1
    assert builtins.calls <= 2
"""
    passed = [client.check(KINDS.root, "01_kinds.tester", counting, {"secret": s}).passed for s in "abcdef"]
    assert not all(passed)


_RECOGNISERS = {
    "names": "code.co_names + code.co_varnames",
    "constants": "tuple(map(repr, code.co_consts))",
    "length": "len(code.co_code)",
    "size of all": "sum(len(part.co_code) for part in parts)",
    "text": "inspect.getsource(split)",
    "shape": "ast.dump(ast.parse(inspect.getsource(split)))",
    "names inside": "sorted(name for part in parts for name in part.co_names)",
    "constants inside": "sorted(repr(c) for part in parts for c in part.co_consts if not hasattr(c, 'co_code'))",
}


@pytest.mark.parametrize("feature", _RECOGNISERS.values(), ids=_RECOGNISERS)
def test_what_was_seen_of_right_programs_tells_nothing_of_the_graded_ones(feature: str, client: Client) -> None:
    """A test that learned by heart how the right programs of many seeds look, instead of trying anything."""
    loaded = bundle.load(KINDS, "01_kinds.tester")
    look = f"""
import ast, inspect, linecache
def look(split):
    code = split.__code__
    functions = [value for value in split.__globals__.values() if inspect.isfunction(value)]
    parts = [f.__code__ for f in functions if f.__code__.co_filename == code.co_filename]
    parts += [inner for part in parts for inner in part.co_consts if inspect.iscode(inner)]
    return {feature}
"""
    space: dict[str, Any] = {}
    exec(look, space)
    known = []
    for seed in "abcdefgh":
        for case in draw_cases(loaded.check, loaded.exercise.kind, Terms(secret=f"known {seed}")):
            program: dict[str, Any] = {}
            label = "<program under test>"
            source = case.inputs["specimen"]
            linecache.cache[label] = (len(source), None, source.splitlines(True), label)
            exec(compile(source, label, "exec"), program)
            if loaded_right(loaded, case.size):
                known.append(space["look"](program["split"]))
    source = f"""
# exercise: 01_kinds.tester
{look}
KNOWN = {known!r}
def test(split):
    assert look(split) in KNOWN
"""
    result = client.check(KINDS.root, "01_kinds.tester", source, {"secret": "graded"})
    assert result.verdict is Verdict.FAILED, result.text()
    # No better than a coin: it must not tell all of the wrong ones, and all of the right ones, apart.
    assert result.right < result.cases


def loaded_right(loaded: Any, title: str) -> bool:
    return next(kind.right for kind in loaded.check.run.specimens if kind.title == title)


def test_grading_tries_programs_that_no_learner_saw(client: Client) -> None:
    """A program of a kind that is kept for grading; a test that fits the shown ones only is found out."""
    loaded = bundle.load(KINDS, "01_kinds.tester")
    shown = [draw_cases(loaded.check, loaded.exercise.kind, Terms(learner=str(n))) for n in range(30)]
    graded = draw_cases(loaded.check, loaded.exercise.kind, Terms(secret="s"))
    assert len(graded) == 3 * len(shown[0]) == 3 * len(loaded.check.run.specimens)

    def by_trying(case: CaseRun, *arguments: int) -> list[int]:
        space: dict[str, Any] = {}
        exec(case.inputs["specimen"], space)
        found: list[int] = space["split"](*arguments)
        return found

    lost = "a split that loses the rest"
    assert all(sum(by_trying(case, 8, 3)) == 6 for cases in shown for case in cases if case.size == lost)
    assert 7 in {sum(by_trying(case, 8, 3)) for case in graded if case.size == lost}


# -- kernels -----------------------------------------------------------------------------------------


def test_facts_and_cost_are_those_of_the_replayed_launch(kernel: Check) -> None:
    result = kernel()
    assert result.passed
    assert [fact.text for fact in result.facts][:2] == ["4 blocks used", "set_value issued 0 times"]
    assert "MTE2 works during" in result.facts[2].text
    assert result.cost is not None
    assert result.cost.ratio == 1.0


def test_numbers_worked_out_on_the_host_are_refused(kernel: Check) -> None:
    """The right numbers of these very inputs, written as constants: legal, and no computation."""
    source = """
# exercise: 01_kinds.kernel
TILE = 64
@asc.jit
def store(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress,
          values: asc.ConstExpr, n: asc.ConstExpr[int]):
    gm = asc.GlobalTensor()
    gm.set_global_buffer(z, n)
    tile = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, n)
    for i in asc.static_range(n):
        tile.set_value(i, values[i])
    asc.set_flag(asc.HardEvent.S_MTE3, 0)
    asc.wait_flag(asc.HardEvent.S_MTE3, 0)
    asc.data_copy(gm, tile, count=n)
def launch(x, y, z):
    store[1](x, y, z, tuple(float(v) for v in 2 * x + y), x.size)
"""
    assert _rule(kernel(source=source)) == "course.kernel_fixed"


FORGE = """
import numpy as np
from cannlab.machine import machine
from cannlab.trace.kernel import Instruction, KernelTrace
_right = launch
def launch(x, y, z):
    _right(x, y, z)
    trace = machine().record.kernels[-1]
    FORGED
"""


@pytest.mark.parametrize(
    ("forged", "rule"),
    [
        ("machine().record.kernels.clear()", "course.altered_record"),
        ("trace.meta['arguments'].pop()", "course.kernel_record"),
        ("trace.meta['arguments'][0]['dtype'] = 'int32'", "course.kernel_arguments"),
        ("trace.meta['arguments'][0]['bytes'] += 4", "course.kernel_arguments"),
        ("trace.meta['soc'] = 'Ascend910B4'", "course.kernel_chip"),
        ("trace.meta['blocks'] = 40", "course.altered_record"),
        ("del trace.meta['sync']", "course.kernel_record"),
        ("trace.meta['sync'] = 'none'", "course.kernel_record"),
        ("trace.words[0] = 99", "course.kernel_record"),
        ("trace.words.pop()", "course.kernel_record"),
        ("trace.starts.pop()", "course.kernel_record"),
        ("trace.starts[1] = 0", "course.kernel_record"),
        ("trace.meta = []", "course.altered_record"),
    ],
)
def test_a_record_that_was_changed_fails(kernel: Check, forged: str, rule: str) -> None:
    assert _rule(kernel(append=FORGE.replace("FORGED", forged))) == rule


def test_a_faked_time_gains_nothing(kernel: Check) -> None:
    small = ("TILE", "128")
    slow = kernel(*small)
    faked = kernel(
        *small, append="import cannlab.machine.core.cost as c\nc.READ_LATENCY = c.WRITE_LATENCY = 0\nc.ISSUE = 0"
    )
    assert _rule(faked) == _rule(slow)
    assert faked.cost == slow.cost


def test_an_answer_that_switches_the_ordering_check_off_is_refused(kernel: Check) -> None:
    source = """
# exercise: 01_kinds.kernel
import cannlab.machine.core.ordering as ordering
ordering.Ordering.access = lambda *a: None
@asc.jit(auto_sync=False)
def raw(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, n: int):
    start = asc.get_block_idx() * n
    a, b, c = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    a.set_global_buffer(x + start, n)
    b.set_global_buffer(y + start, n)
    c.set_global_buffer(z + start, n)
    u = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, n)
    v = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, n * 4, n)
    w = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, n * 8, n)
    asc.data_copy(u, a, count=n)
    asc.data_copy(v, b, count=n)
    asc.muls(w, u, 2.0, count=n)
    asc.add(w, w, v, count=n)
    asc.data_copy(c, w, count=n)
def launch(x, y, z):
    raw[4](x, y, z, x.size // 4)
"""
    result = kernel(source=source)
    assert result.verdict is Verdict.FAILED
    assert result.diagnosis is not None
    assert result.diagnosis.rule == "course.touched"


# -- sound records -----------------------------------------------------------------------------------


def _trace(*instructions: Instruction, blocks: int = 1) -> KernelTrace:
    x = np.zeros(64, np.float32)
    made = core.run("k", lambda launch: None, [x, x], blocks).trace
    for entry in instructions:
        made.append(entry)
    return made


MTE2, V, UB = int(Pipe.MTE2), int(Pipe.V), int(Space.UB)
F32 = 8 | 8 << 8
COPY = Instruction(150, 0, MTE2, F32, 0, 0, (1, 256, 0, 0, 0), ((UB, 0, 256), (0, 0, 256)))
SUM = Instruction(ADD, 0, V, F32 | 8 << 16, 0, 0, (0, 64), ((UB, 512, 256), (UB, 0, 256), (UB, 256, 256)))


def test_what_a_launch_makes_is_sound() -> None:
    soundness.check(_trace(COPY, COPY._replace(operands=((UB, 256, 256), (1, 0, 256))), SUM))
    soundness.check(_trace(blocks=3))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (COPY._replace(pipe=V), "does not run on pipe"),
        (COPY._replace(core=1), "belongs to block 1"),
        (COPY._replace(op=99), "no operation 99"),
        (COPY._replace(file=1), "a file"),
        (COPY._replace(immediates=(1, 32, 0, 0, 0)), "it reaches 32"),
        (COPY._replace(immediates=(0, 256, 0, 0, 0)), "moves 0 times"),
        (COPY._replace(immediates=(1,)), "cannot be read"),
        (COPY._replace(operands=((UB, 0, 256), (2, 0, 256))), "cannot be"),
        (COPY._replace(operands=((UB, -32, 256), (0, 0, 256))), "cannot be"),
        (COPY._replace(operands=((1, 0, 256), (0, 0, 256))), "no way"),
        (COPY._replace(operands=((UB, 0, 256),)), "cannot be read"),
        (SUM._replace(operands=((UB, 512, 32), (UB, 0, 256), (UB, 256, 256))), "has 32 bytes, it reaches 256"),
        (SUM._replace(operands=((0, 0, 256), (UB, 0, 256), (UB, 256, 256))), "operand 0 of add cannot lie there"),
        (SUM._replace(immediates=(0, -1)), "a form that no face writes"),
        (SUM._replace(dtype=8 | 99 << 8 | 8 << 16), "no such element types"),
        (Instruction(160, 0, 0, 8, 0, 0, (0,), ((0, 0, 256),)), "one element"),
        (Instruction(182, 0, 0, 0, 0, 0, (77,), ()), "no pipe 77"),
        (Instruction(180, 0, V, 0, 0, 0, (4, 0), ()), "does not run on pipe"),
        (Instruction(200, 1, 0, 0, 0, 0, (1, 1), ()), "have begun before"),
        (Instruction(200, 0, 0, 0, 0, 0, (0, 1), ()), "have begun before"),
    ],
)
def test_what_no_launch_makes_is_refused(entry: Instruction, message: str) -> None:
    with pytest.raises(soundness.Unsound, match=message):
        soundness.check(_trace(entry))
