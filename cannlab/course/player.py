"""Inside an answer's process: play every case and send back plain data.

What this module needs is bound here before the answer runs, so that an answer that replaces parts of json, numpy or
os harms its own result only.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import linecache
import os
import random
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from cannlab.course import wire
from cannlab.course.job import Job
from cannlab.course.stand_in import StandIn, display, program
from cannlab.course.untouched import original
from cannlab.course.values import kind_of

CELL = "<cell>"
_KEEP = 64 * 1024
_MESSAGE = 2000
_given: dict[str, dict[str, Any]] = {}
_seed_random, _seed_numpy = random.seed, np.random.seed


def given(exercise: str) -> dict[str, Any]:
    """The inputs of the running case, for ``cannlab.course.given`` inside an answer's process."""
    return dict(_given[exercise])


def playing() -> bool:
    """True inside an answer's process while a case runs."""
    return bool(_given)


class Printed(io.TextIOBase):
    """Standard output of a case: kept up to 64 KiB, and passed on so that the judge sees a flood."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Keep and pass on."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.size < _KEEP:
            self.parts.append(text[: _KEEP - self.size])
            self.size += len(text)
        wire.write_all(1, text.encode("utf-8", "replace"))
        return len(text)

    def fileno(self) -> int:
        """The descriptor behind it."""
        return 1

    def text(self) -> str:
        """What was printed."""
        return "".join(self.parts)


def _frames(traceback: TracebackType | None, source: str) -> list[list[Any]]:
    """The learner's lines of a traceback, outermost first: [line, function, text]."""
    lines = source.splitlines()
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == CELL:
            number = traceback.tb_lineno
            text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
            found.append([number, code.co_name, text[:200]])
        traceback = traceback.tb_next
    return found if len(found) <= 12 else found[:4] + found[-8:]


def _describe(error: BaseException, part: str, source: str, name: str = "") -> dict[str, Any]:
    """An error as plain data."""
    try:
        notes = [note for note in getattr(error, "__notes__", ()) if type(note) is str]
        message = "\n".join([str(error), *notes])[:_MESSAGE]
    except BaseException:
        message = ""
    if isinstance(error, NameError) and isinstance(getattr(error, "name", None), str):
        name = str(error.name)
    return {
        "type": type(error).__name__[:100],
        "message": message,
        "part": part,
        "name": name[:200],
        "frames": _frames(error.__traceback__, source),
    }


class Stop(Exception):
    """A case ended early; ``raised`` says why, as plain data."""

    def __init__(self, raised: dict[str, Any]) -> None:
        super().__init__()
        self.raised = raised


def _run_cell(source: str, namespace: dict[str, Any], label: str) -> None:
    """Run a cell as a notebook does: the value of a last expression becomes ``_``."""
    linecache.cache[label] = (len(source), None, source.splitlines(True), label)
    module = ast.parse(source, label)
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    exec(compile(module, label, "exec", dont_inherit=True), namespace)
    if isinstance(last, ast.Expr):
        namespace["_"] = eval(compile(ast.Expression(last.value), label, "eval", dont_inherit=True), namespace)


@contextlib.contextmanager
def _learner(part: str, source: str, name: str = "") -> Iterator[None]:
    """Turn whatever the learner's code raises into a Stop. ``sys.exit()`` with success is a normal end."""
    try:
        yield
    except SystemExit as ending:
        if ending.code not in (None, 0):
            raise Stop(_describe(ending, part, source, name)) from None
    except BaseException as error:
        # Everything: KeyboardInterrupt and exceptions of the learner's own kind cost this case only.
        raise Stop(_describe(error, part, source, name)) from None


def _first_command(line: str) -> list[str]:
    """The words of a line as a shell splits it, up to a ';' outside quotes, which ends the command."""
    parts = shlex.shlex(line, posix=True, punctuation_chars=";")
    parts.whitespace_split = True
    words: list[str] = []
    for part in parts:
        if part and not part.strip(";"):
            break
        words.append(part)
    return words


def _missing(name: str) -> Stop:
    return Stop({"type": "NameError", "message": f"no {name}", "part": "name", "name": name, "frames": []})


def _new_machine() -> None:
    from cannlab.machine import reset_machine

    reset_machine()


def _record() -> bytes:
    """The record of this case's machine; empty if nothing used it."""
    from cannlab.machine import machine

    record = machine().record
    used = len(record.calls) or len(record.tasks) or len(record.memory) or record.faults or record.kernels
    return record.to_bytes() if used else b""


class Player:
    """Plays the cases of a job one after the other and hands each result to ``send``."""

    def __init__(self, job: Job, send: Callable[[dict[str, Any], bytes], None]) -> None:
        self.job = job
        self.send = send
        self.home = Path.cwd()
        self.shared: dict[str, Any] | None = None
        self.changed = original().changed

    def play(self) -> None:
        """All cases."""
        for number, inputs in enumerate(self.job.cases):
            if not self.case(number, inputs):
                return
        self.send({"end": len(self.job.cases), "touched": self.changed()[:20]}, b"")

    def case(self, number: int, crossed: Mapping[str, Any]) -> bool:
        """One case. False if the course's own setup failed."""
        folder = self.home / f"case{number + 1}"
        folder.mkdir()
        os.chdir(folder)
        inputs = self._unpack(crossed)
        printed = Printed()
        message: dict[str, Any] = {"case": number}
        blob = wire.Blob(self.job.limits.result * 1024 * 1024)
        old = sys.stdout
        try:
            namespace = self._namespace(inputs)
            sys.stdout = printed
            got = self._result(namespace, inputs, message, printed)
            message["got"] = self._plain(got, blob)
        except Stop as stop:
            if stop.raised["part"] == "setup":
                self.send({"setup": stop.raised}, b"")
                return False
            message["raised"] = stop.raised
        finally:
            sys.stdout = old
        message["printed"] = printed.text()
        self._attach(message, blob, "record", _record())
        for name in self.job.run["files"]:
            path = folder / name
            if path.is_file():
                self._attach(message.setdefault("files", {}), blob, name, path.read_bytes())
        self.send(message, bytes(blob))
        return True

    @staticmethod
    def _plain(got: Any, blob: wire.Blob) -> Any:
        """The result as plain data."""
        try:
            return wire.tree(got, blob)
        except (wire.TooLarge, MemoryError):
            raise Stop({"type": "", "message": "", "part": "too_big", "name": "", "frames": []}) from None
        except Exception as error:
            # Objects may misbehave while they are looked at.
            raise Stop(_describe(error, "answer", "")) from None

    @staticmethod
    def _attach(message: dict[str, Any], blob: wire.Blob, name: str, data: bytes) -> None:
        if data:
            message[name] = blob.put(data)

    @staticmethod
    def _unpack(crossed: Mapping[str, Any]) -> dict[str, Any]:
        """A case's own copy of its inputs; files are written to its folder."""
        inputs: dict[str, Any] = {}
        for name, value in crossed.items():
            if isinstance(value, dict) and set(value) == {"file"}:
                file, data = value["file"]
                Path(file).write_bytes(data)
                inputs[name] = file
            else:
                inputs[name] = value.copy() if isinstance(value, np.ndarray) else value
        return inputs

    def _namespace(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The names that the answer starts with: a new machine, the setup cells, the inputs."""
        _given.clear()
        _given[self.job.exercise] = inputs
        if self.shared is not None:
            return self.shared
        _new_machine()
        # What an answer draws at random is the same in every run of a case.
        _seed_random(0)
        _seed_numpy(0)
        namespace: dict[str, Any] = {"__name__": "__main__", "display": display}
        stand_in = StandIn(namespace)
        namespace["get_ipython"] = lambda: stand_in
        builtins.get_ipython = namespace["get_ipython"]  # type: ignore[attr-defined]
        for number, source in enumerate(self.job.setup, 1):
            with _learner("setup", source), contextlib.redirect_stdout(io.StringIO()):
                _run_cell(source, namespace, f"<setup {number}>")
        return namespace

    def _answer(self, namespace: dict[str, Any]) -> None:
        if namespace is self.shared:
            return
        with _learner("answer", self.job.answer):
            _run_cell(self.job.answer, namespace, CELL)
        if self.job.run["shared"]:
            self.shared = namespace

    def _result(self, names: dict[str, Any], inputs: dict[str, Any], message: dict[str, Any], printed: Printed) -> Any:
        how = self.job.run["how"]
        if how in ("call", "kernel"):
            self._answer(names)
            return self._call(names, inputs)
        if how == "catches":
            self._answer(names)
            return self._catches(names, inputs["specimen"])
        names.update(inputs)
        self._answer(names)
        if how == "printed":
            return printed.text()
        if how == "command":
            return self._command(names, message)
        return self._read(names)

    def _call(self, names: dict[str, Any], inputs: dict[str, Any]) -> Any:
        name = self.job.run["names"][0]
        if name not in names:
            raise _missing(name)
        got = None
        with _learner("call", self.job.answer, name):
            got = names[name](*inputs.values())
        out = self.job.run["out"]
        if not out:
            return got
        return inputs[out[0]] if len(out) == 1 else {each: inputs[each] for each in out}

    def _read(self, names: dict[str, Any]) -> Any:
        wanted = self.job.run["names"]
        for name in wanted:
            if name not in names:
                raise _missing(name)
        if not wanted:
            return None
        return names[wanted[0]] if len(wanted) == 1 else {name: names[name] for name in wanted}

    def _command(self, names: dict[str, Any], message: dict[str, Any]) -> Any:
        line = self._read(names)
        if type(line) is not str:
            kind = kind_of(line)
            name = self.job.run["names"][0]
            raise Stop({"type": "", "message": kind, "part": "no_text", "name": name, "frames": []})
        try:
            words = _first_command(line)
        except ValueError as problem:
            raise Stop(_describe(problem, "quotes", "")) from None
        message["arguments"] = [word[:_MESSAGE] for word in words[:200]]
        target = self.job.run["target"]
        if not words or words[0] != target:
            first = words[0] if words else ""
            raise Stop({"type": "", "message": first, "part": "word", "name": target, "frames": []})
        with _learner("command", "", target):
            message["status"] = program(words)
        return message["status"]

    def _catches(self, names: dict[str, Any], specimen: str) -> Any:
        name = self.job.run["names"][0]
        if name not in names:
            raise _missing(name)
        own = {key: value for key, value in names.items() if key != name}
        with _learner("setup", specimen):
            _run_cell(specimen, own, "<program under test>")
        try:
            names[name](own[self.job.run["target"]])
        except Exception as error:
            return ["fails", f"{type(error).__name__}: {error}"[:_MESSAGE]]
        return ["passes", ""]
