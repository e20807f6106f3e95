"""The Matmul object: products against numpy, forms, synchronisation with the cube core, refusals."""

import numpy as np
import pytest
from matmul_kernels import NZ, batch, blocks, filled, from_ub, later, leaky, quantised, tiles, whole

import cannlab.ascendc as asc
from cannlab.ascendc.lib import host
from cannlab.ascendc.runtime import config
from cannlab.ascendc.runtime.jit import emulate
from cannlab.machine import core, machine
from cannlab.machine.core.opcodes import ROWS, Kind
from cannlab.machine.core.soundness import check

TYPES = {"float16": host.DataType.DT_FLOAT16, "float32": host.DataType.DT_FLOAT, "int8": host.DataType.DT_INT8}
WORK = np.zeros(64, "u1")


def cut(m, n, k, dtype="float16", dim=1, bias=False, fix=(-1, -1, -1), **fields):
    """A tiling from the host's rule; fields replaced by hand."""
    made = host.MultiCoreMatmulTiling(host.get_ascendc_platform())
    made.set_dim(dim)
    gm, nd = host.TPosition.GM, host.CubeFormat.ND
    made.set_a_type(gm, nd, TYPES[dtype], False)
    made.set_b_type(gm, nd, TYPES[dtype], False)
    made.set_org_shape(m, n, k)
    made.set_shape(m, n, k)
    made.enable_bias(bias)
    made.set_fix_split(*fix)
    tiling = asc.adv.TCubeTiling()
    assert made.get_tiling(tiling) == 0
    for name, value in fields.items():
        setattr(tiling, name, value)
    return tiling


def numbers(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    if dtype == "int8":
        return rng.integers(-8, 9, shape).astype(dtype)
    return rng.integers(-8, 9, shape).astype(dtype) / 4


def to_nz(matrix):
    """Rows to fractals: column blocks of C0, rows padded to 16."""
    c0 = 32 // matrix.itemsize
    rows, columns = (-(-s // unit) * unit for s, unit in zip(matrix.shape, (16, c0), strict=True))
    padded = np.zeros((rows, columns), matrix.dtype)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return np.ascontiguousarray(padded.reshape(rows, columns // c0, c0).transpose(1, 0, 2))


def product(x, y):
    wide = "i8" if x.dtype.kind == "i" else "f8"
    return x.astype(wide) @ y.astype(wide)


def clean(result):
    assert [each.text() for each in result.diagnoses] == []
    assert [each.rule for each in result.warnings] == []
    return result


def run_whole(
    shape, dtype="float16", result="float32", forms=(asc.CubeFormat.ND,) * 3, trans=(False, False), bias=False,
    atomic=0, cube_only=False, start=0, strict=False, **tiling,
):  # fmt: skip
    m, n, k = shape
    x, y = numbers(1, (m, k), dtype), numbers(2, (k, n), dtype)
    sums = "int32" if dtype == "int8" else "float32"
    b = numbers(3, n, "float32").astype(sums)
    given = [each.T if turned else each for each, turned in zip((x, y), trans, strict=True)]
    given = [
        to_nz(each) if form == NZ else np.ascontiguousarray(each) for each, form in zip(given, forms, strict=False)
    ]
    z = np.full((m, n), start, result)
    if forms[2] == NZ:
        z = np.zeros((-(-n // 16), -(-m // 16) * 16, 16), result)
    t = cut(m, n, k, dtype, bias=bias, **tiling)
    kinds = [asc.DataType(name) for name in (dtype, result, sums)]
    options = {"matmul_cube_only": cube_only, "auto_sync": not strict}
    done = clean(emulate(whole, 1, *given, b, z, WORK, t, *kinds, *forms, *trans, bias, atomic, **options))
    out = done.outputs[3].view(result).reshape(z.shape)
    wanted = product(x, y) + (b if bias else 0)
    return out, wanted, done


SMALL = {"fix": (32, 32, 32)}


@pytest.mark.parametrize("cube_only", [False, True])
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize("shape", [(64, 64, 64), (77, 50, 100), (1, 33, 40), (16, 17, 5)])
def test_products_of_all_shapes_and_sides(shape, dtype, trans, cube_only):
    result = "int32" if dtype == "int8" else "float32"
    out, wanted, _ = run_whole(shape, dtype, result, trans=trans, cube_only=cube_only, **SMALL)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
def test_nothing_is_left_to_automatic_synchronisation(dtype, trans):
    result = "int32" if dtype == "int8" else "float32"
    for cube_only in (False, True):
        out, wanted, _ = run_whole(
            (77, 50, 100), dtype, result, trans=trans, bias=True, cube_only=cube_only, strict=True, **SMALL
        )
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("forms", [(NZ, asc.CubeFormat.ND), (asc.CubeFormat.ND, NZ), (NZ, NZ)])
@pytest.mark.parametrize("trans", [(False, False), (True, True)])
def test_fractals_in_global_memory(forms, trans):
    out, wanted, _ = run_whole((48, 40, 70), forms=(*forms, asc.CubeFormat.ND), trans=trans, **SMALL)
    np.testing.assert_array_equal(out, wanted)


def test_fractals_out():
    out, wanted, _ = run_whole((40, 50, 32), forms=(asc.CubeFormat.ND, asc.CubeFormat.ND, NZ), **SMALL)
    rows = out.transpose(1, 0, 2).reshape(48, 64)
    np.testing.assert_array_equal(rows[:40, :50], wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_a_bias_of_each_column(dtype):
    result = "int32" if dtype == "int8" else "float32"
    out, wanted, _ = run_whole((40, 70, 64), dtype, result, bias=True, **SMALL)
    np.testing.assert_array_equal(out, wanted)


def test_results_in_half_are_rounded_once():
    out, wanted, _ = run_whole((32, 48, 200), result="float16", **SMALL)
    np.testing.assert_array_equal(out, wanted.astype("f2"))


@pytest.mark.parametrize(("atomic", "join"), [(1, np.add), (2, np.maximum), (3, np.minimum)])
def test_c_is_combined_with_what_is_there(atomic, join):
    out, wanted, _ = run_whole((32, 32, 16), atomic=atomic, start=3, **SMALL)
    np.testing.assert_array_equal(out, join(wanted, 3))


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_cut_does_not_change_the_numbers(order, depth):
    """iterate_order, tiles in L1 and double buffers."""
    fields = {"iterate_order": order, "depth_a1": depth, "depth_b1": depth, "step_k_a": max(depth // 2, 1)}
    out, wanted, _ = run_whole((70, 90, 130), **SMALL, **fields, step_k_b=1, db_l0a=1 + order, db_l0b=1 + order)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("cube_only", [False, True])
def test_parts_on_several_cores_with_tails(cube_only):
    m, n, k = 200, 130, 96
    x, y, z = numbers(1, (m, k), "float16"), numbers(2, (k, n), "float16"), np.zeros((m, n), "f4")
    t = cut(m, n, k, dim=6)
    assert t.used_core_num > 2
    cores = t.used_core_num if cube_only else -(-t.used_core_num // 2)
    options = {"matmul_cube_only": True} if cube_only else {}
    result = clean(emulate(blocks, cores, x, y, z, WORK, t, asc.float16, **options))
    np.testing.assert_array_equal(result.outputs[2].view("f4").reshape(m, n), product(x, y))
    assert result.trace.meta["cores"] == ("AIC" if cube_only else "MIX_1_2")


def test_base_tiles_through_the_vector_unit():
    m, n, k = 256, 128, 64
    x, y, z = numbers(1, (m, k), "float16"), numbers(2, (k, n), "float16"), np.zeros((m, n), "f4")
    t = cut(m, n, k, fix=(32, 64, 32), single_core_m=64)
    result = clean(emulate(leaky, 2, x, y, z, WORK, t))
    wanted = product(x, y)
    np.testing.assert_array_equal(result.outputs[2].view("f4").reshape(m, n), np.where(wanted < 0, wanted / 2, wanted))
    assert len(result.outputs) == 4


def test_base_tiles_into_their_places():
    m, n, k = 70, 90, 40
    x, y, z = numbers(1, (m, k), "float16"), numbers(2, (k, n), "float16"), np.zeros((m, n), "f4")
    for options in ({}, {"matmul_cube_only": True}):
        result = clean(emulate(tiles, 1, x, y, z, WORK, cut(m, n, k, **SMALL), **options))
        np.testing.assert_array_equal(result.outputs[2].view("f4").reshape(m, n), product(x, y))


def test_operands_in_the_ub():
    m, n, k = 32, 48, 64
    x, y, z = numbers(1, (2 * m, k), "float16"), numbers(2, (k, n), "float16"), np.zeros((2 * m, n), "f4")
    result = clean(emulate(from_ub, 1, x, y, z, WORK, cut(m, n, k), m * k, k * n, m * n))
    np.testing.assert_array_equal(result.outputs[2].view("f4").reshape(2 * m, n), 2 * product(x, y) + 1)


def word(scale):
    return int(np.float32(scale).view("u4"))


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("result", ["float16", "int8"])
def test_quantised_products(vector, result):
    m, n, k = 40, 64, 96
    x, y = numbers(1, (m, k), "int8"), numbers(2, (k, n), "int8")
    scales = np.exp2(np.random.default_rng(3).integers(-4, 1, n)).astype("f4") if vector else np.full(n, 0.125, "f4")
    words = scales.view("u4").astype("u8") | np.uint64(1 << 46)
    z = np.zeros((m, n), result)
    given = 0 if vector else word(0.125)
    done = clean(
        emulate(quantised, 1, x, y, words, z, WORK, cut(m, n, k, "int8", **SMALL), asc.DataType(result), given)
    )
    wanted = product(x, y) * scales.astype("f8")
    wanted = wanted.astype("f2") if result == "float16" else np.clip(np.rint(wanted), -128, 127)
    np.testing.assert_array_equal(done.outputs[3].view(result).reshape(m, n), wanted)


@pytest.mark.parametrize("counts", [(3, 3), (4, 1), (2, 4)])
def test_batches(counts):
    m, n, k = 32, 48, 64
    x, y = numbers(1, (counts[0], m, k), "float16"), numbers(2, (counts[1], k, n), "float16")
    most = max(counts)
    z = np.zeros((most, m, n), "f4")
    result = clean(emulate(batch, 1, x, y, z, WORK, cut(m, n, k), *counts))
    wanted = product(np.repeat(x, most // counts[0], 0), np.repeat(y, most // counts[1], 0))
    np.testing.assert_array_equal(result.outputs[2].view("f4").reshape(z.shape), wanted)


def test_a_number_as_a_matrix():
    m, n, k = 32, 48, 40
    x, z = numbers(1, (m, k), "float16"), np.zeros((m, n), "f4")
    result = clean(emulate(filled, 1, x, z, WORK, cut(m, n, k)))
    np.testing.assert_array_equal(result.outputs[1].view("f4").reshape(m, n), product(x, np.ones((k, n), "f4")))


# -- the cube core and its vector cores ---------------------------------------------------------------


def test_an_answer_that_is_not_waited_for_is_a_race():
    x, y, z = numbers(1, (16, 16), "float16"), numbers(2, (16, 16), "float16"), np.zeros((16, 16), "f4")
    result = clean(emulate(later, 1, x, y, z, WORK, cut(16, 16, 16), True))
    wanted = product(x, y)
    wanted[0] += 1
    np.testing.assert_array_equal(result.outputs[2].view("f4").reshape(16, 16), wanted)
    racing = emulate(later, 1, x, y, z, WORK, cut(16, 16, 16), False)
    assert "kernel.race_blocks" in {each.rule for each in racing.diagnoses}, [each.rule for each in racing.diagnoses]


def test_the_record_gives_the_same_again_and_in_every_order():
    _, wanted, done = run_whole((64, 48, 64), **SMALL)
    inputs = [np.zeros(each["bytes"], "u1") for each in done.trace.meta["arguments"]]
    inputs[0] = numbers(1, (64, 64), "float16").view("u1").reshape(-1)
    inputs[1] = numbers(2, (64, 48), "float16").view("u1").reshape(-1)
    again = core.replay(done.trace, inputs)
    np.testing.assert_array_equal(again.outputs[3].view("f4").reshape(64, 48), wanted)
    assert again.timing.ns == done.timing.ns
    for seed in range(3):
        other = core.shuffled(done.trace, inputs, seed)
        np.testing.assert_array_equal(other[3].view("f4").reshape(64, 48), wanted)
    check(done.trace)


def test_instructions_stand_at_the_call():
    _, _, done = run_whole((32, 32, 32))
    files = done.trace.meta["files"]
    cube = [each for each in done.trace if each.core == 0 and ROWS[each.op].kind not in (Kind.BLOCK, Kind.CROSS)]
    assert {files[each.file - 1].rpartition("/")[2] for each in cube} == {"matmul_kernels.py"}
    assert len({each.line for each in cube}) == 1
    names = {ROWS[each.op].name for each in cube}
    assert {"data_copy_nd2nz", "load_data_3d", "mmad", "fixpipe"} <= names


def test_vector_cores_are_served_side_by_side():
    """Two vector cores with the same work take less than twice the time of one."""
    m, n, k = 128, 64, 512
    x, y, z = numbers(1, (m, k), "float16"), numbers(2, (k, n), "float16"), np.zeros((m, n), "f4")
    both = emulate(blocks, 1, x, y, z, WORK, cut(m, n, k, single_core_m=64, used_core_num=2, dim=2), asc.float16)
    one = emulate(blocks, 1, x, y, z, WORK, cut(64, n, k, used_core_num=1), asc.float16)
    assert one.timing.ns < both.timing.ns < 2 * one.timing.ns


# -- refusals -----------------------------------------------------------------------------------------


def fault(call):
    with pytest.raises(core.KernelFault) as caught:
        call()
    return caught.value.diagnosis.rule


def test_what_does_not_fit_is_told():
    assert fault(lambda: run_whole((256, 256, 64), base_m=256, base_n=256)) == "kernel.matmul_tiling"
    assert fault(lambda: run_whole((64, 64, 64), base_m=24)) == "kernel.matmul_tiling"
    assert fault(lambda: run_whole((256, 64, 512), base_m=256, base_k=256)) == "kernel.matmul_tiling"
    assert fault(lambda: run_whole((256, 256, 4096), step_k_a=64, step_k_b=64, depth_a1=128)) == (
        "kernel.matmul_tiling"
    )
    assert fault(lambda: run_whole((32, 32, 32), single_core_m=0)) == "kernel.matmul_tiling"


def test_a_bias_without_room():
    assert fault(lambda: run_whole((32, 32, 32), bias=True, is_bias=0)) == "kernel.matmul_bias"


def test_vector_cores_alone_have_no_cube():
    x = np.zeros((16, 16), "f2")
    z = np.zeros((16, 16), "f4")
    given = (x, x, z, WORK, cut(16, 16, 16))
    only = {"kernel_type": config.KernelType.AIV_ONLY}
    assert fault(lambda: emulate(tiles, 1, *given, **only)) == "kernel.matmul_cores"


def test_results_without_a_conversion():
    x = np.zeros((32, 32), "i1")
    z = np.zeros((32, 32), "f2")
    zero = np.zeros(32, "f4")
    kinds = (asc.int8, asc.float16, asc.int32)
    forms = (asc.CubeFormat.ND,) * 3
    call = (x, x, zero.view("i4"), z, WORK, cut(32, 32, 32, "int8"), *kinds, *forms, False, False, False, 0)
    assert fault(lambda: emulate(whole, 1, *call)) == "kernel.matmul_quant"


@asc.jit
def undeclared(x: asc.GlobalAddress, z: asc.GlobalAddress, workspace: asc.GlobalAddress, tiling: asc.adv.TCubeTiling):
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    pipe = asc.TPipe()
    a_type = asc.adv.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.float16)
    c_type = asc.adv.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.float32)
    mm = asc.adv.Matmul(a_type, a_type, c_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    mm.set_tensor_a(x_gm, True)


def test_a_transposition_that_was_not_declared():
    x, z = np.zeros((16, 16), "f2"), np.zeros((16, 16), "f4")
    assert fault(lambda: emulate(undeclared, 1, x, z, WORK, cut(16, 16, 16))) == "kernel.matmul_transpose"


@asc.jit
def early(x: asc.GlobalAddress, workspace: asc.GlobalAddress):
    x_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    a_type = asc.adv.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.float16)
    mm = asc.adv.Matmul(a_type, a_type, a_type)
    mm.set_tensor_a(x_gm)


def test_an_object_has_to_be_registered():
    assert fault(lambda: emulate(early, 1, np.zeros(16, "f2"), np.zeros(64, "u1"))) == "kernel.matmul_unready"


@asc.jit
def half(x: asc.GlobalAddress, z: asc.GlobalAddress, workspace: asc.GlobalAddress, tiling: asc.adv.TCubeTiling):
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    a_type = asc.adv.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.float16)
    c_type = asc.adv.MatmulType(asc.TPosition.GM, asc.CubeFormat.ND, asc.float32)
    mm = asc.adv.Matmul(a_type, a_type, c_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    mm.set_tensor_a(x_gm)
    mm.iterate_all(z_gm)


def test_both_operands_are_set():
    x, z = np.zeros((16, 16), "f2"), np.zeros((16, 16), "f4")
    assert fault(lambda: emulate(half, 1, x, z, WORK, cut(16, 16, 16))) == "kernel.matmul_operand"


@pytest.mark.parametrize("form", ["iterate_n_batch", "get_batch_tensor_c", "async_get_tensor_c", "get_offset_c"])
def test_forms_that_are_missing_say_so(form):
    from cannlab.ascendc.language.adv.matmul import Matmul

    with pytest.raises(NotImplementedError, match=form):
        getattr(Matmul, form)(object.__new__(Matmul), *([None] if form == "async_get_tensor_c" else []))


def test_configs_have_the_fields_of_their_names():
    from asc_pieces import run_on_core

    found = {}

    def body(_):
        found["mdl"] = asc.adv.get_mdl_config(do_mte2_preload=2)
        found["basic"] = asc.adv.get_basic_config(32, 64, 16, True)
        found["plain"] = asc.adv.get_mm_config(3, 4)
        with pytest.raises(RuntimeError, match="No viable candidates"):
            asc.adv.get_basic_config(32)

    run_on_core(body, np.zeros(8, "f4"))
    assert (found["mdl"].do_multi_data_load, found["mdl"].do_mte2_preload, found["mdl"].do_norm) == (True, 2, False)
    assert (found["basic"].basic_m, found["basic"].basic_k, found["basic"].intrinsics_check) == (32, 16, True)
    assert (found["plain"].do_norm, found["plain"].basic_m) == (True, 0)


def test_a_launch_through_the_machine():
    """The kernel's task is a mixed one; memory that the launch keeps for itself is neither copied nor returned."""
    m, n, k = 128, 128, 64
    x, y, z = numbers(1, (m, k), "float16"), numbers(2, (k, n), "float16"), np.zeros((m, n), "f4")
    leaky[1](x, y, z, WORK.copy(), cut(m, n, k, fix=(32, 64, 32), single_core_m=64))
    wanted = product(x, y)
    np.testing.assert_array_equal(z, np.where(wanted < 0, wanted / 2, wanted))
    record = machine().record
    assert not record.faults
    from cannlab.trace import TaskKind

    kinds = [row["kind"] for row in record.tasks.rows()]
    assert kinds.count(TaskKind.COPY_H2D) == kinds.count(TaskKind.COPY_D2H) == 4
