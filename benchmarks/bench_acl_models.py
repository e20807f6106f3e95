"""What models cost through acl: pytest benchmarks/bench_acl_models.py --benchmark-only -s -p no:xdist.

Each test compares in one run. The network is of ResNet50's size, 25.6 million weights, with a batch of 8.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import bench_atc
import networks
import numpy as np
import onnx
import pytest

import cannlab.acl as acl
from cannlab import om

BATCH, SIZE = 8, 224


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """The om."""
    folder = tmp_path_factory.mktemp("net")
    onnx.save(networks.bottlenecks(BATCH, SIZE), folder / "net.onnx")
    bench_atc.convert(folder / "net.onnx", folder / "net")
    return folder / "net.om"


def test_batch_of_eight_against_onnx_runtime(benchmark, model) -> None:
    """One run through acl.mdl.execute against ONNX Runtime alone on the same fp16 graph: at most 1.1 times as long."""
    x = np.random.default_rng(1).standard_normal((BATCH, 3, SIZE, SIZE)).astype(np.float32)
    program = bench_atc.Program(model, x)
    alone = bench_atc.session(om.read(model).graph(weights=True).SerializeToString())
    times: dict[str, list[float]] = {"acl": [], "alone": []}

    def both() -> None:
        for name, run in (("acl", program.run), ("alone", lambda: alone.run(None, {"x": x}))):
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)

    both()
    times = {name: [] for name in times}
    benchmark.pedantic(both, rounds=5)
    ratio = statistics.median(times["acl"]) / statistics.median(times["alone"])
    print(f"\nacl / ONNX Runtime alone {ratio:.3f}, processor time, bar 1.1")
    benchmark.extra_info["ratio"] = round(ratio, 3)
    program.close()


def test_two_streams_and_two_models(benchmark, model) -> None:
    """Two models in two streams: how many cores are busy: processor time by time on the wall. Less on a loaded host."""
    x = np.random.default_rng(1).standard_normal((BATCH, 3, SIZE, SIZE)).astype(np.float32)
    first = bench_atc.Program(model, x)
    second = bench_atc.Program(model, x, fresh=False)
    streams = [acl.rt.create_stream()[0] for _ in range(2)]
    for program in (first, second):
        program.run()
    busy: list[float] = []

    def pipeline() -> None:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(2):
            for program, stream in zip((first, second), streams, strict=True):
                assert acl.mdl.execute_async(program.model, *program.datasets, stream) == 0
            for stream in streams:
                assert acl.rt.synchronize_stream(stream) == 0
        busy.append((time.process_time() - processor) / (time.perf_counter() - wall))

    benchmark.pedantic(pipeline, rounds=3, warmup_rounds=1)
    print(f"\n{max(busy):.2f} cores busy at the best")
    benchmark.extra_info["cores"] = round(max(busy), 2)
