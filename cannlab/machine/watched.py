"""An executor that also gives what goes into the operators of a model and what comes out.

The tensors that pass between operators become outputs of the graph, so each is what the chip would store there.
Operators inside the branch of an If are not watched: their tensors do not leave the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx
from numpy.typing import NDArray

from cannlab.machine.executor import Model, Program
from cannlab.machine.work import Work
from cannlab.om import OmModel, OmTensor, Task
from cannlab.soc import Soc

Tensors = tuple[tuple[OmTensor, NDArray[Any]], ...]


@dataclass(frozen=True)
class Seen:
    """What one operator read and wrote; ``number`` is its place in the om's list."""

    number: int
    task: Task
    inputs: Tensors
    outputs: Tensors


Observer = Callable[[list[Seen]], None]


class WatchedModel(Model):
    """A model whose operators are watched.

    Args:
        wanted: says of an operator whether it is of interest.
        observer: gets the operators of interest after every run, in order; ``observers`` are all who do.
    """

    def __init__(self, om: OmModel, soc: Soc, wanted: Callable[[Task], bool], observer: Observer) -> None:
        self._wanted = wanted
        self.observers = [observer]
        self._added: dict[int, tuple[str, ...]] = {}
        super().__init__(om, soc)

    def _program(self, gear: int) -> Program:
        if gear not in self._programs:
            om = self.om.at(gear) if self.om.variants else self.om
            opened, self._added[gear] = _opened(om, self._wanted)
            self._programs[gear] = Program(opened, self._chip, self._threads)
        return self._programs[gear]

    @property
    def pure(self) -> bool:
        """Never: the observers are told of each run once, in the order of the runs."""
        return False

    def run(self, inputs: list[NDArray[Any]], gear: int | None = None) -> tuple[list[NDArray[Any]], Work]:
        """As :meth:`Model.run`; the observer is told before it returns."""
        if self.om.variants and gear is None:
            gear = self.gear(inputs[-1]) if len(inputs) == len(self.om.inputs) else self.om.largest
        results, work = super().run(inputs, gear)
        program = self._program(gear or 0)
        added = self._added[gear or 0]
        count = len(results) - len(added)
        known = dict(zip(program.inputs, inputs, strict=False)) | dict(program.constants)
        known |= dict(zip((*program.outputs[:count], *added), results, strict=True))
        seen = _seen(program.om.tasks, known, self._wanted)
        for observer in self.observers:
            observer(seen)
        return results[:count], work


def _graph_name(tensor: OmTensor, known: Iterable[str]) -> str | None:
    """The name of an operator's tensor in the graph: a layout follows it, or node and index precede it."""
    names = (tensor.name, tensor.name.rpartition(":")[0], tensor.name.rpartition(":")[2])
    return next((name for name in names if name in known), None)


def _opened(om: OmModel, wanted: Callable[[Task], bool]) -> tuple[OmModel, tuple[str, ...]]:
    """The model with the tensors of its operators of interest as further outputs, and their names in the graph."""
    model = om.graph()
    graph = model.graph
    infos = {info.name: info for info in graph.value_info}
    given = {info.name for info in (*graph.output, *graph.input)} | {item.name for item in graph.initializer}
    produced = {name for node in graph.node for name in node.output}
    names: dict[str, None] = {}
    for task in om.tasks:
        if task.within or not wanted(task):
            continue
        for tensor in (*task.inputs, *task.outputs):
            name = _graph_name(tensor, infos)
            if name is not None and name in produced and name not in given:
                names[name] = None
    for name in names:
        info = onnx.ValueInfoProto()
        info.CopyFrom(infos[name])
        graph.output.append(info)
    return replace(om, graph_bytes=model.SerializeToString(), variants=()), tuple(names)


def _seen(tasks: Sequence[Task], known: Mapping[str, NDArray[Any]], wanted: Callable[[Task], bool]) -> list[Seen]:
    def arrays(tensors: Sequence[OmTensor]) -> Tensors:
        pairs = ((tensor, _graph_name(tensor, known)) for tensor in tensors)
        return tuple((tensor, known[name]) for tensor, name in pairs if name is not None)

    return [
        Seen(number, task, arrays(task.inputs), arrays(task.outputs))
        for number, task in enumerate(tasks)
        if not task.within and wanted(task)
    ]
