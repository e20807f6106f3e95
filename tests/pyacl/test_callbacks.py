"""Callbacks and util threads; several host threads in one simulated time."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

import cannlab.acl as acl_package
from cannlab.machine import Machine, reset_machine


class Reporter:
    """A thread that loops over process_report, as programs write it."""

    def __init__(self, acl, timeout: int = 100) -> None:
        self.acl, self.timeout, self.codes, self.stop = acl, timeout, [], False
        self.context, _ = acl.rt.get_context()
        self.tid, code = acl.util.start_thread(self.run, [timeout])
        assert code == 0

    def run(self, arguments) -> None:
        self.acl.rt.set_context(self.context)
        while not self.stop:
            self.codes.append(self.acl.rt.process_report(arguments[0]))

    def end(self) -> None:
        self.stop = True
        assert self.acl.util.stop_thread(self.tid) == 0


def test_start_and_stop_thread(acl, capsys) -> None:
    seen = []
    tid, code = acl.util.start_thread(seen.append, [1, 2])
    assert code == 0
    assert acl.util.stop_thread(tid) == 0
    tid, _ = acl.util.start_thread(lambda: seen.append("none"), None)
    acl.util.stop_thread(tid)
    assert seen == [[1, 2], "none"]
    tid, _ = acl.util.start_thread(lambda value: 1 / value, 0)
    with pytest.raises(RuntimeError, match=r"exception=ZeroDivisionError,msg=thread call failed;"):
        acl.util.stop_thread(tid)
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert acl.util.stop_thread(tid) == 100000


def test_codes_of_subscriptions(acl, rules) -> None:
    stream, _ = acl.rt.create_stream()
    assert acl.rt.launch_callback(print, None, 0, stream) == 107015
    with pytest.raises(TypeError, match="parameter must be callable"):
        acl.rt.launch_callback(5, None, 0, stream)
    assert acl.rt.launch_callback(print, None, 2, stream) == 100000
    assert acl.rt.process_report(100) == 107012
    assert acl.rt.subscribe_report(424242, stream) == 107012
    assert acl.rt.unsubscribe_report(424242, stream) == 107011
    reporter = Reporter(acl)
    assert acl.rt.subscribe_report(reporter.tid, stream) == 0
    assert acl.rt.subscribe_report(reporter.tid, stream) == 107011
    assert acl.rt.unsubscribe_report(reporter.tid + 1, stream) == 107012
    acl.rt.create_context(1)
    other, _ = acl.rt.create_stream()
    assert acl.rt.subscribe_report(reporter.tid, other) == 107012
    acl.rt.set_context(reporter.context)
    assert acl.rt.unsubscribe_report(reporter.tid, stream) == 0
    reporter.end()


def test_a_callback_runs_in_the_subscribed_thread_with_one_argument(acl) -> None:
    stream, _ = acl.rt.create_stream()
    reporter = Reporter(acl)
    acl.rt.subscribe_report(reporter.tid, stream)
    seen = []
    data = [1, "two"]
    assert acl.rt.launch_callback(lambda value: seen.append((value, threading.get_ident())), data, 1, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert seen == [([1, "two"], reporter.tid)]
    assert seen[0][0] is data
    acl.rt.unsubscribe_report(reporter.tid, stream)
    reporter.end()
    assert 0 in reporter.codes


def test_a_blocking_callback_sees_the_copy_before_it_and_holds_the_copy_after_it(acl) -> None:
    stream, _ = acl.rt.create_stream()
    reporter = Reporter(acl)
    acl.rt.subscribe_report(reporter.tid, stream)
    device, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    view = acl.util.ptr_to_numpy(host, (64,), 2)
    view[:] = 0
    seen = []

    def callback(_) -> None:
        seen.append(int(view[0]))
        view[:] = 9

    acl.rt.memset_async(device, 64, 7, 64, stream)
    acl.rt.memcpy_async(host, 64, device, 64, 2, stream)
    acl.rt.launch_callback(callback, None, 1, stream)
    acl.rt.memcpy_async(device, 64, host, 64, 1, stream)
    assert acl.rt.synchronize_stream(stream) == 0
    assert seen == [7]
    out = np.zeros(64, np.uint8)
    acl.rt.memcpy(out.ctypes.data, 64, device, 64, 2)
    assert (out == 9).all()
    reporter.end()


def test_an_exception_in_a_callback_is_only_logged(acl, capsys) -> None:
    stream, _ = acl.rt.create_stream()
    reporter = Reporter(acl)
    acl.rt.subscribe_report(reporter.tid, stream)

    def broken(_) -> None:
        raise ValueError("in the callback")

    acl.rt.launch_callback(broken, None, 1, stream)
    assert acl.rt.synchronize_stream(stream) == 0
    assert "in the callback" in capsys.readouterr().err
    reporter.end()


def test_callbacks_may_call_acl(acl) -> None:
    stream, _ = acl.rt.create_stream()
    reporter = Reporter(acl)
    acl.rt.subscribe_report(reporter.tid, stream)
    codes = []

    def callback(_) -> None:
        pointer, code = acl.rt.malloc(64, 0)
        codes.append(code)
        codes.append(acl.rt.free(pointer))

    for _ in range(5):
        acl.rt.launch_callback(callback, None, 0, stream)
    acl.rt.launch_callback(callback, None, 1, stream)
    acl.rt.synchronize_stream(stream)
    reporter.end()
    assert codes == [0] * 12


def test_nobody_can_run_the_callback(acl, rules) -> None:
    stream, _ = acl.rt.create_stream()
    ready = threading.Event()
    tid, _ = acl.util.start_thread(lambda: ready.wait(30), None)
    acl.rt.subscribe_report(tid, stream)
    ready.set()
    acl.util.stop_thread(tid)
    acl.rt.launch_callback(print, None, 1, stream)
    assert acl.rt.synchronize_stream(stream) == 507000
    assert rules() == ["runtime.callback_never_run"]
    assert acl.rt.synchronize_stream(stream) == 0


def test_a_thread_cannot_wait_for_its_own_callback(acl, rules) -> None:
    idle = threading.Event()
    thread = threading.Thread(target=idle.wait, args=(30,))
    thread.start()
    acl.rt.subscribe_report(threading.get_ident(), 0)
    acl.rt.launch_callback(print, None, 1, 0)
    assert acl.rt.synchronize_stream(0) == 507000
    assert rules() == ["runtime.callback_never_run"]
    idle.set()
    thread.join()


def test_process_report_times_out_in_simulated_time(acl, m) -> None:
    stream, _ = acl.rt.create_stream()
    acl.rt.subscribe_report(threading.get_ident(), stream)
    before, real = m.thread.now, time.monotonic()
    assert acl.rt.process_report(100_000) == 507012
    assert m.thread.now - before == pytest.approx(100_000_000_000, rel=1e-4)
    assert time.monotonic() - real < 50
    assert acl.rt.process_report(-1) == 507012
    seen = []
    acl.rt.launch_callback(seen.append, 1, 0, stream)
    acl.rt.launch_callback(seen.append, 2, 1, stream)
    assert acl.rt.process_report(-1) == 0
    while len(seen) < 2:
        assert acl.rt.process_report(10) == 0
    assert seen == [1, 2]


def test_join_moves_the_clock_to_the_end_of_the_thread(acl, m) -> None:
    thread = threading.Thread(target=lambda: m.host_cost(us=5000))
    before = m.thread.now
    thread.start()
    thread.join()
    assert m.thread.now == before + 5_000_000


def busy(m: Machine, number: int) -> None:
    acl = acl_package
    acl.rt.set_device(0)
    stream, _ = acl.rt.create_stream()
    host, _ = acl.rt.malloc_host(1 << 16)
    for step in range(12):
        device, _ = acl.rt.malloc(1 << 16, 0)
        acl.rt.memcpy_async(device, 1 << 16, host, 1 << 16, 1, stream)
        if (step + number) % 3 == 0:
            m.host_cost(us=10 * number)
            sum(range(20_000))
        acl.rt.synchronize_stream(stream)
        acl.rt.free(device)
    acl.rt.destroy_stream(stream)
    acl.rt.free_host(host)


def run_threads() -> str:
    m = reset_machine("Ascend910B1", 1)
    acl_package.init()
    threads = [threading.Thread(target=busy, args=(m, number)) for number in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    acl_package.finalize()
    assert {row["thread"] for row in m.record.calls.rows()} == {0, 1, 2, 3}
    return m.record.digest()


def test_threads_give_the_same_record_every_time() -> None:
    assert len({run_threads() for _ in range(4)}) == 1


def test_threads_share_the_copy_engine_by_simulated_time() -> None:
    run_threads()
    from cannlab.machine import machine

    rows = [row for row in machine().record.tasks.rows() if row["kind"] == 1]
    spans = sorted((row["start"], row["end"]) for row in rows)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))


def test_a_sleeping_thread_does_not_stop_the_others(acl, m) -> None:
    go = threading.Event()

    def sleeper() -> None:
        acl_package.rt.get_device_count()
        go.wait(120)

    thread = threading.Thread(target=sleeper)
    thread.start()
    real = time.monotonic()
    for _ in range(20):
        acl.rt.get_device_count()
    assert time.monotonic() - real < 60
    go.set()
    thread.join()


def test_ctrl_c_ends_a_wait(tmp_path) -> None:
    program = tmp_path / "waits.py"
    program.write_text(
        # A shell starts what runs in the background with SIGINT ignored.
        "import signal, threading, time, _thread\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import cannlab.acl as acl\n"
        "acl.rt.set_device(0)\n"
        "stream, _ = acl.rt.create_stream()\n"
        "acl.rt.subscribe_report(threading.get_ident(), stream)\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "threading.Timer(0.5, _thread.interrupt_main).start()\n"
        "try:\n"
        "    acl.rt.process_report(-1)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', acl.rt.free(0))\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "CANNLAB_DIAGNOSES": "off"}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted 100000\n", done.stderr
