"""What the official front end refuses is refused here, with file and line, before the kernel runs.

The comparison with the official front end itself is in ``test_asc_official.py``: it records these kernels too.
"""

import numpy as np
import pytest

import cannlab.ascendc as asc
from cannlab.ascendc.codegen.errors import CodegenError
from cannlab.ascendc.runtime.jit import JITFunction
from cannlab.machine import machine

G = asc.GlobalAddress
VECIN = asc.TPosition.VECIN
TABLE = {"a": 1}


def plain(n):
    return n + 1


@asc.jit
def touch(z: G, value):
    gm = asc.GlobalTensor()
    gm.set_global_buffer(z)
    gm.set_value(0, value)


class Kernels:
    """Each is refused; arguments are an array, an int and a float."""

    @staticmethod
    @asc.jit
    def swapped_queue_arguments(z: G, n: int, f: float):
        asc.TQue(1, VECIN)

    @staticmethod
    @asc.jit
    def queue_depth_at_run_time(z: G, n: int, f: float):
        asc.TQue(VECIN, n)

    @staticmethod
    @asc.jit
    def count_as_float(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.exp(a, a, count=64.0)

    @staticmethod
    @asc.jit
    def wrong_keyword(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.exp(a, a, length=64)

    @staticmethod
    @asc.jit
    def repeats_by_another_name(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.exp(a, a, mask=64, repeat=1, repeat_params=asc.UnaryRepeatParams(1, 1, 8, 8))

    @staticmethod
    @asc.jit
    def mask_as_tuple(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.exp(a, a, mask=(1, 0), repeat_times=1, repeat_params=asc.UnaryRepeatParams(1, 1, 8, 8))

    @staticmethod
    @asc.jit
    def literal_repeats_above_127(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64 * 200)
        asc.exp(a, a, mask=64, repeat_times=200, repeat_params=asc.UnaryRepeatParams(1, 1, 8, 8))

    @staticmethod
    @asc.jit
    def two_types(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        b = asc.LocalTensor(asc.int32, VECIN, 256, 64)
        asc.add(a, a, b, count=64)

    @staticmethod
    @asc.jit
    def type_that_add_lacks(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.uint8, VECIN, 0, 64)
        asc.add(a, a, a, count=64)

    @staticmethod
    @asc.jit
    def wrong_call_in_a_branch_not_taken(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        if n > 1000:
            asc.exp(a, a, length=64)

    @staticmethod
    @asc.jit
    def wrong_call_in_the_other_branch(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        if n < 1000:
            touch(z, 1)
        else:
            asc.exp(a)

    @staticmethod
    @asc.jit
    def wrong_call_in_a_loop_that_never_runs(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        for i in asc.range(n - n):
            asc.duplicate(a, i)

    @staticmethod
    @asc.jit
    def unknown_operation(z: G, n: int, f: float):
        asc.softmax_of_mine(z)

    @staticmethod
    @asc.jit
    def pipe_buffer_len(z: G, n: int, f: float):
        pipe = asc.TPipe()
        buf = asc.TBuf(asc.TPosition.VECCALC)
        pipe.init_buffer(buf, len=1024)

    @staticmethod
    @asc.jit
    def too_few_for_init_buffer(z: G, n: int, f: float):
        pipe = asc.TPipe()
        que = asc.TQue(VECIN, 1)
        pipe.init_buffer(que, 1024)

    @staticmethod
    @asc.jit
    def second_pipe(z: G, n: int, f: float):
        asc.TPipe()
        asc.TPipe()

    @staticmethod
    @asc.jit
    def alloc_without_type(z: G, n: int, f: float):
        pipe = asc.TPipe()
        que = asc.TQue(VECIN, 1)
        pipe.init_buffer(que, 1, 1024)
        que.alloc_tensor()

    @staticmethod
    @asc.jit
    def arithmetic_on_tensors(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        touch(z, a + a)

    @staticmethod
    @asc.jit
    def tensor_item_assignment(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        a[0] = 1.0

    @staticmethod
    @asc.jit
    def slice_with_end(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.exp(a[0:32], a, count=32)

    @staticmethod
    @asc.jit
    def address_minus(z: G, n: int, f: float):
        touch(z - 1, 1)

    @staticmethod
    @asc.jit
    def address_index(z: G, n: int, f: float):
        touch(z[1], 1)

    @staticmethod
    @asc.jit
    def global_buffer_of_a_number(z: G, n: int, f: float):
        gm = asc.GlobalTensor()
        gm.set_global_buffer(n)

    @staticmethod
    @asc.jit
    def numpy_call(z: G, n: int, f: float):
        touch(z, np.sqrt(2.0))

    @staticmethod
    @asc.jit
    def plain_function(z: G, n: int, f: float):
        touch(z, plain(n))

    @staticmethod
    @asc.jit
    def printing(z: G, n: int, f: float):
        print(n)

    @staticmethod
    @asc.jit
    def enumerated(z: G, n: int, f: float):
        for i, j in enumerate((1, 2)):
            touch(z, i + j)

    @staticmethod
    @asc.jit
    def walrus(z: G, n: int, f: float):
        if (k := n) > 1:
            touch(z, k)

    @staticmethod
    @asc.jit
    def nested_definition(z: G, n: int, f: float):
        def inner(x):
            return x

        touch(z, inner(n))

    @staticmethod
    @asc.jit
    def dictionary(z: G, n: int, f: float):
        d = {"a": 1}
        touch(z, d["a"])

    @staticmethod
    @asc.jit
    def starred(z: G, n: int, f: float):
        args = (z, 1)
        touch(*args)

    @staticmethod
    @asc.jit
    def deleted(z: G, n: int, f: float):
        a = n
        del a

    @staticmethod
    @asc.jit
    def raising(z: G, n: int, f: float):
        raise ValueError("no")

    @staticmethod
    @asc.jit
    def imports(z: G, n: int, f: float):
        import math  # noqa: F401

    @staticmethod
    @asc.jit
    def reassigned_type(z: G, n: int, f: float):
        a = asc.number(1, asc.int32)
        for i in range(n):
            a = asc.number(1.0, asc.float32)
            touch(z, i)
        touch(z, a)

    @staticmethod
    @asc.jit
    def list_target(z: G, n: int, f: float):
        [a, b] = (1, 2)
        touch(z, a + b)

    @staticmethod
    @asc.jit
    def in_operator(z: G, n: int, f: float):
        if n in (1, 2):
            touch(z, 1)

    @staticmethod
    @asc.jit
    def inverted(z: G, n: int, f: float):
        touch(z, ~n)

    @staticmethod
    @asc.jit
    def not_constant(z: G, n: int, f: float):
        if not True:
            touch(z, 1)

    @staticmethod
    @asc.jit
    def int_plus_none(z: G, n: int, f: float):
        touch(z, n + None)

    @staticmethod
    @asc.jit
    def too_many_arguments(z: G, n: int, f: float):
        touch(z, 1, 2)

    @staticmethod
    @asc.jit
    def string_argument(z: G, n: int, f: float):
        touch(z, "text")

    @staticmethod
    @asc.jit
    def assertion_without_message(z: G, n: int, f: float):
        assert 1 > 2

    @staticmethod
    @asc.jit
    def static_assertion(z: G, n: int, f: float):
        asc.static_assert(2 < 1, "no")

    @staticmethod
    @asc.jit
    def barrier_of_nothing(z: G, n: int, f: float):
        asc.pipe_barrier()

    @staticmethod
    @asc.jit
    def copy_without_count(z: G, n: int, f: float):
        gm = asc.GlobalTensor()
        gm.set_global_buffer(z)
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.data_copy(a, gm)

    @staticmethod
    @asc.jit
    def copy_of_a_number(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.data_copy(a, n, count=64)

    @staticmethod
    @asc.jit
    def cast_without_mode(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        b = asc.LocalTensor(asc.float16, VECIN, 256, 64)
        asc.cast(b, a, count=64)

    @staticmethod
    @asc.jit
    def scalar_of_a_tensor(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.adds(a, a, a, count=64)

    @staticmethod
    @asc.jit
    def reduce_without_tmp(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
        asc.reduce_sum(a, a, count=64)

    @staticmethod
    @asc.jit
    def int32_into_half(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.float16, VECIN, 0, 64)
        asc.adds(a, a, n, count=64)

    @staticmethod
    @asc.jit
    def float_into_int16(z: G, n: int, f: float):
        a = asc.LocalTensor(asc.int16, VECIN, 0, 64)
        asc.duplicate(a, f, count=64)

    @staticmethod
    @asc.jit
    def int64_into_float32(z: G, n: int, f: float):
        touch(z, asc.get_system_cycle())

    @staticmethod
    @asc.jit
    def float_to_int64(z: G, n: int, f: float):
        touch(z, f.cast(asc.int64))

    @staticmethod
    @asc.jit
    def comparison_as_number(z: G, n: int, f: float):
        touch(z, n < 3)

    @staticmethod
    @asc.jit
    def unsigned_to_unsigned(z: G, n: int, f: float):
        a = asc.number(1, asc.uint32)
        touch(z, a.cast(asc.uint64).cast(asc.int32))

    @staticmethod
    @asc.jit
    def unhashable_dtype(z: G, n: int, f: float):
        a = asc.LocalTensor("float32", VECIN, 0, 64)
        asc.exp(a, a, count=64)

    @staticmethod
    @asc.jit
    def bare_counter_carried(z: G, n: int, f: float):
        before = asc.number(0, asc.int32)
        for i in asc.range(n):
            touch(z, before)
            before = i


KERNELS = {name: value.__func__ for name, value in vars(Kernels).items() if isinstance(value, staticmethod)}


@pytest.mark.parametrize("name", KERNELS)
def test_refused_before_it_runs(name):
    kernel = KERNELS[name]
    assert isinstance(kernel, JITFunction)
    z = np.zeros(64, "f4")
    with pytest.raises((CodegenError, RuntimeError)) as caught:
        kernel[1](z, 3, 2.0)
    assert len(machine().record.calls) == 0, "the kernel was launched"
    if isinstance(caught.value, CodegenError):
        place = caught.value.place
        assert place is not None
        assert place.file == "test_asc_refused.py"
        first = kernel._source().first if place.function != "touch" else touch._source().first
        assert first <= place.line <= first + 12


@asc.jit
def float_bounds(z: G, n: int, f: float):
    total = asc.number(0, asc.int32)
    for i in asc.range(f):
        total += i + 1
    for i in asc.range(10 / 4):
        total += i + 100
    touch(z, total)


def test_a_float_bound_is_cut():
    z = np.zeros(64, "f4")
    float_bounds[1](z, 3, 3.9)
    assert z[0] == 1 + 2 + 3 + 100 + 101
