"""The options of the command line: grammar, names, values."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cannlab.atc.errors import atc_error


@dataclass(frozen=True, slots=True)
class Option:
    """One option of atc.

    Attributes:
        name: its name, with underscores.
        default: what leaving it out means.
        values: all known values; () for free text.
        unsupported: known values that cannlab does not emulate yet.
        emulated: False if only the default is accepted.
        help: one line.
    """

    name: str
    default: str
    values: tuple[str, ...]
    unsupported: tuple[str, ...]
    emulated: bool
    help: str


@cache
def table() -> dict[str, Option]:
    """All options by name."""
    text = (resources.files("cannlab.atc") / "data" / "options.toml").read_text(encoding="utf-8")
    return {
        name: Option(
            name=name,
            default=entry.get("default", ""),
            values=tuple(entry.get("values", ())),
            unsupported=tuple(entry.get("unsupported", ())),
            emulated=entry.get("emulated", False),
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
        if name not in table():
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
        AtcError: the rules of :func:`split`, and ``atc.bad_log``, ``atc.bad_switch``, ``atc.bad_framework``,
            ``atc.bad_value``, ``atc.not_emulated``, ``atc.value_not_emulated``.
    """
    given = split(argv)
    for name, value in given.items():
        option = table()[name]
        if not option.emulated:
            if value != option.default:
                raise atc_error("not_emulated", option=f"--{name}", value=value)
        elif option.values and value and value not in option.values:
            known = ", ".join(option.values)
            rule = {"log": "bad_log", "framework": "bad_framework"}.get(name, "bad_value")
            if option.values == ("0", "1"):
                rule = "bad_switch"
            raise atc_error(rule, option=f"--{name}", value=value, known=known)
        elif value in option.unsupported:
            usable = ", ".join(item for item in option.values if item not in option.unsupported)
            raise atc_error("value_not_emulated", option=f"--{name}", value=value, usable=usable)
    return Options(given, " ".join(["atc", *argv]))


def usage() -> str:
    """The text of ``--help``."""
    lines = ["usage: atc --model=NAME.onnx --framework=5 --output=NAME --soc_version=SOC [options]", "", "Emulated:"]
    for option in table().values():
        if option.emulated:
            lines.append(f"  --{option.name:<22}{option.help}")
            if option.values:
                lines.append(f"    {'':<22}{', '.join(option.values)}")
    lines += ["", "Known, but only their default is emulated yet:"]
    names = [f"--{option.name}" for option in table().values() if not option.emulated]
    lines += [f"  {', '.join(names[at : at + 4])}" for at in range(0, len(names), 4)]
    return "\n".join(lines)


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, table(), 1)
    return f"; did you mean --{near[0]}?" if near else ""
