"""What is done with an answer to get a result out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

How = Literal["call", "read", "printed", "command", "kernel", "catches"]


@dataclass(frozen=True, slots=True)
class Specimen:
    """Programs of one kind for a learner's test to try.

    Attributes:
        title: what they do, as the learner reads it.
        programs: their source texts; every case draws one.
        right: True if the test must pass on them.
    """

    title: str
    programs: tuple[str, ...]
    right: bool


@dataclass(frozen=True, slots=True)
class Run:
    """One way to get a result. Made by call, read, printed, command, kernel, catches.

    For every case: a new machine, an empty folder, the workbook's setup cells, the case's inputs as variables,
    the answer's cell, then what ``how`` says. ``shared``: setup and cell run once for all cases (only for call).
    """

    how: How
    names: tuple[str, ...] = ()
    out: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    shared: bool = False
    specimens: tuple[Specimen, ...] = ()
    target: str = ""
    soc: str = ""
    sync: str = ""
    from_data: bool = True

    @property
    def name(self) -> str:
        """The name that the exercise asks for, as shown to the learner."""
        return self.names[0] if self.names else "the answer"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the answer's process (nothing that tells right from wrong)."""
        return {
            "how": self.how,
            "names": list(self.names),
            "out": list(self.out),
            "files": list(self.files),
            "shared": self.shared,
            "target": self.target,
        }


def call(name: str, *, out: str | tuple[str, ...] = (), files: tuple[str, ...] = (), shared: bool = False) -> Run:
    """Call the function ``name`` with the case's inputs, by position in the order of ``draw``.

    Args:
        name: the function that the exercise asks for.
        out: names of inputs that the function writes into; the result is then that array after the call
            (a dict of arrays for several names) instead of what the function returns.
        files: names of files to bring back from the case's folder.
        shared: run setup and the cell once and call for all cases on one machine (for slow setups only).
    """
    names = (out,) if isinstance(out, str) else out
    return Run("call", (name,), names, files, shared)


def read(*names: str, files: tuple[str, ...] = ()) -> Run:
    """Run the cell with the case's inputs as variables and read variables: the value of one name, a dict of several.

    ``read()`` reads nothing: the program is judged by its record and output alone. ``read("_")`` is the value of the
    cell's last line, if that is an expression.
    """
    return Run("read", names, (), files)


def printed(*, files: tuple[str, ...] = ()) -> Run:
    """Run the cell with the case's inputs as variables; the result is the text that it printed."""
    return Run("printed", (), (), files)


def command(name: str = "command", *, program: str = "atc", files: tuple[str, ...] = ()) -> Run:
    """Read the text ``name``, split it as a shell does and run it; the result is the exit status.

    ``case.arguments``, ``case.printed`` and ``case.files`` hold the words, the console text and the files.
    """
    return Run("command", (name,), (), files, target=program)


def kernel(name: str, *, out: str | tuple[str, ...], soc: str = "", sync: str = "", from_data: bool = True) -> Run:
    """Call the function ``name``, which launches a kernel; the result is what the record of the launch gives.

    The judge replays the last launch on its own inputs, and a second time on other values of the same shapes, where
    the reference must hold too: a result that was recorded instead of computed fails.

    Args:
        name: the function that the exercise asks for.
        out: the input(s) that the kernel writes. The arrays among the inputs must be the kernel's arguments in global
            memory, in the same order.
        soc: the chip that the launch must be for; the emulated default if empty.
        sync: "strict" judges without the compiler's automatic synchronisation, whatever the answer's options say.
        from_data: False if the instructions themselves depend on values (get_value in a condition): then the second
            replay cannot be asked for.
    """
    if sync not in ("", "auto", "strict"):
        raise ValueError(f"sync is 'auto' or 'strict', not {sync!r}")
    outs = (out,) if isinstance(out, str) else out
    return Run("kernel", (name,), outs, soc=soc, sync=sync, from_data=from_data)


Programs = Mapping[str, str | tuple[str, ...]]


def catches(name: str, target: str, *, right: Programs, wrong: Programs) -> Run:
    """The learner writes a test ``name(target)``: it must pass on right programs and fail on wrong ones.

    Args:
        name: the test function that the exercise asks for; it takes the thing under test.
        target: the function that each program defines, with the same parameters in all of them.
        right, wrong: what programs of this kind do, for the learner, and one or several source texts of that kind.

    Each kind is a case (``size`` is its title); the check needs no draw, sizes or reference. The seed draws the order,
    a program of each kind, and how it looks (``cannlab.course.disguise``); the last of several programs of a kind is
    kept for grading.

    Raises:
        ValueError: a title stands twice, or a kind has no program.
    """
    kinds = [(title, programs, True) for title, programs in right.items()]
    kinds += [(title, programs, False) for title, programs in wrong.items()]
    specimens = tuple(
        Specimen(title, (programs,) if isinstance(programs, str) else tuple(programs), good)
        for title, programs, good in kinds
    )
    if len({entry.title for entry in specimens}) < len(specimens) or not all(entry.programs for entry in specimens):
        raise ValueError("every kind of program needs a title of its own and at least one program")
    return Run("catches", (name,), specimens=specimens, target=target)
