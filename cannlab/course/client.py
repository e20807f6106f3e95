"""The near end of the checking process: starts it when first needed, and talks to it."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cannlab.errors import CannlabError, Diagnosis, diagnose

if TYPE_CHECKING:
    from cannlab.course.result import Result

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Client:
    """A checking process and the pipes to it. It ends with this process, or by :meth:`close`.

    ``module`` has the ``main()`` that serves.
    """

    def __init__(self, module: str = "cannlab.course.server") -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._killed = False
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The checking process, if it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process without waiting for it. CannlabError (course.engine) if it cannot be, or was killed."""
        if self._killed:
            raise CannlabError(diagnose("course.engine", message="the checking process was ended"))
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return
        if sys.platform == "win32":
            raise CannlabError(diagnose("course.no_windows"))
        environment = {**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONHASHSEED": "0"}
        # The notebook may have come to cannlab by sys.path alone.
        code = f"import sys; sys.path[:] = {sys.path!r}; from {self._module} import main; main()"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if os.environ.get("CANNLAB_DEBUG") else subprocess.DEVNULL,
                start_new_session=True,
                env=environment,
            )
        except OSError as problem:
            raise CannlabError(diagnose("course.engine", message=f"cannot start it: {problem}")) from None
        self._owner = os.getpid()
        self._fresh = True
        from cannlab.course.wire import Frames

        self._frames = Frames(1 << 50)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            _pipe(process.stdin).close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _pipe(process.stdout).close()

    def kill(self) -> None:
        """End the process at once and for good, from another thread; who waits for its reply gets course.engine."""
        self._killed = True
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()

    def ask(self, request: Mapping[str, Any], blob: bytes = b"") -> dict[str, Any]:
        """Send a request and wait for the reply. CannlabError (course.engine) if the process is lost."""
        from cannlab.course import wire

        with self._lock:
            self.start()
            process = self._process
            assert process is not None
            try:
                if self._fresh:
                    self._receive(process)
                    self._fresh = False
                wire.write_all(_pipe(process.stdin).fileno(), wire.pack(dict(request), blob))
                return self._receive(process)
            except BaseException as problem:
                # After an interruption the pipes are out of step: the next request starts anew.
                process.kill()
                self.close()
                if isinstance(problem, (OSError, wire.BrokenFrame)):
                    raise CannlabError(diagnose("course.engine", message="the checking process ended")) from None
                raise

    def _receive(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        while True:
            data = os.read(_pipe(process.stdout).fileno(), 1 << 16)
            if not data:
                raise BrokenPipeError
            for reply, _ in self._frames.feed(data):
                return dict(reply)

    def check(self, root: Path, exercise: str, answer: str, terms: Mapping[str, Any] | None = None) -> Result:
        """Have an answer judged; ``terms`` are fields of judge.Terms. CannlabError if there is no such exercise."""
        from cannlab.course.result import Result

        reply = self.ask({"root": str(root), "exercise": exercise, "answer": answer, "terms": dict(terms or {})})
        if "error" in reply:
            raise CannlabError(Diagnosis.from_dict(reply["error"]))
        return Result.from_dict(reply["result"])


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


_client = Client()
atexit.register(_client.close)


def client() -> Client:
    """This process's client."""
    return _client
