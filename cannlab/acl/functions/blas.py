"""acl.blas: products of matrices and vectors, rows one after another. Source: acl_cblas.h; pyacl-semantics 16.

y = alpha * op(A) * x + beta * y and C = alpha * op(A) * op(B) + beta * C. Transposition is 0 (no) or 1 (yes); 2 and 3,
the fractal layouts, and transposition of C are not emulated. Leading dimensions must be -1 or those of whole matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from cannlab.acl import operators
from cannlab.acl.binding import api
from cannlab.acl.checks import opened, refuse, take_stream
from cannlab.acl.functions.operators import OpHandle
from cannlab.acl.operators import Operator
from cannlab.machine import Machine
from cannlab.om import Format, OmTensor, dtypes

_FLOAT, _HALF, _INT8, _INT32 = 0, 1, 2, 3
_WHOLE = -1
_TRANSPOSED = 1


@dataclass(frozen=True)
class _Product:
    """A product: m x k times k x n, types of A, B and C."""

    trans_a: int
    trans_b: int
    m: int
    n: int
    k: int
    types: tuple[int, int, int]

    def operator(self, machine: Machine) -> Operator:
        for name, value in (("trans_a", self.trans_a), ("trans_b", self.trans_b)):
            if value not in (0, _TRANSPOSED):
                raise refuse(machine, "runtime.bad_parameter", argument=name, value=value, allowed="0, 1")
        if min(self.m, self.n, self.k) < 1:
            raise refuse(machine, "runtime.bad_parameter", argument="m, n or k", value=0, allowed="above 0")
        if self.types not in ((_HALF, _HALF, _HALF), (_HALF, _HALF, _FLOAT), (_INT8, _INT8, _INT32)):
            raise refuse(machine, "model.op_data_type", data_type=self.types)
        a = (self.k, self.m) if self.trans_a else (self.m, self.k)
        b = (self.n, self.k) if self.trans_b else (self.k, self.n)
        c = (self.m, self.n)
        shapes = (a, b, c, (1,), (1,))
        kinds = (*self.types, self.types[2], self.types[2])
        inputs = tuple(OmTensor(f"x{at}", kind, Format.ND, shape)
                       for at, (kind, shape) in enumerate(zip(kinds, shapes, strict=True)))  # fmt: skip
        attributes = {"transpose_a": bool(self.trans_a), "transpose_b": bool(self.trans_b)}
        return Operator("GEMM", inputs, (OmTensor("y0", kinds[2], Format.ND, c),), attributes, {})


def _whole(m: Machine, name: str, given: int, columns: int) -> None:
    if given not in (_WHOLE, columns):
        raise refuse(m, "runtime.bad_parameter", argument=name, value=given, allowed=f"-1, {columns}")


def _run(m: Machine, product: _Product, pointers: tuple[int, int, int, int, int], stream: int) -> int:
    """Queue it; pointers are those of A, B, C, alpha, beta. alpha and beta may lie on the host and are read at once."""
    import numpy as np

    op = product.operator(m)
    target = take_stream(m, stream)
    sizes = [prod(item.dims) * item.type.size for item in op.inputs]
    for at in (3, 4):
        view = m.memory.view(pointers[at], sizes[at], write=False)
        op.values[at] = np.frombuffer(bytes(view), dtypes.by_acl(op.inputs[at].dtype).numpy)
    buffers = list(zip(pointers, sizes, strict=True))
    return operators.submit(m, op, buffers, [buffers[2]], target)


def _handle(m: Machine, product: _Product) -> tuple[int, int]:
    op = product.operator(m)
    operators.find(m, op, m.here().place)
    return opened(m, OpHandle(op)), 0


@api("acl.blas.gemm_ex")
def gemm_ex(
    machine: Machine, trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int, a: int, lda: int,
    data_type_a: int, b: int, ldb: int, data_type_b: int, beta: int, c: int, ldc: int, data_type_c: int,
    compute_type: int, stream: int,
) -> int:  # fmt: skip
    """gemm_ex(trans_a, trans_b, trans_c, m, n, k, alpha, A, lda, type_a, B, ldb, type_b, beta, C, ldc, type_c, compute,
    stream) -> ret: types fp16 and fp16 to fp16 or fp32, int8 and int8 to int32."""
    if trans_c:
        raise refuse(machine, "runtime.bad_parameter", argument="trans_c", value=trans_c, allowed="0")
    for name, given, columns in (("lda", lda, m if trans_a else k), ("ldb", ldb, k if trans_b else n), ("ldc", ldc, n)):
        _whole(machine, name, given, columns)
    product = _Product(trans_a, trans_b, m, n, k, (data_type_a, data_type_b, data_type_c))
    return _run(machine, product, (a, b, c, alpha, beta), stream)


@api("acl.blas.hgemm")
def hgemm(
    machine: Machine, trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int, a: int, lda: int,
    b: int, ldb: int, beta: int, c: int, ldc: int, compute_type: int, stream: int,
) -> int:  # fmt: skip
    """hgemm(trans_a, trans_b, trans_c, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, compute, stream) -> ret: fp16."""
    return gemm_ex(machine, trans_a, trans_b, trans_c, m, n, k, alpha, a, lda, _HALF, b, ldb, _HALF, beta, c, ldc,
                   _HALF, compute_type, stream)  # fmt: skip


@api("acl.blas.s8gemm")
def s8gemm(
    machine: Machine, trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, alpha: int, a: int, lda: int,
    b: int, ldb: int, beta: int, c: int, ldc: int, compute_type: int, stream: int,
) -> int:  # fmt: skip
    """s8gemm(...) -> ret: int8 matrices, int32 result, alpha and beta int32."""
    return gemm_ex(machine, trans_a, trans_b, trans_c, m, n, k, alpha, a, lda, _INT8, b, ldb, _INT8, beta, c, ldc,
                   _INT32, compute_type, stream)  # fmt: skip


@api("acl.blas.gemv_ex")
def gemv_ex(
    machine: Machine, trans_a: int, m: int, n: int, alpha: int, a: int, lda: int, data_type_a: int, x: int, incx: int,
    data_type_x: int, beta: int, y: int, incy: int, data_type_y: int, compute_type: int, stream: int,
) -> int:  # fmt: skip
    """gemv_ex(trans_a, m, n, alpha, A, lda, type_a, x, incx, type_x, beta, y, incy, type_y, compute, stream) -> ret:
    A is m x n; increments must be -1 or 1. The real wrapper passes incy on as incx."""
    _whole(machine, "lda", lda, n)
    _whole(machine, "incx", incy, 1)
    rows, inner = (n, m) if trans_a else (m, n)
    product = _Product(trans_a, 0, rows, 1, inner, (data_type_a, data_type_x, data_type_y))
    return _run(machine, product, (a, x, y, alpha, beta), stream)


@api("acl.blas.hgemv")
def hgemv(
    machine: Machine, trans_a: int, m: int, n: int, alpha: int, a: int, lda: int, x: int, incx: int, beta: int, y: int,
    incy: int, compute_type: int, stream: int,
) -> int:  # fmt: skip
    """hgemv(trans_a, m, n, alpha, A, lda, x, incx, beta, y, incy, compute, stream) -> ret: fp16."""
    return gemv_ex(machine, trans_a, m, n, alpha, a, lda, _HALF, x, incx, _HALF, beta, y, incx, _HALF, compute_type,
                   stream)  # fmt: skip


@api("acl.blas.s8gemv")
def s8gemv(
    machine: Machine, trans_a: int, m: int, n: int, alpha: int, a: int, lda: int, x: int, incx: int, beta: int, y: int,
    incy: int, compute_type: int, stream: int,
) -> int:  # fmt: skip
    """s8gemv(...) -> ret: int8 matrix and vector, int32 result."""
    return gemv_ex(machine, trans_a, m, n, alpha, a, lda, _INT8, x, incx, _INT8, beta, y, incx, _INT32, compute_type,
                   stream)  # fmt: skip


@api("acl.blas.create_handle_for_gemm_ex")
def create_handle_for_gemm_ex(
    machine: Machine, trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, data_type_a: int,
    data_type_b: int, data_type_c: int, compute_type: int,
) -> tuple[int, int]:  # fmt: skip
    """create_handle_for_gemm_ex(trans_a, trans_b, trans_c, m, n, k, types, compute) -> (handle, ret): for
    op.execute_with_handle with A, B, C, alpha, beta in device memory and C."""
    if trans_c:
        raise refuse(machine, "runtime.bad_parameter", argument="trans_c", value=trans_c, allowed="0")
    return _handle(machine, _Product(trans_a, trans_b, m, n, k, (data_type_a, data_type_b, data_type_c)))


@api("acl.blas.create_handle_for_hgemm")
def create_handle_for_hgemm(
    machine: Machine, trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, compute_type: int
) -> tuple[int, int]:
    """create_handle_for_hgemm(trans_a, trans_b, trans_c, m, n, k, compute) -> (handle, ret)."""
    return create_handle_for_gemm_ex(machine, trans_a, trans_b, trans_c, m, n, k, _HALF, _HALF, _HALF, compute_type)


@api("acl.blas.create_handle_for_s8gemm")
def create_handle_for_s8gemm(
    machine: Machine, trans_a: int, trans_b: int, trans_c: int, m: int, n: int, k: int, compute_type: int
) -> tuple[int, int]:
    """create_handle_for_s8gemm(trans_a, trans_b, trans_c, m, n, k, compute) -> (handle, ret)."""
    return create_handle_for_gemm_ex(machine, trans_a, trans_b, trans_c, m, n, k, _INT8, _INT8, _INT32, compute_type)


@api("acl.blas.create_handle_for_gemv_ex")
def create_handle_for_gemv_ex(
    machine: Machine, trans_a: int, m: int, n: int, data_type_a: int, data_type_x: int, data_type_y: int,
    compute_type: int,
) -> tuple[int, int]:  # fmt: skip
    """create_handle_for_gemv_ex(trans_a, m, n, types, compute) -> (handle, ret)."""
    rows, inner = (n, m) if trans_a else (m, n)
    return _handle(machine, _Product(trans_a, 0, rows, 1, inner, (data_type_a, data_type_x, data_type_y)))


@api("acl.blas.create_handle_for_hgemv")
def create_handle_for_hgemv(machine: Machine, trans_a: int, m: int, n: int, compute_type: int) -> tuple[int, int]:
    """create_handle_for_hgemv(trans_a, m, n, compute) -> (handle, ret)."""
    return create_handle_for_gemv_ex(machine, trans_a, m, n, _HALF, _HALF, _HALF, compute_type)


@api("acl.blas.create_handle_for_s8gemv")
def create_handle_for_s8gemv(machine: Machine, trans_a: int, m: int, n: int, compute_type: int) -> tuple[int, int]:
    """create_handle_for_s8gemv(trans_a, m, n, compute) -> (handle, ret)."""
    return create_handle_for_gemv_ex(machine, trans_a, m, n, _INT8, _INT8, _INT32, compute_type)
