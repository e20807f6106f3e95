"""Turns and blocks that go alike are not run one by one: everything is as if they were."""

import add_flags
import add_queues
import alike_kernels as kernels
import large_kernels
import numpy as np
import pytest
import real_kernels
from hypothesis import given, settings
from hypothesis import strategies as st

from cannlab.ascendc.codegen import alike
from cannlab.ascendc.runtime.jit import emulate
from cannlab.machine import core
from cannlab.soc import soc as chips

CHIP = chips.get("Ascend910B1")
X = np.arange(1 << 14, dtype=np.int32)


def outcome(kernel, blocks, *arguments):
    try:
        return emulate(kernel, blocks, *arguments, soc=CHIP)
    except core.KernelFault as fault:
        return fault


def both(capsys, kernel, blocks, *arguments):
    """The launch, and how many instructions of its record the kernel's code did not issue."""
    repeated = 0
    real = alike.repeat

    def counted(launch, *rest):
        nonlocal repeated
        before = len(launch.trace)
        done = real(launch, *rest)
        repeated += len(launch.trace) - before
        return done

    alike.repeat = counted
    try:
        found = outcome(kernel, blocks, *arguments)
    finally:
        alike.repeat = real
    told = capsys.readouterr().out if capsys else ""
    with alike.one_by_one():
        wanted = outcome(kernel, blocks, *arguments)
    if capsys:
        assert capsys.readouterr().out == told
    assert type(found) is type(wanted)
    if isinstance(wanted, core.KernelFault):
        assert found.diagnosis == wanted.diagnosis
        return found, repeated
    assert found.trace.meta == wanted.trace.meta
    assert found.trace.words == wanted.trace.words
    assert found.trace.starts == wanted.trace.starts
    assert all(np.array_equal(a, b) for a, b in zip(found.outputs, wanted.outputs, strict=True))
    assert (found.diagnoses, found.warnings) == (wanted.diagnoses, wanted.warnings)
    assert found.timing.ns == wanted.timing.ns
    np.testing.assert_array_equal(found.timing.spans, wanted.timing.spans)
    return found, repeated


def space():
    return np.zeros(1 << 13, dtype=np.int32)


@given(
    blocks=st.integers(1, 9),
    first=st.integers(0, 5),
    turns=st.integers(0, 24),
    step=st.integers(1, 3),
    a=st.integers(-3, 4),
    b=st.integers(0, 40),
    c=st.integers(-1, 30),
    d=st.integers(1, 6),
    depth=st.integers(1, 3),
    per_block=st.integers(0, 3),
)
@settings(max_examples=60)
def test_whatever_the_tile_depends_on(blocks, first, turns, step, a, b, c, d, depth, per_block):
    both(None, kernels.numbers, blocks, X, space(), first, turns, step, a, b, c, d, depth, per_block)


@given(
    blocks=st.integers(1, 9),
    turns=st.integers(0, 60),
    slope=st.integers(-2, 3),
    start=st.integers(100, 130),
    swap=st.booleans(),
)
@settings(max_examples=40)
def test_steps_forward_and_back(blocks, turns, slope, start, swap):
    both(None, kernels.straight, blocks, X, space(), turns, slope, start, int(swap))


@pytest.mark.parametrize("mode", range(12))
@pytest.mark.parametrize(("turns", "late"), [(40, 25), (23, 22), (9, 3)])
def test_what_a_turn_leaves_to_the_next(mode, turns, late, capsys):
    x = np.arange(TILES * kernels.TILE, dtype=np.int32)
    both(capsys, kernels.carried, 1, x, space(), turns, late, mode)


TILES = 48


@pytest.mark.parametrize("mode", range(8))
@pytest.mark.parametrize("blocks", [2, 5, 12])
def test_blocks(mode, blocks, capsys):
    both(capsys, kernels.by_block, blocks, X, space(), 6, 4, mode)


def test_most_turns_and_blocks_are_repeated():
    x = np.ones(1 << 16, np.float32)
    found, repeated = both(None, add_queues.add_queues, 8, x, x, np.zeros_like(x), len(x) // 8)
    # One block is run by the kernel's code, but for the turns 6 and 7 of its 8: after the first one two periods of two.
    assert repeated == len(found.trace) - (len(found.trace) // 8 - 2 * 16)
    found, repeated = both(None, kernels.straight, 1, X, space(), 60, 2, 0, 1)
    # A tile takes ten instructions.
    assert repeated == (60 - 5) // 2 * 2 * 10
    # In turn 25 a branch goes the other way; with turn 31, after three more periods, it begins again.
    _, repeated = both(None, kernels.carried, 1, X, space(), 40, 25, 3)
    assert repeated == ((25 - 5) // 2 + (40 - 31) // 2) * 2 * 10


@pytest.mark.parametrize("mode", [6, 8])
def test_turns_that_look_at_a_number_are_not(mode):
    _, repeated = both(None, kernels.carried, 1, X, space(), 40, 1, mode)
    assert repeated == 0


def test_the_kernels_of_real_size():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((256, 256), dtype="f4"), np.zeros((256, 256), "f4")
    found, repeated = both(None, real_kernels.softmax, 4, a, b, 256, 256)
    assert repeated > len(found.trace) // 2
    m, n = (rng.standard_normal((512, 512)).astype(np.float16) for _ in range(2))
    _, repeated = both(None, large_kernels.matmul_512, 16, m, n, np.zeros((512, 512), np.float32))
    assert repeated
    x = np.ones(1 << 15, np.float32)
    both(None, add_flags.add_flags, 4, x, x, np.zeros_like(x), len(x) // 4)


def test_a_fault_ends_the_record_at_its_instruction():
    """Every tile after the last whole one of x lies outside."""
    x = np.arange(40 * kernels.TILE, dtype=np.int32)
    found, repeated = both(None, kernels.carried, 1, x, space(), 40, 10, 7)
    assert isinstance(found, core.KernelFault)
    assert found.diagnosis.rule == "kernel.gm_range"
    assert repeated
