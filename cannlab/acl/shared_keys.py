"""Keys under which a program gives memory and notifies to other processes.

Each process has an emulated node of its own, so a key works in the process that made it. Source: runtime documentation
(sharing between processes, notifies).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from cannlab.acl.checks import refuse
from cannlab.machine import Machine

T = TypeVar("T")
KEY_LENGTH, _LONGEST_KEY = 65, 1024
"""Bytes of a key with its closing null."""


def pids(m: Machine, processes: Any) -> list[int]:
    """A list of process ids; TypeError for anything else, 100000 for none."""
    if not isinstance(processes, list) or not all(isinstance(process, int) for process in processes):
        raise TypeError(f"{m.thread.function} args parse failed")
    if not processes:
        raise refuse(m, "runtime.bad_parameter", argument="pids", value="[]", allowed="at least one process")
    return processes


def check_chip(m: Machine) -> None:
    """Raises Refused ``runtime.not_supported`` (207000) on chips without sharing."""
    if m.soc.short == "Ascend310B" and not m.soc.split:
        raise refuse(m, "runtime.not_supported", what=f"{m.soc.name} does not share between processes")


@dataclass
class _Shared(Generic[T]):
    """What a key stands for, and who may import it (None: everybody); ``closed`` is how often it was given up."""

    item: T
    processes: set[int] | None
    imports: int = 0


@dataclass
class SharedKeys(Generic[T]):
    """The keys of one kind of thing in one machine."""

    kind: str
    known: dict[str, _Shared[T]] = field(default_factory=dict)
    count: int = 0

    def export(self, m: Machine, item: T, length: int, flags: int, anybody: int) -> str:
        """A key for an item.

        Args:
            length: room for the key. flags: 0, or ``anybody`` for a key that every process may import.
        """
        if length >= _LONGEST_KEY:
            raise refuse(m, "runtime.bad_parameter", argument="key_len", value=length, allowed=f"{KEY_LENGTH} to 1023")
        if length < KEY_LENGTH:
            raise refuse(m, "runtime.invalid_parameter", argument="key_len", value=length, allowed=f"{KEY_LENGTH}")
        key = hashlib.sha256(f"{os.getpid()}:{self.kind}:{self.count}".encode()).hexdigest()
        return self._keep(m, key, item, flags, anybody)

    def export_number(self, m: Machine, item: T, flags: int, anybody: int) -> int:
        """A number for an item, where keys are numbers."""
        number = os.getpid() << 32 | self.count + 1
        self._keep(m, str(number), item, flags, anybody)
        return number

    def _keep(self, m: Machine, key: str, item: T, flags: int, anybody: int) -> str:
        if flags & ~anybody:
            raise refuse(m, "runtime.invalid_parameter", argument="flags", value=flags, allowed=f"0, {anybody}")
        self.count += 1
        self.known[key] = _Shared(item, None if flags else set())
        return key

    def allow(self, m: Machine, key: str, processes: list[int]) -> None:
        """Let these processes import a key."""
        entry = self._entry(m, key)
        if entry.processes is not None:
            entry.processes.update(processes)

    def allow_item(self, m: Machine, item: T, processes: list[int]) -> None:
        """Let these processes import every key of an item; 107000 if it has none."""
        entries = [entry for entry in self.known.values() if entry.item is item]
        if not entries:
            facts = {"argument": self.kind, "value": "not exported", "allowed": "what a get_export_key call was given"}
            raise refuse(m, "runtime.invalid_parameter", **facts)
        for entry in entries:
            if entry.processes is not None:
                entry.processes.update(processes)

    def taken(self, m: Machine, key: str, flags: int, peers: int) -> T:
        """What a key stands for, imported by this process."""
        if flags & ~peers:
            raise refuse(m, "runtime.invalid_parameter", argument="flags", value=flags, allowed=f"0, {peers}")
        entry = self._entry(m, key)
        if entry.processes is not None and os.getpid() not in entry.processes:
            raise refuse(m, "runtime.shared_key", kind=self.kind, reason="the exporter has not given to this process")
        entry.imports += 1
        return entry.item

    def close(self, m: Machine, key: str) -> None:
        """Give one import up, or, when there is none, the key itself."""
        entry = self._entry(m, key)
        if entry.imports:
            entry.imports -= 1
        else:
            del self.known[key]

    def _entry(self, m: Machine, key: str) -> _Shared[T]:
        entry = self.known.get(key)
        if entry is None:
            raise refuse(m, "runtime.shared_key", kind=self.kind, reason="this process did not export, or has closed")
        return entry
