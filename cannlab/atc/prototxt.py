"""The text form of protobuf messages, without a schema: AIPP configurations and dumped graphs.

A message is ``name: value`` and ``name { ... }`` (or ``name: { ... }``), with # comments; , or ; may stand between
fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)|(?P<line>\n)|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<number>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)f?)|(?P<word>[A-Za-z_][\w.]*)"""
    r"""|(?P<mark>[:{}<>\[\],;])"""
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}


class TextError(ValueError):
    """Text that is no message. ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Word:
    """A value that is a bare word: true, false, or a name of an enumeration."""

    text: str


@dataclass
class Message:
    """Fields in order, each with its name, value and line."""

    fields: list[tuple[str, int | float | str | Word | Message, int]] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[str, int | float | str | Word | Message, int]]:
        return iter(self.fields)


def parse(text: str) -> Message:
    """Read a message.

    Raises:
        TextError: with the line where it cannot be read.
    """
    return _Reader(text).message("")


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        line, place = 1, 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise TextError(line, f"{text[place : place + 12].splitlines()[0]!r} is not understood")
            kind = match.lastgroup or ""
            if kind not in ("space", "line"):
                self.tokens.append((kind, match[0], line))
            line += match[0].count("\n")
            place = match.end()
        self.last_line = line

    def peek(self) -> tuple[str, str, int]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", self.last_line)

    def take(self) -> tuple[str, str, int]:
        token = self.peek()
        self.at += 1
        return token

    def message(self, closing: str) -> Message:
        made = Message()
        while True:
            kind, text, line = self.take()
            if text == closing and kind in ("mark", "end"):
                return made
            if kind == "end":
                raise TextError(line, f"{closing} is missing at the end")
            if kind == "mark" and text in ",;":
                continue
            if kind != "word":
                raise TextError(line, f"a name was expected, not {text!r}")
            name = text
            colon = self.peek()[1] == ":"
            if colon:
                self.take()
            if self.peek()[1] == "[" and colon:
                self.take()
                while self.peek()[1] != "]":
                    made.fields.append((name, self.value(name, colon), line))
                    if self.peek()[1] == ",":
                        self.take()
                self.take()
            else:
                made.fields.append((name, self.value(name, colon), line))

    def value(self, name: str, colon: bool) -> int | float | str | Word | Message:
        kind, text, line = self.take()
        if kind == "mark" and text in "{<":
            return self.message("}" if text == "{" else ">")
        if not colon:
            raise TextError(line, f"after {name} a : or {{ was expected")
        if kind == "number":
            return _number(text)
        if kind == "word":
            return Word(text)
        if kind == "text":
            made = _string(text)
            while self.peek()[0] == "text":
                made += _string(self.take()[1])
            return made
        raise TextError(line, f"{name} has no value")


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text.removesuffix("f"))


def _string(text: str) -> str:
    return re.sub(
        r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)",
        lambda match: _ESCAPES.get(match[1]) or _coded(match[1]),
        text[1:-1],
    )


def _coded(code: str) -> str:
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code.isdigit() else code
