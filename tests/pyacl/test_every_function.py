"""Every emulated function with arguments of the right kinds: handles of every sort, stale, null, and odd numbers."""

from __future__ import annotations

import contextlib
import random
import warnings
from typing import Any

import numpy as np
import pytest
from raising import may_raise

import cannlab.acl as acl
from cannlab.acl.binding import NotEmulatedError, is_emulated
from cannlab.acl.signatures import Signature, signatures
from cannlab.machine import reset_machine

LEFT_OUT = ("acl.util.start_thread", "acl.util.stop_thread", "acl.rt.process_report", "acl.finalize")
LEFT_OUT += ("acl.rt.get_group_info_detail",)  # It always raises RuntimeError, as the real one does when it fails.
EMULATED = [entry for name, entry in signatures().items() if is_emulated(name) and name not in LEFT_OUT]


def handles() -> list[int]:
    """A handle of every kind that is made without arguments, pointers of every kind, and numbers that are none."""
    found = [0, 1, 7, 1 << 63, 0xA000_0000_0000_0010]
    for entry in EMULATED:
        made = entry.name.rpartition(".")[2]
        if not entry.formats and "create" in made:
            result = call(entry, [])
            found.append(result[0] if isinstance(result, tuple) else result)
    for pointer in (acl.rt.malloc(4096, 0), acl.rt.malloc_host(4096), acl.media.dvpp_malloc(4096)):
        found.append(pointer[0])
    found.append(acl.media.dvpp_create_roi_config(0, 15, 0, 15))
    found.append(acl.media.dvpp_create_batch_pic_desc(2))
    found.append(acl.create_tensor_desc(1, [4], 2))
    found.append(acl.create_data_buffer(found[-4], 4096))
    stale = acl.rt.create_event()[0]
    acl.rt.destroy_event(stale)
    return [*found, stale]


def call(entry: Signature, arguments: list[Any]) -> Any:
    target: Any = acl
    for part in entry.name.split(".")[1:]:
        target = getattr(target, part)
    return target(*arguments)


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend310P3"])
def test_junk_of_the_right_kind_gives_codes(soc, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("CANNLAB_DIAGNOSES", "off")
    monkeypatch.chdir(tmp_path)  # Some functions make the folder that they are given.
    warnings.simplefilter("ignore")
    rng = random.Random(soc)
    text = np.frombuffer(b"x" * 64, np.uint8)
    odd = {
        "s": ["", "x", "Add", "acl.json"],
        "O": [[], [0], [1, 2], {}, {"dims": [1]}, None, print, text, b"x", (2, 3)],
        "f": [0.0, 1.5],
        "d": [0.0, 255.0],
    }
    for seed in range(12):
        reset_machine(soc, 2)
        acl.init()
        acl.rt.set_device(0)
        known = handles()
        for entry in rng.sample(EMULATED, len(EMULATED)):
            arguments = []
            for letter in entry.formats:
                numbers = [*known, 2, 3, 12, 64, 4096, (1 << 32) - 1] if letter in "kK" else [0, 1, 2, 3, 12, 64, 255]
                arguments.append(rng.choice(odd.get(letter, numbers)))
            raised = (RuntimeError,) if may_raise(entry.name) else ()
            with contextlib.suppress(TypeError, ValueError, NotEmulatedError, *raised):
                result = call(entry, arguments)
                values = result if isinstance(result, tuple) else (result,) if entry.results else ()
                assert entry.results or result is None
                assert len(values) == len(entry.results), (seed, entry.name, arguments, result)
                if entry.has_code:
                    assert type(values[-1]) is int, (seed, entry.name, arguments, result)
        acl.rt.set_device(0)
        acl.rt.synchronize_device()
