"""``cannlab check-env``: prints the report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from cannlab.env.check import check
from cannlab.env.findings import Report, Status
from cannlab.env.system import this_machine
from cannlab.errors import diagnose

_WORDS = {Status.OK: "ok", Status.NOTE: "note", Status.WARN: "warn", Status.FAIL: "FAIL"}
_COLOURS = {Status.OK: "32", Status.NOTE: "36", Status.WARN: "33", Status.FAIL: "31;1"}


def _word(status: Status, colour: bool) -> str:
    word = f"{_WORDS[status]:<4}"
    return f"\033[{_COLOURS[status]}m{word}\033[0m" if colour else word


def text_lines(report: Report, colour: bool = False) -> Iterator[str]:
    """The report for a person: one line for each check, the fix command under a failed one."""
    yield from report.summary
    yield ""
    for finding in report.findings:
        code = f"[{finding.code}] " if finding.code else ""
        yield f"  {_word(finding.status, colour)}  {code}{finding.text}"
        if finding.fix:
            yield f"        fix: {finding.fix}"
    yield ""
    failed = [finding for finding in report.findings if finding.status is Status.FAIL]
    if failed:
        checks = "1 check" if len(failed) == 1 else f"{len(failed)} checks"
        yield f"{checks} failed: run the fix command under it, then cannlab check-env again."
    else:
        yield "Everything the course needs is here. Next: cannlab learn start"


def run(as_json: bool, roots: list[Path]) -> int:
    """Check this machine and print the report.

    Returns:
        0 fine, 1 something is broken, 2 a ``--root`` is no folder.
    """
    for root in roots:
        if not root.is_dir():
            print(diagnose("cli.check_env_root", folder=str(root)).text(), file=sys.stderr)
            return 2
    report = check(this_machine(), [str(root.absolute()) for root in roots])
    if as_json:
        print(json.dumps(report.to_dict(), indent=2))
    else:
        print("\n".join(text_lines(report, colour=sys.stdout.isatty())))
    return 0 if report.fine else 1
