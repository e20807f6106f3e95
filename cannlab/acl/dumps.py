"""What a program's operators read and wrote, as files or given to a callback.

Folders: ``PATH/TIME/DEVICE/MODEL/MODEL_ID/RUN/TYPE.NAME.TASK.STREAM.TIMESTAMP`` for the operators of a model,
``PATH/TIME/DEVICE/TYPE.NAME.TASK.STREAM.TIMESTAMP`` for single operators, and
``PATH/extra-info/data-dump/DEVICE/TYPE.NAME.TASK.STREAM.TIMESTAMP`` for those that failed. A run counts from 0.
Source: documentation of the accuracy tools (dump files of offline models); the last one inferred.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.acl.dump_config import DumpConfig
from cannlab.errors import diagnose
from cannlab.machine.reports import call_back
from cannlab.om import Format, OmModel, OmTensor
from cannlab.trace.whole_file import write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cannlab.machine import Machine
    from cannlab.machine.executor import Model
    from cannlab.machine.models import LoadedModel
    from cannlab.machine.tasks import Task
    from cannlab.machine.watched import Seen

_KEY = "acl.dump"
_ODD = re.compile(r"[./\\ ]")
_REMEMBERED = 1024
AI_CORE_CODES = (507015, 507035, 507011)

Arrays = Sequence[tuple[OmTensor, "NDArray[Any]"]]


@dataclass(frozen=True)
class Described:
    """A queued operator or model: its type and name, its tensors with address and size in bytes."""

    op_type: str
    name: str
    inputs: tuple[tuple[OmTensor, int, int], ...]
    outputs: tuple[tuple[OmTensor, int, int], ...]


@dataclass
class DumpState:
    """Dumping in one machine.

    Attributes:
        config: what is dumped now. from_init: acl.init configured it. ready: acl.mdl.init_dump was called.
        callback: gets the data instead of files.
        folder: the name of the folder of this dump's time, once it is known. tasks: numbers of single operators.
        described: the operators queued last, by device, stream and task number.
        arguments: the folder for descriptions of operators, while acl.op.start_dump_args wants them.
    """

    config: DumpConfig | None = None
    from_init: bool = False
    ready: bool = False
    callback: Callable[[dict[str, Any]], object] | None = None
    folder: str = ""
    tasks: int = 0
    listening: bool = False
    arguments: Path | None = None
    described: OrderedDict[tuple[int, int, int], Described] = field(default_factory=OrderedDict)

    @property
    def active(self) -> DumpConfig | None:
        """What is to be dumped; with a callback and no configuration the outputs of all models."""
        if self.config is not None or self.callback is None or not (self.ready or self.from_init):
            return self.config
        return DumpConfig(Path(), models=((None, None),))


def dump_state(m: Machine) -> DumpState:
    """Dumping in this machine."""
    state: DumpState = m.faces.setdefault(_KEY, DumpState())
    return state


def configure(m: Machine, config: DumpConfig | None) -> None:
    """Dump so from now on: models that are loaded later, operators and failures at once."""
    state = dump_state(m)
    state.config = config
    state.folder = ""
    if not state.listening:
        state.listening = True

        def listener(task: Task, code: int) -> None:
            key = task.stream.context.device.index, task.stream.number, task.order[1]
            described = dump_state(m).described.get(key)
            if described is not None:
                write_failure(m, described, *key, code)

        m.fault_listeners.append(listener)


# -- models --------------------------------------------------------------------------------------------


def executor(m: Machine, om: OmModel, file_name: str, number: int, model: Callable[[], LoadedModel]) -> Model:
    """The executor of a model that is being loaded, one that dumps if that is wanted of it.

    Args:
        file_name: the model's file without folder and suffix, "" if it came from memory.
        number: the model's id. model: gives the model once it is loaded.
    """
    from cannlab.machine.executor import Model
    from cannlab.machine.watched import WatchedModel

    config = dump_state(m).active
    layers = config.layers(file_name, om.name) if config is not None else False
    if config is None or isinstance(layers, bool):
        return Model(om, m.soc)
    runs = 0

    def observer(seen: list[Seen]) -> None:
        nonlocal runs
        _write_model(m, config, seen, model(), number, runs)
        runs += 1

    return WatchedModel(om, m.soc, lambda task: layers is None or bool(layers & {task.name, *task.nodes}), observer)


def _write_model(m: Machine, config: DumpConfig, seen: list[Seen], model: LoadedModel, number: int, run: int) -> None:
    name = _ODD.sub("_", model.om.name)
    below = Path(str(model.context.device.index), name, str(number), str(run))
    for entry in seen:
        if not config.overflows or _overflowed(m, entry.inputs, entry.outputs):
            title = f"{entry.task.op_type}.{_ODD.sub('_', entry.task.name)}.{entry.number}.{model.number}"
            _write(m, config, below, title, entry.task.name, entry.inputs, entry.outputs)


def _overflowed(m: Machine, inputs: Arrays, outputs: Arrays) -> bool:
    """True if an output left the range of its type and no input had."""
    from cannlab.machine.overflow import left_range

    made, given = (array for _, array in outputs), (array for _, array in inputs)
    return left_range(made, m.soc) and not left_range(given, m.soc)


# -- single operators ----------------------------------------------------------------------------------


def wants_operators(m: Machine) -> bool:
    """True if single operators are dumped now."""
    config = dump_state(m).config
    return config is not None and (config.operators or config.overflows)


def write_operator(m: Machine, op_type: str, device: int, stream: int, inputs: Arrays, outputs: Arrays) -> None:
    """Dump a single operator that has run."""
    state = dump_state(m)
    config = state.config
    assert config is not None
    number, state.tasks = state.tasks, state.tasks + 1
    if not config.overflows or _overflowed(m, inputs, outputs):
        title = f"{op_type}.{op_type}.{number}.{stream}"
        _write(m, config, Path(str(device)), title, op_type, inputs, outputs)


def write_arguments(
    m: Machine, op_type: str, inputs: Sequence[OmTensor], outputs: Sequence[OmTensor], attributes: Mapping[str, Any]
) -> None:
    """Describe a single operator that is queued, if that is wanted: one file for each operator and shapes."""
    folder = dump_state(m).arguments
    if folder is None:
        return

    def tensors(items: Sequence[OmTensor]) -> list[dict[str, Any]]:
        return [
            {"format": Format(item.format).name, "shape": list(item.dims), "type": item.type.name} for item in items
        ]

    described = {"op": op_type, "input_desc": tensors(inputs), "output_desc": tensors(outputs)}
    if attributes:
        described["attr"] = [{"name": name, "value": value} for name, value in sorted(attributes.items())]
    text = json.dumps([described], indent=2, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    _store(m, folder / f"{op_type}_{digest}.json", text.encode())


# -- failures ------------------------------------------------------------------------------------------


def describe(m: Machine, task: Task | None, described: Described) -> None:
    """Remember what a queued task works on, for the case that it fails."""
    if task is not None:
        known = dump_state(m).described
        known[task.stream.context.device.index, task.stream.number, task.order[1]] = described
        if len(known) > _REMEMBERED:
            known.popitem(last=False)


def write_failure(m: Machine, described: Described, device: int, stream: int, task: int, code: int) -> None:
    """Dump an operator or model that failed on the AI cores, as its memory is now, if that is wanted."""
    from cannlab.machine import MemoryFault, dump_file

    config = dump_state(m).config
    if config is None or not config.failures or code not in AI_CORE_CODES:
        return

    def taken(tensors: Sequence[tuple[OmTensor, int, int]]) -> list[dump_file.Tensor]:
        found = []
        for tensor, address, size in tensors:
            try:
                data = bytes(m.memory.view(address, min(size, tensor.size) or size, write=False))
            except MemoryFault:
                # It may be why the task failed.
                data = b""
            dims = () if config.brief else tensor.dims
            kind, layout = (-1, 0) if config.brief else (tensor.dtype, tensor.format)
            found.append(dump_file.Tensor(kind, layout, dims, dims, data))
        return found

    now = time.time_ns() // 1000
    title = f"{described.op_type}.{_ODD.sub('_', described.name)}.{task}.{stream}.{now}"
    data = dump_file.encode(described.name, now, taken(described.inputs), taken(described.outputs))
    _store(m, config.path / "extra-info" / "data-dump" / str(device) / title, data)


# -- files ---------------------------------------------------------------------------------------------


def _write(m: Machine, config: DumpConfig, below: Path, title: str, name: str, inputs: Arrays, outputs: Arrays) -> None:
    from cannlab.machine import dump_file

    state, now = dump_state(m), time.time_ns() // 1000
    state.folder = state.folder or time.strftime("%Y%m%d%H%M%S", time.localtime(now // 10**6))
    given = inputs if config.inputs else ()
    made = outputs if config.outputs else ()
    if config.statistics:
        data, title = dump_file.statistics(given, made), f"{title}.{now}.csv"
    else:
        given_stored = [dump_file.stored(*pair) for pair in given]
        data = dump_file.encode(name, now, given_stored, [dump_file.stored(*pair) for pair in made])
        title = f"{title}.{now}"
    path = Path(state.folder) / below / title
    if state.callback is not None:
        _hand_over(m, state.callback, str(path), data)
    else:
        _store(m, config.path / path, data)


def _store(m: Machine, path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        m.report(diagnose("dump.not_written", where=m.here().place, file=path.name, reason=reason))


def _hand_over(m: Machine, callback: Callable[[dict[str, Any]], object], name: str, data: bytes) -> None:
    """Give one file to the program, in one piece; the memory is gone when the callback returns."""
    owner = ctypes.create_string_buffer(data, len(data))
    address = ctypes.addressof(owner)
    m.memory.known_host(address, len(data), owner)
    chunk = {"file_name": name, "data_buf": address, "buf_len": len(data), "is_last_chunk": 1, "offset": 0, "flag": 0}
    call_back(callback, chunk)
