"""The options of the command line: grammar, names, values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources

from cannlab.atc import raw_options
from cannlab.atc.errors import atc_error
from cannlab.atc.source import require_file
from cannlab.errors.tables import CANN_VERSIONS, DEFAULT_CANN, cann_version


class Effect(Enum):
    """What cannlab makes of an option."""

    YES = "yes"
    ONNX = "onnx"
    """It belongs to other frameworks: the real converter ignores it with an ONNX model too."""
    NONE = "none"
    REFUSED = "refused"
    """The real converter refuses it."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of atc.

    Attributes:
        name: its name, with underscores.
        default: what leaving it out means.
        effect: what cannlab makes of it.
        kind: grammar of its value: "text", "file", "switch", "bool", "bools" or "count".
        values: all known values; () for any of that kind.
        unsupported: known values that cannlab does not emulate.
        least: least number of a count.
        reason: why it changes nothing here.
        rule: what is broken by giving it, if the real converter refuses it.
        chips: families of chips that have it; () for all.
        ge: its name among GE's own options; "" if it has none.
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
    rule: str
    chips: tuple[str, ...]
    ge: str
    since: str
    deprecated: str
    help: str

    @property
    def present(self) -> bool:
        """True if the CANN version that the emulation answers with has it."""
        return CANN_VERSIONS.index(cann_version()) >= CANN_VERSIONS.index(self.since)


_KIND_VALUES = {"switch": ("0", "1"), "bool": ("true", "false")}
_RULES = {"log": "bad_log", "framework": "bad_framework", "external_weight": "bad_external_weight"}
"""Rules of options whose bad values have a code of their own."""
_ANY_CASE = frozenset(("enable_attr_compression",))
"""Options whose values may be written in capitals."""


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
            rule=entry.get("rule", ""),
            chips=tuple(entry.get("chips", ())),
            ge=entry.get("ge", ""),
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
            if option.effect is Effect.ONNX:
                yield "info", f"--{name} is ignored for an ONNX model: {option.reason}"

    def flag(self, name: str) -> bool:
        """True if a switch or bool is on."""
        return self[name].lower() in ("1", "true")

    def require_chip(self, family: str, soc: str) -> None:
        """Check that the chip has what is asked for.

        Args:
            family: the chip's family ("Ascend910B"). soc: its name.

        Raises:
            AtcError: rule ``atc.option_chip``.
        """
        for name, value in self.given.items():
            option = table()[name]
            if option.chips and value not in (option.default, "", "false") and family not in option.chips:
                listed = ", ".join(option.chips)
                raise atc_error("option_chip", option=f"--{name}", value=value, soc=soc, chips=listed)


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
        AtcError: the rules of :func:`split` and :func:`raw_options.read`, and ``atc.bad_log``, ``atc.bad_switch``,
            ``atc.bad_bool``, ``atc.bad_framework``, ``atc.bad_external_weight``, ``atc.bad_value``, ``atc.no_file``,
            ``atc.not_both``, ``atc.implmode_alone``, ``atc.value_not_emulated``, ``atc.auto_tune``,
            ``atc.not_in_atc``, ``atc.no_chip_has_it``.
    """
    given = split(argv)
    if given.get("raw_ge_options"):
        known = {option.ge: option.name for option in table().values() if option.ge and option.present}
        ignore = given.get("raw_ge_options_ignore_unsupported") == "true"
        given = {**raw_options.read(given["raw_ge_options"], known, given, ignore=ignore), **given}
    for name, value in given.items():
        _check(table()[name], value)
    for first, second in _EXCLUSIVE:
        if given.get(first, "false") not in ("", "false") and given.get(second):
            raise atc_error("not_both", first=f"--{first}", second=f"--{second}")
    if given.get("optypelist_for_implmode") and not given.get("op_select_implmode"):
        raise atc_error("implmode_alone")
    return Options(given, " ".join(["atc", *argv]))


_EXCLUSIVE = (
    ("model", "singleop"),
    ("enable_compress_weight", "compress_weight_conf"),
    ("enable_single_stream", "multi_stream_parallel_mode"),
)
_GRAMMAR = {
    "multi_stream_parallel_mode": (
        r"cv|(LoadBalance|MainStream):([1-9]|[1-5]\d|6[0-4])",
        "cv, LoadBalance:N, MainStream:N",
    ),
    "h2d_overlapped_with_compute": (r"\d+|(\d*,\d*)+", "0, 1, or numbers in rising order with commas"),
}
"""Pattern and description of the values of options that are neither names nor numbers."""


def _check(option: Option, value: str) -> None:
    shown = f"--{option.name}"
    known = ", ".join(option.values)
    if not value:
        return
    if option.effect is Effect.REFUSED:
        if option.kind == "file":
            require_file(value, shown)
        raise atc_error(option.rule, option=shown, value=value)
    written = value.lower() if option.name in _ANY_CASE else value
    if option.values and written not in option.values:
        rule = _RULES.get(option.name, f"bad_{option.kind}" if option.kind in _KIND_VALUES else "bad_value")
        raise atc_error(rule, option=shown, value=value, known=known)
    if value in option.unsupported:
        usable = ", ".join(item for item in option.values if item not in option.unsupported)
        raise atc_error("value_not_emulated", option=shown, value=value, usable=usable)
    if option.kind == "count" and not (re.fullmatch(r"-?\d+", value, re.ASCII) and int(value) >= option.least):
        raise atc_error("bad_value", option=shown, value=value, known=f"whole numbers from {option.least}")
    if option.kind == "bools":
        for item in map(str.strip, value.split(",")):
            if item not in ("true", "false"):
                raise atc_error("bad_bool", option=shown, value=item, known="true, false")
    if option.kind == "file":
        require_file(value, shown)
    if option.name in _GRAMMAR:
        pattern, described = _GRAMMAR[option.name]
        numbers = [int(item) for item in value.split(",") if item.isdecimal()]
        if not re.fullmatch(pattern, value, re.ASCII) or numbers != sorted(set(numbers)):
            raise atc_error("bad_value", option=shown, value=value, known=described)


def usage() -> str:
    """The text of ``--help``."""
    lines = ["usage: atc --model=NAME.onnx --framework=5 --output=NAME --soc_version=SOC [options]", ""]
    titles = {
        Effect.YES: "Emulated:",
        Effect.ONNX: "Ignored for ONNX models, here and by the real converter:",
        Effect.NONE: "Accepted, without effect here (--log=info says why):",
        Effect.REFUSED: "Known, and refused by the real converter too:",
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
