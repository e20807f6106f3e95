"""The channel to global memory: taken in the order of time, whatever the order of the program."""

import random

from cannlab.machine.core.channel import Channel


def test_one_after_another():
    channel = Channel()
    assert [channel.take(0, 10, 0), channel.take(0, 5, 0), channel.take(40, 5, 0)] == [10, 15, 45]


def test_who_starts_earlier_does_not_wait_for_who_starts_later():
    channel = Channel()
    assert channel.take(100, 20, 0) == 120
    assert channel.take(10, 30, 0) == 40
    # What does not fit before the later one goes on behind it.
    assert channel.take(90, 15, 0) == 125
    assert channel.take(100, 1, 0) == 126
    assert channel.take(20, 30, 0) == 70


def test_exactly_between_two():
    channel = Channel()
    assert [channel.take(0, 10, 0), channel.take(20, 10, 0), channel.take(10, 10, 0)] == [10, 30, 20]
    assert channel.take(5, 1, 0) == 31


def test_nothing_takes_no_time():
    channel = Channel()
    channel.take(0, 10, 0)
    assert channel.take(3, 0, 0) == 3


def test_every_cycle_is_given_once():
    draw = random.Random(0)
    channel, free, now = Channel(), [True] * 4000, 0
    for _ in range(150):
        now += draw.randrange(6)
        start, cycles = now + draw.randrange(200), draw.randrange(1, 20)
        left = [cycle for cycle in range(start, len(free)) if free[cycle]][:cycles]
        for cycle in left:
            free[cycle] = False
        assert channel.take(start, cycles, now) == left[-1] + 1
