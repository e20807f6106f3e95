"""What stands in for IPython in an answer's process: the few magics of the course, and no shell."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAMS = {"atc": "cannlab.atc", "msprof": "cannlab.cli.msprof", "npu-smi": "cannlab.cli.npu_smi"}
"""The commands of the toolkit, each with the module whose ``main(argv)`` answers it."""

MAGICS = frozenset({"load_ext", "matplotlib", "writefile"})
"""The magics that lessons and answers may use."""


def program(words: list[str]) -> int:
    """Run a command of the toolkit in this process; gives its exit status."""
    main: Callable[[list[str]], int] = importlib.import_module(PROGRAMS[words[0]]).main
    try:
        return int(main(words[1:]) or 0)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)


SHELL = frozenset(";|&<>")
"""Outside quotes these end a command or send its output elsewhere."""


class StandIn:
    """Answers to ``get_ipython()``: %load_ext, %matplotlib, %%writefile and !atc, !msprof, !npu-smi."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.user_ns = namespace

    def run_line_magic(self, name: str, line: str, _stack_depth: int = 1) -> None:
        """A line magic."""
        if name == "load_ext" and line.strip() == "cannlab":
            import cannlab

            extension = getattr(cannlab, "load_ipython_extension", None)
            if extension is not None:
                extension(self)
        elif name not in MAGICS:
            raise NameError(f"the magic %{name} does not exist here: use plain Python")

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        """A cell magic."""
        if name != "writefile":
            raise NameError(f"the magic %%{name} does not exist here: use plain Python")
        Path(line.strip()).write_text(cell, encoding="utf-8")

    def system(self, line: str) -> None:
        """A line that begins with '!'."""
        words = shlex.split(line)
        ending = next(
            (part for part in shlex.shlex(line, posix=True, punctuation_chars=";|&<>") if part[:1] in SHELL), ""
        )
        if ending:
            raise PermissionError(f"!{line.strip()}: {ending} outside quotes is the shell's; put the value in quotes")
        if not words or words[0] not in PROGRAMS:
            raise PermissionError(f"!{line.strip()}: only {', '.join(PROGRAMS)} run here")
        self.user_ns["_exit_code"] = program(words)

    def getoutput(self, line: str) -> list[str]:
        """A line like ``out = !atc ...``."""
        import contextlib
        import io

        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            self.system(line)
        return text.getvalue().splitlines()


def display(*values: Any, **_options: Any) -> None:
    """What a notebook shows, as plain text."""
    for value in values:
        print(value)
