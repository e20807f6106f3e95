"""CANNLAB_FAULT: each fault happens where it was asked for and gives the code of hardware."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import cannlab.acl as acl
from cannlab.errors import CannlabError
from cannlab.machine import Engine, Work, machine, reset_machine
from cannlab.machine.requested_faults import parse
from cannlab.trace import TaskKind


def start(faults: str) -> None:
    reset_machine("Ascend910B1", 2, faults)
    assert acl.init() == 0
    assert acl.rt.set_device(0) == 0


def mallocs(count: int) -> list[int]:
    return [acl.rt.malloc(64, 0)[1] for _ in range(count)]


def compute(core_type: str = "AI_CORE", kind: TaskKind = TaskKind.KERNEL) -> int:
    """Queue one piece of work on the default stream and wait for it."""
    stream = machine().thread.context.default_stream
    stream.submit(kind, "work", lambda: Work(1000), engine=Engine.COMPUTE, core_type=core_type)
    return acl.rt.synchronize_stream(0)


def test_out_of_memory_at_the_nth_allocation() -> None:
    start("oom@3")
    assert mallocs(5) == [0, 0, 207001, 0, 0]
    start("oom@3+")
    assert mallocs(5) == [0, 0, 207001, 207001, 207001]
    assert acl.rt.malloc_host(64)[1] == 0
    assert acl.media.dvpp_malloc(64) == (0, 207001)


def test_a_fault_of_one_device_counts_there_only() -> None:
    start("oom@2:1")
    assert mallocs(3) == [0, 0, 0]
    acl.rt.set_device(1)
    assert mallocs(3) == [0, 207001, 0]


def test_two_faults_count_apart() -> None:
    start("oom@1, oom@3")
    assert mallocs(4) == [207001, 0, 207001, 0]


@pytest.mark.parametrize(
    ("core_type", "kind", "code"),
    [
        ("AI_CORE", TaskKind.KERNEL, 507015),
        ("AI_VECTOR_CORE", TaskKind.KERNEL, 507035),
        ("MODEL_EXECUTE", TaskKind.MODEL, 507011),
    ],
)
def test_an_exception_of_the_cores(core_type, kind, code) -> None:
    start("aicore@2")
    seen = []
    acl.rt.set_exception_info_callback(lambda info: seen.append(acl.rt.get_error_code_from_exception_info(info)))
    assert [compute(core_type, kind) for _ in range(3)] == [0, code, 0]
    assert seen == [code]
    # A copy is no work of the cores.
    assert acl.rt.memset_async(acl.rt.malloc(64, 0)[0], 64, 0, 64, 0) == 0


def test_a_faulty_task_has_no_effect() -> None:
    start("aicore@1")
    done = []
    stream = machine().thread.context.default_stream
    stream.submit(TaskKind.KERNEL, "work", lambda: done.append(1) or Work(1), engine=Engine.COMPUTE)
    assert acl.rt.synchronize_stream(0) == 507015
    assert done == []


def test_a_lost_device() -> None:
    start("lost@2")
    pointer, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    assert acl.rt.query_device_status(0) == (0, 0)
    assert acl.rt.memcpy(pointer, 64, host, 64, 1) == 0
    assert acl.rt.memcpy(pointer, 64, host, 64, 1) == 507010
    assert acl.rt.query_device_status(0) == (1, 0)
    assert acl.rt.malloc(64, 0) == (0, 507010)
    assert acl.rt.synchronize_stream(0) == 507010
    assert acl.rt.memset_async(pointer, 64, 0, 64, 0) == 507010
    # The way out still works, and the other device.
    assert acl.rt.free(pointer) == 0
    assert acl.rt.reset_device(0) == 0
    assert acl.rt.set_device(1) == 0
    assert mallocs(1) == [0]


def test_a_lost_device_while_tasks_are_queued() -> None:
    start("lost@2")
    pointer, _ = acl.rt.malloc(64, 0)
    for _ in range(3):
        assert acl.rt.memset_async(pointer, 64, 0, 64, 0) == 0
    assert acl.rt.synchronize_stream(0) == 507010


def test_a_slow_link() -> None:
    def copy_ns(faults: str) -> int:
        start(faults)
        pointer, host = acl.rt.malloc(1 << 20, 0)[0], acl.rt.malloc_host(1 << 20)[0]
        acl.rt.memcpy(pointer, 1 << 20, host, 1 << 20, 1)
        row = list(machine().record.tasks.rows())[-1]
        return row["end"] - row["start"]

    plain = copy_ns("")
    assert copy_ns("slow*10") == 10 * plain
    assert copy_ns("slow*10:1") == plain
    assert copy_ns("slow*2,slow*3:0") == 6 * plain


@pytest.mark.parametrize(
    "bad", ["oom", "oom@0", "oom@x", "oom@1++", "slow@2", "slow*0", "oom@1:2", "lost@1;oom@2", "x@1"]
)
def test_what_is_no_fault_is_refused(bad) -> None:
    with pytest.raises(CannlabError) as caught:
        parse(bad, 2)
    assert caught.value.diagnosis.rule == "runtime.fault_grammar"


def test_the_environment_asks() -> None:
    program = "import cannlab.acl as acl; acl.init(); acl.rt.set_device(0); print(acl.rt.malloc(64, 0)[1])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CANNLAB_FAULT": "oom@1", "CANNLAB_DIAGNOSES": "off"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "207001\n"
