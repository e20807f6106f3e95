"""``cannlab profile``: where the time of a model, or of a program and its kernels, goes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cannlab import soc
from cannlab.errors import CannlabError, diagnose
from cannlab.profiler import summary
from cannlab.trace import Record

_VALUED = ("--soc", "--kernel", "--most")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cannlab profile",
        usage="cannlab profile [--json] [--soc NAME] [--kernel NAME] [--most N] (model.om | prog.py [arguments ...])",
        description="Where the time goes: of one execution of a compiled model, or of a run of a program. Simulated.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print JSON (the program's own output goes to stderr)")
    parser.add_argument("--soc", metavar="NAME", help="chip (default: the model's own, or CANNLAB_SOC for a program)")
    parser.add_argument("--kernel", metavar="NAME", default="", help="only launches of this kernel")
    parser.add_argument("--most", metavar="N", type=int, default=20, help="operators to show (default 20)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run ``cannlab profile`` with these words.

    Returns:
        0; 2 for bad usage; the program's own status where it fails.

    Raises:
        CannlabError: an om that cannot be read, an unknown SoC.
    """
    own, words = _split(arguments)
    parser = _parser()
    try:
        options = parser.parse_args(own)
    except SystemExit as leave:
        return int(leave.code or 0)
    if not words:
        parser.print_usage(sys.stderr)
        print("cannlab profile: error: give an om or a program", file=sys.stderr)
        return 2
    status = 0
    if words[0].endswith(".om"):
        from cannlab import om

        if len(words) > 1 or options.kernel:
            parser.print_usage(sys.stderr)
            print("cannlab profile: error: an om takes no arguments, and has no kernels to choose", file=sys.stderr)
            return 2
        found = summary.of_model(om.read(words[0]), soc.get(options.soc) if options.soc else None)
    else:
        record, status = _run(words, options.soc, sys.stderr if options.json else None)
        if record is None:
            return status
        found = summary.of_record(record, options.kernel)
        if options.kernel and not found.operators:
            names = sorted({trace.meta["name"] for trace in record.kernels})
            raise CannlabError(
                diagnose("cli.no_kernel", name=options.kernel, known=", ".join(names) or "none was launched")
            )
    print(json.dumps(found.to_json(), indent=1) if options.json else found.text(options.most))
    return status


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the words from the first that is none on."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in _VALUED else 1
    return list(arguments[:at]), list(arguments[at:])


def _run(words: Sequence[str], chip: str | None, out: object) -> tuple[Record | None, int]:
    """Run a program in a process of its own; its record, None where it left none, and its status."""
    if chip is not None:
        soc.get(chip)
    with tempfile.TemporaryDirectory(prefix="cannlab-profile-") as folder:
        path = Path(folder) / "record.npz"
        command = [sys.executable, "-m", "cannlab", "run", *(["--soc", chip] if chip else []), "--trace", str(path)]
        parent = str(Path(__file__).resolve().parents[2])
        paths = [parent, *filter(None, [os.environ.get("PYTHONPATH", "")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            status = subprocess.run([*command, *words], env=environment, stdout=out).returncode  # type: ignore[call-overload]
        except KeyboardInterrupt:
            return None, 130
        return (Record.load(path) if path.exists() else None), int(status)
