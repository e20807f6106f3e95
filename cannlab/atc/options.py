"""The options of the command line: grammar, names, values."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources

from cannlab.atc.errors import atc_error
from cannlab.atc.source import require_file
from cannlab.errors.tables import CANN_VERSIONS, DEFAULT_CANN, cann_version


class Effect(Enum):
    """What cannlab makes of an option."""

    YES = "yes"
    NONE = "none"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of atc.

    Attributes:
        name: its name, with underscores.
        default: what leaving it out means.
        effect: what cannlab makes of it.
        kind: grammar of its value: "text", "file", "switch", "bool" or "count".
        values: all known values; () for any of that kind.
        unsupported: known values that cannlab does not emulate.
        least: least number of a count.
        reason: why it changes nothing here.
        since: the first CANN version that has it.
        deprecated: the option that takes its place; "" if it is not deprecated.
        help: one line.
    """

    name: str
    default: str
    effect: Effect
    kind: str
    values: tuple[str, ...]
    unsupported: tuple[str, ...]
    least: int
    reason: str
    since: str
    deprecated: str
    help: str

    @property
    def present(self) -> bool:
        """True if the CANN version that the emulation answers with has it."""
        return CANN_VERSIONS.index(cann_version()) >= CANN_VERSIONS.index(self.since)


_KIND_VALUES = {"switch": ("0", "1"), "bool": ("true", "false")}


@cache
def table() -> dict[str, Option]:
    """All options of all versions by name."""
    text = (resources.files("cannlab.atc") / "data" / "options.toml").read_text(encoding="utf-8")
    return {
        name: Option(
            name=name,
            default=entry.get("default", ""),
            effect=Effect(entry["effect"]),
            kind=entry.get("kind", "text"),
            values=tuple(entry.get("values", _KIND_VALUES.get(entry.get("kind", ""), ()))),
            unsupported=tuple(entry.get("unsupported", ())),
            least=entry.get("least", 0),
            reason=entry.get("reason", ""),
            since=entry.get("since", DEFAULT_CANN),
            deprecated=entry.get("deprecated", ""),
            help=entry.get("help", ""),
        )
        for name, entry in tomllib.loads(text).items()
    }


class Options:
    """What one command line says. ``options["model"]`` is the value given, or the default."""

    def __init__(self, given: dict[str, str], command: str) -> None:
        self.given = given
        self.command = command

    def __getitem__(self, name: str) -> str:
        return self.given.get(name, table()[name].default)

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def notes(self) -> Iterator[tuple[str, str]]:
        """What the log says of the options given: level and text, once for each."""
        for name in self.given:
            option = table()[name]
            if option.deprecated:
                yield "warning", f"--{name} is deprecated: use {option.deprecated}"
            if option.effect is Effect.NONE:
                yield "info", f"--{name} has no effect here: {option.reason}"


def split(argv: Sequence[str]) -> dict[str, str]:
    """The options of a command line by name, unchecked values.

    ``--a=b`` and ``--a b``, one dash or two, underscores or hyphens; the last one counts.

    Raises:
        AtcError: rules ``atc.unknown_option``, ``atc.no_value``, ``atc.stray_argument``.
    """
    given: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        bare = word[2:] if word.startswith("--") else word[1:]
        if not word.startswith("-") or not bare:
            raise atc_error("stray_argument", word=word)
        name, equals, value = bare.partition("=")
        name = name.replace("-", "_")
        if name == "h":
            name = "help"
        if name not in table() or not table()[name].present:
            raise atc_error("unknown_option", option=f"--{name}", near=_nearest(name))
        if name == "help":
            value = "true"
        elif not equals:
            if not rest or rest[0].startswith("--"):
                raise atc_error("no_value", option=f"--{name}")
            value = rest.pop(0)
        given[name] = value
    return given


def parse(argv: Sequence[str]) -> Options:
    """Read and check a command line, each option by itself.

    Raises:
        AtcError: the rules of :func:`split`, and ``atc.bad_log``, ``atc.bad_switch``, ``atc.bad_bool``,
            ``atc.bad_framework``, ``atc.bad_value``, ``atc.no_file``, ``atc.not_both``, ``atc.only_together``,
            ``atc.not_emulated``, ``atc.value_not_emulated``.
    """
    given = split(argv)
    for name, value in given.items():
        _check(table()[name], value)
    for first, second in _EXCLUSIVE:
        if given.get(first) and given.get(second):
            raise atc_error("not_both", first=f"--{first}", second=f"--{second}")
    if given.get("optypelist_for_implmode") and not given.get("op_select_implmode"):
        raise atc_error("only_together", first="--optypelist_for_implmode", second="--op_select_implmode")
    return Options(given, " ".join(["atc", *argv]))


_EXCLUSIVE = (("model", "singleop"),)


def _check(option: Option, value: str) -> None:
    shown = f"--{option.name}"
    known = ", ".join(option.values)
    if option.effect is Effect.REFUSED and value not in (option.default, ""):
        if option.kind in _KIND_VALUES and value not in option.values:
            raise atc_error(f"bad_{option.kind}", option=shown, value=value, known=known)
        raise atc_error("not_emulated", option=shown, value=value)
    if not value:
        return
    if option.values and value not in option.values:
        rule = {"log": "bad_log", "framework": "bad_framework"}.get(option.name, "bad_value")
        if option.kind in _KIND_VALUES:
            rule = f"bad_{option.kind}"
        raise atc_error(rule, option=shown, value=value, known=known)
    if value in option.unsupported:
        usable = ", ".join(item for item in option.values if item not in option.unsupported)
        raise atc_error("value_not_emulated", option=shown, value=value, usable=usable)
    if option.kind == "count" and not (value.isdecimal() and int(value) >= option.least):
        raise atc_error("bad_value", option=shown, value=value, known=f"whole numbers from {option.least}")
    if option.kind == "file":
        require_file(value, shown)


def usage() -> str:
    """The text of ``--help``."""
    lines = ["usage: atc --model=NAME.onnx --framework=5 --output=NAME --soc_version=SOC [options]", ""]
    titles = {
        Effect.YES: "Emulated:",
        Effect.NONE: "Accepted, without effect here (--log=info says why):",
        Effect.REFUSED: "Known, but only their default is emulated yet:",
    }
    for effect, title in titles.items():
        options = [option for option in table().values() if option.effect is effect and option.present]
        lines += [title]
        if effect is Effect.YES:
            for option in options:
                lines.append(f"  --{option.name:<22}{option.help}")
                if option.values:
                    lines.append(f"    {'':<22}{', '.join(option.values)}")
        else:
            names = [f"--{option.name}" for option in options]
            lines += [f"  {', '.join(names[at : at + 4])}" for at in range(0, len(names), 4)]
        lines.append("")
    return "\n".join(lines[:-1])


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    if name in table():
        return f"; it is new in a later CANN than {cann_version()} (CANNLAB_CANN)"
    near = get_close_matches(name, [option.name for option in table().values() if option.present], 1)
    return f"; did you mean --{near[0]}?" if near else ""
