"""The time model: grows with work, shrinks with double buffering, and meets the published add ladder."""

import numpy as np
import pytest

from cannlab.machine import core
from cannlab.machine.core import cost, layout
from cannlab.machine.core.dtypes import CODES, pack
from cannlab.machine.core.opcodes import BY_NAME
from cannlab.machine.core.schedule import Schedule
from cannlab.machine.core.units import units
from cannlab.soc import get

F, H = CODES["float32"], CODES["float16"]
CHIP = get("Ascend910B1")


def tiles(elements, tile, buffers, blocks, *, half=False, spread=True, chip=CHIP):
    """The add ladder's kernel, timed without data: queues, one tile after another in each block."""
    schedule = Schedule(chip, blocks)
    size = tile * (2 if half else 4)
    code = H if half else F
    add, copy = BY_NAME["add"], BY_NAME["data_copy"]
    from cannlab.machine.core.queues import Buffer, Queue

    def queue(number, produces, consumes, first):
        made = Queue(number, 9, produces, consumes, 1)
        made.buffers = [Buffer(made, k, -1, first + k * size, size) for k in range(buffers)]
        return made

    gap = 256 if spread else 0
    x, y, z = queue(0, 4, 1, 0), queue(1, 4, 1, buffers * size + gap), queue(2, 1, 5, 2 * (buffers * size + gap))
    for unit in units(blocks, "AIV"):
        schedule.start_block(unit)
        for turn in range(elements // tile // blocks):
            a, b, c = (q.buffers[turn % buffers] for q in (x, y, z))
            for source in (a, b):
                schedule.queue(BY_NAME["queue_alloc"].number, source)
                schedule.run(copy, 4, 0, (1, size, 0, 0, 0), ((-1, source.start, size), (0, 0, size)), ())
                schedule.queue(BY_NAME["queue_enque"].number, source)
            for source in (a, b):
                schedule.queue(BY_NAME["queue_deque"].number, source)
            schedule.queue(BY_NAME["queue_alloc"].number, c)
            where = tuple((-1, q.start, size) for q in (c, a, b))
            schedule.run(add, 1, pack(code, code, code), (layout.COUNT, tile), where, ())
            schedule.queue(BY_NAME["queue_enque"].number, c)
            schedule.queue(BY_NAME["queue_free"].number, a)
            schedule.queue(BY_NAME["queue_free"].number, b)
            schedule.queue(BY_NAME["queue_deque"].number, c)
            schedule.run(copy, 5, 0, (1, size, 0, 0, 0), ((1, 0, size), (-1, c.start, size)), ())
            schedule.queue(BY_NAME["queue_free"].number, c)
        schedule.end_block(unit)
    return schedule.timing()


def test_time_grows_with_the_work():
    times = [tiles(n * 1024, 1024, 2, 1).ns for n in (4, 8, 16, 32)]
    assert times == sorted(times)
    assert 1.5 < (times[3] - times[2]) / (times[2] - times[1]) < 2.5


def test_more_cores_are_faster_until_memory_is_the_limit():
    one, eight, all_ = (tiles(1 << 21, 4096, 2, cores).ns for cores in (1, 8, 32))
    assert one > 6 * eight
    assert eight > all_
    assert eight < 4 * all_


def test_double_buffering_shortens_a_single_core():
    assert tiles(1 << 18, 4096, 2, 1).ns < 0.9 * tiles(1 << 18, 4096, 1, 1).ns


def test_blocks_beyond_the_cores_run_in_waves():
    few, many = tiles(48 * 8192, 1024, 2, 48), tiles(96 * 8192, 1024, 2, 96)
    assert {core_number for core_number, _, _ in many.blocks} == set(range(48))
    assert many.blocks[48][1] == many.blocks[0][2]
    assert many.ns - many.launch_ns == pytest.approx(2 * (few.ns - few.launch_ns), rel=0.02)


def test_one_add_costs_22_cycles_and_its_repeats():
    """Published fit: 22 + repeats, twice the repeats when both sources lie in one bank group."""
    add = BY_NAME["add"]

    def cycles(count, *starts):
        return cost.vector_cycles(add, pack(F, F, F), (layout.COUNT, count), tuple((-1, s, count * 4) for s in starts))

    assert cycles(4096, 0, 65536, 65536 + 16384 + 256) == 22 + 64
    assert cycles(4096, 0, 65536, 65536 + 16384) == 22 + 128
    assert cycles(64, 0, 1024, 2048 + 256) == 23


@pytest.mark.parametrize(
    ("tile", "buffers", "blocks", "elements", "published_us", "within"),
    [
        (4096, 1, 1, 1 << 22, 6909.6 / 16, 0.10),
        (4096, 1, 48, 48 << 17, 306.58 * 48 * (1 << 17) / (1 << 26), 0.15),
        (16384, 1, 48, 48 << 18, 268.5 * 48 * (1 << 18) / (1 << 26), 0.15),
    ],
)
def test_the_published_add_ladder(tile, buffers, blocks, elements, published_us, within):
    """8192 x 8192 half on 910B1, cases 1 to 3, scaled down: the tiles are alike, so time is proportional."""
    found = tiles(elements, tile, buffers, blocks, half=True, spread=False)
    assert (found.ns - found.launch_ns) / 1000 == pytest.approx(published_us, rel=within)


def test_launch_cost_by_blocks():
    assert [cost.launch_ns(n) for n in (1, 32, 64, 128, 1024)] == [1455, 1589, 2160, 3373, 15996]
    assert cost.launch_ns(1) < cost.launch_ns(16) < cost.launch_ns(32)
    assert cost.launch_ns(2048) > cost.launch_ns(1024)


def piece(body):
    return core.run("piece", body, [np.zeros(4096, "f4")], 1, soc=CHIP)


def test_scalar_loops_are_slow():
    def scalar(launch):
        for k in range(64):
            launch.issue(160, 0, F, (0,), ((-1, 4 * k, 4),))

    def vector(launch):
        launch.issue(80, 1, F, (layout.COUNT, 64, 0), ((-1, 0, 256),))

    slow, fast = piece(scalar).timing, piece(vector).timing
    assert slow.ns - slow.launch_ns > 10 * (fast.ns - fast.launch_ns)


def test_pipes_overlap_and_waits_join_them():
    copy, flag, wait = BY_NAME["data_copy"].number, BY_NAME["set_flag"].number, BY_NAME["wait_flag"].number
    event = int(core.HardEvent.MTE2_V)

    def body(launch):
        launch.issue(copy, 4, 0, (1, 4096, 0, 0, 0), ((-1, 0, 4096), (0, 0, 4096)))
        launch.issue(80, 1, F, (layout.COUNT, 64, 0), ((-1, 8192, 256),))
        launch.issue(flag, 4, 0, (event, 0), ())
        launch.issue(wait, 1, 0, (event, 0), ())
        launch.issue(80, 1, F, (layout.COUNT, 64, 0), ((-1, 0, 256),))

    timing = piece(body).timing
    (_, copied), (start, _), (late, _) = timing.spans[1], timing.spans[2], timing.spans[5]
    assert start < copied
    assert late >= copied
    assert set(timing.busy) == {"V", "MTE2"}


def test_times_are_whole_numbers_and_the_same_each_time():
    first, second = tiles(1 << 16, 1024, 2, 4), tiles(1 << 16, 1024, 2, 4)
    assert isinstance(first.ns, int)
    assert first.ns == second.ns
    np.testing.assert_array_equal(first.spans, second.spans)
    assert first.spans.dtype == np.int64


def test_a_slower_chip_is_slower():
    assert tiles(1 << 18, 4096, 2, 20, chip=get("Ascend910B4")).ns > tiles(1 << 18, 4096, 2, 20).ns
