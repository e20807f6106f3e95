"""The backend suite of the ONNX package through atc and acl; ``outcomes.csv`` is what comes of each case.

After a change that is meant, write the table anew: ``python tests/conformance/run_suite.py --write``.
"""

from collections import Counter

import pool
import pytest
import run_suite
import suite

EVERY = 47
"""The fast test tries each 47th case; a prime, so that families of cases do not fall through."""
SHARE = 0.8


@pytest.fixture(scope="module")
def cases():
    return suite.load()


@pytest.fixture(scope="module")
def table():
    return {row.case: row for row in run_suite.read()}


def test_every_case_is_in_the_table(cases, table):
    assert [case.name for case in cases] == list(table)
    assert len(table) > 2000


def test_nothing_is_wrong_crashes_or_hangs(table):
    for row in table.values():
        assert not {row.as_is, row.result} & {"wrong", "crash", "timeout"}, row


def test_most_cases_that_can_be_right_are_right(table):
    right, everything = run_suite.share(list(table.values()))
    assert right / everything >= SHARE


def test_refusals_have_the_codes_of_their_kind(table):
    codes = {
        "refused_opset": {"E19010"},
        "refused_operator": {"E19010"},
        "refused_attribute": {"E19999"},
        "refused_kernel": {"EZ3002"},
        "refused_type": {"EZ3002", "EZ3003", "E19999"},
        "refused_shape": {"E89999", "E10011"},
        "refused_graph": {"E16001", "E19999"},
        "not_emulated": {"E10055"},
        "right": {""},
        "deployed": {""},
    }
    kinds = Counter()
    for row in table.values():
        kinds[row.as_is] += 1
        assert row.as_is_code in codes[row.as_is], row
        assert row.code in codes.get(row.result, {""}), row
    assert {"refused_opset", "refused_operator", "refused_attribute", "refused_type", "deployed"} <= set(kinds)


def test_a_sample_gives_the_outcomes_of_the_table(cases, table):
    again(pool.spread(cases, EVERY), table)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_whole_suite_gives_the_outcomes_of_the_table(cases, table):
    again(cases, table)


def again(cases, table):
    found = run_suite.rows(cases, workers=2)
    wanted = [table[case.name] for case in cases]
    assert found == wanted
