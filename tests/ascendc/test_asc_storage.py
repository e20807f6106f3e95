"""Pools, automatic tensors, slices, workspaces and properties."""

import numpy as np
import pytest
from asc_pieces import ordered, replayed, rules, run_on_core, view

import cannlab.ascendc as asc
from cannlab.ascendc.runtime.jit import emulate
from cannlab.machine import core

E = asc.HardEvent
POS = asc.TPosition


def broken(body, *arrays, **options):
    try:
        return rules(run_on_core(body, *arrays, **options))
    except core.KernelFault as fault:
        return [fault.diagnosis.rule.removeprefix("kernel.")]


def floats(count, seed=0):
    return np.random.default_rng(seed).standard_normal(count).astype("f4")


# -- pools -------------------------------------------------------------------------------------------


@asc.jit
def two_stages(x: asc.GlobalAddress, z: asc.GlobalAddress, share: asc.ConstExpr[bool]):
    """x + 1 in a first stage, times 2 in a second one, in the same bytes."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    first = asc.TBufPool(asc.TPosition.VECCALC)
    second = asc.TBufPool(asc.TPosition.VECCALC)
    pipe.init_buf_pool(first, 4096)
    if share:
        pipe.init_buf_pool(second, 4096, first)
    else:
        pipe.init_buf_pool(second, 4096)
    stage(first, x_gm, z_gm, 1)
    first.reset()
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    stage(second, z_gm, z_gm, 2)


@asc.jit
def stage(pool: asc.TBufPool, source: asc.GlobalTensor, target: asc.GlobalTensor, which: asc.ConstExpr[int]):
    taken = asc.TQue(asc.TPosition.VECIN, 1)
    given = asc.TQue(asc.TPosition.VECOUT, 1)
    pool.init_buffer(taken, 1, 1024)
    pool.init_buffer(que=given, num=1, len=1024)
    a = taken.alloc_tensor(asc.float32)
    asc.data_copy(a, source, count=256)
    taken.enque(a)
    a = taken.deque(asc.float32)
    b = given.alloc_tensor(asc.float32)
    asc.adds(b, a, 1.0, count=256)
    given.enque(b)
    taken.free_tensor(a)
    b = given.deque(asc.float32)
    asc.data_copy(target, b, count=256)
    given.free_tensor(b)


@pytest.mark.parametrize("share", [True, False])
def test_two_stages_in_pools(share):
    x, z = floats(256), np.zeros(256, "f4")
    result = emulate(two_stages, 1, x, z, share)
    assert [found.rule for found in result.diagnoses] == []
    np.testing.assert_array_equal(result.outputs[1].view("f4"), x + 1 + 1)
    replayed(result, x, z)


def test_what_goes_wrong_with_pools():
    def pool(size, *, sub=0, most=4):
        pipe = asc.TPipe()
        made = asc.TBufPool(POS.VECCALC, most)
        pipe.init_buf_pool(made, size)
        if sub:
            inner = asc.TBufPool(POS.VECCALC)
            made.init_buf_pool(inner, sub)
            return inner
        return made

    def fill(made, *sizes):
        for size in sizes:
            made.init_buffer(asc.TBuf(POS.VECCALC), size)

    x = np.zeros(8, "f4")
    assert broken(lambda x: fill(pool(1024), 512, 512), x) == []
    assert broken(lambda x: fill(pool(1024), 512, 544), x) == ["pool_overflow"]
    assert broken(lambda x: fill(pool(1024, sub=256), 256), x) == []
    assert broken(lambda x: fill(pool(1024, sub=256), 288), x) == ["pool_overflow"]
    assert broken(lambda x: pool(1024, sub=2048), x) == ["pool_overflow"]
    assert broken(lambda x: fill(pool(1024), *[32] * 5), x) == ["pool_overflow"]
    assert broken(lambda x: fill(pool(1024, most=5), *[32] * 5), x) == []
    assert broken(lambda x: pool(1 << 20), x) == ["ub_overflow"]


def test_a_tensor_of_a_pool_after_its_reset_holds_nothing():
    def body(z):
        pipe = asc.TPipe()
        pool = asc.TBufPool(POS.VECCALC)
        pipe.init_buf_pool(pool, 1024)
        buf = asc.TBuf(POS.VECCALC)
        pool.init_buffer(buf, 256)
        tensor = buf.get(asc.float32)
        asc.duplicate(tensor, 1.0, count=64)
        pool.reset()
        ordered(E.V_MTE3)
        asc.data_copy(view(z), tensor, count=64)

    assert broken(body, np.zeros(64, "f4")) == ["undefined"]


# -- automatic tensors -------------------------------------------------------------------------------


@asc.jit
def automatic(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, tiles: int):
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    start = asc.get_block_idx() * tiles * 256
    x_gm.set_global_buffer(x + start)
    y_gm.set_global_buffer(y + start)
    z_gm.set_global_buffer(z + start)
    for i in range(tiles):
        a = asc.LocalTensorAuto(asc.float32, 256)
        b = asc.LocalTensorAuto(asc.float32, (16, 16))
        c = asc.LocalTensorAuto(asc.float32, 256)
        asc.data_copy(a, x_gm[i * 256 :], count=256)
        asc.data_copy(b, y_gm[i * 256 :], count=256)
        asc.add(c, a, b, count=256)
        asc.data_copy(z_gm[i * 256 :], c, count=256)


def test_automatic_tensors_need_no_synchronisation():
    x, y, z = floats(200 * 256), floats(200 * 256, 1), np.zeros(200 * 256, "f4")
    result = emulate(automatic, 2, x, y, z, 100)
    assert result.diagnoses == []
    assert result.trace.meta["sync"] == "inserted"
    np.testing.assert_array_equal(result.outputs[2].view("f4"), x + y)
    replayed(result, x, y, z)
    for seed in range(3):
        np.testing.assert_array_equal(core.shuffled(result.trace, [x, y, z], seed)[2].view("f4"), x + y)
    # What is inserted waits: the copy in and the add do not run at the same time.
    spans = result.timing.spans
    first = [number for number, entry in enumerate(result.trace) if entry.op == 150][:2]
    added = next(number for number, entry in enumerate(result.trace) if entry.op == 1)
    assert spans[added][0] >= max(spans[number][1] for number in first)


def test_flags_of_a_kernel_with_automatic_tensors_are_left_out():
    @asc.jit
    def with_flags(z: asc.GlobalAddress):
        z_gm = asc.GlobalTensor()
        z_gm.set_global_buffer(z)
        a = asc.LocalTensorAuto(asc.float32, 64)
        asc.duplicate(a, 2.0, count=64)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(z_gm, a, count=64)

    result = emulate(with_flags, 1, np.zeros(64, "f4"))
    assert result.diagnoses == []
    assert not any(entry.op == 180 for entry in result.trace)
    np.testing.assert_array_equal(result.outputs[0].view("f4"), 2)


def test_automatic_tensors_and_buffers_share_the_ub():
    def body(x, size):
        pipe = asc.TPipe()
        asc.LocalTensorAuto(asc.float32, 30000)
        pipe.init_buffer(asc.TBuf(POS.VECCALC), size)

    x = np.zeros(8, "f4")
    assert broken(lambda x: body(x, 60000), x) == []
    assert broken(lambda x: body(x, 70000), x) == ["ub_overflow"]
    assert broken(lambda x: asc.LocalTensorAuto(asc.float32, 60000), x) == ["ub_overflow"]


# -- slices ------------------------------------------------------------------------------------------


def test_a_sliced_copy():
    """Columns 16 to 70 of rows 0 and 2, in bursts of 24 with a gap of 7."""
    rows = np.arange(3 * 87, dtype="f4").reshape(3, 87)

    def body(x, z):
        tile = asc.LocalTensor(asc.float32, POS.VECIN, 0, 96)
        source = [asc.SliceInfo(16, 70, 7, 3, 87), asc.SliceInfo(0, 2, 1, 1, 3)]
        target = [asc.SliceInfo(0, 47, 0, 3, 48), asc.SliceInfo(0, 1, 0, 1, 2)]
        asc.data_copy(tile, view(x), target, source, 2)
        ordered(E.MTE2_MTE3)
        asc.data_copy(view(z), tile, slice_list1=target, slice_list2=target, dim_value=2)

    x, z = rows.reshape(-1), np.zeros(96, "f4")
    result = replayed(run_on_core(body, x, z), x, z)
    assert rules(result) == []
    wanted = np.concatenate([rows[row, start : start + 24] for row in (0, 2) for start in (16, 47)])
    np.testing.assert_array_equal(result.outputs[1].view("f4"), wanted)


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ((0, 47, 0, 3, 48), (16, 71, 7, 3, 87)),
        ((0, 47, 0, 3, 48), (16, 90, 7, 3, 87)),
        ((0, 23, 0, 3, 48), (16, 70, 7, 3, 87)),
        ((0, 47, 0, 6, 48), (16, 70, 7, 3, 87)),
    ],
)
def test_slices_that_do_not_fit(target, source):
    def body(x, z):
        tile = asc.LocalTensor(asc.float32, POS.VECIN, 0, 96)
        asc.data_copy(tile, view(x), [asc.SliceInfo(*target)], [asc.SliceInfo(*source)], 1)

    with pytest.raises(ValueError, match="data_copy"):
        run_on_core(body, np.zeros(300, "f4"), np.zeros(96, "f4"))


def test_enhanced_params():
    def body(x, mode=asc.BlockMode.BLOCK_MODE_NORMAL):
        tile = asc.LocalTensor(asc.float32, POS.VECIN, 0, 64)
        how = asc.DataCopyParams(1, 8, 0, 0)
        asc.data_copy(tile, view(x), repeat_params=how, enhanced_params=asc.DataCopyEnhancedParams(mode))

    result = run_on_core(body, floats(64))
    assert [entry.immediates for entry in result.trace if entry.op == 150] == [(1, 256, 0, 0, 0)]
    with pytest.raises(NotImplementedError, match="is not emulated"):
        run_on_core(lambda x: body(x, asc.BlockMode.BLOCK_MODE_MATRIX), floats(64))


# -- addresses and properties ------------------------------------------------------------------------


def test_workspaces_and_contexts():
    def body(x, w):
        asc.set_sys_workspace(w)
        tensor = asc.GlobalTensor()
        tensor.set_global_buffer(asc.get_sys_workspace())
        assert tensor.dtype == asc.uint8
        tensor[3:].set_value(0, 7)
        asc.set_hccl_context(1, x)
        other = asc.GlobalTensor()
        other.set_global_buffer(asc.get_hccl_context(1))
        other.set_value(2, 9)

    result = run_on_core(body, np.zeros(8, "u1"), np.zeros(8, "u1"))
    assert [out.tolist() for out in result.outputs] == [[0, 0, 9] + [0] * 5, [0, 0, 0, 7] + [0] * 4]


@pytest.mark.parametrize("which", ["workspace", "tensor"])
def test_an_address_that_was_never_set(which):
    def body(x):
        tensor = asc.GlobalTensor()
        if which == "workspace":
            tensor.set_global_buffer(asc.get_sys_workspace())
        else:
            tensor.dtype = asc.uint8
        asc.data_copy(asc.LocalTensor(asc.uint8, POS.VECIN, 0, 64), tensor, count=64)

    assert broken(body, np.zeros(8, "f4")) == ["no_address"]


def test_properties():
    def body(x):
        sizes = [asc.DEFAULT_C0_SIZE, asc.ONE_BLK_SIZE, asc.TOTAL_L0C_SIZE]
        assert [asc.property(each).value for each in sizes] == [32, 32, 128 * 1024]
        assert 500 * 1024 < asc.property(asc.TOTAL_L1_SIZE).value <= 512 * 1024
        with pytest.raises(TypeError, match="property"):
            asc.property("ONE_BLK_SIZE")

    run_on_core(body, np.zeros(8, "f4"))
