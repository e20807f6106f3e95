"""Models on a device: an om that was loaded, its memory, its execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cannlab.errors import diagnose
from cannlab.machine.blocks import Block, MemoryKind
from cannlab.machine.engines import Engine
from cannlab.machine.faults import MemoryFault
from cannlab.machine.memory import View
from cannlab.machine.work import Work
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.machine.context import Context
    from cannlab.machine.executor import Model
    from cannlab.machine.node import Machine
    from cannlab.machine.spots import Spot
    from cannlab.machine.stream import Stream
    from cannlab.om import OmModel, OmTensor

SLACK = 64
"""A buffer may be this many bytes smaller than the model says. Source: pyacl-semantics 9."""


class LoadedModel:
    """A model in a context of a device.

    Attributes:
        om: what the file says. context: where it was loaded. made: the learner's line that loaded it.
        number: the id of the stream that its synchronous executions show.
    """

    def __init__(self, m: Machine, om: OmModel, executor: Model, context: Context, work: bool, weights: bool) -> None:
        """Put a model on the device.

        Args:
            work, weights: take device memory for the work space, for the weights (else the caller's is used).

        Raises:
            MemoryFault: ``memory.out_of_memory``; nothing stays allocated.
        """
        self._m = m
        self.om = om
        self.context = context
        self.made: Spot = m.here()
        self._executor = executor
        self._blocks: list[Block] = []
        try:
            for size, wanted in ((om.work_size, work), (om.weight_size, weights)):
                if wanted and size:
                    self._blocks.append(m.memory.allocate(size, MemoryKind.WORKSPACE, context.device))
        except MemoryFault:
            self.release()
            raise
        self.number = context.device.take_stream_number()

    def unload(self) -> None:
        """Give its memory and its stream back."""
        self.release()
        self.context.device.give_stream_number()

    def release(self) -> None:
        """Free its memory."""
        for block in self._blocks:
            self._m.memory.retire(block)
        self._blocks.clear()

    def check(self, side: str, tensors: Sequence[OmTensor], buffers: Sequence[tuple[int, int]]) -> list[View]:
        """Check the (address, bytes) pairs that are to be the model's inputs or outputs.

        Raises:
            MemoryFault: ``model.wrong_count`` (145000), ``model.small_buffer`` (500002), ``model.host_buffer``
                (507899), or what the memory itself refuses. Source: pyacl-semantics 9.
        """
        m, where = self._m, self._m.here().place
        if len(buffers) != len(tensors):
            raise MemoryFault(
                diagnose("model.wrong_count", where=where, side=side, expected=len(tensors), got=len(buffers))
            )
        views = []
        for index, (tensor, (address, size)) in enumerate(zip(tensors, buffers, strict=True)):
            facts: dict[str, Any] = {"side": side, "index": index, "name": tensor.name}
            if size + SLACK < tensor.size:
                raise MemoryFault(diagnose("model.small_buffer", where=where, needed=tensor.size, size=size, **facts))
            view = m.memory.resolve(address, tensor.size, write=side == "output")
            if view.on_host:
                raise MemoryFault(diagnose("model.host_buffer", where=where, memory=view.name, **facts))
            views.append(view)
        return views

    def execute(self, inputs: Sequence[tuple[int, int]], outputs: Sequence[tuple[int, int]]) -> None:
        """Run at once; the calling thread waits for the engine and the run, and for no stream of the program."""
        m, thread = self._m, self._m.thread
        self.check("input", self.om.inputs, inputs)
        self.check("output", self.om.outputs, outputs)
        queued = thread.now
        device = self.context.device
        m.requested.on_task(device, TaskKind.MODEL, "", self.om.name, m.here().place)
        work = self._run(inputs, outputs)
        start = device.occupy(Engine.COMPUTE, queued, work.ns)
        thread.now = start + work.ns
        m.record_work(
            device.index,
            self.number,
            TaskKind.MODEL,
            self.om.name,
            start,
            thread.now,
            work,
            queued=queued,
            spot=m.here(),
            core_type="MODEL_EXECUTE",
        )

    def execute_later(
        self, inputs: Sequence[tuple[int, int]], outputs: Sequence[tuple[int, int]], stream: Stream
    ) -> int:
        """Queue a run; inputs are read and outputs written when the stream is drained."""
        views = self.check("input", self.om.inputs, inputs) + self.check("output", self.om.outputs, outputs)

        def run() -> Work:
            # Looked at again: the memory may have been freed since.
            self.check("input", self.om.inputs, inputs)
            self.check("output", self.om.outputs, outputs)
            return self._run(inputs, outputs)

        return stream.submit(
            TaskKind.MODEL,
            self.om.name,
            run,
            engine=Engine.COMPUTE,
            core_type="MODEL_EXECUTE",
            keep=tuple(view.owner for view in views),
        )

    def _run(self, inputs: Sequence[tuple[int, int]], outputs: Sequence[tuple[int, int]]) -> Work:
        import numpy as np

        memory = self._m.memory
        arrays = [
            np.frombuffer(memory.view(address, tensor.size, "device"), tensor.type.numpy).reshape(tensor.dims)
            for tensor, (address, _) in zip(self.om.inputs, inputs, strict=True)
        ]
        results, work = self._executor.run(arrays)
        for tensor, (address, _), result in zip(self.om.outputs, outputs, results, strict=True):
            view = memory.view(address, tensor.size, "device")
            view[:] = np.ascontiguousarray(result).reshape(-1).view(np.uint8).data
        return work
