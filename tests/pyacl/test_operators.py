"""Single operators against numpy: values, rounding, order, codes."""

from __future__ import annotations

import numpy as np
import pytest

FLOAT, HALF, INT8, INT32, INT64, BOOL = 0, 1, 2, 3, 9, 12
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.float16): HALF, np.dtype(np.int8): INT8}
TYPES |= {np.dtype(np.int32): INT32, np.dtype(np.int64): INT64, np.dtype(np.bool_): BOOL}


class Tensors:
    """Descriptions and buffers of arrays on the device."""

    def __init__(self, acl) -> None:
        self.acl = acl

    def desc(self, array: np.ndarray) -> int:
        return self.acl.create_tensor_desc(TYPES[array.dtype], list(array.shape), 2)

    def put(self, array: np.ndarray) -> int:
        data = np.ascontiguousarray(array).tobytes()
        pointer, ret = self.acl.rt.malloc(len(data), 0)
        assert ret == 0
        assert self.acl.rt.memcpy(pointer, len(data), self.acl.util.bytes_to_ptr(data), len(data), 1) == 0
        return self.acl.create_data_buffer(pointer, len(data))

    def get(self, buffer: int, like: np.ndarray) -> np.ndarray:
        data = bytes(like.nbytes)
        pointer = self.acl.get_data_buffer_addr(buffer)
        assert self.acl.rt.memcpy(self.acl.util.bytes_to_ptr(data), len(data), pointer, len(data), 2) == 0
        return np.frombuffer(data, like.dtype).reshape(like.shape)

    def attr(self, **values) -> int:
        attr = self.acl.op.create_attr()
        for name, value in values.items():
            if isinstance(value, bool):
                ret = self.acl.op.set_attr_bool(attr, name, value)
            elif isinstance(value, int):
                ret = self.acl.op.set_attr_int(attr, name, value)
            elif isinstance(value, float):
                ret = self.acl.op.set_attr_float(attr, name, value)
            else:
                ret = self.acl.op.set_attr_list_int(attr, name, value)
            assert ret == 0
        return attr

    def run(self, op_type: str, inputs: list[np.ndarray], output: np.ndarray, **attributes) -> tuple[int, np.ndarray]:
        """The code of call or synchronisation, and the output."""
        out = self.put(output)
        stream = self.acl.rt.create_stream()[0]
        ret = self.acl.op.execute_v2(
            op_type,
            [self.desc(array) for array in inputs],
            [self.put(array) for array in inputs],
            [self.desc(output)],
            [out],
            self.attr(**attributes),
            stream,
        )
        return ret or self.acl.rt.synchronize_stream(stream), self.get(out, output)


@pytest.fixture
def tensors(acl) -> Tensors:
    return Tensors(acl)


def half(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


A, B = half(3, 4), half(3, 4, seed=1)
V = np.array([1], np.int64)
CASES = [
    ("Add", [A, B], A + B, {}),
    ("Sub", [A, B[:1]], A - B[:1], {}),
    ("Mul", [A, B], A * B, {}),
    ("RealDiv", [A, B], A / B, {}),
    ("Maximum", [A, B], np.maximum(A, B), {}),
    ("Greater", [A, B], A > B, {}),
    ("Relu", [A], np.maximum(A, 0), {}),
    ("Square", [A], A * A, {}),
    ("Abs", [A], np.abs(A), {}),
    ("Cast", [A], A.astype(np.float32), {"dst_type": FLOAT}),
    ("Cast", [A.astype(np.float32)], A, {}),
    ("TransposeD", [A], A.T, {"perm": [1, 0]}),
    ("Transpose", [A, np.array([1, 0], np.int64)], A.T, {}),
    ("SliceD", [A], A[1:3, 0:2], {"offsets": [1, 0], "size": [2, 2]}),
    ("Slice", [A, np.array([1, 2], np.int64), np.array([-1, 2], np.int64)], A[1:, 2:4], {}),
    ("ConcatD", [A, B], np.concatenate([A, B], 1), {"concat_dim": 1}),
    ("ReduceMaxD", [A], A.max(1), {"axes": [1]}),
    ("ReduceMinD", [A], A.min(0, keepdims=True), {"axes": [0], "keep_dims": True}),
    ("ReduceSum", [A, V], A.astype(np.float32).sum(1).astype(np.float16), {}),
    ("ReduceSumD", [A], A.astype(np.float32).sum(1).astype(np.float16), {"axes": [1]}),
    ("TileD", [A], np.tile(A, (2, 1)), {"multiples": [2, 1]}),
    ("BroadcastToD", [A[:1]], np.broadcast_to(A[:1], (5, 4)), {"shape": [5, 4]}),
    ("Reshape", [A, np.array([6, 2], np.int64)], A.reshape(6, 2), {}),
    ("ArgMaxD", [A], A.argmax(1).astype(np.int32), {"dimension": 1}),
    ("GatherV2", [A, np.array([2, 0], np.int32), V], A[:, [2, 0]], {}),
    ("AddN", [A, B, A], (A.astype(np.float32) + B + A).astype(np.float16), {}),
    ("SelectV2", [A > 0, A, B], np.where(A > 0, A, B), {}),
    ("LogicalNot", [A > 0], ~(A > 0), {}),
]


@pytest.mark.parametrize(("op_type", "inputs", "wanted", "attributes"), CASES, ids=[case[0] for case in CASES])
def test_an_operator_gives_what_numpy_gives(tensors, op_type, inputs, wanted, attributes) -> None:
    ret, got = tensors.run(op_type, inputs, np.zeros(wanted.shape, wanted.dtype), **attributes)
    assert ret == 0
    np.testing.assert_array_equal(got, wanted)


def test_softmax_is_computed_in_single_precision_and_rounded_once(tensors) -> None:
    x = half(4, 100, seed=3)
    wide = x.astype(np.float32)
    wanted = np.exp(wide - wide.max(1, keepdims=True))
    wanted = (wanted / wanted.sum(1, keepdims=True)).astype(np.float16)
    ret, got = tensors.run("SoftmaxV2", [x], np.zeros_like(x), axes=[-1])
    assert ret == 0
    np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_product_accumulates_in_single_precision(tensors, first, second) -> None:
    # 4096 products of 1/64: a sum in half precision would stop growing long before 64.
    a, b = np.full((2, 4096), 0.125, np.float16), np.full((4096, 3), 0.125, np.float16)
    ret, got = tensors.run(
        "MatMulV2",
        [a.T if first else a, b.T if second else b],
        np.zeros((2, 3), np.float16),
        transpose_x1=first,
        transpose_x2=second,
    )
    assert ret == 0
    assert (got == 64).all()


def test_a_result_beyond_half_precision_is_infinite(tensors) -> None:
    x = np.array([60000, 1], np.float16)
    assert tensors.run("Add", [x, x], np.zeros_like(x))[1].tolist() == [np.inf, 2]


def test_nothing_is_there_before_the_stream_is_synchronised(tensors, acl, m) -> None:
    stream = acl.rt.create_stream()[0]
    out, desc = tensors.put(np.zeros_like(A)), tensors.desc(A)
    given = [tensors.put(A), tensors.put(B)]
    assert acl.op.execute("Add", [desc, desc], given, [desc], [out], 0, stream) == 0
    assert not tensors.get(out, A).any()
    assert acl.rt.synchronize_stream(stream) == 0
    np.testing.assert_array_equal(tensors.get(out, A), A + B)
    (row,) = [row for row in m.record.tasks.rows() if m.record.strings[row["op_type"]] == "Add"]
    assert (row["kind"], row["parent"], row["end"] > row["start"]) == (7, -1, True)
    assert row["bytes"] == 3 * A.nbytes


def test_handles(tensors, acl) -> None:
    desc = tensors.desc(A)
    handle, ret = acl.op.create_handle("Mul", [desc, desc], [desc], 0)
    assert ret == 0
    for first, second in ((A, B), (B, B)):
        out = tensors.put(np.zeros_like(A))
        assert acl.op.execute_with_handle(handle, [tensors.put(first), tensors.put(second)], [out], 0) == 0
        assert acl.rt.synchronize_stream(0) == 0
        np.testing.assert_array_equal(tensors.get(out, A), first * second)
    assert acl.op.execute_with_handle(handle, [tensors.put(A)], [out], 0) == 100021
    assert acl.op.execute_with_handle(handle, [out, out], [], 0) == 100022
    assert acl.op.destroy_handle(handle) is None
    assert acl.op.execute_with_handle(handle, [out, out], [out], 0) == 100000
    assert acl.set_tensor_place_ment(desc, 1) == 0
    assert acl.op.create_handle("Mul", [desc, desc], [desc], 0) == (0, 200001)


def test_cast(tensors, acl) -> None:
    x = np.array([1.00048828125, -70000, 3], np.float32)
    half_desc = acl.create_tensor_desc(HALF, [3], 2)
    out = tensors.put(np.zeros(3, np.float16))
    assert acl.op.cast(tensors.desc(x), tensors.put(x), half_desc, out, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    # Ties to even, and beyond the range to infinity.
    assert tensors.get(out, np.zeros(3, np.float16)).tolist() == [1.0, -np.inf, 3.0]
    handle, ret = acl.op.create_handle_for_cast(tensors.desc(x), half_desc, 0)
    assert ret == 0
    assert acl.op.execute_with_handle(handle, [tensors.put(x)], [out], 0) == 0


def test_constants_of_descriptions_and_host_memory_are_known(tensors, acl) -> None:
    perm = np.array([1, 0], np.int64)
    data = perm.tobytes()
    for place in ("constant", "host"):
        desc = tensors.desc(perm)
        buffer = tensors.put(perm)
        if place == "constant":
            assert acl.set_tensor_const(desc, acl.util.bytes_to_ptr(data), len(data)) == 0
        else:
            assert acl.set_tensor_place_ment(desc, 1) == 0
            buffer = acl.create_data_buffer(acl.util.bytes_to_ptr(data), len(data))
        out = tensors.put(np.zeros((4, 3), np.float16))
        turned = acl.create_tensor_desc(HALF, [4, 3], 2)
        given = [tensors.put(A), buffer]
        assert acl.op.execute_v2("Transpose", [tensors.desc(A), desc], given, [turned], [out], 0, 0) == 0
        assert acl.rt.synchronize_stream(0) == 0
        np.testing.assert_array_equal(tensors.get(out, A.T), A.T)


@pytest.mark.parametrize(
    ("op_type", "inputs", "output", "attributes"),
    [
        ("Nothing", [A], A, {}),
        ("Add", [A], A, {}),
        ("Add", [A, half(5, 4)], A, {}),
        ("Add", [A, B], half(4, 3), {}),
        ("TransposeD", [A], A.T, {}),
        ("SliceD", [A], A, {"offsets": [1, 0], "size": [3, 4]}),
        ("MatMulV2", [A, B], A, {}),
    ],
)
def test_what_fits_no_operator(tensors, rules, op_type, inputs, output, attributes) -> None:
    rules()
    assert tensors.run(op_type, inputs, np.zeros_like(output), **attributes)[0] == 100024
    assert rules() == ["model.op_not_found"]


def test_a_value_that_does_not_fit_fails_when_it_is_read(tensors) -> None:
    perm = np.array([1, 5], np.int64)
    assert tensors.run("Transpose", [A, perm], np.zeros_like(A.T))[0] == 100024


def test_bad_arguments(tensors, acl) -> None:
    desc, buffer = tensors.desc(A), tensors.put(A)
    assert acl.op.execute("Relu", [desc], [buffer], [desc], [buffer, buffer], 0, 0) == 100022
    assert acl.op.execute("Relu", [desc], [0], [desc], [buffer], 0, 0) == 100000
    small = acl.create_data_buffer(acl.get_data_buffer_addr(buffer), A.nbytes - 1)
    assert acl.op.execute("Relu", [desc], [small], [desc], [buffer], 0, 0) == 100000
    assert acl.op.execute("Relu", [desc], [buffer], [desc], [buffer], 0, 77) == 100000
    with pytest.raises(TypeError):
        acl.op.execute("Relu", (desc,), [buffer], [desc], [buffer], 0, 0)
    attr = acl.op.create_attr()
    with pytest.raises(TypeError, match="invalid data type"):
        acl.op.set_attr_list_float(attr, "x", [1])
    with pytest.warns(Warning, match="list"):
        assert acl.op.set_attr_list_int(attr, "x", np.array([1, 2])) == 0
    assert acl.op.set_attr_data_type(attr, "t", 1) == (attr, 0)
    assert acl.op.destroy_attr(attr) is None
    assert acl.op.destroy_attr(0) is None
    assert acl.op.set_attr_int(attr, "x", 1) == 100000
    string = acl.create_tensor_desc(13, [1], 2)
    assert acl.op.execute("Relu", [string], [buffer], [desc], [buffer], 0, 0) == 100026


def test_infer_shape(tensors, acl) -> None:
    out = acl.create_tensor_desc(HALF, [], 2)
    given = [tensors.desc(A), tensors.desc(A)]
    attr = tensors.attr(transpose_x2=True)
    assert acl.op.infer_shape("MatMulV2", given, [tensors.put(A), tensors.put(B)], 1, [out], attr) == 0
    assert [acl.get_tensor_desc_dim_v2(out, at)[0] for at in range(acl.get_tensor_desc_num_dims(out))] == [3, 3]
    axes = np.array([0], np.int64)
    descs, buffers = [given[0], tensors.desc(axes)], [tensors.put(A), tensors.put(axes)]
    assert acl.op.infer_shape("ReduceSum", descs, buffers, 1, [out], 0) == 0
    assert acl.get_tensor_desc_num_dims(out) == 1


def test_loaded_operators(acl, tensors, tmp_path) -> None:
    from cannlab import om
    from cannlab.machine import machine, single_ops
    from cannlab.om import OmTensor

    assert acl.op.set_model_dir(str(tmp_path)) == 100014
    assert acl.op.set_model_dir(str(tmp_path / "no")) == 100014
    x = OmTensor("x", FLOAT, 2, (2,))
    made = single_ops.build("Neg", [single_ops.Operand(x)], [OmTensor("y", FLOAT, 2, (2,))], {}, machine().soc)
    om.write(made, tmp_path / "neg.om")
    (tmp_path / "bad.om").write_bytes(b"no om")
    assert acl.op.set_model_dir(str(tmp_path)) == 0
    assert acl.op.set_model_dir(str(tmp_path)) == 100002
    x = np.array([1, -2], np.float32)
    assert tensors.run("Neg", [x], np.zeros_like(x))[1].tolist() == [-1, 2]
    data = (tmp_path / "neg.om").read_bytes()
    assert acl.op.load(acl.util.bytes_to_ptr(data), len(data)) == 0
    assert acl.op.load(0, 0) == 100000


@pytest.mark.parametrize("trans", [(0, 0), (1, 0), (0, 1)])
def test_gemm(acl, tensors, trans) -> None:
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal(shape).astype(np.float16) for shape in ((3, 8), (8, 5), (3, 5)))
    alpha, beta = np.float16(0.5), np.float16(2)
    product = a.astype(np.float32) @ b.astype(np.float32)
    wanted = (np.float32(alpha) * product + np.float32(beta) * c).astype(np.float16)
    buffers = [tensors.put(a.T if trans[0] else a), tensors.put(b.T if trans[1] else b), tensors.put(c)]
    pa, pb, pc = (acl.get_data_buffer_addr(buffer) for buffer in buffers)
    scalars = [alpha.tobytes(), beta.tobytes()]
    one, two = (acl.util.bytes_to_ptr(data) for data in scalars)
    assert acl.blas.hgemm(*trans, 0, 3, 5, 8, one, pa, -1, pb, -1, two, pc, -1, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    np.testing.assert_allclose(tensors.get(buffers[2], c).astype(np.float32), wanted.astype(np.float32), rtol=2e-3)
    assert acl.blas.hgemm(*trans, 1, 3, 5, 8, one, pa, -1, pb, -1, two, pc, -1, 0, 0) == 100000
    assert acl.blas.hgemm(*trans, 0, 3, 5, 8, one, pa, 3, pb, -1, two, pc, 99, 0, 0) == 100000


def test_integer_products(acl, tensors) -> None:
    rng = np.random.default_rng(6)
    a, x = rng.integers(-128, 128, (4, 600)).astype(np.int8), rng.integers(-128, 128, 600).astype(np.int8)
    y = np.array([1, 2, 3, 4], np.int32)
    buffers = [tensors.put(a), tensors.put(x), tensors.put(y)]
    pa, px, py = (acl.get_data_buffer_addr(buffer) for buffer in buffers)
    scalars = [np.int32(3).tobytes(), np.int32(-1).tobytes()]
    one, two = (acl.util.bytes_to_ptr(data) for data in scalars)
    assert acl.blas.s8gemv(0, 4, 600, one, pa, -1, px, 1, two, py, 1, 0, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0
    np.testing.assert_array_equal(tensors.get(buffers[2], y), 3 * (a.astype(np.int32) @ x.astype(np.int32)) - y)
    handle, ret = acl.blas.create_handle_for_hgemv(0, 4, 600, 0)
    assert ret == 0
    assert acl.op.destroy_handle(handle) is None
