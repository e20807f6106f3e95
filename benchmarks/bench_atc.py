"""How fast atc compiles and the executor runs, and how much memory that takes.

    python benchmarks/bench_atc.py [--large]

Conversion: a residual network of 102 MB, in this process, imports excluded; the time of ONNX Runtime's session and of
ONNX's shape inference on the same file stand beside it. Memory: the growth of a fresh process's peak over its peak
after a small conversion, in multiples of the model. Inference: the om through ``acl.mdl.execute`` against ONNX
Runtime's ``run`` on the om's own float16 graph (which it computes in float32 without rounding between operators) and on
the float32 model, with the same number of threads, one after the other in each round; the same om for a chip whose
float16 saturates stands beside it, both without acl. ``--large`` adds a model of 1 GB.
All figures are medians of CPU seconds; the bars stand in BARS.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import networks
import numpy as np
import onnx
import onnxruntime

from cannlab import atc, om
from cannlab.machine.executor import THREADS, Model

ROUNDS = 5
FULL_WIDTH = 64
SOC, SATURATING = "Ascend910B1", "Ascend310P3"
BARS = {
    "conversion, s": 1.5,
    "memory / model": 3.0,
    "om / float16": 1.1,
    "om / float16, saturating": 1.1,
    "1 GB: conversion, s": 60.0,
    "1 GB: peak of the process, GB": 4.0,
}


def convert(source: Path, target: Path, soc: str = SOC) -> None:
    """One conversion in this process."""
    words = [f"--model={source}", "--framework=5", f"--output={target}", f"--soc_version={soc}"]
    with contextlib.redirect_stdout(io.StringIO()):
        status = atc.main([*words, "--export_compile_stat=0"])
    if status:
        raise SystemExit(f"atc failed on {source.name}")


def timed(*runs: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Median CPU seconds of each, taking turns: what else runs on the machine does not count."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(rounds):
        for found, run in zip(times, runs, strict=True):
            start = time.process_time()
            run()
            found.append(time.process_time() - start)
    return [statistics.median(found) for found in times]


def session(model: str | bytes) -> onnxruntime.InferenceSession:
    """ONNX Runtime with as many threads as the executor."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


MEMORY = """
import resource, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import bench_atc
def peak():
    status = Path("/proc/self/status")
    if status.exists():  # the resource module would count the parent's peak before exec
        return 1024 * int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
bench_atc.convert(Path(sys.argv[2]), Path(sys.argv[4]))
before = peak()
start = time.perf_counter()
bench_atc.convert(Path(sys.argv[3]), Path(sys.argv[4]))
print(before, peak(), time.perf_counter() - start)
"""


def memory(small: Path, source: Path, target: Path) -> tuple[int, int, float]:
    """(peak before, peak after, seconds) of a conversion in a fresh process; bytes."""
    words = [sys.executable, "-c", MEMORY, str(Path(__file__).parent), str(small), str(source), str(target)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    before, after, seconds = done.stdout.split()[-3:]
    return int(before), int(after), float(seconds)


class Program:
    """A pyACL program that has loaded an om and filled its input."""

    def __init__(self, path: Path, x: np.ndarray, *, fresh: bool = True) -> None:
        from cannlab import acl
        from cannlab.machine import reset_machine

        if fresh:
            reset_machine(SOC, 1)
            acl.init()
            acl.rt.set_device(0)
        self.model, code = acl.mdl.load_from_file(str(path))
        assert code == 0
        self.addresses: list[int] = []
        description = acl.mdl.create_desc()
        acl.mdl.get_desc(description, self.model)
        sizes = [acl.mdl.get_input_size_by_index(description, 0), acl.mdl.get_output_size_by_index(description, 0)]
        self.datasets = []
        for size in sizes:
            address, code = acl.rt.malloc(size, 2)
            assert code == 0
            self.addresses.append(address)
            dataset = acl.mdl.create_dataset()
            acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))
            self.datasets.append(dataset)
            if len(self.datasets) == 1:
                data = np.ascontiguousarray(x).tobytes()
                acl.rt.memcpy(address, size, acl.util.bytes_to_ptr(data), len(data), 1)
        self._execute = acl.mdl.execute

    def run(self) -> None:
        assert self._execute(self.model, *self.datasets) == 0

    def close(self) -> None:
        from cannlab import acl

        for address in self.addresses:
            acl.rt.free(address)
        acl.mdl.unload(self.model)


def inference(folder: Path, batch: int, size: int, width: int) -> tuple[float, ...]:
    """Seconds of one run: the om through acl, its float16 graph in ONNX Runtime, the float32 model there; the oms for
    both kinds of chip without acl."""
    source, target = folder / "run.onnx", folder / "run"
    onnx.save(networks.bottlenecks(batch, size, width), source)
    convert(source, target)
    compiled = om.read(f"{target}.om")
    half = session(compiled.graph(weights=True).SerializeToString())
    full = session(str(source))
    x = np.random.default_rng(1).standard_normal((batch, 3, size, size)).astype(np.float32)
    program = Program(Path(f"{target}.om"), x)
    convert(source, folder / "saturating", SATURATING)
    plain, saturating = Model(compiled), Model(om.read(folder / "saturating.om"))
    times = timed(
        program.run,
        lambda: half.run(None, {"x": x}),
        lambda: full.run(None, {"x": x}),
        lambda: plain.run([x]),
        lambda: saturating.run([x]),
    )
    program.close()
    return tuple(times)


def report(name: str, value: float) -> bool:
    """Print a figure beside its bar; False if it misses it."""
    good = value <= BARS[name]
    print(f"{name:<32}{value:>9.2f}   bar {BARS[name]:g}{'' if good else '   MISSED'}")
    return good


def main() -> int:
    warnings.simplefilter("ignore")
    good = True
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        small, large = folder / "small.onnx", folder / "large.onnx"
        onnx.save(networks.bottlenecks(size=32, width=8), small)
        onnx.save(networks.bottlenecks(), large)
        inferred = folder / "inferred.onnx"
        ours, ort, shapes = timed(
            lambda: convert(large, folder / "large"),
            lambda: session(str(large)),
            lambda: onnx.shape_inference.infer_shapes_path(str(large), str(inferred)),
        )
        print(
            f"model: {large.stat().st_size / 1e6:.0f} MB; ONNX Runtime's session {ort:.2f} s, inference {shapes:.2f} s"
        )
        good &= report("conversion, s", ours)
        before, after, _ = memory(small, large, folder / "large")
        good &= report("memory / model", (after - before) / large.stat().st_size)
        for batch, size, width in ((1, 224, FULL_WIDTH), (8, 112, FULL_WIDTH), (1, 64, 32)):
            om_s, fp16, fp32, plain, saturating = inference(folder, batch, size, width)
            print(
                f"batch {batch}, {size} x {size}, width {width}: om {om_s * 1000:.1f} ms, "
                f"float16 {fp16 * 1000:.1f} ms, float32 {fp32 * 1000:.1f} ms; om / float32 {om_s / fp32:.2f}; "
                f"{SATURATING} / {SOC} {saturating / plain:.3f}"
            )
            if (
                width == FULL_WIDTH
            ):  # in smaller ones the calls and the record count, which the chip's time does not see
                good &= report("om / float16", om_s / fp16)
                good &= report("om / float16, saturating", saturating / fp16)
            else:
                print(f"{'om / float16':<32}{om_s / fp16:>9.2f}")
        if "--large" in sys.argv[1:]:
            huge = folder / "huge.onnx"
            onnx.save(networks.products(1000), huge)
            _, after, seconds = memory(small, huge, folder / "huge")
            print(f"model: {huge.stat().st_size / 1e6:.0f} MB")
            good &= report("1 GB: conversion, s", seconds)
            good &= report("1 GB: peak of the process, GB", after / 1e9)
    return 0 if good else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    sys.exit(main())
