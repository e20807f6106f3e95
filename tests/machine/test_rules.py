"""The wording of memory, runtime and model mistakes."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

import cannlab
from cannlab.errors.tables import known_codes, rules

OURS = [rule for rule in rules().values() if rule.id.split(".")[0] in ("memory", "runtime", "model")]
SOURCE = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("machine", "acl")
    for path in (Path(cannlab.__file__).parent / folder).rglob("*.py")
)


@pytest.mark.parametrize("rule", OURS, ids=lambda rule: rule.id)
def test_a_rule_is_complete(rule) -> None:
    for text in (rule.title, rule.what, rule.rule, rule.remedy, rule.source, rule.lesson):
        assert text.strip()
    assert rule.causes
    assert rule.remedy.rstrip().endswith(".")
    for code in rule.codes.values():
        assert code == "" or code in known_codes()
    for text in (rule.what, rule.rule, rule.remedy):
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
        assert all(name.isidentifier() for name in names)


@pytest.mark.parametrize("rule", OURS, ids=lambda rule: rule.id)
def test_a_rule_is_used(rule) -> None:
    assert f'"{rule.id}"' in SOURCE


def test_every_rule_that_is_raised_exists() -> None:
    raised = set(re.findall(r'"((?:memory|runtime|model)\.[a-z_0-9]+)"', SOURCE))
    assert raised <= {rule.id for rule in OURS} | {"model.om"}
