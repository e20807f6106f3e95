"""sort32, mrg_sort, sort, extract and concat against Python's own sorting."""

import numpy as np
import pytest
from asc_pieces import ordered, peek, replayed, rules, run_on_core, view
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc
from cannlab.machine import core
from cannlab.machine.core import KernelFault

P, E = asc.TPosition, asc.HardEvent
SEED = st.integers(0, 1 << 30)
FLOATS = st.sampled_from(["float16", "float32"])


def scores_of(seed, dtype, count, few=True):
    rng = np.random.default_rng(seed)
    return (rng.integers(-20, 20, count) / 4 if few else rng.standard_normal(count)).astype(dtype)


def tensor(dtype, at, count):
    return asc.LocalTensor(asc.DataType(dtype), P.VECIN, at, count)


def structures(count, dtype):
    """Elements of the score type that so many structures take."""
    return count * 8 // np.dtype(dtype).itemsize


def pairs(raw, dtype):
    """(score, index) of bytes of structures."""
    raw = raw.reshape(-1, 8)
    size = np.dtype(dtype).itemsize
    return [
        (raw[i, :size].copy().view(dtype)[0].item(), raw[i, 4:].copy().view(np.uint32)[0].item())
        for i in range(len(raw))
    ]


def by_score(items):
    return sorted(items, key=lambda item: -item[0])  # sorted is stable


def load(*copies):
    for target, source, count in copies:
        asc.data_copy(target, view(source), count=count)
    ordered(E.MTE2_V)


@given(seed=SEED, dtype=FLOATS, repeats=st.integers(1, 5))
@settings(max_examples=12, deadline=None)
def test_sort32(seed, dtype, repeats):
    count = repeats * 32
    x, index = scores_of(seed, dtype, count), np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)
    got = []

    def body(xa, ia):
        s, i, out = (
            tensor(dtype, 0, count),
            tensor("uint32", 8192, count),
            tensor(dtype, 16384, structures(count, dtype)),
        )
        load((s, xa, count), (i, ia, count))
        asc.sort32(out, s, i, repeats)
        got.append(peek(out, structures(count, dtype)))

    assert rules(replayed(run_on_core(body, x, index), x, index)) == []
    wanted = []
    for r in range(repeats):
        part = slice(r * 32, r * 32 + 32)
        wanted += by_score(list(zip(x[part].tolist(), index[part].tolist(), strict=True)))
    assert pairs(got[0].view(np.uint8), dtype) == wanted


@given(
    seed=SEED,
    dtype=FLOATS,
    lengths=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    suspend=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_mrg_sort(seed, dtype, lengths, suspend):
    queues, at = [], 0
    for place, length in enumerate(lengths):
        values = sorted(scores_of(seed + place, dtype, length).tolist(), reverse=True)
        queues.append([(value, at + k) for k, value in enumerate(values)])
        at += length
    total = sum(lengths)
    raw = np.zeros((total, 8), np.uint8)
    size = np.dtype(dtype).itemsize
    for row, (value, index) in enumerate(item for queue in queues for item in queue):
        raw[row, :size] = np.array([value], dtype).view(np.uint8)
        raw[row, 4:] = np.array([index], np.uint32).view(np.uint8)
    room = -(-total // 4) * 4
    x = np.concatenate([raw.reshape(-1), np.zeros((room - total) * 8, np.uint8)]).view(dtype)
    # The queues lie apart, each on a multiple of 32 bytes.
    starts = [sum(-(-length // 4) * 4 for length in lengths[:place]) for place in range(len(lengths))]
    apart = np.zeros((starts[-1] + -(-lengths[-1] // 4) * 4, 8), np.uint8)
    for place, length in enumerate(lengths):
        before = sum(lengths[:place])
        apart[starts[place] : starts[place] + length] = raw[before : before + length]
    x = apart.reshape(-1).view(dtype)
    got, counts = [], []

    def body(xa):
        s, out = tensor(dtype, 0, x.size), tensor(dtype, 65536, structures(total, dtype))
        load((s, xa, x.size))
        lists = asc.MrgSortSrcList(s.dtype, *[s[structures(start, dtype) :] for start in starts])
        info = asc.MrgSort4Info([*lengths, 0, 0][:4], suspend, (1 << len(lengths)) - 1, 1)
        asc.mrg_sort(out, lists, info)
        got.append(peek(out, structures(total, dtype)))
        counts.append([value.value for value in asc.get_mrg_sort_result()])

    assert rules(replayed(run_on_core(body, x), x)) == []
    wanted = by_score([item for queue in queues for item in queue])
    if suspend:
        left = list(lengths)
        taken = []
        for item in wanted:
            place = next(p for p, queue in enumerate(queues) if item in queue)
            taken.append(item)
            left[place] -= 1
            if not left[place]:
                break
        wanted = taken
        assert counts[0][: len(lengths)] == [length - rest for length, rest in zip(lengths, left, strict=True)]
    else:
        assert counts[0][: len(lengths)] == lengths
    assert pairs(got[0].view(np.uint8), dtype)[: len(wanted)] == wanted


def test_mrg_sort_with_repeats():
    x = -np.sort(-scores_of(1, "float32", 256).reshape(2, 4, 32), axis=2)
    raw = np.zeros((256, 2), np.float32)
    raw[:, 0] = x.reshape(-1)
    raw[:, 1] = np.arange(256, dtype=np.uint32).view(np.float32)
    source = raw.reshape(-1)
    got = []

    def body(xa):
        s, out = tensor("float32", 0, 512), tensor("float32", 65536, 512)
        load((s, xa, 512))
        lists = asc.MrgSortSrcList(asc.float32, s, s[64:], s[128:], s[192:])
        asc.mrg_sort(out, lists, [32, 32, 32, 32], [0, 0, 0, 0], 15, 2)
        got.append(peek(out, 512))

    assert rules(replayed(run_on_core(body, source), source)) == []
    found = pairs(got[0].view(np.uint8), "float32")
    items = list(zip(x.reshape(-1).tolist(), range(256), strict=True))
    assert found == by_score(items[:128]) + by_score(items[128:])


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sort_extract_and_concat(dtype, whole):
    repeats, count = 3, 96
    x, index = scores_of(4, dtype, count, few=False), np.arange(count, dtype=np.uint32)
    values, indices = np.zeros(count, dtype), np.zeros(count, np.uint32)

    def body(xa, ia, va, na):
        s, i = tensor(dtype, 0, count), tensor("uint32", 4096, count)
        out, tmp = (tensor(dtype, at, structures(count, dtype)) for at in (8192, 16384))
        v, n = tensor(dtype, 32768, count), tensor("uint32", 40960, count)
        load((s, xa, count), (i, ia, count))
        c = tensor(dtype, 49152, count)
        asc.adv.concat(c, s, tmp, repeats)
        asc.sort(out, c, i, tmp, repeats, is_full_sort=whole)
        asc.adv.extract(v, n, out, repeats)
        ordered(E.V_MTE3)
        asc.data_copy(view(va), v, count=count)
        asc.data_copy(view(na), n, count=count)

    arrays = (x, index, values, indices)
    result = replayed(run_on_core(body, *arrays), *arrays)
    assert rules(result) == []
    items = list(zip(x.tolist(), index.tolist(), strict=True))
    wanted = by_score(items) if whole else [item for r in range(3) for item in by_score(items[r * 32 : r * 32 + 32])]
    assert result.outputs[2].view(dtype).tolist() == [value for value, _ in wanted]
    assert result.outputs[3].view(np.uint32).tolist() == [place for _, place in wanted]
    # The record sorts other data too.
    other = core.replay(result.trace, [-x, index, values, indices])
    again = by_score([(-value, place) for value, place in items])
    if whole:
        assert other.outputs[3].view(np.uint32).tolist() == [place for _, place in again]


@pytest.mark.parametrize(
    ("lengths", "valid", "repeats", "queues"),
    [([32, 32, 0, 0], 15, 1, 2), ([5000, 1, 0, 0], 3, 1, 2), ([32, 32, 0, 0], 3, 2, 2), ([1, 1, 0, 0], 5, 1, 2)],
)
def test_what_mrg_sort_does_not_take(lengths, valid, repeats, queues):
    def body(xa):
        s, out = tensor("float32", 0, 128), tensor("float32", 65536, 128)
        load((s, xa, 128))
        lists = asc.MrgSortSrcList(asc.float32, *[s] * queues)
        asc.mrg_sort(out, lists, asc.MrgSort4Info(lengths, False, valid, repeats))

    with pytest.raises(KernelFault) as caught:
        run_on_core(body, np.zeros(128, "f4"))
    assert caught.value.diagnosis.rule == "kernel.merge"


def test_a_merge_onto_its_own_queue():
    def body(xa):
        s = tensor("float32", 0, 256)
        load((s, xa, 256))
        asc.mrg_sort(s, asc.MrgSortSrcList(asc.float32, s, s[128:]), asc.MrgSort4Info([32, 32, 0, 0], False, 3, 1))

    with pytest.raises(KernelFault) as caught:
        run_on_core(body, np.zeros(256, "f4"))
    assert caught.value.diagnosis.rule == "kernel.merge"


@pytest.mark.parametrize("name", ["mrg_sort4", "rp_sort16", "proposal_concat", "proposal_extract"])
def test_proposals_are_of_older_chips(name):
    with pytest.raises(KernelFault) as caught:
        run_on_core(lambda x: getattr(asc, name)(), np.zeros(8, "f4"))
    assert caught.value.diagnosis.rule == "kernel.not_on_chip"
