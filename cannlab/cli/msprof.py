"""``msprof``: run an application and keep its profile; export a profile that was kept. Source: profiles 4.

What a profile holds is written when the application ends (``cannlab.profiler.prof_directory``), so there is nothing
left for ``--export`` to parse; it makes the tables anew where they were deleted.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cannlab.activation import PROFILE, emulated_names
from cannlab.env.toolkit import emulated_toolkit
from cannlab.errors import CannlabError, diagnose

_COLLECTED = ("ascendcl", "task-time", "aic-metrics", "msproftx", "task-memory")
"""Options that decide what is collected here."""
_WITHOUT_EFFECT = (
    *("ai-core", "aic-mode", "aic-freq", "aiv", "aicpu", "aiv-mode", "aiv-freq", "hccl", "l2", "model-execution"),
    *("runtime-api", "ge-api", "storage-limit", "delay", "duration", "python-path", "type", "clear", "environment"),
    *("host-sys", "host-sys-pid", "host-sys-usage", "host-sys-usage-freq", "instr-profiling", "instr-profiling-freq"),
    *("sys-cpu-freq", "sys-cpu-profiling", "sys-hardware-mem", "sys-hardware-mem-freq", "sys-interconnection-freq"),
    *(
        "sys-interconnection-profiling",
        "sys-io-profiling",
        "sys-io-sampling-freq",
        "sys-pid-profiling",
        "sys-pid-sampling-freq",
    ),
    *("sys-profiling", "sys-sampling-freq", "dvpp-freq", "dvpp-profiling", "llc-profiling"),
    *("model-id", "iteration-id", "summary-format", "reports"),
)
"""Options of the real command that are taken and change nothing here."""
_NOT_EMULATED = ("dynamic", "pid", "analyze", "query", "rule")
_MODES = ("export", "parse")
_METRICS = (
    *("ArithmeticUtilization", "PipeUtilization", "Memory", "MemoryL0", "ResourceConflictRatio", "MemoryUB"),
    *("L2Cache", "PipelineExecuteUtilization", "MemoryAccess"),
)
_SWITCH = ("on", "off")
_VALUES = {
    "ascendcl": _SWITCH,
    "msproftx": _SWITCH,
    "task-memory": _SWITCH,
    "task-time": ("on", "off", "l0", "l1"),
    "aic-metrics": _METRICS,
    "export": _SWITCH,
    "parse": _SWITCH,
}
_USAGE = """\
usage: msprof [--output=DIR] [--ascendcl=on|off] [--task-time=on|off|l0|l1] [--aic-metrics=GROUP] [--msproftx=on|off]
              (--application="COMMAND" | COMMAND ARGUMENTS ...)
       msprof --export=on --output=DIR
Run a command on the emulated devices and write its profile (PROF_...) into DIR. All times are simulated."""


@dataclass
class _Wanted:
    """A command line: options by name, and the application's words."""

    options: dict[str, str] = field(default_factory=dict)
    application: list[str] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    """Run ``msprof`` with these words.

    Returns:
        The application's exit status; 1 where nothing could be profiled, 2 for bad usage.

    Raises:
        CannlabError: an output folder that cannot be made, an option that is not emulated.
    """
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(_USAGE)
        return 0 if arguments else 2
    if arguments[0] == "op":
        raise CannlabError(
            diagnose(
                "cli.not_emulated",
                command="msprof op",
                detail="no OPPROF folder was written",
                instead="cannlab profile --kernel NAME prog.py",
            )
        )
    try:
        wanted = _parsed(arguments)
    except ValueError as problem:
        print(f"msprof: error: {problem}\n{_USAGE}", file=sys.stderr)
        return 2
    folder = Path(wanted.options.get("output", ".")).absolute()
    if "on" in (wanted.options.get(mode) for mode in _MODES):
        return _export(folder)
    return _profile(wanted, folder)


def _parsed(arguments: Sequence[str]) -> _Wanted:
    """Options, up to the first word that is none.

    Raises:
        ValueError: bad usage. CannlabError: an option that is not emulated.
    """
    found = _Wanted()
    at = 0
    while at < len(arguments) and arguments[at].startswith("--"):
        name, equals, value = arguments[at][2:].partition("=")
        if not equals:
            raise ValueError(f"--{name} needs a value: --{name}=VALUE")
        if name in _NOT_EMULATED:
            command = f"msprof --{name}"
            instead = "Profile whole runs: msprof --output=DIR python prog.py"
            raise CannlabError(
                diagnose("cli.not_emulated", command=command, detail="nothing was done", instead=instead)
            )
        if name not in ("output", "application", *_COLLECTED, *_MODES, *_WITHOUT_EFFECT):
            raise ValueError(f"there is no option --{name}")
        if value not in _VALUES.get(name, (value,)):
            raise ValueError(f"--{name} is one of {', '.join(_VALUES[name])}, not {value!r}")
        found.options[name] = value
        at += 1
    found.application = list(arguments[at:])
    if "application" in found.options:
        if found.application:
            raise ValueError("give --application or a command, not both")
        found.application = shlex.split(found.options["application"])
    return found


def _profile(wanted: _Wanted, folder: Path) -> int:
    if not wanted.application:
        print(f'msprof: error: give a command: --application="python prog.py"\n{_USAGE}', file=sys.stderr)
        return 2
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise CannlabError(diagnose("prof.path", folder=str(folder), reason=reason)) from problem
    before = set(folder.glob("PROF_*"))
    config = {name.replace("-", "_"): wanted.options[name] for name in _COLLECTED if name in wanted.options}
    toolkit = emulated_toolkit(emulated_names())
    environment = {**os.environ, **toolkit.environment(os.environ), "CANNLAB_BACKEND": "emulated"}
    environment[PROFILE] = json.dumps({**config, "output": str(folder)})
    print(f"msprof (emulated): profiling {shlex.join(wanted.application)}", flush=True)
    try:
        status = subprocess.run(wanted.application, env=environment).returncode
    except OSError as problem:
        reason = problem.strerror or str(problem)
        print(f"msprof: error: {wanted.application[0]} cannot be run: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    made = sorted(set(folder.glob("PROF_*")) - before)
    for path in made:
        print(f"msprof (emulated): the profile is in {path}")
    if not made:
        print(
            "msprof: error: nothing was collected: the application called no device.\n"
            "  do: profile a Python program that imports acl, asc or torch_npu.",
            file=sys.stderr,
        )
    return status or int(not made)


def _export(folder: Path) -> int:
    """Make the tables of kept profiles, where they are not there."""
    from cannlab.profiler.prof_directory import OUTPUT, export
    from cannlab.trace import Record

    kept = [folder] if (folder / "host").is_dir() else sorted(path for path in folder.glob("PROF_*") if path.is_dir())
    if not kept:
        print(f"msprof: error: there is no PROF_ folder in {folder}: give one as --output=", file=sys.stderr)
        return 1
    status = 0
    for path in kept:
        record = path / "host" / "data" / "record.npz"
        if (path / OUTPUT).is_dir():
            print(f"msprof (emulated): {path / OUTPUT} is there already")
        elif not record.is_file():
            print(f"msprof: error: {path} holds no data of the emulation ({record.name})", file=sys.stderr)
            status = 1
        else:
            try:
                export(path, Record.load(record))
            except (OSError, ValueError) as problem:
                print(f"msprof: error: {record} cannot be read: {problem}", file=sys.stderr)
                status = 1
                continue
            print(f"msprof (emulated): exported to {path / OUTPUT}")
    return status
