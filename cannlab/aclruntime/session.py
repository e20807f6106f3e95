"""Sessions: a model on a device, and its runs. Source: pyacl-and-atc 2.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from cannlab.aclruntime.descriptions import BaseTensor, ExecTime, dtype, session_options, sumary, tensor_desc
from cannlab.aclruntime.tensor import Tensor, context_of, failure
from cannlab.machine import Block, Machine, MemoryKind, TaskFault, machine
from cannlab.machine.copies import Copy, Direction
from cannlab.machine.models import LoadedModel
from cannlab.om import OmError, OmTensor
from cannlab.om import read as read_om

_GEAR_KINDS = {"batch": "dynamic batch", "image": "dynamic height and width", "dims": "dynamic dims"}


class InferenceSession:
    """A model on a device.

    Args:
        model_path: the om. device_id: the device. options: how often each run executes, and more.

    Raises:
        RuntimeError: for a device that does not exist, and an om that cannot be loaded.
    """

    def __init__(self, model_path: str, device_id: int, options: session_options | None = None) -> None:
        from cannlab.machine.executor import Model

        self._m: Machine = machine()
        self._device = int(device_id)
        self._options = options or session_options()
        self._summary = sumary()
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._gear: int | None = None
        self._outsizes: list[int] = []
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
        """The inputs that a program gives: all but the one that chooses the gear."""
        om = self._loaded.om
        return om.inputs[:-1] if om.variants else om.inputs

    def get_inputs(self) -> list[tensor_desc]:
        """Descriptions of the inputs."""
        return [_described(tensor) for tensor in self._data_inputs()]

    def get_outputs(self) -> list[tensor_desc]:
        """Descriptions of the outputs."""
        return [_described(tensor) for tensor in self._loaded.om.outputs]

    def sumary(self) -> sumary:
        """The times of the executions (the name is the extension's)."""
        return self._summary

    def reset_sumaryinfo(self) -> int:
        """Forget the times."""
        self._summary.exec_time_list.clear()
        return 0

    def set_context(self) -> int:
        """Make the session's context current in this thread."""
        context_of(self._m, self._device)
        return 0

    def free_resource(self) -> int:
        """Unload the model; the session cannot be used afterwards."""
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

    def get_dym_aipp_input_exist(self) -> int:
        """1 if an input has dynamic AIPP."""
        return int(any(entry.get("mode") == "dynamic" for entry in self._loaded.om.aipp.values()))

    def check_dym_aipp_input_exist(self) -> int:
        """RuntimeError for a model with dynamic AIPP, whose parameters cannot be set here."""
        if self.get_dym_aipp_input_exist():
            raise NotImplementedError("aclruntime with dynamic AIPP is not emulated: use static AIPP, or acl.mdl")
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
        outputs = [tensor.name for tensor in model.om.outputs]
        missing = [name for name in names if name not in outputs]
        if missing:
            raise RuntimeError(f"the model has no output {missing[0]}: it has {', '.join(outputs)}")
        taken: list[Block] = []
        with m.call("aclruntime.run"):
            context_of(m, self._device)
            try:
                made = self._run(model, feeds, taken)
            except TaskFault as fault:
                raise failure(m, fault) from None
            finally:
                for block in taken:
                    m.memory.retire(block)
        return [made[outputs.index(name)] for name in names]

    def _take(self, size: int) -> Block:
        return self._m.memory.allocate(max(size, 1), MemoryKind.WORKSPACE, self._m.devices[self._device])

    def _run(self, model: LoadedModel, feeds: Sequence[Any], taken: list[Block]) -> list[Tensor]:
        m, om = self._m, model.om
        buffers = [self._placed(feed, taken) for feed in feeds]
        tensors = om.outputs
        if om.variants:
            gear = om.largest if self._gear is None else self._gear
            chooser = self._take(om.inputs[-1].size or 8 * len(om.variants[gear].values))
            taken.append(chooser)
            model.write_gear((chooser.start, chooser.size), gear)
            buffers.append((chooser.start, chooser.size))
            tensors = om.variants[gear].outputs
        else:
            for tensor, (_, size) in zip(om.inputs, buffers, strict=True):
                if tensor.fixed and size != tensor.size:
                    raise RuntimeError(f"input {tensor.name} has {size} bytes, the model reads {tensor.size}")
        shapes = None
        if om.dynamic:
            shapes = [self._shapes.get(tensor.name, tensor.dims) for tensor in self._data_inputs()]
        blocks = [self._take(tensor.size) if tensor.fixed and tensor.size else None for tensor in tensors]
        places = [(block.start, block.size) if block is not None else (0, 0) for block in blocks]
        try:
            for _ in range(max(self._options.loop, 1)):
                start = m.thread.now
                given = model.execute(buffers, places, shapes)
                self._summary.exec_time_list.append(ExecTime(start / 1e6, m.thread.now / 1e6))
        except BaseException:
            taken += [block for block in blocks if block is not None]
            raise
        made = []
        for tensor, block, output in zip(tensors, blocks, given, strict=True):
            own = block or m.memory.blocks.find(output.address)
            assert own is not None
            made.append(Tensor.on_device(m, own, output.dims, tensor.type))
        return made

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

    def run_pipeline(self, *arguments: Any) -> Any:
        """Not emulated: the client's --pipeline."""
        raise NotImplementedError("aclruntime.InferenceSession.run_pipeline is not emulated: run without --pipeline")


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
