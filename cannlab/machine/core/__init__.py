"""Floor 2: the AI core. Instructions are executed, recorded, judged and timed; a record can be replayed."""

from cannlab.machine.core.chaos import shuffled
from cannlab.machine.core.faults import KernelFault
from cannlab.machine.core.launch import Launch, Result, replay, run, timing
from cannlab.machine.core.pipes import HardEvent, Pipe, Space
from cannlab.machine.core.schedule import Timing
from cannlab.machine.core.soundness import Unsound

__all__ = [
    "HardEvent",
    "KernelFault",
    "Launch",
    "Pipe",
    "Result",
    "Space",
    "Timing",
    "Unsound",
    "replay",
    "run",
    "shuffled",
    "timing",
]
