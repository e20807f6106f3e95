"""Floor 1: the record of a run."""

from cannlab.trace.kernel import Instruction, KernelTrace
from cannlab.trace.record import Record, TaskKind
from cannlab.trace.tables import Strings, Table

__all__ = ["Instruction", "KernelTrace", "Record", "Strings", "Table", "TaskKind"]
