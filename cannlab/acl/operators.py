"""Finding and running single operators: loaded ones first, then the built-in ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cannlab.acl import dumps
from cannlab.acl.checks import Refused, refuse
from cannlab.errors import diagnose
from cannlab.machine import Engine, Machine, Stream, TaskFault, Work, single_ops
from cannlab.machine.overflow import left_range
from cannlab.om import Format, OmError, OmModel, OmTensor, dtypes
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cannlab.acl.functions.tensor_descs import TensorDesc
    from cannlab.errors import Place
    from cannlab.machine.executor import Model

_KEY = "acl.op"
_KEPT = 256
"""So many built operators are kept."""
Buffer = tuple[int, int]
"""Address and bytes."""


@dataclass
class OpState:
    """What the face keeps for single operators: the folder that was set, the loaded oms, the operators built so far."""

    folder: str | None = None
    loaded: list[OmModel] = field(default_factory=list)
    built: dict[Any, Model] = field(default_factory=dict)


def op_state(m: Machine) -> OpState:
    """The state of single operators in this machine."""
    found = m.faces.setdefault(_KEY, OpState())
    assert isinstance(found, OpState)
    return found


@dataclass
class Operator:
    """An operator with its descriptions, as a call or a handle names it.

    ``values`` are inputs whose value is known: constants of the descriptions, host memory, or what was read before.
    """

    op_type: str
    inputs: tuple[OmTensor, ...]
    outputs: tuple[OmTensor, ...]
    attributes: Mapping[str, Any]
    values: dict[int, NDArray[Any]]


def tensor(m: Machine, desc: TensorDesc, name: str) -> OmTensor:
    """The tensor that a description means. Raises Refused ``model.op_data_type`` (100026)."""
    try:
        dtypes.by_acl(desc.dtype)
    except KeyError:
        raise refuse(m, "model.op_data_type", data_type=desc.dtype) from None
    known = {int(item) for item in Format}
    return OmTensor(name, desc.dtype, desc.format if desc.format in known else int(Format.ND), tuple(desc.dims))


def not_found(op: Operator, reason: str, where: Place | None) -> TaskFault:
    shapes = ", ".join(f"{item.type.name}{list(item.dims)}" for item in op.inputs)
    return TaskFault(diagnose("model.op_not_found", where=where, op_type=op.op_type, inputs=shapes, reason=reason))


def find(m: Machine, op: Operator, where: Place | None) -> Model:
    """The executor of an operator. Raises TaskFault ``model.op_not_found`` (100024)."""
    from cannlab.machine.executor import Model

    state = op_state(m)
    key = (
        op.op_type,
        tuple((item.dtype, item.dims) for item in op.inputs),
        tuple((item.dtype, item.dims) for item in op.outputs),
        repr(sorted(op.attributes.items())),
        tuple((at, value.tobytes()) for at, value in sorted(op.values.items())),
    )
    found = state.built.get(key)
    if found is not None:
        return found
    try:
        found = Model(_loaded(state, op) or _built(m, op), m.soc)
    except single_ops.Unbuildable as problem:
        raise not_found(op, str(problem), where) from None
    except OmError as problem:
        raise not_found(op, problem.diagnosis.what, where) from None
    if len(state.built) >= _KEPT:
        state.built.clear()
    state.built[key] = found
    return found


def _loaded(state: OpState, op: Operator) -> OmModel | None:
    """The newest loaded om of this type for these tensors."""

    def same(one: Sequence[OmTensor], other: Sequence[OmTensor]) -> bool:
        return [(item.dtype, item.dims) for item in one] == [(item.dtype, item.dims) for item in other]

    data = [item for at, item in enumerate(op.inputs) if at not in op.values]
    for om in reversed(state.loaded):
        types = {task.op_type for task in om.tasks}
        if op.op_type in types and same(om.outputs, op.outputs) and same(om.inputs, data):
            return om
    return None


def _built(m: Machine, op: Operator) -> OmModel:
    operands = [single_ops.Operand(item, op.values.get(at)) for at, item in enumerate(op.inputs)]
    return single_ops.build(op.op_type, operands, op.outputs, op.attributes, m.soc)


def read(m: Machine, item: OmTensor, buffer: Buffer) -> NDArray[Any]:
    import numpy as np

    return np.frombuffer(m.memory.view(buffer[0], item.size, write=False), item.type.numpy).reshape(item.dims)


def _check(m: Machine, op: Operator, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> list[Any]:
    """Check the buffers of a run; gives what has to stay alive."""
    owners = []
    for side, tensors, buffers in (("input", op.inputs, inputs), ("output", op.outputs, outputs)):
        for index, (item, (address, size)) in enumerate(zip(tensors, buffers, strict=True)):
            if side == "input" and index in op.values:
                continue
            if size < item.size:
                facts = {"side": side, "index": index, "needed": item.size, "size": size}
                raise refuse(m, "model.op_buffer", **facts)
            if item.size:
                owners.append(m.memory.resolve(address, item.size, "device", write=side == "output").owner)
    return owners


def missing_inputs(op: Operator) -> tuple[int, ...]:
    """Inputs that shape the operator and whose value is only in device memory, to be read when it runs."""
    if op.op_type not in single_ops.TABLE:
        return ()
    return tuple(at for at in single_ops.known_inputs(op.op_type) if at not in op.values and at < len(op.inputs))


def submit(m: Machine, op: Operator, inputs: Sequence[Buffer], outputs: Sequence[Buffer], stream: Stream) -> int:
    """Queue an operator. What can be checked is checked at once.

    Raises:
        TaskFault: ``model.op_not_found`` (100024), ``model.op_buffer`` (100000), or what the memory refuses.
    """
    where = m.here().place
    missing = missing_inputs(op)
    executor = None if missing else find(m, op, where)
    owners = _check(m, op, inputs, outputs)

    def run() -> Work:
        import numpy as np

        _check(m, op, inputs, outputs)
        now = op
        if missing:
            values = {at: read(m, op.inputs[at], inputs[at]).copy() for at in missing}
            now = replace(op, values={**op.values, **values})
        model = executor or find(m, now, where)
        arrays = [read(m, op.inputs[at], inputs[at]) for at in range(len(op.inputs)) if at not in now.values]
        watched = dumps.wants_operators(m)
        # Copies: an output may lie where an input does.
        given = [
            (item, now.values[at] if at in now.values else read(m, item, inputs[at]).copy())
            for at, item in enumerate(op.inputs if watched else ())
        ]
        results, work = model.run(arrays)
        for item, (address, _), result in zip(op.outputs, outputs, results, strict=True):
            if item.size:
                m.memory.view(address, item.size, "device")[:] = (
                    np.ascontiguousarray(result).reshape(-1).view(np.uint8).data
                )
        (operator,) = work.operators
        device = stream.context.device
        if device.watches_overflow and not device.overflowed:
            device.overflowed = left_range(results, m.soc)
        if watched:
            made = list(zip(op.outputs, results, strict=True))
            dumps.write_operator(m, op.op_type, device.index, stream.number, given, made)
        return Work(operator.ns)

    dumps.write_arguments(m, op.op_type, op.inputs, op.outputs, op.attributes)
    shown = executor.work.operators[0] if executor is not None else None
    code = stream.submit(
        TaskKind.OPERATOR,
        op.op_type,
        run,
        engine=Engine.COMPUTE,
        op_type=op.op_type,
        core_type=shown.core_type if shown is not None else "AI_CORE",
        bytes=shown.bytes if shown is not None else sum(item.size for item in (*op.inputs, *op.outputs)),
        blocks=shown.blocks if shown is not None else 1,
        keep=owners,
    )
    dumps.describe(m, stream.last, _described(op, inputs, outputs))
    return code


def _described(op: Operator, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> dumps.Described:
    given = tuple((item, *pair) for item, pair in zip(op.inputs, inputs, strict=True))
    made = tuple((item, *pair) for item, pair in zip(op.outputs, outputs, strict=True))
    return dumps.Described(op.op_type, op.op_type, given, made)


def refuse_load(m: Machine, problem: OmError) -> Refused:
    """An om that cannot be loaded as a single operator."""
    return Refused(replace(problem.diagnosis, where=m.here().place))
