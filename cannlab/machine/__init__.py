"""Floor 2: the simulated NPU."""

from cannlab.machine.blocks import Block, MemoryKind
from cannlab.machine.context import Context
from cannlab.machine.device import Device
from cannlab.machine.engines import Engine
from cannlab.machine.event import Event, EventFlag
from cannlab.machine.faults import MemoryFault, TaskFault
from cannlab.machine.memory import Memory, View
from cannlab.machine.node import Machine, machine, reset_machine
from cannlab.machine.stream import Stream
from cannlab.machine.work import Operator, Work

__all__ = [
    "Block",
    "Context",
    "Device",
    "Engine",
    "Event",
    "EventFlag",
    "Machine",
    "Memory",
    "MemoryFault",
    "MemoryKind",
    "Operator",
    "Stream",
    "TaskFault",
    "View",
    "Work",
    "machine",
    "reset_machine",
]
