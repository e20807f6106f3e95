"""Names of pyasc that are not emulated yet: they exist and say so when used."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, NoReturn


class NotEmulated:
    """A public name of pyasc that the emulation does not have yet. Using it says so."""

    def __init__(self, name: str) -> None:
        self.name_ = name
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]

    def text(self) -> str:
        """What it says."""
        return (
            f"{self.name_} is not emulated yet: cannlab runs pyasc's vector kernels; "
            "use the vector operations, or run this kernel on hardware"
        )

    def _fail(self) -> NoReturn:
        raise NotImplementedError(self.text())

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._fail()

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        self._fail()

    def __repr__(self) -> str:
        return f"<{self.name_}, not emulated yet>"


@cache
def api() -> dict[str, dict[str, list[str]]]:
    """Public names of pyasc 1.1.1 by module: functions and classes."""
    text = (resources.files("cannlab.ascendc") / "data" / "api.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, list[str]]] = json.loads(text)
    return found


@cache
def _names(package: str) -> frozenset[str]:
    return frozenset(
        name
        for module, kinds in api().items()
        if module == package or module.startswith(package + ".")
        for names in kinds.values()
        for name in names
    )


@cache
def _placeholder(full: str) -> NotEmulated:
    return NotEmulated(full)


def missing_names(package: str, name: str, shown: str | None = None) -> NotEmulated:
    """A placeholder for a public name of a package.

    Raises:
        AttributeError: pyasc has no such name either.
    """
    if name not in _names(package):
        raise AttributeError(f"module '{shown or package}' has no attribute '{name}'")
    return _placeholder(f"{shown or package}.{name}")
