"""Writes down every kernel that a program launches, as text that stands alone, and what the emulator said to it.

A pytest plugin (``-p kernel_recorder``) and a program (``kernel_recorder.py FILE...`` runs scripts and notebooks).
``KERNEL_RECORD`` names the file: a JSON line for each kernel and kinds of arguments.
"""

import ast
import contextlib
import enum
import inspect
import json
import os
import sys
import tempfile
import textwrap
import types
from pathlib import Path

import numpy as np

import cannlab.ascendc as asc
from cannlab.ascendc.codegen.errors import CodegenError
from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.ir_value import PassesFailed
from cannlab.ascendc.language.core.struct import Struct
from cannlab.ascendc.runtime.jit import JITFunction, MockTensor, MockValue
from cannlab.machine.core import KernelFault

_HOMES = (
    ("cannlab.ascendc.language.adv", "asc.language.adv"),
    ("cannlab.ascendc", "asc"),
    ("asc", "asc"),
    ("numpy", "np"),
)


class Unportable(Exception):
    """A value that has no text of its own."""


def expression(value, unit):
    """A value of the emulator as text for the official package."""
    if isinstance(value, enum.Enum):
        home = "config." if type(value).__module__.endswith("runtime.config") else "asc."
        return f"{home}{type(value).__name__}.{value.name}"
    if isinstance(value, DataType):
        return f"asc.DataType({value.name!r})"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        inside = ", ".join(expression(each, unit) for each in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({value.item()!r})"
    if isinstance(value, JITFunction):
        unit.function(value)
        return value.name
    if isinstance(value, Struct):
        if not type(value).__module__.startswith("cannlab.ascendc"):
            unit.struct(type(value))
        fields = ", ".join(
            f"{name}={expression(object.__getattribute__(value, name), unit)}" for name in type(value).struct_fields
        )
        home = "asc.adv." if type(value).__module__.startswith("cannlab.ascendc") else ""
        return f"{home}{type(value).__name__}({fields})"
    if isinstance(value, type) and issubclass(value, Struct) and not value.__module__.startswith("cannlab"):
        unit.struct(value)
        return value.__name__
    name = getattr(value, "__name__", "")
    module = name if isinstance(value, types.ModuleType) else str(getattr(value, "__module__", ""))
    if isinstance(value, types.ModuleType):
        for prefix, to in _HOMES:
            if module == prefix or module.startswith(prefix + "."):
                return to + module[len(prefix) :]
        if module in sys.stdlib_module_names:
            return f"__import__({module!r})"
    elif module.startswith(("cannlab.ascendc", "asc.")):
        return f"asc.adv.{name}" if ".adv" in module else f"asc.{name}"
    elif module == "numpy" or isinstance(value, type):
        return f"np.{name}" if module == "numpy" else name
    elif isinstance(value, types.FunctionType):
        unit.plain(value)
        return value.__name__
    raise Unportable(f"{type(value).__name__} {name or value!r}")


class Unit:
    """The text of one kernel with everything that it refers to."""

    def __init__(self):
        self.lines = []
        self._seen = set()

    def _names(self, function, tree):
        for node in ast.walk(tree):
            # A parameter of that name hides the program's variable.
            local = isinstance(node, ast.Name) and node.id in function.__code__.co_varnames
            if isinstance(node, ast.Name) and not local and node.id in function.__globals__:
                value = function.__globals__[node.id]
                if (node.id, id(value)) in self._seen:
                    continue
                self._seen.add((node.id, id(value)))
                text = expression(value, self)
                if text != node.id:
                    self.lines.append(f"{node.id} = {text}")

    def function(self, kernel):
        if kernel.fn in self._seen:
            return
        self._seen.add(kernel.fn)
        self._seen.add((kernel.name, id(kernel)))
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.fn))).body[0]
        tree.decorator_list = []
        self._names(kernel.fn, tree)
        self.lines.append("@asc.jit\n" + ast.unparse(tree))

    def struct(self, cls):
        if cls in self._seen:
            return
        self._seen.add(cls)
        self.lines.append(textwrap.dedent(inspect.getsource(cls)))

    def plain(self, function):
        if function in self._seen:
            return
        self._seen.add(function)
        self.lines.append(textwrap.dedent(inspect.getsource(function)))


def argument(value, unit):
    """A launch's argument for the official package."""
    if isinstance(value, MockTensor):
        return f"MockTensor({expression(value.dtype, unit)})"
    if isinstance(value, MockValue):
        return f"MockValue({expression(value.dtype, unit)})"
    if hasattr(value, "detach"):
        name = str(value.dtype).removeprefix("torch.")
        if not hasattr(np, name):
            raise Unportable(name)
        return f"np.zeros(8, np.{name})"
    if isinstance(value, np.ndarray):
        return f"np.zeros(8, np.dtype({value.dtype.name!r}))"
    return expression(value, unit)


class Recorder:
    """Hangs on ``JITFunction._prepared``: every launch goes through it."""

    def __init__(self, path):
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open until the process ends
        self._known = {}
        self.where = ""
        prepared = JITFunction._prepared

        def recorded(kernel, args, kwargs, blocks):
            entry = self._entry(kernel, args, dict(kwargs))
            try:
                body, *rest = prepared(kernel, args, kwargs, blocks)
            except Exception as problem:
                if not isinstance(problem, TypeError) and "compile option" not in str(problem):
                    self._write(entry, problem, "before")
                raise

            def watched(launch):
                try:
                    body(launch)
                except KernelFault:
                    self._write(entry, None, "")
                    raise
                except (CodegenError, PassesFailed) as problem:
                    self._write(entry, problem, "during")
                    raise
                self._write(entry, None, "")

            return (watched, *rest)

        JITFunction._prepared = recorded

    def _entry(self, kernel, args, kwargs):
        unit = Unit()
        entry = {"name": kernel.name, "where": self.where}
        try:
            unit.function(kernel)
            options = {**kernel.default_options}
            options.update({key: kwargs.pop(key) for key in list(kwargs) if key in JITFunction.get_config_keywords()})
            entry["options"] = "dict(" + ", ".join(f"{k}={expression(v, unit)}" for k, v in options.items()) + ")"
            parts = [argument(value, unit) for value in args]
            parts += [f"{name}={argument(value, unit)}" for name, value in kwargs.items()]
            entry["args"] = ", ".join(parts)
            entry["text"] = "\n\n".join(unit.lines)
        except Unportable as problem:
            entry["unportable"] = str(problem)
        return entry

    def _write(self, entry, problem, when):
        key = (entry["name"], entry.get("text"), entry.get("args"), entry.get("options"), problem is None)
        if key in self._known:
            return
        self._known[key] = True
        entry["refused"] = "" if problem is None else type(problem).__name__
        entry["message"] = "" if problem is None else str(problem)
        entry["when"] = when
        place = getattr(problem, "place", None)
        entry["line"] = place.line if place is not None else 0
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()


recorder = Recorder(os.environ["KERNEL_RECORD"]) if os.environ.get("KERNEL_RECORD") else None


def pytest_runtest_setup(item):
    if recorder is not None:
        recorder.where = item.nodeid


def run_notebook(path):
    """The code cells in order, in IPython; checks are left out."""
    from IPython.core.interactiveshell import InteractiveShell

    with open(path, encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    shell = InteractiveShell()
    for cell in cells:
        if cell["cell_type"] == "code" and "check" not in cell["metadata"].get("tags", []):
            # Pictures need a notebook's kernel; without this the whole cell, its imports too, would be lost.
            shell.run_cell("".join(line for line in cell["source"] if not line.startswith("%matplotlib")))


class InThisProcess:
    """Plays a job here, so that its kernels are written down."""

    def run(self, job):
        from cannlab.course.player import Player
        from cannlab.course.runner import Outcome

        def heard(message, blob):
            problem = message.get("raised") or message.get("setup")
            assert not problem, f"{job.exercise}: {problem}"

        home = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                Player(job, heard).play()
            finally:
                os.chdir(home)
        return Outcome()


def play_workbook(path):
    """The solutions of a workbook on the cases of their checks: most of their kernels are launched nowhere else."""
    from cannlab.course.answer import to_python
    from cannlab.course.bundle import load_lesson
    from cannlab.course.judge import Judge, Terms, draw_cases
    from cannlab.course.layout import Layout

    book = Layout(Path(path).resolve().parents[2])
    bundles, problems = load_lesson(book, book.course.lesson(Path(path).stem))
    assert not problems, problems
    for bundle in bundles.values():
        if "asc.jit" in bundle.part.solution or any("asc.jit" in cell for cell in bundle.part.setup):
            judge = Judge(bundle, InThisProcess())
            judge._run(to_python(bundle.part.solution), draw_cases(bundle.check, bundle.exercise.kind, Terms()))


def run_script(path):
    """A program, as ``python FILE`` would."""
    import runpy

    with contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    from cannlab import activate

    activate()
    sys.modules["kernel_recorder"] = sys.modules["__main__"]
    for each in sys.argv[1:]:
        # By its whole path: a lesson and its workbook have the same name.
        recorder.where = os.path.relpath(each, os.environ["KERNEL_ROOT"])
        (run_notebook if each.endswith(".ipynb") else run_script)(each)
        if recorder.where.startswith("solutions"):
            play_workbook(each)

__all__ = ["Recorder", "asc", "recorder"]
