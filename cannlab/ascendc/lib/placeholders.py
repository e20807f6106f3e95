"""Names of pyasc that are not emulated yet: they exist and say so when used."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable


class NotEmulated:
    """A public name of pyasc that the emulation does not have yet. Using it says so."""

    def __init__(self, name: str) -> None:
        self.name_ = name
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]

    def text(self) -> str:
        """What it says."""
        return (
            f"{self.name_} is not emulated yet (docs/asc-coverage.md lists what is): use another operation, "
            "or run this kernel on hardware"
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


def missing_top(name: str) -> NotEmulated:
    """A placeholder for a name of ``asc`` itself.

    Raises:
        AttributeError: pyasc does not have it there; the text says which module has it.
    """
    if name in api()["asc"]["functions"]:
        return _placeholder(f"asc.{name}")
    homes = [module for module, kinds in api().items() if any(name in each for each in kinds.values())]
    hint = f": pyasc has it in {homes[0]}" if homes and not name.startswith("__") else ""
    raise AttributeError(f"module 'asc' has no attribute '{name}'{hint}")


def names_of(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose names lie elsewhere in the emulation, or nowhere yet.

    A public name that pyasc has in this module is looked up where the package hands its names on; one that is
    not emulated is a placeholder.
    """
    tail = module.removeprefix("cannlab.ascendc.")
    official = f"asc.{tail}"
    home = "cannlab.ascendc"
    for part in ("language.adv", "lib.runtime", "lib.host"):
        if tail.startswith(part + "."):
            home = f"cannlab.ascendc.{part}"

    def find(name: str) -> Any:
        if name.startswith("__") or name not in {each for names in api()[official].values() for each in names}:
            raise AttributeError(f"module '{official}' has no attribute '{name}'")
        from importlib import import_module

        try:
            return getattr(import_module(home), name)
        except AttributeError:
            return _placeholder(f"{official}.{name}")

    return find
