"""The work of bench_triton.py as Triton kernels, run by its interpreter; nothing where Triton is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable


def runs(elements: int, rows: int, side: int) -> dict[str, dict[str, Callable[[], None]]]:
    """By kind of work: {"triton": a launch}, or nothing."""
    if importlib.util.find_spec("triton") is None:
        print("Triton is not installed: pip install --no-deps --target DIR triton==3.4.0, and DIR into PYTHONPATH")
        return {"add": {}, "softmax": {}, "matmul": {}}
    import torch
    import triton
    from triton_sources import add, matmul, softmax

    x, y, z = torch.rand(elements), torch.rand(elements), torch.empty(elements)
    a, b = torch.randn(rows, rows), torch.empty(rows, rows)
    m, n = torch.randn(side, side).half(), torch.randn(side, side).half()
    c = torch.empty(side, side).half()

    def run_add() -> None:
        add[(triton.cdiv(elements, 1024),)](x, y, z, elements, BLOCK=1024)
        assert torch.equal(z, x + y)

    def run_softmax() -> None:
        softmax[(rows,)](a, b, rows, BLOCK=rows)
        assert torch.allclose(b, torch.softmax(a, 1))

    def run_matmul() -> None:
        matmul[(side // 128, side // 128)](m, n, c, side, side, side, 128, 128, 128)
        assert torch.allclose(c.float(), m.float() @ n.float(), atol=0.1, rtol=1e-2)

    return {"add": {"triton": run_add}, "softmax": {"triton": run_softmax}, "matmul": {"triton": run_matmul}}
