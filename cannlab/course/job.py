"""What an answer's process is given to do. Nothing in it tells a right result from a wrong one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cannlab.course import wire
from cannlab.course.manifest import Limits
from cannlab.course.spec.check import File
from cannlab.course.spec.run import Run


@dataclass(frozen=True, slots=True)
class Job:
    """The setup cells, the answer, what to do with it, and the inputs of each case (plain data and files).

    ``preload``: heavy modules to import in the process that the answer's is forked from.
    """

    exercise: str
    setup: tuple[str, ...]
    answer: str
    run: Mapping[str, Any]
    cases: tuple[Mapping[str, Any], ...]
    limits: Limits
    preload: tuple[str, ...] = ()

    def pack(self) -> bytes:
        """The job as a frame, for a process that does not share our memory."""
        return wire.pack_value(
            {
                "exercise": self.exercise,
                "setup": list(self.setup),
                "answer": self.answer,
                "run": dict(self.run),
                "cases": [dict(case) for case in self.cases],
                "limits": {name: getattr(self.limits, name) for name in self.limits.__slots__},
            }
        )

    @classmethod
    def unpack(cls, message: Any, blob: bytes) -> Job:
        """The inverse of :meth:`pack`."""
        data = wire.untree(message, blob)
        return cls(
            data["exercise"],
            tuple(data["setup"]),
            data["answer"],
            data["run"],
            tuple(data["cases"]),
            Limits(**data["limits"]),
        )


def case_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A case's inputs as they cross: files as tagged pairs."""
    return {name: {"file": [v.name, v.data]} if isinstance(v, File) else v for name, v in inputs.items()}


def make(
    exercise: str,
    setup: tuple[str, ...],
    answer: str,
    run: Run,
    cases: list[Mapping[str, Any]],
    limits: Limits,
    preload: tuple[str, ...] = (),
) -> Job:
    """A job from a check's parts."""
    return Job(exercise, setup, answer, run.to_dict(), tuple(case_inputs(case) for case in cases), limits, preload)
