"""What the front end accepts and refuses, argument kinds, options, runtime scalars, names."""

import re

import numpy as np
import pytest
import torch

import cannlab.ascendc as asc
import cannlab.ascendc.lib.runtime as rt
from cannlab.ascendc.codegen.errors import CodegenError, UnsupportedSyntaxError
from cannlab.ascendc.language.core.struct import Field, Struct
from cannlab.ascendc.runtime import config
from cannlab.ascendc.runtime.jit import emulate
from cannlab.ascendc.runtime.launcher import KernelError
from cannlab.machine import machine
from cannlab.trace import TaskKind

G = asc.GlobalAddress


def helper(n):
    return n + 1


FACTOR = 3


@asc.jit
def put(z: asc.GlobalAddress, index: int, value):
    gm = asc.GlobalTensor()
    gm.set_global_buffer(z)
    gm.set_value(index, value)


# -- refused ------------------------------------------------------------------------------------------


@asc.jit
def k_break(z: G, n: int):
    for i in range(n):
        if i > 3:
            break


@asc.jit
def k_continue(z: G, n: int):
    for i in range(n):  # noqa: B007
        continue


@asc.jit
def k_chained(z: G, n: int):
    if 0 < n < 4:
        put(z, 0, 1)


@asc.jit
def k_three(z: G, n: int):
    if n > 1 and n > 2 and n > 3:
        put(z, 0, 1)


@asc.jit
def k_return_value(z: G, n: int):
    return n


@asc.jit
def k_return_inside(z: G, n: int):
    if n > 1:
        return


@asc.jit
def k_accumulate(z: G, n: int):
    acc = 0
    for i in range(n):
        acc += i
    put(z, 0, acc)


@asc.jit
def k_several_targets(z: G, n: int):
    a = b = n
    put(z, a, b)


@asc.jit
def k_lambda(z: G, n: int):
    f = lambda x: x  # noqa: E731
    put(z, 0, f(n))


@asc.jit
def k_comprehension(z: G, n: int):
    values = [i for i in range(3)]  # noqa: C416
    put(z, 0, values[0])


@asc.jit
def k_try(z: G, n: int):
    try:  # noqa: SIM105
        put(z, 0, n)
    except ValueError:
        pass


@asc.jit
def k_backwards(z: G, n: int):
    for i in range(8, 0, -1):
        put(z, i, i)


@asc.jit
def k_for_else(z: G, n: int):
    for i in range(n):
        put(z, i, i)
    else:
        put(z, 0, 1)


@asc.jit
def k_attribute(z: G, n: int):
    gm = asc.GlobalTensor()
    gm.size += 1


@asc.jit
def k_two_kinds(z: G, n: int, f: float):
    put(z, 0, n if n > 1 else f)


@asc.jit
def k_runtime_assert(z: G, n: int):
    assert n > 0, "positive"


@asc.jit
def k_with(z: G, n: int):
    with n:
        pass


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (k_break, "Break syntax is not supported in JIT function"),
        (k_continue, "Continue syntax is not supported"),
        (k_chained, "Chained comparisons"),
        (k_three, "Chained boolean"),
        (k_return_value, "JIT kernel function cannot return objects"),
        (k_return_inside, "Return statement is not allowed in nested blocks"),
        (
            k_accumulate,
            "'acc' was re-assigned to an object with different type: initial type is int, new type is PlainValue",
        ),
        (k_several_targets, "Multiple targets"),
        (k_lambda, "Lambda syntax is not supported"),
        (k_comprehension, "ListComp syntax is not supported"),
        (k_try, "Try syntax is not supported"),
        (k_backwards, "step -1"),
        (k_for_else, "For-else"),
        (k_attribute, "Attribute is not supported as left operand of AugAssign"),
        (k_two_kinds, "one type: int32 and float32"),
        (k_runtime_assert, "turned out to test a runtime value"),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_syntax_that_kernels_do_not_have(kernel, text):
    z = np.zeros(16, "i4")
    extra = (2.0,) if kernel is k_two_kinds else ()
    with pytest.raises(UnsupportedSyntaxError, match=re.escape(text)) as caught:
        kernel[1](z, 3, *extra)
    assert isinstance(caught.value, CodegenError)
    assert caught.value.place.file == "test_asc_frontend.py"
    assert not z.any()
    assert len(machine().record.tasks) == 0


def test_the_message_names_file_line_and_shows_the_code():
    with pytest.raises(UnsupportedSyntaxError) as caught:
        k_break[1](np.zeros(4, "i4"), 3)
    text = str(caught.value)
    line = caught.value.place.line
    with open(__file__) as file:
        assert file.read().splitlines()[line - 1].strip() == "break"
    assert text.startswith(f"at test_asc_frontend.py:{line}:12:")
    assert "            break\n            ^\n" in text


@asc.jit
def k_print(z: G, n: int):
    print(n)


@asc.jit
def k_max(z: G, n: int):
    put(z, 0, max(n, 3))


@asc.jit
def k_unknown(z: G, n: int):
    put(z, 0, undefined_name)  # noqa: F821


@asc.jit
def k_after_loop(z: G, n: int):
    for i in range(n):
        last = i
    put(z, 0, last)


@asc.jit
def k_loop_variable(z: G, n: int):
    for i in range(n):
        put(z, i, i)
    put(z, 0, i)


@asc.jit
def k_after_if(z: G, n: int):
    if n > 2:
        found = n
    put(z, 0, found)


@asc.jit
def k_power(z: G, n: int):
    put(z, 0, n**2)


@asc.jit
def k_int(z: G, n: int):
    put(z, 0, int(n))


@asc.jit
def k_constants(z: G, n: int):
    if True and False:  # noqa: SIM223
        put(z, 0, 1)


@asc.jit
def k_assert(z: G, n: int):
    assert FACTOR == 4, "factor must be 4"


@asc.jit
def k_over_list(z: G, n: int):
    for i in (1, 2):
        put(z, 0, i)


@asc.jit
def k_static(z: G, n: int):
    for i in asc.static_range(n):
        put(z, i, i)


@asc.jit
def k_recursive(z: G, n: int):
    inner_recursive(z, n)


@asc.jit
def inner_recursive(z: G, n: int):
    inner_recursive(z, n)


@asc.jit
def k_negative_float(z: G, n: int, f: float):
    put(z, 0, (-f) + 1.0)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (k_print, "NameError: print is not defined"),
        (k_max, "NameError: max is not defined"),
        (k_unknown, "NameError: undefined_name is not defined"),
        (k_after_loop, "NameError: last is not defined"),
        (k_loop_variable, "NameError: i is not defined"),
        (k_after_if, "NameError: found is not defined"),
        (k_power, "NotImplementedError: **"),
        (k_int, "TypeError: int()"),
        (k_constants, "AttributeError: 'bool' object has no attribute 'logical_and'"),
        (k_assert, "AssertionError: factor must be 4"),
        (k_over_list, "AttributeError: 'tuple' object"),
        (k_static, "TypeError: static_range"),
        (k_recursive, "KeyError"),
        (k_with, "AttributeError: 'PlainValue' object has no attribute '__enter__'"),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_what_fails_in_code_generation(kernel, text):
    with pytest.raises(CodegenError, match=re.escape(text)) as caught:
        kernel[1](np.zeros(16, "i4"), 3)
    assert not isinstance(caught.value, UnsupportedSyntaxError)


def test_the_negative_of_a_float_is_unusable():
    with pytest.raises(CodegenError, match="RawHandle"):
        k_negative_float[1](np.zeros(4, "f4"), 1, 2.0)


@asc.jit
def k_if_number(z: G, n: int):
    k = 1
    if n > 4:
        k = 2
    put(z, 0, k)


@asc.jit
def k_unsigned(z: G, n: np.uint32):
    if n > 4:
        put(z, 0, 1)


@asc.jit
def k_while_number(z: G, n: int):
    i = 0
    while i < 3:
        i += 1


@pytest.mark.parametrize("kernel", [k_if_number, k_unsigned, k_while_number], ids=lambda k: k.name)
def test_what_the_verifier_refuses(kernel):
    argument = np.uint32(5) if kernel is k_unsigned else 5
    with pytest.raises(RuntimeError, match="Failed to run passes"):
        kernel[1](np.zeros(4, "i4"), argument)


def test_plain_helpers_and_closures():
    @asc.jit
    def uses_helper(z: G, n: int):
        put(z, 0, helper(n))

    with pytest.raises(RuntimeError, match="Unsupported function referenced: <function helper"):
        uses_helper[1](np.zeros(4, "i4"), 1)

    captured = 7

    @asc.jit
    def uses_closure(z: G, n: int):
        put(z, 0, captured)

    with pytest.raises(CodegenError, match="NameError: captured is not defined"):
        uses_closure[1](np.zeros(4, "i4"), 1)


# -- accepted -----------------------------------------------------------------------------------------


@asc.jit
def k_arithmetic(z: G, n: int, f: float):
    put(z, 0, n / 2)
    put(z, 1, (0 - n) / 2)
    put(z, 2, (0 - n) // 2)
    put(z, 3, (0 - n) % 3)
    put(z, 4, n * 1.9)
    put(z, 5, (0 - n) >> 1)
    put(z, 6, n << 30)
    put(z, 7, asc.ceildiv(n, 2))
    put(z, 8, n.ceildiv(4))
    put(z, 9, FACTOR // 2)
    put(z, 10, n * f)
    put(z, 11, n if n > 3 else 1)
    put(z, 12, n + 2147483647)
    put(z, 13, 7 - n)
    put(z, 14, n & 4 | 1 ^ 3)


def test_integers_are_those_of_c():
    z = np.zeros(16, "i4")
    k_arithmetic[1](z, 5, 2.5)
    wanted = [2, -2, -2, -2, 5, -3, 5 * 2**30 - 2**32, 3, 2, 1, 10, 5, 5 - 2**31 - 1, 2, 4 | 2]
    assert z[:15].tolist() == wanted


@asc.jit
def k_flow(z: G, n: int):
    total = asc.number(0, asc.int32)
    for i in range(1, n, 2):
        total += i
        if i > 2 and i < 6:
            total = total + 100
        else:
            if not i < 6:
                total = total + 1000
    for j in asc.static_range(3):
        put(z, j, j * FACTOR)
    if FACTOR == 3:  # noqa: SIM108
        chosen = 5
    else:
        chosen = missing_everywhere  # noqa: F821
    put(z, 3, chosen)
    put(z, 4, total)


def test_loops_and_branches():
    z = np.zeros(8, "i4")
    k_flow[1](z, 9)
    assert z.tolist() == [0, 3, 6, 5, 16 + 200 + 1000, 0, 0, 0]


@asc.jit
def k_array(z: G, n: int):
    a = asc.array(asc.int32, [1, 2, 3])
    i = asc.array(asc.int32, 1, 0)
    while i[0] < n:
        a[1] = a[1] + i[0]
        i[0] = i[0] + 1
    put(z, 0, a[1])
    put(z, 1, len(a))


@asc.jit
def k_frozen(z: G, n: int):
    i = asc.number(0, asc.int32)
    while i < n:
        i += 1


def test_while_reads_memory_or_never_ends():
    z = np.zeros(4, "i4")
    k_array[1](z, 4)
    assert z[:2].tolist() == [2 + 0 + 1 + 2 + 3, 3]
    with pytest.raises(KernelError, match="returned 507014") as caught:
        k_frozen[1](z, 4)
    assert caught.value.diagnosis.rule == "kernel.while_frozen"
    k_frozen[1](z, 0)


@asc.jit
def pair(a, b):
    return a + b, a - b


@asc.jit
def scaled(x, factor: int = 10):
    return x * factor


@asc.jit
def k_nested(z: G, n: int):
    s, d = pair(n, b=2)
    put(z, 0, s)
    put(z, 1, d)
    put(z, 2, scaled(n))
    put(z, 3, scaled(n, 2))


def test_nested_functions():
    z = np.zeros(4, "i4")
    k_nested[1](z, 5)
    assert z.tolist() == [7, 3, 50, 10]


@asc.jit
def constant(z: G, at: int, value: asc.ConstExpr[int]):
    put(z, at, value)


@asc.jit
def k_constant_twice(z: G):
    constant(z, 0, 1)
    constant(z, 1, 2)


def test_a_nested_function_is_compiled_once():
    z = np.zeros(2, "i4")
    k_constant_twice[1](z)
    assert z.tolist() == [1, 1]
    assert [fault["rule"] for fault in machine().record.faults] == ["kernel.nested_constants"]


@asc.jit
def k_const(z: G, n: asc.ConstExpr[int], kind: asc.ConstExpr = asc.int32):
    put(z, 0, n + 1)


def test_constexpr_parameters():
    z = np.zeros(2, "i4")
    k_const[1](z, 4, asc.int32)
    assert z[0] == 5
    with pytest.raises(
        RuntimeError, match=re.escape("ConstExpr[] is required for 'n' argument, float was provided: 2.5")
    ):
        k_const[1](z, 2.5, asc.int32)


@asc.jit
def k_default(z: G, m: int = 3):
    put(z, 0, m)


def test_defaults_of_a_kernel_are_not_applied():
    with pytest.raises(CodegenError, match="NameError: m is not defined"):
        k_default[1](np.zeros(2, "i4"))


# -- launch -------------------------------------------------------------------------------------------


@asc.jit
def k_block(z: G):
    put(z, asc.get_block_idx(), asc.get_block_idx() + asc.get_block_num() * 100)


def test_launch_options():
    z = np.zeros(8, "i4")
    k_block[3](z)
    assert z.tolist() == [300, 301, 302, 0, 0, 0, 0, 0]
    k_block[2, rt.current_stream()](z)
    assert z[:2].tolist() == [200, 201]
    for bad in ("8", (1, 2, 3), 1.5, ()):
        with pytest.raises(TypeError, match="Parse user launch options failed"):
            k_block[bad]
    with pytest.raises(ValueError, match="Core number should be large than 0"):
        k_block[0](z)
    with pytest.raises(TypeError, match="missing a required argument"):
        k_block[1]()
    with pytest.raises(TypeError):
        k_block[1](z, 2)
    assert k_block[1](z=z) is None


def test_calls_without_brackets_run_on_the_host():
    with pytest.raises(
        RuntimeError, match=re.escape("'get_block_idx' cannot be called without initialization of global builder")
    ):
        k_block(np.zeros(2, "i4"))
    with pytest.raises(RuntimeError, match="'add' cannot be called without"):
        asc.add(1, 2, 3, count=4)


def test_options_of_the_decorator():
    with pytest.raises(RuntimeError, match="The following option names are unknown: fast"):
        asc.jit(fast=True)(k_block.fn)

    def clash(stream):
        pass

    with pytest.raises(RuntimeError, match="argument names conflict with JIT configuration options"):
        asc.jit(clash)
    with pytest.raises(TypeError, match="unexpected keyword argument 'core_num'"):
        asc.jit(core_num=4)(k_block.fn)[1](np.zeros(2, "i4"))
    with pytest.raises(RuntimeError, match="Please check input compile option"):
        k_block[1](np.zeros(2, "i4"), opt_level=7)
    with pytest.raises(AttributeError):
        asc.jit(lambda x: x)


@asc.jit
def k_scalar(z: G, value):
    put(z, 0, value)


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        ("i4", True, 1),
        ("i4", -7, -7),
        ("f4", 0.1, np.float32(0.1)),
        ("i8", np.int64(1 << 40), 1 << 40),
        ("f2", np.float16(0.1), np.float16(0.1)),
        ("f8", np.float64(0.1), 0.1),
        ("u1", np.uint8(200), 200),
    ],
)
def test_scalar_arguments(dtype, value, wanted):
    z = np.zeros(4, dtype)
    k_scalar[1](z, value)
    assert z[0] == wanted


@pytest.mark.parametrize("value", ["text", None, [1], (1,), {}], ids=repr)
def test_arguments_that_kernels_do_not_take(value):
    with pytest.raises(TypeError, match="Argument type in JIT function is not supported"):
        k_scalar[1](np.zeros(4, "f4"), value)


@pytest.mark.parametrize("array", [np.zeros(4, bool), np.zeros(4, complex), torch.zeros(4, dtype=torch.bfloat16)])
def test_element_types_that_pyasc_lacks(array):
    with pytest.raises(CodegenError, match="ValueError: Unsupported DataType name"):
        k_block[1](array)


def test_torch_tensors_and_strided_arrays():
    tensor = torch.zeros(4, dtype=torch.int32)
    k_block[2](tensor)
    assert tensor.tolist() == [200, 201, 0, 0]
    array = np.zeros((2, 2), "i4", order="C")
    k_block[4](array)
    assert array.tolist() == [[400, 401], [402, 403]]


@asc.jit
def k_same_array(a: G, b: G):
    put(a, 0, 1)
    put(b, 1, 2)


def test_an_array_passed_twice_has_two_copies_and_the_last_wins():
    z = np.zeros(2, "i4")
    k_same_array[1](z, z)
    assert z.tolist() == [0, 2]


class Sizes(Struct):
    rows = Field(asc.int32)
    factor = Field(asc.float32, default=0.5)


@asc.jit
def k_struct(z: G, sizes):
    put(z, asc.get_block_idx(), sizes.rows / 2)
    sizes.rows = 100


def test_structs_are_copied_in():
    sizes = Sizes(rows=9)
    z = np.zeros(2, "i4")
    k_struct[2](z, sizes)
    assert z.tolist() == [4, 4]
    assert sizes.rows == 9
    assert sizes.factor == 0.5
    assert len(sizes.pack()) == 8
    with pytest.raises(RuntimeError, match="rows"):
        Sizes()


def test_the_machine_holds_the_whole_launch():
    z = np.zeros(64, "i4")
    k_block[2](z)
    record = machine().record
    rows = list(record.tasks.rows())
    assert [TaskKind(row["kind"]) for row in rows] == [TaskKind.COPY_H2D, TaskKind.KERNEL, TaskKind.COPY_D2H]
    kernel = rows[1]
    assert record.strings[kernel["name"]] == "k_block"
    assert kernel["blocks"] == 2
    assert rows[0]["end"] <= kernel["start"] < kernel["end"] <= rows[2]["start"]
    assert record.kernels[kernel["kernel"]].meta["name"] == "k_block"
    assert machine().thread.now >= rows[2]["end"]
    assert {call["code"] for call in record.calls.rows()} == {0}


@asc.jit
def k_unaligned(z: G):
    a = asc.LocalTensor(asc.int32, asc.TPosition.VECIN, 4, 8)
    asc.duplicate(a, 1, count=8)


def test_a_fault_raises_like_a_driver_error():
    z = np.full(8, 5, "i4")
    with pytest.raises(RuntimeError, match="Function rtStreamSynchronize returned 507015") as caught:
        k_unaligned[1](z)
    found = caught.value.diagnosis
    assert found.rule == "kernel.alignment"
    with open(__file__) as file:
        assert "asc.duplicate(a, 1, count=8)" in file.read().splitlines()[found.where.line - 1]
    assert (z == 5).all()
    assert [fault["rule"] for fault in machine().record.faults] == ["kernel.alignment"]
    assert [call["code"] for call in machine().record.calls.rows()] == [507015]
    k_block[1](z)
    assert z[0] == 100


@asc.jit
def k_uncaught(z: G):
    asc.exp(z, z, length=64)


def test_a_call_that_no_overload_takes():
    with pytest.raises(
        CodegenError, match=re.escape("RuntimeError: No viable candidates were found to dispatch exp()")
    ) as caught:
        k_uncaught[1](np.zeros(4, "f4"))
    assert "candidates" in str(caught.value)


@asc.jit
def k_later(z: G):
    asc.adv.get_matmul_api_tiling(z, z, z, z, z)


def test_what_is_not_emulated_yet_names_itself():
    with pytest.raises(CodegenError, match=r"NotImplementedError: asc\.adv\.get_matmul_api_tiling is not emulated yet"):
        k_later[1](np.zeros(4, "f4"))


def test_a_kernel_without_the_machine():
    z = np.zeros(4, "i4")
    result = emulate(k_block, 2, z)
    assert result.outputs[0].view("i4").tolist() == [200, 201, 0, 0]
    assert not z.any()
    assert result.timing.ns > 0
    assert result.diagnoses == []
    assert len(machine().record.tasks) == 0


def test_dry_run(monkeypatch):
    monkeypatch.setenv("DRY_RUN", "1")
    z = np.zeros(2, "i4")
    k_block[0](z)
    assert not z.any()


# -- platform, names ----------------------------------------------------------------------------------


@pytest.fixture
def no_platform(monkeypatch):
    for name in ("backend", "platform"):
        monkeypatch.setattr(config.Chosen, name, None)


def test_platforms(no_platform):
    assert not rt.is_model()
    with pytest.raises(ValueError, match="'CPU' is not a valid Backend"):
        config.set_platform("CPU")
    config.set_platform(config.Backend.Model)
    assert rt.is_model()
    assert rt.get_soc_version() is config.Platform.Ascend910B1
    config.set_platform("Model", config.Platform.Ascend910B4)
    z = np.zeros(2, "i4")
    k_block[1](z)
    assert machine().record.kernels[-1].meta["soc"] == "Ascend910B4"
    with pytest.raises(ValueError, match="is different from actual"):
        config.set_platform(config.Backend.NPU, config.Platform.Ascend910B4)
    config.set_platform(config.Backend.NPU)
    assert rt.current_platform() == "Ascend910B1"


def test_streams_of_the_runtime():
    stream = rt.create_stream()
    z = np.zeros(2, "i4")
    k_block[1, stream](z)
    rt.synchronize(stream)
    rt.destroy_stream(stream)
    with pytest.raises(RuntimeError, match="returned 107003"):
        k_block[1, stream](z)
    with pytest.raises(RuntimeError):
        rt.check_device_handle(-1)
    assert rt.device_count() == 1
    with pytest.raises(RuntimeError, match="107001"):
        rt.set_device(5)


def test_data_types():
    assert asc.half == asc.float16
    assert asc.float32.sizeof() == 4
    assert asc.DataType("int_").name == "int32"
    assert str(asc.uint8) == "uint8"
    with pytest.raises(TypeError):
        hash(asc.int32)
    with pytest.raises(ValueError, match="Unsupported DataType name: bfloat16"):
        asc.DataType("bfloat16")


@asc.jit
def k_printf(z: G, n: int):
    asc.printf("n = %d, half = %.2f, %s\\n", n, 0.5, "text")
    gm = asc.GlobalTensor()
    gm.set_global_buffer(z)
    asc.dump_tensor(gm, 3, 4)


def test_printing(capsys):
    k_printf[1](np.arange(4, dtype="i4"), 12)
    out = capsys.readouterr().out
    assert "n = 12, half = 0.50, text\n" in out
    assert "desc=3" in out
    assert "[0, 1, 2, 3]" in out


def test_queue_construction():
    @asc.jit
    def no_depth(z: G):
        asc.TQue(asc.TPosition.VECIN)

    @asc.jit
    def two_pipes(z: G):
        asc.TPipe()
        asc.TPipe()

    @asc.jit
    def buffer_len(z: G):
        pipe = asc.TPipe()
        buf = asc.TBuf(asc.TPosition.VECCALC)
        pipe.init_buffer(buf, len=1024)

    @asc.jit
    def offset(z: G):
        pipe = asc.TPipe()
        buf = asc.TBuf(asc.TPosition.VECCALC)
        pipe.init_buffer(buf=buf, num=1000)
        whole = buf.get(asc.float32)
        put(z, 0, whole.get_size().cast(asc.int32))
        part = buf.get_with_offset(8, 64, asc.float32)
        put(z, 1, part.get_phy_addr().cast(asc.int32))
        buf.get_with_offset(8, 20, asc.float32)

    z = np.zeros(4, "i4")
    with pytest.raises(CodegenError, match="RuntimeError: depth"):
        no_depth[1](z)
    with pytest.raises(CodegenError, match="TPipe instance is already created"):
        two_pipes[1](z)
    with pytest.raises(CodegenError, match="No viable candidates were found to dispatch init_buffer"):
        buffer_len[1](z)
    with pytest.raises(CodegenError, match="ValueError: buf_offset"):
        offset[1](z)


def test_slices_of_tensors():
    @asc.jit
    def whole(z: G):
        gm = asc.GlobalTensor()
        gm.set_global_buffer(z)
        gm[:]

    @asc.jit
    def part(z: G):
        gm = asc.GlobalTensor()
        gm.set_global_buffer(z)
        gm[0:4]

    with pytest.raises(CodegenError, match="TypeError"):
        whole[1](np.zeros(4, "i4"))
    with pytest.raises(CodegenError, match="RuntimeError"):
        part[1](np.zeros(4, "i4"))


def test_addresses_only_move_forward():
    address = asc.GlobalAddress(0, asc.float32, 0)
    assert (address + 3).offset == 12
    for bad in (lambda: address - 1, lambda: 1 + address, lambda: address[0]):
        with pytest.raises(TypeError):
            bad()
