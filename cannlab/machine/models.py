"""Models on a device: an om that was loaded, its memory, its execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from cannlab.errors import diagnose
from cannlab.machine.blocks import Block, MemoryKind
from cannlab.machine.engines import Engine
from cannlab.machine.faults import MemoryFault, TaskFault
from cannlab.machine.memory import View
from cannlab.machine.work import Work
from cannlab.om.errors import OmError
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


Buffer = tuple[int, int]
"""Address and bytes."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output of one run: where it lies (memory that the library provided, if the buffer had none), and its shape."""

    address: int
    size: int
    dims: tuple[int, ...]


class LoadedModel:
    """A model in a context of a device.

    Attributes:
        om: what the file says. context: where it was loaded. made: the learner's line that loaded it.
        number: the id of the stream that its synchronous executions show.
        chosen: the gear that was set last; None before.
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
        self.chosen: int | None = None
        self._unloaded: Spot | None = None
        # A run's own values decide what is computed, and so how long it takes.
        self._open = bool(om.variants) or om.dynamic or any(task.within for task in om.tasks)
        try:
            for size, wanted in ((om.work_size, work), (om.weight_size, weights)):
                if wanted and size:
                    self._blocks.append(m.memory.allocate(size, MemoryKind.WORKSPACE, context.device))
        except MemoryFault:
            self.release()
            raise
        self.number = context.device.take_stream_number()

    def unload(self) -> None:
        """Give its memory and its stream back; runs that are still queued fail."""
        self._unloaded = self._m.here()
        self.release()
        self.context.device.give_stream_number()

    def release(self) -> None:
        """Free its memory."""
        for block in self._blocks:
            self._m.memory.retire(block)
        self._blocks.clear()

    def check(self, side: str, tensors: Sequence[OmTensor], buffers: Sequence[Buffer]) -> list[View]:
        """Check the (address, bytes) pairs that are to be the model's inputs or outputs.

        With gears nothing is said of their sizes, and with dynamic AIPP nothing of the image's; what does not fit is
        found where it is read. Source: pyacl-semantics 9.

        Raises:
            MemoryFault: ``model.wrong_count`` (145000), ``model.small_buffer`` (500002), ``model.host_buffer``
                (507899), or what the memory itself refuses.
        """
        m, where = self._m, self._m.here().place
        if len(buffers) != len(tensors):
            raise MemoryFault(
                diagnose("model.wrong_count", where=where, side=side, expected=len(tensors), got=len(buffers))
            )
        views = []
        for index, (tensor, (address, size)) in enumerate(zip(tensors, buffers, strict=True)):
            facts: dict[str, Any] = {"side": side, "index": index, "name": tensor.name}
            if self.om.dynamic and side == "output" and not tensor.fixed and address == 0:
                continue  # the library provides memory once the size is known
            lenient = bool(self.om.variants) or self._is_dynamic_image(tensor)
            if not lenient and size + SLACK < tensor.size:
                raise MemoryFault(diagnose("model.small_buffer", where=where, needed=tensor.size, size=size, **facts))
            wanted = min(size, tensor.size) if lenient else tensor.size
            view = m.memory.resolve(address, max(wanted, 1), write=side == "output")
            if view.on_host:
                raise MemoryFault(diagnose("model.host_buffer", where=where, memory=view.name, **facts))
            views.append(view)
        return views

    def _is_dynamic_image(self, tensor: OmTensor) -> bool:
        return bool(self.om.aipp) and self.om.aipp.get(tensor.name, {}).get("mode") == "dynamic"

    def gear_input(self) -> int:
        """Index of the input that chooses the gear; -1 for a model without gears."""
        return len(self.om.inputs) - 1 if self.om.variants else -1

    def read_gear(self, buffer: Buffer) -> int:
        """The gear that the contents of that input name; the largest for anything else.

        The numbers are 8 bytes long where the buffer has room for that, else 4. Source: pyacl-semantics 9.
        """
        import numpy as np

        address, size = buffer
        count = len(self.om.variants[0].values)
        dtype = np.dtype(np.uint64 if size >= 8 * count else np.uint32)
        view = self._m.memory.view(address, dtype.itemsize * count, "device", write=False)
        return self._executor.gear(np.frombuffer(view, dtype))

    def write_gear(self, buffer: Buffer, gear: int) -> None:
        """Choose a gear: write its numbers into the buffer of that input."""
        import numpy as np

        address, size = buffer
        values = self.om.variants[gear].values
        dtype = np.dtype(np.uint64 if size >= 8 * len(values) else np.uint32)
        data = np.array(values, dtype).tobytes()
        self._m.memory.view(address, len(data), "device")[:] = data
        self.chosen = gear

    def execute(
        self,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        shapes: Sequence[tuple[int, ...]] | None = None,
    ) -> list[Output]:
        """Run at once; the calling thread waits for the engine and the run, and for no stream of the program.

        Args:
            shapes: of the inputs, for a model with ranges.
        """
        m, thread = self._m, self._m.thread
        wanted = self._shaped(shapes)
        self.check("input", wanted, inputs)
        self.check("output", self.om.outputs, outputs)
        queued = thread.now
        device = self.context.device
        m.requested.on_task(device, TaskKind.MODEL, "", self.om.name, m.here().place)
        given, work = self._run(wanted, inputs, outputs)
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
        return given

    def execute_later(
        self,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        stream: Stream,
        shapes: Sequence[tuple[int, ...]] | None = None,
        done: Callable[[list[Output]], None] | None = None,
    ) -> int:
        """Queue a run; when the stream is drained, inputs are read, outputs written, and ``done`` gets the outputs."""
        wanted = self._shaped(shapes)
        views = self.check("input", wanted, inputs) + self.check("output", self.om.outputs, outputs)

        def run() -> Work:
            if self._unloaded is not None:
                where, place = self._m.here().place, self._unloaded.place
                others = (("unloaded at", place),) if place is not None else ()
                raise TaskFault(diagnose("model.unloaded_in_use", where=where, others=others, name=self.om.name))
            # Looked at again: the memory may have been freed since.
            self.check("input", wanted, inputs)
            self.check("output", self.om.outputs, outputs)
            given, work = self._run(wanted, inputs, outputs)
            if done is not None:
                done(given)
            return work

        return stream.submit(
            TaskKind.MODEL,
            self.om.name,
            run,
            engine=Engine.COMPUTE,
            core_type="MODEL_EXECUTE",
            keep=tuple(view.owner for view in views),
            ns=None if self._open else self._executor.work.ns,
        )

    def _shaped(self, shapes: Sequence[tuple[int, ...]] | None) -> tuple[OmTensor, ...]:
        """The inputs as this run has them."""
        if shapes is None:
            return self.om.inputs
        return tuple(
            tensor if tensor.fixed else replace(tensor, dims=tuple(dims), stated=prod(dims) * tensor.type.size)
            for tensor, dims in zip(self.om.inputs, shapes, strict=True)
        )

    def _run(
        self, wanted: Sequence[OmTensor], inputs: Sequence[Buffer], outputs: Sequence[Buffer]
    ) -> tuple[list[Output], Work]:
        import numpy as np

        memory, gear = self._m.memory, None
        if self.om.variants:
            gear = self.read_gear(inputs[-1])
            wanted = self.om.variants[gear].inputs
        arrays = []
        for tensor, (address, size) in zip(wanted, inputs, strict=False):
            image = tensor.name in self.om.aipp
            bytes_read = min(size, tensor.size) if image and self._is_dynamic_image(tensor) else tensor.size
            array = np.frombuffer(memory.view(address, bytes_read, "device"), tensor.type.numpy)
            arrays.append(array if image else array.reshape(tensor.dims))
        try:
            results, work = self._executor.run(arrays, gear)
        except OmError as problem:
            raise TaskFault(replace(problem.diagnosis, where=self._m.here().place)) from None
        given = []
        for index, (result, (address, size)) in enumerate(zip(results, outputs, strict=True)):
            if self.om.dynamic and address == 0 and result.nbytes:
                block = memory.allocate(result.nbytes, MemoryKind.DEVICE, self.context.device)
                address, size = block.start, block.size
            elif self.om.dynamic and size < result.nbytes:
                facts: dict[str, Any] = {"side": "output", "index": index, "name": self.om.outputs[index].name}
                where = self._m.here().place
                raise MemoryFault(diagnose("model.small_buffer", where=where, needed=result.nbytes, size=size, **facts))
            if result.nbytes:
                view = memory.view(address, result.nbytes, "device")
                view[:] = np.ascontiguousarray(result).reshape(-1).view(np.uint8).data
            given.append(Output(address, size, tuple(result.shape)))
        return given, work
