"""The mistakes that people make in kernels, as one list: each is told by the rule that it breaks.

Sources: the toolkit's documentation (hardware rules, questions and answers on precision and on hangs, the sanitizer's
examples) and reports of users. Every entry has a correct neighbour somewhere in these tests that no rule complains
about.
"""

import numpy as np
import pytest
from asc_pieces import ordered, run_on_core, view

import cannlab.ascendc as asc
from cannlab.ascendc.runtime.jit import emulate
from cannlab.machine import core

E, POS, PIPE = asc.HardEvent, asc.TPosition, asc.PipeID
MISTAKES = {}


def mistake(rule, *, strict=False, blocks=1, cores="AIV", x="float32", kernel=False):
    """Enter a kernel that breaks ``rule``; it gets an input, an output and a workspace."""

    def enter(body):
        assert body.__name__ not in MISTAKES, f"{body.__name__} stands twice"
        MISTAKES[body.__name__] = (rule, body, strict, blocks, cores, x, kernel)
        return body

    return enter


def ub(at, count=64, dtype=asc.float32):
    return asc.LocalTensor(dtype, POS.VECIN, at, count)


def load(tensor, x, count=64):
    asc.data_copy(tensor, view(x), count=count)
    ordered(E.MTE2_V)


def store(z, tensor, count=64):
    ordered(E.V_MTE3)
    asc.data_copy(view(z), tensor, count=count)


def filled(at, count=64, value=1.0):
    tensor = ub(at, count)
    asc.duplicate(tensor, value, count=count)
    return tensor


def queue(position=POS.VECIN, *, depth=1, buffers=1, size=256, pipe=None):
    made = asc.TQue(position, depth)
    (pipe or asc.TPipe()).init_buffer(made, buffers, size)
    return made


# -- flags -------------------------------------------------------------------------------------------


@mistake("race")
def computing_before_the_copy_in_is_done(x, z, w):
    asc.data_copy(ub(0), view(x), count=64)
    asc.adds(ub(0), ub(0), 1.0, count=64)
    store(z, ub(0))


@mistake("race")
def copying_out_before_the_result_is_there(x, z, w):
    load(ub(0), x)
    asc.adds(ub(256), ub(0), 1.0, count=64)
    asc.data_copy(view(z), ub(256), count=64)


@mistake("race")
def refilling_a_tile_that_is_still_read(x, z, w):
    for turn in range(2):
        asc.data_copy(ub(0), view(x)[turn * 64 :], count=64)
        ordered(E.MTE2_V)
        if turn:
            ordered(E.MTE3_V)
        asc.adds(ub(256), ub(0), 1.0, count=64)
        ordered(E.V_MTE3)
        asc.data_copy(view(z)[turn * 64 :], ub(256), count=64)


@mistake("race")
def overwriting_a_result_that_is_still_copied_out(x, z, w):
    load(ub(0), x)
    for turn in range(2):
        asc.adds(ub(256), ub(0), 1.0, count=64)
        ordered(E.V_MTE3)
        asc.data_copy(view(z)[turn * 64 :], ub(256), count=64)


@mistake("race")
def the_event_of_another_pair_of_pipes(x, z, w):
    load(ub(0), x)
    asc.data_copy(view(z), ub(0), count=64)


@mistake("race")
def the_two_pipes_of_the_event_swapped(x, z, w):
    asc.data_copy(ub(0), view(x), count=64)
    ordered(E.V_MTE2)
    asc.adds(ub(0), ub(0), 1.0, count=64)
    store(z, ub(0))


@mistake("race")
def a_flag_set_before_the_copy(x, z, w):
    asc.set_flag(E.MTE2_V, 0)
    asc.data_copy(ub(0), view(x), count=64)
    asc.wait_flag(E.MTE2_V, 0)
    asc.adds(ub(0), ub(0), 1.0, count=64)
    store(z, ub(0))


@mistake("race", strict=True)
def a_scalar_read_without_waiting_for_the_vector_unit(x, z, w):
    filled(0).get_value(3)


@mistake("race", strict=True)
def a_scalar_read_right_after_the_copy_in(x, z, w):
    asc.data_copy(ub(0), view(x), count=64)
    ub(0).get_value(0)


@mistake("race_in_pipe", strict=True)
def a_chain_of_vector_operations_without_a_barrier(x, z, w):
    asc.adds(ub(0), filled(0), 1.0, count=64)


@mistake("race_in_pipe", strict=True)
def two_copies_into_overlapping_bytes(x, z, w):
    asc.data_copy(ub(0), view(x), count=64)
    asc.data_copy(ub(128), view(x), count=64)


@mistake("wait_without_set")
def waiting_for_a_flag_that_nobody_sets(x, z, w):
    asc.wait_flag(E.MTE2_V, 0)


@mistake("wait_without_set")
def waiting_for_another_id(x, z, w):
    asc.set_flag(E.MTE2_V, 0)
    asc.wait_flag(E.MTE2_V, 1)


@mistake("flag_leaked")
def a_flag_that_nobody_waits_for(x, z, w):
    asc.set_flag(E.MTE3_V, 0)


@mistake("flag_set_twice")
def one_id_for_two_buffers(x, z, w):
    asc.set_flag(E.MTE2_V, 0)
    asc.set_flag(E.MTE2_V, 0)
    asc.wait_flag(E.MTE2_V, 0)


@mistake("event_id")
def an_id_that_does_not_exist(x, z, w):
    asc.set_flag(E.MTE2_V, 8)


@mistake("reserved_event")
def an_id_of_the_compiler(x, z, w):
    asc.set_flag(E.MTE2_V, 6)
    asc.wait_flag(E.MTE2_V, 6)


@mistake("barrier_scalar")
def a_barrier_on_the_scalar_pipe(x, z, w):
    asc.pipe_barrier(PIPE.PIPE_S)


# -- queues ------------------------------------------------------------------------------------------


@mistake("queue_empty")
def a_loop_that_never_frees(x, z, w):
    q = queue(buffers=2)
    for _ in range(3):
        q.enque(q.alloc_tensor(asc.float32))
        q.deque(asc.float32)


@mistake("deque_empty")
def deque_before_enque(x, z, w):
    q = queue()
    q.alloc_tensor(asc.float32)
    q.deque(asc.float32)


@mistake("enque_state")
def enque_twice(x, z, w):
    q = queue()
    tensor = q.alloc_tensor(asc.float32)
    q.enque(tensor)
    q.enque(tensor)


@mistake("free_twice")
def free_twice(x, z, w):
    q = queue()
    tensor = q.alloc_tensor(asc.float32)
    q.free_tensor(tensor)
    q.free_tensor(tensor)


@mistake("foreign_tensor")
def a_tensor_given_to_another_queue(x, z, w):
    pipe = asc.TPipe()
    first, second = queue(pipe=pipe), queue(POS.VECOUT, pipe=pipe)
    second.enque(first.alloc_tensor(asc.float32))


@mistake("queue_depth")
def more_enqueued_than_the_depth(x, z, w):
    q = queue(buffers=2)
    for _ in range(2):
        tensor = q.alloc_tensor(asc.float32)
        asc.data_copy(tensor, view(x), count=64)
        q.enque(tensor)
    for _ in range(2):
        q.free_tensor(q.deque(asc.float32))


@mistake("race queue_bypassed")
def no_enque_and_deque_between_copy_and_compute(x, z, w):
    q = queue()
    tensor = q.alloc_tensor(asc.float32)
    asc.data_copy(tensor, view(x), count=64)
    asc.adds(ub(4096), tensor, 1.0, count=64)
    q.free_tensor(tensor)


@mistake("queue_bypassed")
def one_of_two_inputs_without_its_queue(x, z, w):
    pipe = asc.TPipe()
    first, second = queue(pipe=pipe), queue(pipe=pipe)
    a = first.alloc_tensor(asc.float32)
    asc.data_copy(a, view(x), count=64)
    b = second.alloc_tensor(asc.float32)
    asc.data_copy(b, view(x), count=64)
    second.enque(b)
    b = second.deque(asc.float32)
    asc.add(ub(4096), a, b, count=64)
    first.free_tensor(a)
    second.free_tensor(b)


@mistake("queue_enqueued")
def a_tensor_used_between_enque_and_deque(x, z, w):
    q = queue(POS.VECOUT)
    tensor = q.alloc_tensor(asc.float32)
    asc.duplicate(tensor, 1.0, count=64)
    q.enque(tensor)
    asc.adds(tensor, tensor, 1.0, count=64)
    q.free_tensor(q.deque(asc.float32))


@mistake("queue_freed")
def a_tensor_used_after_free(x, z, w):
    q = queue()
    tensor = q.alloc_tensor(asc.float32)
    asc.data_copy(tensor, view(x), count=64)
    q.enque(tensor)
    tensor = q.deque(asc.float32)
    q.free_tensor(tensor)
    asc.adds(ub(4096), tensor, 1.0, count=64)


@mistake("queue_left")
def a_result_never_taken_out(x, z, w):
    q = queue(POS.VECOUT)
    tensor = q.alloc_tensor(asc.float32)
    asc.duplicate(tensor, 1.0, count=64)
    q.enque(tensor)


@mistake("too_many_buffers")
def more_than_64_buffers(x, z, w):
    pipe = asc.TPipe()
    for _ in range(5):
        queue(buffers=13, size=32, pipe=pipe)


@mistake("live_tensors")
def nine_tensors_of_one_position(x, z, w):
    pipe = asc.TPipe()
    for _ in range(9):
        queue(pipe=pipe).alloc_tensor(asc.float32)


# -- memory ------------------------------------------------------------------------------------------


@mistake("ub_overflow")
def double_buffers_counted_once(x, z, w):
    pipe = asc.TPipe()
    for _ in range(3):
        queue(buffers=2, size=64 * 1024 // 2, pipe=pipe)


@mistake("ub_overflow")
def the_whole_ub_without_the_reserved_part(x, z, w):
    queue(size=192 * 1024)


@mistake("ub_overflow")
def automatic_tensors_beyond_the_ub(x, z, w):
    asc.LocalTensorAuto(asc.float32, 48 * 1024)


@mistake("pool_overflow")
def more_than_a_pool_holds(x, z, w):
    pipe, pool = asc.TPipe(), asc.TBufPool(POS.VECCALC)
    pipe.init_buf_pool(pool, 1024)
    pool.init_buffer(asc.TQue(POS.VECIN, 1), 2, 1024)


@mistake("buffer_overflow", cores="AIC")
def l1_filled_beyond_its_end(x, z, w):
    queue(POS.A1, buffers=2, size=257 * 1024)


@mistake("tensor_range")
def a_count_in_bytes(x, z, w):
    asc.duplicate(ub(0), 1.0, count=256)


@mistake("tensor_range")
def a_buffer_length_in_elements(x, z, w):
    asc.duplicate(queue(POS.VECOUT, size=64).alloc_tensor(asc.float32), 1.0, count=64)


@mistake("tensor_range")
def a_scalar_read_past_the_end(x, z, w):
    filled(0).get_value(64)


@mistake("local_range")
def an_address_past_the_end_of_the_ub(x, z, w):
    asc.duplicate(ub(192 * 1024 - 128), 1.0, count=64)


@mistake("alignment")
def a_tile_that_starts_at_an_odd_element(x, z, w):
    asc.adds(ub(512), filled(0, 128)[3:], 1.0, count=64)


@mistake("gm_range")
def blocks_that_do_not_divide_the_array(x, z, w):
    asc.data_copy(ub(0, 256), view(x)[1024:], count=256)


@mistake("gm_spare")
def a_last_tile_as_long_as_the_others(x, z, w):
    asc.data_copy(ub(0), view(x)[1024 - 40 :], count=64)


@mistake("tail_lost")
def a_tail_that_is_no_multiple_of_32_bytes(x, z, w):
    asc.data_copy(ub(0), view(x), count=11)


@mistake("no_address")
def a_global_tensor_without_an_address(x, z, w):
    tensor = asc.GlobalTensor()
    tensor.dtype = asc.float32
    asc.data_copy(ub(0), tensor, count=64)


@mistake("undefined")
def a_sum_that_nobody_set_to_zero(x, z, w):
    load(ub(0), x)
    asc.add(ub(256), ub(256), ub(0), count=64)
    store(z, ub(256))


@mistake("undefined")
def a_new_tensor_taken_for_zeros(x, z, w):
    q = queue(POS.VECOUT)
    q.enque(q.alloc_tensor(asc.float32))
    tensor = q.deque(asc.float32)
    asc.data_copy(view(z), tensor, count=64)
    q.free_tensor(tensor)


@mistake("undefined")
def padded_lanes_in_a_reduction(x, z, w):
    load(ub(0), x, 40)
    asc.reduce_sum(ub(512), ub(0), ub(1024), count=64)


# -- vector operations -------------------------------------------------------------------------------


@mistake("dtype", x="int32")
def a_type_that_the_operation_does_not_have(x, z, w):
    tensor = ub(0, 64, asc.int32)
    load(tensor, x)
    asc.exp(tensor, tensor, count=64)


@mistake("dtype", x="int32")
def a_scaled_sum_of_integers(x, z, w):
    tensor = ub(0, 64, asc.int32)
    load(tensor, x)
    asc.axpy(tensor, tensor, 2, count=64)


@mistake("not_on_chip")
def a_scatter_on_this_chip(x, z, w):
    asc.scatter(ub(0), filled(256), ub(512, 64, asc.uint32), 0, count=64)


@mistake("mask")
def a_mask_of_128_for_float(x, z, w):
    asc.add(ub(0), filled(256), ub(256), mask=128, repeat_times=1, repeat_params=asc.BinaryRepeatParams())


@mistake("mask_empty")
def a_mask_that_selects_nothing(x, z, w):
    asc.add(ub(0), filled(256), ub(256), mask=[0, 0], repeat_times=1, repeat_params=asc.BinaryRepeatParams())


@mistake("alias")
def operands_that_overlap_in_part(x, z, w):
    asc.adds(ub(32, 128), filled(0, 256), 1.0, count=128)


@mistake("compare_tail")
def a_compare_that_is_not_a_multiple_of_256_bytes(x, z, w):
    asc.compare(ub(2048, 64, asc.uint8), filled(0, 128), filled(1024, 128), asc.CMPMODE.LT, count=72)


@mistake("merge")
def queues_of_the_wrong_length(x, z, w):
    scores = filled(0, 512)
    sources = asc.MrgSortSrcList(asc.float32, scores, scores[128:])
    asc.mrg_sort(filled(4096, 512), sources, asc.MrgSort4Info([5000, 32, 0, 0], False, 3, 1))


# -- control -----------------------------------------------------------------------------------------


@mistake("trap")
def a_trap(x, z, w):
    asc.trap()


@asc.jit
def a_loop_over_a_counter(x: asc.GlobalAddress, z: asc.GlobalAddress, w: asc.GlobalAddress):
    i = asc.number(0, asc.int32)
    while i < 4:
        i += 1


@asc.jit
def scaled(tensor: asc.LocalTensor, factor: asc.ConstExpr[float]):
    asc.muls(tensor, tensor, factor, count=64)


@asc.jit
def a_nested_function_with_another_constant(x: asc.GlobalAddress, z: asc.GlobalAddress, w: asc.GlobalAddress):
    tensor = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)
    asc.duplicate(tensor, 1.0, count=64)
    scaled(tensor, 2.0)
    scaled(tensor, 3.0)


mistake("while_frozen", kernel=True)(a_loop_over_a_counter)
mistake("nested_constants", kernel=True)(a_nested_function_with_another_constant)


# -- blocks ------------------------------------------------------------------------------------------


@mistake("race_blocks", blocks=4)
def the_offset_of_the_block_is_missing(x, z, w):
    store(z, filled(0, 64, float(asc.get_block_idx().value)))


@mistake("race_blocks", blocks=4)
def reading_a_neighbours_part_in_place(x, z, w):
    me = asc.get_block_idx()
    asc.data_copy(ub(0), view(x)[me * 32 :], count=64)
    ordered(E.MTE2_MTE3)
    asc.data_copy(view(x)[me * 32 :], ub(0), count=32)


@mistake("race_blocks", blocks=4)
def results_of_others_without_sync_all(x, z, w):
    store(z + asc.get_block_idx() * 64, filled(0))
    ordered(E.MTE3_MTE2)
    asc.data_copy(ub(256), view(z)[(asc.get_block_idx() + 1) % 4 * 64 :], count=64)


@mistake("race_blocks", blocks=4)
def a_sum_of_atomics_read_too_early(x, z, w):
    asc.set_atomic_add(asc.float32)
    store(z, filled(0))
    asc.set_atomic_none()
    ordered(E.MTE3_MTE2)
    if asc.get_block_idx() == 0:
        asc.data_copy(ub(256), view(z), count=64)


@mistake("race_blocks", blocks=4)
def a_cross_core_flag_on_the_wrong_pipe(x, z, w):
    store(z + asc.get_block_idx() * 64, filled(0))
    asc.cross_core_set_flag(0, 0, PIPE.PIPE_V)
    asc.cross_core_wait_flag(0, 0, PIPE.PIPE_V)
    asc.data_copy(ub(256), view(z)[(asc.get_block_idx() + 1) % 4 * 64 :], count=64)


@mistake("deadlock", blocks=4)
def sync_all_in_a_branch(x, z, w):
    if asc.get_block_idx() != 3:
        asc.sync_all()


@mistake("deadlock", blocks=4)
def one_sync_all_more_on_some_blocks(x, z, w):
    for _ in range(2 - asc.get_block_idx().value % 2):
        asc.sync_all()


@mistake("deadlock", blocks=64)
def more_blocks_than_cores(x, z, w):
    asc.sync_all()


@mistake("deadlock", blocks=2)
def each_waits_before_it_sets(x, z, w):
    me = asc.get_block_idx()
    asc.ib_wait(view(w), ub(0, 8, asc.int32), 1 - me, 0)
    asc.ib_set(view(w), ub(0, 8, asc.int32), me, 0)


@mistake("deadlock", blocks=2)
def a_wait_for_another_event(x, z, w):
    if asc.get_block_idx() == 0:
        asc.ib_set(view(w), ub(0, 8, asc.int32), 0, 0)
    else:
        asc.ib_wait(view(w), ub(0, 8, asc.int32), 0, 1)


@mistake("deadlock", blocks=2)
def notifying_without_having_a_turn(x, z, w):
    if asc.get_block_idx() == 1:
        asc.wait_pre_block(view(w), ub(0, 24, asc.int32))


@mistake("deadlock")
def a_flag_from_a_cube_core_that_is_not_there(x, z, w):
    asc.cross_core_wait_flag(1, 2, PIPE.PIPE_MTE2)


@mistake("cross_flag_id")
def a_cross_core_flag_beyond_10(x, z, w):
    asc.cross_core_set_flag(11, 0, PIPE.PIPE_MTE3)


@mistake("cross_flag_full")
def sixteen_sets_of_one_flag(x, z, w):
    for _ in range(16):
        asc.cross_core_set_flag(1, 0, PIPE.PIPE_MTE3)


@mistake("cross_flag_leaked", blocks=2)
def a_cross_core_flag_nobody_waits_for(x, z, w):
    asc.cross_core_set_flag(1, 0, PIPE.PIPE_MTE3)


@mistake("sync_workspace", blocks=2)
def a_workspace_with_something_in_it(x, z, w):
    asc.sync_all(view(w)[1:], ub(0, 16, asc.int32))


@mistake("sync_cores", blocks=2)
def the_chips_cores_instead_of_the_blocks(x, z, w):
    asc.sync_all(view(w), ub(0, 16, asc.int32), 48)


@mistake("tensor_range", blocks=4)
def scratch_for_one_core_only(x, z, w):
    asc.sync_all(view(w), ub(0, 8, asc.int32))


# -- the cube ----------------------------------------------------------------------------------------


def cube(skip=(), params=None, **addresses):
    """z = x . x of 16 x 16 float16 through the cube."""

    def body(x, z, w):
        a1 = asc.LocalTensor(asc.float16, POS.A1, 0, 256)
        a2 = asc.LocalTensor(asc.float16, POS.A2, addresses.get("a2", 0), 256)
        b2 = asc.LocalTensor(asc.float16, POS.B2, 0, 256)
        c = asc.LocalTensor(asc.float32, POS.CO1, 0, 256)
        asc.data_copy(a1, view(x), intri_params=asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
        if "MTE2_MTE1" not in skip:
            ordered(E.MTE2_MTE1)
        for target in (a2, b2):
            asc.load_data(target, a1, asc.LoadData2DParams(0, 1, 1, 0, 0, False, 0))
        if "MTE1_M" not in skip:
            ordered(E.MTE1_M)
        how = params or asc.MmadParams(16, 16, 16, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True)
        asc.mmad(c, a2, b2, how)
        if "M_FIX" not in skip:
            ordered(E.M_FIX)
        asc.fixpipe(view(z), c, asc.FixpipeParamsV220(16, 16, 16, 16))

    return body


def named(name, body):
    body.__name__ = name
    return body


mistake("race", cores="AIC", x="float16")(named("loading_before_the_copy_to_l1", cube(skip=("MTE2_MTE1",))))
mistake("race", cores="AIC", x="float16")(named("multiplying_before_the_loads", cube(skip=("MTE1_M",))))
mistake("race", cores="AIC", x="float16")(named("fixpipe_before_the_product", cube(skip=("M_FIX",))))
mistake("alignment", cores="AIC", x="float16")(named("l0a_not_at_a_fractal", cube(a2=64)))


@mistake("wrong_buffer", cores="AIC", x="float16")
def both_factors_in_l0a(x, z, w):
    tensor = asc.LocalTensor(asc.float16, POS.A2, 0, 256)
    how = asc.MmadParams(16, 16, 16, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True)
    asc.init_const_value(tensor, asc.InitConstValueParams(1, 1, 0, 1.0))
    asc.mmad(asc.LocalTensor(asc.float32, POS.CO1, 0, 256), tensor, tensor, how)


@mistake("mmad_empty", cores="AIC", x="float16")
def an_mmad_whose_parameters_come_out_empty(x, z, w):
    a, b = (asc.LocalTensor(asc.float16, where, 0, 256) for where in (POS.A2, POS.B2))
    asc.mmad(asc.LocalTensor(asc.float32, POS.CO1, 0, 256), a, b, asc.MmadParams(16, 16, 16))


@mistake("core_kind", cores="AIC")
def the_ub_on_a_cube_core(x, z, w):
    asc.data_copy(ub(0), view(x), count=64)


@mistake("core_kind")
def the_cube_on_a_vector_core(x, z, w):
    asc.data_copy(asc.LocalTensor(asc.float32, POS.A1, 0, 64), view(x), count=64)


@mistake("race_blocks", cores="MIX_1_2")
def a_vector_core_that_does_not_wait_for_its_cube_core(x, z, w):
    if asc.ascend_is_aic():
        _product_into(z)
    else:
        asc.data_copy(ub(0), view(z), count=64)


def _product_into(z):
    c = asc.LocalTensor(asc.float32, POS.CO1, 0, 256)
    a, b = (asc.LocalTensor(asc.float16, where, 0, 256) for where in (POS.A2, POS.B2))
    for tensor in (a, b):
        asc.init_const_value(tensor, asc.InitConstValueParams(1, 1, 0, 1.0))
    ordered(E.MTE1_M)
    asc.mmad(c, a, b, asc.MmadParams(16, 16, 16, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True))
    ordered(E.M_FIX)
    asc.fixpipe(view(z), c, asc.FixpipeParamsV220(16, 16, 16, 16))


def told(name):
    """The rules that a mistake breaks, warnings included, in the order found."""
    _rule, body, strict, blocks, cores, kind, kernel = MISTAKES[name]
    arrays = [np.ones(1024, kind), np.zeros(1024, "f4"), np.zeros(8 * 64, "i4")]
    if name == "a_workspace_with_something_in_it":
        arrays[2][1] = 3
    try:
        if kernel:
            result = emulate(body, blocks, *arrays)
        else:
            result = run_on_core(body, *arrays, blocks=blocks, cores=cores, sync="strict" if strict else "auto")
    except core.KernelFault as fault:
        return [fault.diagnosis]
    return [*result.diagnoses, *result.warnings]


def test_there_are_enough():
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_told(name):
    found = told(name)
    assert {each.rule for each in found} == {f"kernel.{rule}" for rule in MISTAKES[name][0].split()}
    for each in found:
        assert each.where is not None
        assert each.where.file == "test_corpus_of_mistakes.py"
        assert "{" not in each.text()
        assert each.remedy
