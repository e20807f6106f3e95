"""Sessions: a model on a device, and its runs. Source: pyacl-and-atc 2.3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from cannlab.aclruntime import pipeline
from cannlab.aclruntime.descriptions import BaseTensor, ExecTime, dtype, session_options, sumary, tensor_desc
from cannlab.aclruntime.dynamic_aipp import DynamicAipp
from cannlab.aclruntime.tensor import Tensor, context_of, failure
from cannlab.machine import Block, Machine, MemoryKind, TaskFault, aipp, machine
from cannlab.machine.copies import Copy, Direction
from cannlab.machine.models import LoadedModel, Output
from cannlab.om import Format, OmError, OmTensor
from cannlab.om import read as read_om

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cannlab.machine import Stream
    from cannlab.machine.tasks import Task

_GEAR_KINDS = {"batch": "dynamic batch", "image": "dynamic height and width", "dims": "dynamic dims"}


@dataclass
class _Run:
    """One run of a model: where its inputs and outputs lie.

    ``taken`` is memory that goes when the run is over, ``feeds`` keeps the tensors alive until then; ``tasks`` are its
    executions, ``given`` their outputs.
    """

    inputs: list[tuple[int, int]]
    tensors: tuple[OmTensor, ...]
    shapes: list[tuple[int, ...]] | None
    blocks: list[Block | None]
    taken: list[Block]
    feeds: Sequence[Any]
    tasks: list[Task] = field(default_factory=list)
    given: list[Output] = field(default_factory=list)

    @property
    def outputs(self) -> list[tuple[int, int]]:
        """Address and bytes of each output; (0, 0) where the size is not known before."""
        return [(block.start, block.size) if block is not None else (0, 0) for block in self.blocks]


class InferenceSession(DynamicAipp):
    """A model on a device.

    Args:
        model_path: the om. device_id: the device. options: how often each run executes, and more.

    Raises:
        RuntimeError: for a device that does not exist, and an om that cannot be loaded.
    """

    def __init__(self, model_path: str, device_id: int, options: session_options | None = None) -> None:
        from cannlab.machine.executor import Model

        super().__init__()
        self._m: Machine = machine()
        self._device = int(device_id)
        self._options = options or session_options()
        self._summary = sumary()
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._gear: int | None = None
        self._outsizes: list[int] = []
        self._inner: tuple[list[Tensor], list[Tensor]] | None = None
        m = self._m
        with m.call("aclruntime.load"):
            context = context_of(m, self._device)
            try:
                om = read_om(model_path, soc=m.soc.name)
                self._model: LoadedModel | None = LoadedModel(m, om, Model(om, m.soc), context, True, True)
            except OmError as problem:
                m.report(problem.diagnosis)
                raise RuntimeError(problem.diagnosis.text()) from None
            except TaskFault as fault:
                raise failure(m, fault) from None

    def __repr__(self) -> str:
        om = self._loaded.om
        return f"<Model> device {self._device}, {om.name}: {len(self.get_inputs())} inputs, {len(om.outputs)} outputs"

    @property
    def _loaded(self) -> LoadedModel:
        if self._model is None:
            raise RuntimeError("the session was freed: make a new one")
        return self._model

    # -- what it is ----------------------------------------------------------------------------------

    def options(self) -> session_options:
        """The options, to be changed in place."""
        return self._options

    def _data_inputs(self) -> tuple[OmTensor, ...]:
        """The inputs that a program gives: all but those that choose the gear and hold the parameters of AIPP."""
        om = self._loaded.om
        kept = om.inputs[:-1] if om.variants else om.inputs
        return tuple(tensor for tensor in kept if tensor.name not in self._parameter_inputs())

    def _parameter_inputs(self) -> dict[str, str]:
        """Input that holds parameters of dynamic AIPP -> the image that they are of."""
        entries = self._loaded.om.aipp.items()
        return {info["data"]: image for image, info in entries if info.get("mode") == "dynamic"}

    def get_inputs(self) -> list[tensor_desc]:
        """Descriptions of the inputs."""
        return [_described(tensor) for tensor in self._data_inputs()]

    def get_outputs(self) -> list[tensor_desc]:
        """Descriptions of the outputs."""
        return [_described(tensor) for tensor in self._loaded.om.outputs]

    def sumary(self) -> sumary:
        """The times of the executions (the name is the extension's; newer ones also have the right one)."""
        return self._summary

    summary = sumary

    def reset_sumaryinfo(self) -> int:
        """Forget the times."""
        self._summary.exec_time_list.clear()
        return 0

    reset_summaryinfo = reset_sumaryinfo

    def set_context(self) -> int:
        """Make the session's context current in this thread."""
        context_of(self._m, self._device)
        return 0

    def free_resource(self) -> int:
        """Unload the model; the session cannot be used afterwards."""
        self._inner = None
        if self._model is not None:
            with self._m.call("aclruntime.free_resource"):
                self._model.unload()
            self._model = None
        return 0

    finalize = free_resource

    # -- shapes --------------------------------------------------------------------------------------

    def set_staticbatch(self) -> int:
        """Run with the shapes of the om (the largest gear of a model with gears)."""
        self._gear, self._shapes = None, {}
        return 0

    def _choose(self, kind: str, values: tuple[int, ...]) -> int:
        om = self._loaded.om
        if not om.variants or om.gears.get("kind") != kind:
            raise RuntimeError(f"the model has no gears for {_GEAR_KINDS[kind]}")
        gears = [variant.values for variant in om.variants]
        if values not in gears:
            listed = "; ".join(",".join(map(str, gear)) for gear in gears)
            raise RuntimeError(f"{','.join(map(str, values))} is no gear of the model: it has {listed}")
        self._gear = gears.index(values)
        return 0

    def set_dynamic_batchsize(self, batch: int) -> int:
        """Choose the gear of a batch size."""
        return self._choose("batch", (int(batch),))

    def get_max_dym_batchsize(self) -> int:
        """The largest batch of the gears; 0 without."""
        om = self._loaded.om
        return max((variant.values[0] for variant in om.variants), default=0) if om.gears.get("kind") == "batch" else 0

    def set_dynamic_hw(self, height: int, width: int) -> int:
        """Choose the gear of an image size. The client's documentation says width and height and passes these."""
        return self._choose("image", (int(height), int(width)))

    def _named_shapes(self, text: str) -> dict[str, tuple[int, ...]]:
        """``name:1,3,224,224;name:...`` as shapes of all inputs."""
        found = {}
        for part in text.split(";"):
            name, _, dims = part.rpartition(":")
            if not all(word.strip().isdecimal() for word in dims.split(",")):
                raise RuntimeError(f"shapes are given as name:1,2,3;name:4,5, not {text!r}")
            found[name.strip()] = tuple(int(word) for word in dims.split(","))
        missing = {tensor.name for tensor in self._data_inputs()} ^ set(found)
        if missing:
            raise RuntimeError(f"shapes are needed for all inputs of the model and no others: {sorted(missing)}")
        return found

    def set_dynamic_dims(self, text: str) -> int:
        """Choose the gear of these shapes."""
        shapes = self._named_shapes(text)
        values = [
            dim
            for tensor in self._data_inputs()
            for shown, dim in zip(tensor.dims, shapes[tensor.name], strict=False)
            if shown == -1
        ]
        return self._choose("dims", tuple(values))

    def set_dynamic_shape(self, text: str) -> int:
        """The shapes of the next runs of a model with ranges."""
        if not self._loaded.om.dynamic:
            raise RuntimeError("the model has no ranges of shapes: convert it with ranges in --input_shape")
        self._shapes = self._named_shapes(text)
        return 0

    def set_custom_outsize(self, sizes: Sequence[int]) -> int:
        """Bytes of the outputs of a model with ranges; kept, the outputs get what they need."""
        self._outsizes = [int(size) for size in sizes]
        return 0

    # -- dynamic AIPP --------------------------------------------------------------------------------

    def get_dym_aipp_input_exist(self) -> int:
        """1 if an input has dynamic AIPP, -1 if several have it, else 0."""
        count = len(self._parameter_inputs())
        return count if count < 2 else -1

    def set_dym_aipp_info_set(self) -> int:
        """Take over what the aipp_set functions have set; the next runs use it.

        Raises:
            RuntimeError: for a model without dynamic AIPP, or with several such inputs, and for what does not fit it.
        """
        images = list(self._parameter_inputs().values())
        if len(images) != 1:
            raise RuntimeError(f"parameters of AIPP are set for one input, the model has {len(images)} dynamic ones")
        made, info = self._settled(), self._loaded.om.aipp[images[0]]
        batch, _, height, width = info["model_dims"]
        reason = aipp.unfit(made, batch, (height, width), info["size"])
        if reason:
            raise RuntimeError(f"the parameters of AIPP do not fit the model: {reason}")
        self._given = made
        return 0

    def check_dym_aipp_input_exist(self) -> int:
        """RuntimeError for a model with dynamic AIPP whose parameters were not set."""
        if self._parameter_inputs() and self._given is None:
            raise RuntimeError(
                "the model has dynamic AIPP and no parameters: set them (aipp_set_..., set_dym_aipp_info_set; "
                "--aipp_config of the client)"
            )
        return 0

    # -- running -------------------------------------------------------------------------------------

    def create_tensor_from_fileslist(self, desc: tensor_desc, files: Sequence[str]) -> Tensor:
        """A tensor on the device from raw files, one after another. RuntimeError if their sizes do not fit."""
        import numpy as np

        data = b""
        for file in files:
            try:
                with open(file, "rb") as opened:
                    data += opened.read()
            except OSError as problem:
                raise RuntimeError(f"{file} cannot be read: {problem.strerror}") from None
        kind = np.dtype("float64" if desc.datatype is dtype.double64 else desc.datatype.name)
        if len(data) != prod(desc.shape) * kind.itemsize:
            raise RuntimeError(f"the files of {desc.name} have {len(data)} bytes, its shape needs {desc.realsize}")
        made = Tensor(np.frombuffer(data, kind).reshape(desc.shape))
        made.to_device(self._device)
        return made

    def run(self, names: Sequence[str], feeds: Sequence[Any] | Mapping[str, Tensor]) -> list[Tensor]:
        """Execute the model as often as the options say.

        Args:
            names: of the outputs that are wanted, in that order.
            feeds: for each input a Tensor or a BaseTensor, in order or by name.

        Returns:
            The outputs, on the device.

        Raises:
            RuntimeError: for names, numbers and sizes that do not fit, and for everything that the machine refuses.
        """
        m, model = self._m, self._loaded
        self.check_dym_aipp_input_exist()
        inputs = self._data_inputs()
        if isinstance(feeds, Mapping):
            unknown = {tensor.name for tensor in inputs} ^ set(feeds)
            if unknown:
                raise RuntimeError(f"the feeds do not name the inputs of the model: {sorted(unknown)}")
            feeds = [feeds[tensor.name] for tensor in inputs]
        if len(feeds) != len(inputs):
            raise RuntimeError(f"the model has {len(inputs)} inputs, {len(feeds)} were given")
        outputs = self._output_names(names)
        with m.call("aclruntime.run"):
            context_of(m, self._device)
            try:
                made = self._run(model, feeds)
            except TaskFault as fault:
                raise failure(m, fault) from None
        return [made[outputs.index(name)] for name in names]

    def _output_names(self, names: Sequence[str]) -> list[str]:
        """All outputs. RuntimeError if one of ``names`` is none."""
        outputs = [tensor.name for tensor in self._loaded.om.outputs]
        missing = [name for name in names if name not in outputs]
        if missing:
            raise RuntimeError(f"the model has no output {missing[0]}: it has {', '.join(outputs)}")
        return outputs

    def _take(self, size: int) -> Block:
        return self._m.memory.allocate(max(size, 1), MemoryKind.WORKSPACE, self._m.devices[self._device])

    def _prepare(self, model: LoadedModel, feeds: Sequence[Any]) -> _Run:
        """Put the inputs on the device and take memory for the outputs; nothing stays taken if that fails."""
        om, run = model.om, _Run([], model.om.outputs, None, [], [], feeds)
        given = {tensor.name: feed for tensor, feed in zip(self._data_inputs(), feeds, strict=True)}
        parameters = self._parameter_inputs()
        try:
            for index, tensor in enumerate(om.inputs):
                if tensor.name in parameters:
                    run.inputs.append(self._parameters(run.taken))
                elif index == model.gear_input():
                    gear = om.largest if self._gear is None else self._gear
                    chooser = self._take(tensor.size or 8 * len(om.variants[gear].values))
                    run.taken.append(chooser)
                    model.write_gear((chooser.start, chooser.size), gear)
                    run.inputs.append((chooser.start, chooser.size))
                    run.tensors = om.variants[gear].outputs
                else:
                    buffer = self._placed(given[tensor.name], run.taken)
                    image = tensor.name in parameters.values()
                    if not om.variants and not image and tensor.fixed and buffer[1] != tensor.size:
                        raise RuntimeError(f"input {tensor.name} has {buffer[1]} bytes, the model reads {tensor.size}")
                    run.inputs.append(buffer)
            if om.dynamic:
                run.shapes = [self._shapes.get(tensor.name, tensor.dims) for tensor in om.inputs]
            for tensor in run.tensors:
                run.blocks.append(self._take(tensor.size) if tensor.fixed and tensor.size else None)
        except BaseException:
            self._give_back(run, everything=True)
            raise
        return run

    def _parameters(self, taken: list[Block]) -> tuple[int, int]:
        """The block of AIPP's parameters on the device."""
        assert self._given is not None
        data = aipp.pack(self._given)
        block = self._take(len(data))
        taken.append(block)
        self._m.memory.view(block.start, len(data), "device")[:] = data
        return block.start, block.size

    def _give_back(self, run: _Run, *, everything: bool = False) -> None:
        blocks = [*run.taken, *(block for block in run.blocks if block is not None and everything)]
        for block in blocks:
            self._m.memory.retire(block)

    def _tensors(self, run: _Run, given: Sequence[Output]) -> list[Tensor]:
        """The outputs of a run; each takes over its memory."""
        made = []
        for tensor, block, output in zip(run.tensors, run.blocks, given, strict=True):
            own = block or self._m.memory.blocks.find(output.address)
            assert own is not None
            made.append(Tensor.on_device(self._m, own, output.dims, tensor.type))
        return made

    def _run(self, model: LoadedModel, feeds: Sequence[Any]) -> list[Tensor]:
        m, run = self._m, self._prepare(model, feeds)
        given: list[Output] = []
        try:
            for _ in range(max(self._options.loop, 1)):
                start = m.thread.now
                given = model.execute(run.inputs, run.outputs, run.shapes)
                self._summary.exec_time_list.append(ExecTime(start / 1e6, m.thread.now / 1e6))
        except BaseException:
            self._give_back(run, everything=True)
            raise
        self._give_back(run)
        return self._tensors(run, given)

    def _placed(self, feed: Any, taken: list[Block]) -> tuple[int, int]:
        """Address and bytes of an input on the device; what lies on the host is copied."""
        m = self._m
        if isinstance(feed, Tensor):
            if feed.block is None:
                feed.to_device(self._device)
            assert feed.block is not None
            return feed.block.start, feed.bytes
        if not isinstance(feed, BaseTensor):
            raise RuntimeError(f"an input is a Tensor or a BaseTensor, not {type(feed).__name__}")
        block = self._take(feed.size)
        taken.append(block)
        if feed.size:
            Copy(m, block.start, feed.buf, feed.size, Direction.HOST_TO_DEVICE).now()
        return block.start, feed.size

    def first_inner_run(self, names: Sequence[str], feeds: Sequence[Any]) -> list[Tensor]:
        """A run whose inputs and outputs are kept on the device for :meth:`inner_run`."""
        given = [feed if isinstance(feed, Tensor) else self._on_device(feed) for feed in feeds]
        outputs = self.run([tensor.name for tensor in self._loaded.om.outputs], given)
        self._inner = (given, outputs)
        return self._named(names)

    def inner_run(
        self, relation: Sequence[int], names: Sequence[str], get_outputs: bool = False, mem_copy: bool = True
    ) -> list[Tensor]:
        """Run again with outputs of the run before as inputs.

        Args:
            relation: for each input the index of the output that it becomes; below 0 it stays.
            get_outputs: give the outputs (else an empty list). mem_copy: changes nothing here.

        Raises:
            RuntimeError: without a first run, and for indices and sizes that do not fit.
        """
        if self._inner is None:
            raise RuntimeError("there is no run before: call first_inner_run")
        before, outputs = self._inner
        if len(relation) != len(before) or max(relation, default=-1) >= len(outputs):
            raise RuntimeError(f"{list(relation)} does not say for each of {len(before)} inputs which output it is")
        given = [kept if at < 0 else outputs[at] for kept, at in zip(before, relation, strict=True)]
        self._inner = (given, self.run([tensor.name for tensor in self._loaded.om.outputs], given))
        return self._named(names) if get_outputs else []

    def _named(self, names: Sequence[str]) -> list[Tensor]:
        assert self._inner is not None
        outputs = self._output_names(names)
        return [self._inner[1][outputs.index(name)] for name in names]

    def _on_device(self, feed: BaseTensor) -> Tensor:
        """A copy of host memory as a tensor of bytes on the device."""
        m = self._m
        with m.call("aclruntime.to_device"):
            context_of(m, self._device)
            taken: list[Block] = []
            try:
                self._placed(feed, taken)
            except TaskFault as fault:
                for block in taken:
                    m.memory.retire(block)
                raise failure(m, fault) from None
        kind = OmTensor("", dtype.uint8, Format.ND, (feed.size,)).type
        return Tensor.on_device(m, taken[0], (feed.size,), kind)

    # -- pipelines -----------------------------------------------------------------------------------

    def run_pipeline(self, first: Sequence[Any], second: Any, *rest: Any) -> list[list[Tensor]] | None:
        """Run many inputs, each copied while the one before is computed.

        Two forms, as the client calls them:
        - ``run_pipeline(files of each run, options, other sessions)``: reads the files, writes the outputs. Older
          clients give the options one by one: output folder, auto shape, auto dims, format, made-up data.
        - ``run_pipeline(output names, inputs of each run, shapes of each run, auto shape, auto dims)``: gives the
          outputs of each run.

        Raises:
            RuntimeError: as :meth:`run`, and for files that cannot be read or written.
        """
        if isinstance(second, (list, tuple)):
            return self._pipeline_of_tensors(list(first), second, *rest)
        options = pipeline.options_of(second, rest)
        others = rest[0] if rest and isinstance(rest[0], (list, tuple)) else []
        sessions = [self, *others]
        for number, session in enumerate(sessions):
            files = [list(names) for names in first[number :: len(sessions)]]
            session._pipeline_of_files(files, options)
            if session is not self:
                self._summary.exec_time_list += session._summary.exec_time_list
        return None

    def _pipeline_of_files(self, runs: list[list[str]], options: Any) -> None:
        inputs = self._data_inputs()

        def arrays() -> Iterable[list[NDArray[Any]]]:
            for files in runs:
                if len(files) != len(inputs):
                    raise RuntimeError(f"the model has {len(inputs)} inputs, {len(files)} files were given")
                if options.pure_infer_mode:
                    yield [pipeline.made_up(file, self._bytes(at)) for at, file in enumerate(files)]
                else:
                    yield [pipeline.read(file) for file in files]

        names = [tensor.name for tensor in self._loaded.om.outputs]
        items = ((found, [array.shape for array in found]) for found in arrays())
        made = self._pipeline(items, options.auto_dym_shape, options.auto_dym_dims)
        for files, outputs in zip(runs, made, strict=True):
            for name, output in zip(names, outputs, strict=True):
                output.to_host()
                if options.output_dir:
                    pipeline.write(options, files[0], name, output.__array__())

    def _bytes(self, index: int) -> int:
        """Bytes of an input in the shape that was chosen."""
        tensor = self._data_inputs()[index]
        if tensor.name in self._shapes:
            return prod(self._shapes[tensor.name]) * tensor.type.size
        om = self._loaded.om
        if om.variants:
            gear = om.variants[om.largest if self._gear is None else self._gear]
            return next(entry.size for entry in gear.inputs if entry.name == tensor.name)
        return tensor.size

    def _pipeline_of_tensors(
        self, names: list[str], runs: Sequence[Any], shapes: Any = (), auto_shape: bool = False, auto_dims: bool = False
    ) -> list[list[Tensor]]:
        outputs = self._output_names(names)
        known = list(shapes) or [()] * len(runs)
        made = self._pipeline(zip(runs, known, strict=True), auto_shape, auto_dims)
        return [[found[outputs.index(name)] for name in names] for found in made]

    def _pipeline(self, items: Iterable[tuple[Any, Any]], auto_shape: bool, auto_dims: bool) -> list[list[Tensor]]:
        """The outputs of each item (feeds, shapes), in order; one item is under way while the next one is queued."""
        m, model = self._m, self._loaded
        self.check_dym_aipp_input_exist()
        made: list[list[Tensor]] = []
        with m.call("aclruntime.run_pipeline"):
            context = context_of(m, self._device)
            stream = context.create_stream()
            waiting: list[_Run] = []
            try:
                for feeds, shapes in items:
                    self._choose_shapes(shapes, auto_shape, auto_dims)
                    waiting.append(self._prepare(model, self._as_feeds(feeds)))
                    self._queue(model, waiting[-1], stream)
                    if len(waiting) > 1:
                        made.append(self._collect(waiting, stream))
                while waiting:
                    made.append(self._collect(waiting, stream))
            except TaskFault as fault:
                raise failure(m, fault) from None
            finally:
                stream.drop()
                for run in waiting:
                    self._give_back(run, everything=True)
                context.destroy_stream(stream)
        return made

    def _as_feeds(self, feeds: Sequence[Any]) -> list[Any]:
        """Arrays as tensors."""
        import numpy as np

        if len(feeds) != len(self._data_inputs()):
            raise RuntimeError(f"the model has {len(self._data_inputs())} inputs, {len(feeds)} were given")
        return [Tensor(feed) if isinstance(feed, np.ndarray) else feed for feed in feeds]

    def _choose_shapes(self, shapes: Sequence[Sequence[int]], auto_shape: bool, auto_dims: bool) -> None:
        if not (auto_shape or auto_dims):
            return
        pairs = zip(self._data_inputs(), shapes, strict=True)
        text = ";".join(f"{tensor.name}:{','.join(map(str, shape))}" for tensor, shape in pairs)
        self.set_dynamic_shape(text) if auto_shape else self.set_dynamic_dims(text)

    def _queue(self, model: LoadedModel, run: _Run, stream: Stream) -> None:
        for _ in range(max(self._options.loop, 1)):
            model.execute_later(
                run.inputs, run.outputs, stream, run.shapes, lambda given: run.given.__setitem__(slice(None), given)
            )
            if stream.last is not None:
                run.tasks.append(stream.last)

    def _collect(self, waiting: list[_Run], stream: Stream) -> list[Tensor]:
        """Wait for the oldest run; its times are noted and its memory given back."""
        run = waiting[0]
        code = self._m.wait_for(stream, run.tasks[-1] if run.tasks else None)
        if code:
            raise RuntimeError(f"the run failed (error code {code})")
        del waiting[0]
        self._summary.exec_time_list += [ExecTime(task.start / 1e6, task.end / 1e6) for task in run.tasks]
        self._give_back(run)
        return self._tensors(run, run.given)


def _described(tensor: OmTensor) -> tensor_desc:
    made = tensor_desc()
    made.name = tensor.name
    made.datatype = dtype(tensor.dtype)
    made.format = int(tensor.format)
    made.shape = list(tensor.dims)
    made.size = made.realsize = tensor.size
    return made


def model(modelPath: str, deviceId: int = 0, options: session_options | None = None) -> InferenceSession:
    """A session (the other name of its constructor)."""
    return InferenceSession(modelPath, deviceId, options)
