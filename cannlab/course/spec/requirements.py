"""Requirements: what else must hold of a case, read from its record, output, files or status.

A requirement is a function from a case to a Fact. The learner sees every fact that has a text, and the first one that
does not hold becomes the diagnosis.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING

from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.course.spec.attempt import CaseRun


@dataclass(frozen=True, slots=True)
class Fact:
    """Something read from a case. ``text`` says how it is ("": nothing worth showing); ``do`` what to do otherwise."""

    name: str
    ok: bool
    text: str
    do: str = ""


Requirement = Callable[["CaseRun"], Fact]

_COPIES = {
    "h2d": TaskKind.COPY_H2D,
    "d2h": TaskKind.COPY_D2H,
    "d2d": TaskKind.COPY_D2D,
    "h2h": TaskKind.COPY_H2H,
    "p2p": TaskKind.COPY_P2P,
}


def require(name: str, test: Callable[[CaseRun], bool], *, holds: str, fails: str, do: str) -> Requirement:
    """A requirement of your own: ``holds`` and ``fails`` are whole statements about the run, ``do`` the remedy.

    An error in ``test`` counts as not holding (the answer may have left nothing to look at).
    """

    def ask(case: CaseRun) -> Fact:
        try:
            ok = bool(test(case))
        except Exception:
            # Fail closed: what cannot be read is not fulfilled.
            ok = False
        return Fact(name, ok, holds if ok else fails, do)

    return ask


def _plural(count: int, noun: str) -> str:
    forms = {"copy": "copies"}
    return f"{count} {noun if count == 1 else forms.get(noun, noun + 's')}"


def everything_freed() -> Requirement:
    """Every device and pinned allocation was freed. Name: "everything_freed"."""

    def ask(case: CaseRun) -> Fact:
        do = "Free every pointer that you got, also on the way out after an error."
        if case.record is None:
            return Fact("everything_freed", False, "no device memory was used", "Use the device as the exercise says.")
        left: dict[tuple[int, int], int] = {}
        for row in case.record.memory.rows():
            key = (row["device"], row["allocation"])
            left[key] = left.get(key, 0) + row["bytes"]
        open_ones = [size for size in left.values() if size > 0]
        if open_ones:
            text = f"{_plural(len(open_ones), 'allocation')} of {len(left)} not freed ({sum(open_ones)} bytes)"
            return Fact("everything_freed", False, text, do)
        # Nothing allocated, nothing to free: that is right, and no success to show.
        return Fact("everything_freed", True, f"every allocation freed ({len(left)})" if left else "")

    return ask


_HANDLES = {
    "stream": (
        {"acl.rt.create_stream", "acl.rt.create_stream_with_config"},
        {"acl.rt.destroy_stream", "acl.rt.destroy_stream_force"},
    ),
    "event": (
        {"acl.rt.create_event", "acl.rt.create_event_with_flag", "acl.rt.create_event_ex_with_flag"},
        {"acl.rt.destroy_event"},
    ),
    "context": ({"acl.rt.create_context"}, {"acl.rt.destroy_context"}),
    "model": (
        {
            "acl.mdl.load_from_file",
            "acl.mdl.load_from_mem",
            "acl.mdl.load_from_file_with_mem",
            "acl.mdl.load_from_mem_with_mem",
        },
        {"acl.mdl.unload"},
    ),
    "model description": ({"acl.mdl.create_desc"}, {"acl.mdl.destroy_desc"}),
    "dataset": ({"acl.mdl.create_dataset"}, {"acl.mdl.destroy_dataset"}),
    "data buffer": ({"acl.create_data_buffer"}, {"acl.destroy_data_buffer"}),
    "tensor description": ({"acl.create_tensor_desc"}, {"acl.destroy_tensor_desc"}),
    "DVPP channel": ({"acl.media.dvpp_create_channel"}, {"acl.media.dvpp_destroy_channel"}),
    "channel description": ({"acl.media.dvpp_create_channel_desc"}, {"acl.media.dvpp_destroy_channel_desc"}),
    "picture description": ({"acl.media.dvpp_create_pic_desc"}, {"acl.media.dvpp_destroy_pic_desc"}),
    "area": ({"acl.media.dvpp_create_roi_config"}, {"acl.media.dvpp_destroy_roi_config"}),
    "resize configuration": ({"acl.media.dvpp_create_resize_config"}, {"acl.media.dvpp_destroy_resize_config"}),
}
"""What a program makes besides memory: the calls that make one, and those that give it back."""


def everything_destroyed() -> Requirement:
    """Every stream, event, context, model, description, dataset and data buffer was given back.

    Name: "everything_destroyed".

    Counted are the calls that returned 0; a call that gives the same handle back twice does not.
    """

    def ask(case: CaseRun) -> Fact:
        record = case.record
        rows = () if record is None else record.calls.rows()
        done = Counter("" if record is None else record.strings[row["name"]] for row in rows if not row["code"])
        shown = []
        for noun, (makers, destroyers) in _HANDLES.items():
            made = sum(done[name] for name in makers)
            left = made - sum(done[name] for name in destroyers)
            if left > 0:
                text = f"{_plural(left, noun)} of {made} not given back"
                return Fact("everything_destroyed", False, text, f"Call {min(destroyers)} for each {noun}.")
            if made:
                shown.append(_plural(made, noun))
        return Fact("everything_destroyed", True, f"given back: {', '.join(shown)}" if shown else "")

    return ask


def tasks(
    kind: TaskKind, *, at_least: int = 0, at_most: int | None = None, name: str, noun: str, do: str
) -> Requirement:
    """So many tasks of one kind ran on the device."""

    def ask(case: CaseRun) -> Fact:
        rows = [] if case.record is None else case.record.tasks.rows()
        count = sum(row["kind"] == kind for row in rows)
        ok = count >= at_least and (at_most is None or count <= at_most)
        if at_most == at_least:
            wanted = str(at_least)
        elif at_most is None:
            wanted = f"at least {at_least}"
        else:
            wanted = f"at most {at_most}" if not at_least else f"{at_least} to {at_most}"
        text = _plural(count, noun) if ok else f"{_plural(count, noun)} where {wanted} should be"
        return Fact(name, ok, text, do)

    return ask


def copies(way: str, *, at_least: int = 0, at_most: int | None = None) -> Requirement:
    """So many copies one way: "h2d", "d2h", "d2d", "h2h", "p2p". Name: "copies_h2d" and so on."""
    do = "Count the copies in your code; each byte crosses the link as rarely as the exercise allows."
    noun = {"h2d": "host to device copy", "d2h": "device to host copy", "d2d": "device to device copy"}.get(way, "copy")

    def ask(case: CaseRun) -> Fact:
        fact = counted(case)
        return Fact(fact.name, fact.ok, fact.text.replace("copys", "copies"), fact.do)

    counted = tasks(_COPIES[way], at_least=at_least, at_most=at_most, name=f"copies_{way}", noun=noun, do=do)
    return ask


def _call_names(case: CaseRun) -> list[str]:
    if case.record is None:
        return []
    return [case.record.strings[row["name"]] for row in case.record.calls.rows()]


def called(name: str, *, at_least: int = 1, at_most: int | None = None) -> Requirement:
    """The API ``name`` was called so often. Name: the API's name."""

    def ask(case: CaseRun) -> Fact:
        count = _call_names(case).count(name)
        ok = count >= at_least and (at_most is None or count <= at_most)
        do = f"Call {name} where the exercise asks for it." if count < at_least else f"Call {name} less often."
        return Fact(name, ok, f"{name} called {_plural(count, 'time')}", do)

    return ask


def order(*names: str) -> Requirement:
    """These APIs were called in this order (others may stand between). Name: "order"."""

    def ask(case: CaseRun) -> Fact:
        seen = iter(_call_names(case))
        missing = next((name for name in names if name not in seen), None)
        if missing is None:
            return Fact("order", True, "called in order: " + ", ".join(names))
        do = "The order is: " + ", ".join(names) + "."
        return Fact("order", False, f"{missing} is missing or comes too early", do)

    return ask


def all_codes_zero(*, except_for: tuple[str, ...] = ()) -> Requirement:
    """Every API call returned 0. Name: "all_codes_zero"."""

    def ask(case: CaseRun) -> Fact:
        rows = [] if case.record is None else list(case.record.calls.rows())
        strings = None if case.record is None else case.record.strings
        count = 0
        for row in rows:
            name = strings[row["name"]] if strings is not None else ""
            count += not name.startswith("acl.util.")  # conversions on the host: they give no code
            if row["code"] and name not in except_for:
                do = f"Look up the code: cannlab explain {row['code']}"
                return Fact("all_codes_zero", False, f"{name} returned {row['code']}", do)
        ok = bool(count)
        text = f"all {count} API calls returned 0" if ok else "no API call was made"
        return Fact("all_codes_zero", ok, text, "Make the calls that the exercise asks for.")

    return ask


def _alike(got: object, expected: object) -> bool:
    """Equal as a learner writes it: a list for a tuple, 4.0 for 4; capitals and spaces do not matter here."""
    if isinstance(got, Number) and isinstance(expected, Number):
        return bool(got == expected)
    if isinstance(got, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(got) == len(expected) and all(_alike(one, other) for one, other in zip(got, expected, strict=True))
    return str(got).strip().lower() == str(expected).strip().lower()


def how_many_right(noun: str) -> Requirement:
    """How many entries of a list or dictionary are right, for predictions and choices. Name: "how_many_right".

    It says neither which nor what they should be; entries that are missing are named.
    """

    def ask(case: CaseRun) -> Fact:
        got, expected = case.got, case.expected
        missing = ""
        if isinstance(expected, dict):
            table = got if isinstance(got, dict) else {}
            right = sum(key in table and _alike(table[key], value) for key, value in expected.items())
            empty = [str(key) for key in expected if str(table.get(key, "")).strip() == ""]
            missing = f"; missing: {', '.join(empty)}" if empty else ""
        else:
            found = got if isinstance(got, (list, tuple)) else []
            right = sum(_alike(one, other) for one, other in zip(found, expected, strict=False))
        text = f"{right} of {len(expected)} {noun} right{missing}"
        ok = right == len(expected)
        return Fact("how_many_right", ok, "" if ok else text, "Go through them one by one.")

    return ask


def printed_has(pattern: str, *, what: str) -> Requirement:
    """The output matches a regular expression; ``what`` names it for the learner. Name: "printed"."""
    compiled = re.compile(pattern)

    def ask(case: CaseRun) -> Fact:
        ok = compiled.search(case.printed) is not None
        return Fact("printed", ok, f"{what} {'is' if ok else 'is not'} in the output", f"Print {what}.")

    return ask


def exit_status(wanted: int = 0) -> Requirement:
    """The command ended with this status. Name: "exit_status"."""

    def ask(case: CaseRun) -> Fact:
        ok = case.status == wanted
        return Fact("exit_status", ok, f"the command ended with status {case.status}", "Read its output from the top.")

    return ask


def file_made(name: str) -> Requirement:
    """The answer made this file (ask for it in ``run``: files=(name,)). Name: "file_made"."""

    def ask(case: CaseRun) -> Fact:
        ok = bool(case.files.get(name))
        return Fact("file_made", ok, f"{name} {'was made' if ok else 'was not made'}", f"Write {name} in this folder.")

    return ask


def om_for_chip(name: str) -> Requirement:
    """The om of this file is for the chip in the input ``soc``. Name: "soc"."""

    def built_for(case: CaseRun) -> bool:
        from cannlab import om

        return bool(om.read(case.files[name]).soc == case.inputs["soc"])

    return require(
        "soc",
        built_for,
        holds=f"{name} is for the chip that was asked for",
        fails=f"{name} is for another chip, or there is none",
        do="Give --soc_version the value of the variable soc.",
    )


def simulated_time(case: CaseRun) -> int:
    """Simulated ns from the first call to the last end, host and device; a replayed kernel's time if there is one."""
    if case.replay_ns is not None:
        return case.replay_ns
    if case.record is None:
        return 0
    ends = [row["end"] for row in case.record.calls.rows()] + [row["end"] for row in case.record.tasks.rows()]
    return max(ends, default=0)


def device_time(case: CaseRun) -> int:
    """Simulated ns that tasks kept the device busy, added up (operators inside a model count once)."""
    if case.record is None:
        return 0
    return sum(row["end"] - row["start"] for row in case.record.tasks.rows() if row["parent"] < 0)


def bytes_copied(case: CaseRun) -> int:
    """Bytes of all copies."""
    if case.record is None:
        return 0
    kinds = set(_COPIES.values())
    return sum(row["bytes"] for row in case.record.tasks.rows() if row["kind"] in kinds)
