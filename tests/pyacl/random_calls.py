"""Random sequences of pyACL calls, for a process of their own: ``python random_calls.py FIRST COUNT`` in a new folder.

Each seed is a sequence. Its functions are drawn from the signature table, so a function that gets a body is drawn from
then on; its arguments are pointers, sizes, handles and objects, mostly of the kind that the parameter's name asks for,
stale ones and wrong ones among them. The process prints the seed it is at, so that whoever started it knows which one
killed it. What a sequence must not do: raise anything but the errors of pyACL, write outside its own memory, keep the
machine's lock, or leave the books of the machine wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import sys
import threading
import traceback
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from raising import may_raise

import cannlab.acl as acl
from cannlab.acl.binding import NotEmulatedError, is_emulated
from cannlab.acl.signatures import Signature, signatures
from cannlab.machine import Machine, reset_machine

MODULES = ("acl", "acl.rt", "acl.mdl", "acl.op", "acl.media", "acl.util")
MODEL = "model.om"
"""A model that the folder may hold."""
ADDRESS_SPACE = 8 << 30
CANARY = 4096
PATIENCE = 60
"""Seconds after which a thread that the sequence started hangs."""

JUNK = [0, 1, 7, 64, 0xA000_0000_0000_0010, 1 << 62, (1 << 64) - 1]
SIZES = [0, 1, 31, 32, 64, 97, 1000, 4096, 5000, 40_000, 1 << 20, 1 << 40, (1 << 64) - 1]
NUMBERS = [0, 0, 1, 1, 2, 3, 4, 5, 7, 12, 16, 64, 255, 1000, -1, (1 << 31) - 1, (1 << 32) - 1]
MISTAKES = [None, 1.5, "x", b"x", [], (1, 0), np.int64(3), True, -1, 1 << 64]
TEXTS = ["", "x", MODEL, "Add", "Cast", "ascend_mbatch_shape_data", "acl.json", "no/such/file", "ü" * 200]

MEMORY = {"data", "ptr", "src", "dst", "buf", "model", "value"}
"""Last words of the names of parameters that take pointers to memory; a handle's parameter is named after its kind."""
EXTENT = {"size", "count", "max", "pitch", "dpitch", "spitch", "width", "height", "alignment", "offset", "num", "index"}


def functions() -> list[Signature]:
    """What is drawn from: everything that is emulated, and as often again what makes something or copies."""
    found = [entry for name, entry in signatures().items() if entry.module in MODULES and is_emulated(name)]
    makers = [entry for entry in found if "p" in entry.values or "mem" in entry.name or "execute" in entry.name]
    return found + makers * 2


FUNCTIONS = functions()


class Sequence:
    """One sequence on a fresh machine; it keeps whatever pointers and handles it ever saw."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.machine: Machine = reset_machine(self.random.choice(["Ascend910B1", "Ascend310P3"]), 2)
        self.memory: list[tuple[int, int]] = []
        """Pointers, and how far behind them one may point: a pointer behind an array of the program's own is no matter
        of the emulation, which lets programs use all memory that they have."""
        self.handles: list[tuple[str, int]] = []
        self.trail: list[str] = []
        self.inside = 0
        self.array = np.full(CANARY * 2 + 5000, 0x5A, np.uint8)
        # No view of the array, whose whole memory would be the program's: this owns what lies between the canaries.
        self.owned = np.frombuffer((ctypes.c_ubyte * 5000).from_address(self.array.ctypes.data + CANARY), np.uint8)
        self.image = np.zeros((8, 8, 3), np.uint8)

    # -- arguments -----------------------------------------------------------------------------------

    def argument(self, letter: str, name: str) -> Any:
        pick = self.random
        if pick.random() < 0.03:
            return pick.choice(MISTAKES)
        if letter == "O":
            return self.object(name)
        if letter == "s":
            return MODEL if name == "path" and pick.random() < 0.6 else pick.choice(TEXTS)
        if letter in "fd":
            return pick.choice([0.0, 1.0, -1.5, 1e300, float("nan"), 3])
        if letter not in "kK":
            return pick.choice(NUMBERS)
        kind = name.rpartition("_")[2]
        if pick.random() < 0.2:
            known = [*(value for value, _ in self.memory), *(value for _, value in self.handles)]
            return pick.choice([*JUNK, *SIZES, *known])
        if kind in EXTENT:
            return pick.choice(SIZES)
        if kind in MEMORY:
            return self.pointer()
        if kind in ("id", "tid"):
            return threading.get_ident()
        fitting = [value for maker, value in self.handles if kind in maker]
        return pick.choice(fitting or [0, *(value for _, value in self.handles)])

    def pointer(self) -> int:
        if not self.memory:
            return self.random.choice(JUNK)
        value, reach = self.random.choice(self.memory)
        return value if self.random.random() < 0.8 else value + self.random.randrange(reach + 1)

    def object(self, name: str) -> Any:
        pick = self.random
        if name == "fn":
            return pick.choice([lambda *_: None, self.step, None, print_nothing])
        numbers = [pick.choice(NUMBERS) for _ in range(pick.randrange(4))]
        values = [pick.choice([value for _, value in self.handles] or JUNK) for _ in range(pick.randrange(3))]
        return pick.choice(
            [numbers, values, numbers, values, {}, {"dims": numbers}, None, self.owned, self.image, bytes(64), (1, 2)]
        )

    # -- calls ---------------------------------------------------------------------------------------

    def step(self, *_: object) -> None:
        """One call; callbacks make one, too."""
        if self.inside > 3:
            return
        entry = self.random.choice(FUNCTIONS)
        count = len(entry.formats)
        if self.random.random() < 0.01:
            count = self.random.randrange(count + 2)
        names = [*entry.arguments, "", ""]
        letters = entry.formats + "kk"
        arguments = [self.argument(letters[at], names[at]) for at in range(count)]
        self.trail.append(f"{entry.name}{tuple(arguments)!r:.300}")
        self.inside += 1
        try:
            result = found(entry)(*arguments)
        except (TypeError, ValueError, NotEmulatedError):
            return
        except RuntimeError:
            if not may_raise(entry.name):
                raise
            return
        finally:
            self.inside -= 1
        values = result if isinstance(result, tuple) else (result,) if entry.results else ()
        assert len(values) == len(entry.results), (entry.name, result)
        if entry.has_code:
            assert type(values[-1]) is int, (entry.name, result)
        for letter, value in zip(entry.values, values, strict=True):
            if letter == "p" and value:
                self.keep(entry.name, value)

    def keep(self, maker: str, value: int) -> None:
        if "malloc" in maker or "reserve" in maker:
            self.memory.append((value, 5000))
        elif maker.startswith("acl.util"):
            self.memory.append((value, 60))
        elif "addr" in maker or maker.endswith("_data"):
            self.memory.append((value, 0))
        else:
            self.handles.append((maker, value))

    def begin(self) -> None:
        """What nearly every program does, and some forget."""
        pick = self.random
        if pick.random() < 0.97:
            acl.init()
        if pick.random() < 0.95:
            acl.rt.set_device(0)
        if pick.random() < 0.5:
            acl.rt.subscribe_report(threading.get_ident(), 0)
        with contextlib.suppress(TypeError):
            self.keep("acl.util.numpy_to_ptr", acl.util.numpy_to_ptr(self.owned))
        for size in (64, 5000):
            for make in (lambda size: acl.rt.malloc(size, 0), acl.rt.malloc_host):
                value, code = make(size)
                if code == 0:
                    self.memory.append((value, 5000))

    def run(self) -> None:
        """The whole sequence and the checks after it."""
        acl.rt.set_device(0)
        # Above the size of shared mappings: no pointer of the program reaches it.
        guarded, code = acl.rt.malloc(50_000, 0)
        assert code == 0
        pattern = np.arange(50_000, dtype=np.uint32).astype(np.uint8).tobytes()
        self.machine.memory.view(guarded, len(pattern))[:] = pattern
        self.begin()
        for _ in range(self.random.randrange(5, 40)):
            self.step()
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join(PATIENCE)
                assert not thread.is_alive(), "a thread of the sequence hangs"
        self.check(guarded, pattern)

    def check(self, guarded: int, pattern: bytes) -> None:
        m = self.machine
        assert m.thread.spot is None
        assert m.thread.nested == 0
        assert not m.clock.lock._is_owned()
        assert bytes(m.memory.view(guarded, len(pattern))) == pattern
        assert (self.array[:CANARY] == 0x5A).all()
        assert (self.array[-CANARY:] == 0x5A).all()
        for device in m.devices:
            live = sum(block.capacity for block in m.memory.blocks if block.live and block.device == device.index)
            assert live <= device.memory_used <= device.memory_total
            assert device.streams >= 0
            assert device.events >= 0
        spans = sorted((block.start, block.start + block.footprint) for block in m.memory.blocks)
        assert all(one[1] <= two[0] for one, two in pairwise(spans))
        assert all(row["start"] <= row["end"] for row in m.record.calls.rows())
        assert all(row["queued"] <= row["start"] <= row["end"] for row in m.record.tasks.rows())


def print_nothing(*_: object) -> None:
    raise ValueError("a callback that fails")


def found(entry: Signature) -> Any:
    """The function itself."""
    target: Any = acl
    for part in entry.name.split(".")[1:]:
        target = getattr(target, part)
    return target


def main(first: int, count: int) -> int:
    """Run the sequences; the number of the seeds that failed comes back."""
    os.environ["CANNLAB_DIAGNOSES"] = "off"
    warnings.simplefilter("ignore")
    traceback.print_exc = lambda *_, **__: None  # type: ignore[assignment]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    failed = 0
    progress = Path("seed")
    for seed in range(first, first + count):
        progress.write_text(str(seed))
        sequence = Sequence(seed)
        try:
            sequence.run()
        except Exception as problem:
            failed += 1
            told = "".join(traceback.format_exception(problem))
            print(f"seed {seed}:", told, *sequence.trail[-8:], sep="\n", flush=True)
    print(f"{count} sequences, {failed} failed", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1]), int(sys.argv[2])), 1))
