"""Faults on request: what ``CANNLAB_FAULT`` asks the machine to do wrong, so that robust programs can be tried.

Grammar, faults separated by commas::

    oom@N          the Nth allocation of device memory fails: 207001
    aicore@N       the Nth piece of work of the AI cores fails: 507015, 507035 on vector cores, 507011 for a model
    lost@N         the device is lost when its Nth task is due: 507010 from then on
    slow*F         copies between host and device take F times as long (1 to 1000000)

``@N+`` means the Nth and all later ones. ``:D`` at the end of a fault restricts it to device D, and counts only there:
``oom@3+:1``. Numbers count from 1. Source of the codes: error codes of acl_rt.h; choice of the grammar: cannlab.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cannlab.errors import CannlabError, diagnose
from cannlab.machine.faults import MemoryFault, TaskFault
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.errors import Place
    from cannlab.machine.device import Device

VARIABLE = "CANNLAB_FAULT"
_FORM = re.compile(r"(oom|aicore|lost)@([1-9]\d{0,8})(\+?)(?::(\d{1,4}))?|slow\*([1-9]\d{0,6})(?::(\d{1,4}))?")
_COMPUTING = (TaskKind.KERNEL, TaskKind.MODEL, TaskKind.OPERATOR)
_VECTOR, _DVPP = "AI_VECTOR_CORE", "DVPP"


@dataclass
class RequestedFault:
    """One fault. ``seen`` counts what it may happen to; ``factor`` is for a slow link only."""

    name: str
    number: int
    onwards: bool
    device: int | None
    factor: int = 1
    seen: int = 0

    def concerns(self, device: int) -> bool:
        """True for the device that it is restricted to, or for all."""
        return self.device is None or self.device == device

    def due(self) -> bool:
        """Count one; True if it happens to this one."""
        self.seen += 1
        return self.seen >= self.number if self.onwards else self.seen == self.number


def parse(text: str, devices: int) -> list[RequestedFault]:
    """The faults that a text asks for; none for an empty one.

    Raises:
        CannlabError: rule ``runtime.fault_grammar``.
    """
    found = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        match = _FORM.fullmatch(part)
        device = match and (match[4] or match[6])
        if match is None or (device and int(device) >= devices):
            raise CannlabError(diagnose("runtime.fault_grammar", part=part, variable=VARIABLE, last=devices - 1))
        limited = int(device) if device else None
        if match[1]:
            found.append(RequestedFault(match[1], int(match[2]), bool(match[3]), limited))
        else:
            found.append(RequestedFault("slow", 1, True, limited, int(match[5])))
    return found


class RequestedFaults:
    """The faults of one machine. Without any, every question costs one look at an empty list."""

    def __init__(self, text: str, devices: int) -> None:
        self.faults = parse(text, devices)

    def _due(self, name: str, device: int) -> RequestedFault | None:
        # Every fault counts, also behind one that happens.
        happening = [fault for fault in self.faults if fault.name == name and fault.concerns(device) and fault.due()]
        return happening[0] if happening else None

    def on_allocate(self, device: Device, size: int, where: Place | None) -> None:
        """An allocation of device memory begins. Raises MemoryFault ``memory.requested_oom`` (207001)."""
        fault = self._due("oom", device.index)
        if fault is not None:
            raise MemoryFault(
                diagnose("memory.requested_oom", where=where, size=size, device=device.index, number=fault.seen)
            )

    def on_task(self, device: Device, kind: TaskKind, core_type: str, name: str, where: Place | None) -> None:
        """Work of a device begins. Raises TaskFault for a lost device or an exception of the AI cores."""
        if self._due("lost", device.index) is not None:
            device.lost = True
        check_alive(device, where)
        if kind in _COMPUTING and core_type != _DVPP:
            fault = self._due("aicore", device.index)
            if fault is not None:
                rule = "runtime.vector_exception" if core_type == _VECTOR else "runtime.aicore_exception"
                rule = "runtime.model_exception" if kind is TaskKind.MODEL else rule
                raise TaskFault(diagnose(rule, where=where, name=name, number=fault.seen))

    def link_factor(self, device: int) -> int:
        """How many times as long a copy between the host and this device takes."""
        factor = 1
        for fault in self.faults:
            if fault.name == "slow" and fault.concerns(device):
                factor *= fault.factor
        return factor


def check_alive(device: Device, where: Place | None) -> None:
    """Raise TaskFault ``runtime.device_lost`` (507010) for a lost device."""
    if device.lost:
        raise TaskFault(diagnose("runtime.device_lost", where=where, device=device.index))
