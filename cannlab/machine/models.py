"""Models on a device: an om that was loaded, its memory, its execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from cannlab.errors import diagnose
from cannlab.machine import ahead
from cannlab.machine.ahead import Ahead
from cannlab.machine.blocks import Block, MemoryKind
from cannlab.machine.engines import Engine
from cannlab.machine.faults import MemoryFault, TaskFault
from cannlab.machine.memory import View
from cannlab.machine.overflow import left_range
from cannlab.machine.work import Work
from cannlab.om.errors import OmError
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.machine.context import Context
    from cannlab.machine.executor import Model
    from cannlab.machine.node import Machine
    from cannlab.machine.spots import Spot
    from cannlab.machine.stream import Stream
    from cannlab.machine.tasks import Task
    from cannlab.machine.watched import Seen
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
        observers: called with the start (ns) and the work of every run.
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
        self.observers: list[Callable[[int, Work], None]] = []
        self._watched = False
        self._unloaded: Spot | None = None
        self._seconds = 0.0
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
        given, work = self.run_checked(wanted, inputs, outputs)
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
        queued = _QueuedRun(self, wanted, inputs, outputs, stream, done)
        return stream.submit(
            TaskKind.MODEL,
            self.om.name,
            queued.run,
            engine=Engine.COMPUTE,
            core_type="MODEL_EXECUTE",
            keep=tuple(view.owner for view in views),
            ns=None if self._open else self._executor.work.ns,
        )

    def check_queued(self, wanted: Sequence[OmTensor], inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """The checks when a queued run is due: model and memory may be gone since it was queued."""
        if self._unloaded is not None:
            where, place = self._m.here().place, self._unloaded.place
            others = (("unloaded at", place),) if place is not None else ()
            raise TaskFault(diagnose("model.unloaded_in_use", where=where, others=others, name=self.om.name))
        self.check("input", wanted, inputs)
        self.check("output", self.om.outputs, outputs)

    def _shaped(self, shapes: Sequence[tuple[int, ...]] | None) -> tuple[OmTensor, ...]:
        """The inputs as this run has them."""
        if shapes is None:
            return self.om.inputs
        return tuple(
            tensor if tensor.fixed else replace(tensor, dims=tuple(dims), stated=prod(dims) * tensor.type.size)
            for tensor, dims in zip(self.om.inputs, shapes, strict=True)
        )

    def compute_ahead(self, stream: Stream, task: Task, inputs: Sequence[Buffer]) -> Ahead | None:
        """Begin to compute a queued run, if its inputs can be foreseen and it is worth it."""
        if self._open or self._seconds < ahead.LEAST_SECONDS or not self._executor.pure or not ahead.there_is_room():
            return None
        addresses = [address for address, _ in inputs]
        arrays = ahead.inputs_then(self._m.memory, stream, task, self.om.inputs, addresses)
        try:
            return Ahead(self._executor, arrays) if arrays is not None else None
        except RuntimeError:
            return None

    def run_checked(
        self,
        wanted: Sequence[OmTensor],
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        begun: Ahead | None = None,
    ) -> tuple[list[Output], Work]:
        """Read the inputs, compute (or take what ``begun`` has computed from the same inputs), write the outputs."""
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
        if self.context.device.watches_overflow and not self._watched:
            self._watch_overflow()
        try:
            known = begun.results(arrays) if begun is not None and self._executor.pure else None
            if known is not None:
                results, work = known
            else:
                results, work, self._seconds = ahead.timed(self._executor, arrays, gear)
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
        if self.observers:
            work = replace(work, told=partial(self._tell, work))
        return given, work

    def _watch_overflow(self) -> None:
        """From now on every operator's results are looked at."""
        from cannlab.machine.watched import WatchedModel

        self._watched = True
        if isinstance(self._executor, WatchedModel):
            self._executor.observers.append(self._note_overflow)
        else:
            self._executor = WatchedModel(self.om, self._m.soc, lambda task: True, self._note_overflow)

    def _note_overflow(self, seen: list[Seen]) -> None:
        device = self.context.device
        if device.watches_overflow and not device.overflowed:
            device.overflowed = left_range((array for entry in seen for _, array in entry.outputs), self._m.soc)

    def _tell(self, work: Work, start: int) -> None:
        for observer in self.observers:
            observer(start, work)


class _QueuedRun:
    """A run of a model in a stream; ``ahead`` is its computation, if that has begun."""

    def __init__(
        self,
        model: LoadedModel,
        wanted: Sequence[OmTensor],
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        stream: Stream,
        done: Callable[[list[Output]], None] | None,
    ) -> None:
        self._model, self._wanted, self._inputs, self._outputs = model, wanted, inputs, outputs
        self._stream, self._done = stream, done
        self._ahead: Ahead | None = None

    def run(self) -> Work:
        """The whole run, with all its checks; meanwhile the runs that come next in other streams are computed."""
        model = self._model
        model.check_queued(self._wanted, self._inputs, self._outputs)
        self._begin_others()
        given, work = model.run_checked(self._wanted, self._inputs, self._outputs, self._ahead)
        if self._done is not None:
            self._done(given)
        return work

    def begin(self, task: Task) -> None:
        """Compute it ahead, once."""
        if self._ahead is None:
            self._ahead = self._model.compute_ahead(self._stream, task, self._inputs)

    def _begin_others(self) -> None:
        for device in self._stream.context.device.machine.devices:
            for context in device.contexts:
                for stream in context.streams:
                    if stream is not self._stream and stream.queue:
                        _begin_next(stream)


def _begin_next(stream: Stream) -> None:
    """Compute the next run of a stream ahead."""
    for task in stream.queue:
        queued = getattr(task.run, "__self__", None)
        if isinstance(queued, _QueuedRun):
            queued.begin(task)
            return
