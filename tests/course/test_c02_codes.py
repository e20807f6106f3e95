"""The codes that the exercise read_a_code expects are those that the machine returns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import cannlab.acl as acl
from cannlab.course.checks import c02_acl_first as lesson
from cannlab.machine import reset_machine


def variants(template: str) -> list[str]:
    """The calls of a template with the first and the last number of each range."""
    _, names = lesson._pattern(template)
    ends = [(lesson._RANGES[name][0], lesson._RANGES[name][1] - 1) for name in names]
    return [template.format(**dict(zip(names, values, strict=True))) for values in itertools.product(*ends)]


@pytest.mark.parametrize("template", lesson._CODES)
def test_machine_and_table_agree(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_DIAGNOSES", "off")
    for text in variants(template):
        machine = reset_machine("Ascend910B1", 8)
        acl.init()
        acl.rt.set_device(0)
        buffer = bytes(64)
        names = {"acl": acl, "h": acl.util.bytes_to_ptr(buffer)}
        names["p"], _ = acl.rt.malloc(64, 0)
        names["s"], _ = acl.rt.create_stream()
        names["e"], _ = acl.rt.create_event()
        assert eval(text, names) == lesson._code_of(text) == lesson._CODES[template], text
        assert {fault["rule"] for fault in machine.record.faults} <= set(lesson._READ_A_CODE.faults), text
    reset_machine()


def test_each_learner_gets_a_call_of_each_family() -> None:
    for seed in range(50):
        calls = lesson._four_calls(np.random.default_rng(seed), None)["calls"]
        codes = sorted(lesson._code_of(text) for text in calls)
        assert codes[0] == 0
        assert 100000 in codes
        assert any(107000 <= code < 108000 for code in codes)
        assert len(set(codes)) == 4
