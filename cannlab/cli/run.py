"""``cannlab run``: a Python program as ``__main__`` in this process, with the emulator active."""

from __future__ import annotations

import argparse
import atexit
import builtins
import importlib.util
import io
import os
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from cannlab import soc
from cannlab.activation import activate
from cannlab.errors import CannlabError, Diagnosis, diagnose

BAD_USAGE = 2
INTERRUPTED = 130
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cannlab run",
        usage="cannlab run [--soc NAME] [--devices N] [--trace FILE] (prog.py | -m module) [arguments ...]",
        description="Run a Python program with the emulator active. Everything after the program is the program's.",
        allow_abbrev=False,
    )
    parser.add_argument("--soc", metavar="NAME", help="SoC to emulate (default: CANNLAB_SOC, or Ascend910B1)")
    parser.add_argument("--devices", metavar="N", help="number of emulated devices (default: CANNLAB_DEVICES, or 8)")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write the record of the run to FILE (.npz)")
    return parser


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], str | None, list[str]]:
    """Split the words after ``run``: cannlab's options, the module's name (None for a file), the program's words.

    The first word that is no option is the program; what follows it is not looked at.
    """
    own: list[str] = []
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word == "-m" or word == "--module":
            return own, arguments[at + 1] if at + 1 < len(arguments) else "", list(arguments[at + 2 :])
        if word == "--":
            return own, None, list(arguments[at + 1 :])
        if not word.startswith("-") or word == "-":
            return own, None, list(arguments[at:])
        own.append(word)
        if word in ("--soc", "--devices", "--trace") and at + 1 < len(arguments):
            at += 1
            own.append(arguments[at])
        at += 1
    return own, None, []


class _Program:
    """A program that is ready to run: its code, the module it runs in, and what sys.argv and sys.path[0] become."""

    def __init__(self, code: CodeType, module: ModuleType, argv: list[str], path: str) -> None:
        self.code = code
        self.module = module
        self.argv = argv
        self.path = path


def _file_program(path: str, arguments: list[str]) -> _Program | Diagnosis:
    folder = os.path.dirname(path) or "."
    file = os.path.join(path, "__main__.py") if os.path.isdir(path) else path
    full = os.path.abspath(file)
    try:
        with io.open_code(full) as source:
            text = source.read()
    except OSError as error:
        return diagnose("cli.no_program", path=path, problem=error.strerror or str(error), folder=folder)
    if b"\0" in text:
        return diagnose("cli.no_program", path=path, problem="it is no Python source", folder=folder)
    module = ModuleType("__main__")
    module.__file__ = full
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    module.__loader__ = SourceFileLoader("__main__", full)
    module.__spec__ = None
    code = compile(text, full, "exec", dont_inherit=True)
    return _Program(code, module, [path, *arguments], os.path.dirname(os.path.realpath(full)))


def _module_program(name: str, arguments: list[str]) -> _Program | Diagnosis:
    """As ``python -m name``: a package runs its __main__."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        spec: ModuleSpec | None = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        return diagnose("cli.no_module", module=name or "(none given)", problem=str(error) or "it has no name")
    finally:
        sys.path.remove(here)
    if spec is None or spec.loader is None or not hasattr(spec.loader, "get_code"):
        return diagnose("cli.no_module", module=name, problem="there is no such module, or no __main__ in the package")
    code = spec.loader.get_code(spec.name)
    if code is None:
        return diagnose("cli.no_module", module=name, problem="it is not written in Python")
    module = ModuleType("__main__")
    module.__file__ = spec.origin
    module.__builtins__ = builtins  # type: ignore[attr-defined]
    module.__loader__ = spec.loader
    module.__spec__ = spec
    module.__package__ = spec.parent
    return _Program(code, module, [spec.origin or name, *arguments], here)


def _own_frames_left_out(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without cannlab's frames (all of it if nothing else is in it)."""
    kept = []
    step = trace
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(_PACKAGE) and not file.startswith("<frozen "):
            kept.append(step)
        step = step.tb_next
    if not kept:
        return trace
    result: TracebackType | None = None
    for step in reversed(kept):
        result = TracebackType(result, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return result


def _print_failure(error: BaseException) -> None:
    """Print the learner's traceback, as the interpreter would; ``CANNLAB_TRACEBACK=full`` keeps every frame."""
    if os.environ.get("CANNLAB_TRACEBACK") != "full":
        seen: set[int] = set()
        waiting: list[BaseException | None] = [error]
        while waiting:
            each = waiting.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            each.__traceback__ = _own_frames_left_out(each.__traceback__)
            waiting += [each.__cause__, each.__context__]
    sys.stdout.flush()
    sys.excepthook(type(error), error, error.__traceback__)


def _exit_status(leave: SystemExit) -> int:
    """The status that the interpreter would end with."""
    if leave.code is None:
        return 0
    if isinstance(leave.code, int):
        return leave.code
    print(leave.code, file=sys.stderr)
    return 1


def _execute(program: _Program) -> int:
    """Run the program; returns its exit status."""
    # Our own first entry (the folder of the console script, or the current one under -m) gives way to the program's.
    ours = {os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0]))}
    if sys.path and os.path.abspath(sys.path[0]) in ours and not sys.flags.safe_path:
        del sys.path[0]
    sys.path.insert(0, program.path)
    sys.argv[:] = program.argv
    sys.modules["__main__"] = program.module
    try:
        exec(program.code, program.module.__dict__)
    except SystemExit as leave:
        return _exit_status(leave)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BaseException as error:
        _print_failure(error)
        return 1
    return 0


def _finish() -> None:
    """Let the program end as the interpreter would: its other threads, then its exit handlers."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()


def _save_record(path: Path) -> Diagnosis | None:
    from cannlab.machine import machine

    try:
        machine().record.save(path)
    except OSError as error:
        return diagnose("cli.trace_unwritable", path=str(path), problem=error.strerror or str(error))
    return None


def main(arguments: Sequence[str]) -> int:
    """Run ``cannlab run`` with these words.

    Returns:
        The program's exit status; 2 for bad usage or a program that cannot be read, 1 if the record could
        not be written.

    Raises:
        CannlabError: what activation raises (an unknown SoC, a bad number of devices).
    """
    own, module, words = split_arguments(arguments)
    parser = _parser()
    try:
        options = parser.parse_args(own)
    except SystemExit as leave:
        return int(leave.code or 0)
    if module is None and not words:
        parser.print_usage(sys.stderr)
        print("cannlab run: error: give a program, or -m and a module", file=sys.stderr)
        return BAD_USAGE
    for name, value in (("CANNLAB_SOC", options.soc), ("CANNLAB_DEVICES", options.devices)):
        if value is not None:
            os.environ[name] = value
    soc.current()
    soc.device_count()
    if options.trace is not None:
        parent = options.trace.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK) or options.trace.is_dir():
            problem = (
                "its folder does not exist or cannot be written" if not options.trace.is_dir() else "it is a folder"
            )
            raise CannlabError(diagnose("cli.trace_unwritable", path=str(options.trace), problem=problem))
        options.trace = options.trace.absolute()

    activate()
    try:
        program = _module_program(module, words) if module is not None else _file_program(words[0], words[1:])
    except SyntaxError as error:
        _print_failure(error.with_traceback(None))
        return 1
    if isinstance(program, Diagnosis):
        print(program.text(), file=sys.stderr)
        return BAD_USAGE
    status = _execute(program)
    if options.trace is not None:
        try:
            _finish()
        finally:
            problem_found = _save_record(options.trace)
        if problem_found is not None:
            print(problem_found.text(), file=sys.stderr)
            return status or 1
    return status
