"""acl.prof: models whose operators' times go into a pipe, and the reading of what comes out.

One block for each operator that ran: signature, model id, flag, thread (32 bits each), number of the operator,
duration, start, end, AI Core time, cube and vector operations (64 bits each); times in ns. Names and types are not in
it: they are given once for each block. Source: runtime source, profiling (ProfOpDesc); pyacl-semantics 15.
"""

from __future__ import annotations

import _thread
import os
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take
from cannlab.acl.profiling import Mode, prof_state
from cannlab.acl.state import acl_state
from cannlab.machine import Machine
from cannlab.machine.models import LoadedModel
from cannlab.machine.work import Work

_BODY = struct.Struct("<IIIQQQQQQQ")
_SIGNATURE = struct.Struct("<I")
DESC_SIZE = _SIGNATURE.size + _BODY.size
_LONGEST = 4096
_KEY = "acl.prof.subscriptions"


@dataclass(frozen=True)
class SubscribeConfig:
    """Whether times are wanted, the group of AI Core metrics, the file number to write to."""

    times: bool
    metrics: int
    number: int


name_kind(SubscribeConfig, "subscription configuration", "acl.prof.destroy_subscribe_config")


class PipeWriter:
    """Writes to one file number from a thread of its own, so that a full pipe holds up nobody else.

    The thread is not one of the program's: the machine does not know it, and it ends when the pipe is closed.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._data: SimpleQueue[bytes | None] = SimpleQueue()
        _thread.start_new_thread(self._run, ())

    def write(self, data: bytes) -> None:
        """Hand over data."""
        self._data.put(data)

    def close(self) -> None:
        """Close the file once everything is written."""
        self._data.put(None)

    def _run(self) -> None:
        with suppress(OSError):  # The reader has gone: nobody is left to tell.
            while (data := self._data.get()) is not None:
                view = memoryview(data)
                while view:
                    view = view[os.write(self.number, view) :]
        with suppress(OSError):
            os.close(self.number)


@dataclass
class Subscriptions:
    """The subscribed models and their observers; types and names of operators by number, until they are asked for."""

    models: dict[int, tuple[LoadedModel, Callable[[int, Work], None], PipeWriter]] = field(default_factory=dict)
    types: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, bytes] = field(default_factory=dict)
    count: int = 0


def _subscriptions(m: Machine) -> Subscriptions:
    found: Subscriptions = m.faces.setdefault(_KEY, Subscriptions())
    return found


@api("acl.prof.create_subscribe_config")
def create_subscribe_config(m: Machine, times: int, metrics: int, number: int) -> int:
    """create_subscribe_config(time_switch, metrics, fd) -> config: fd is the writing end of a pipe."""
    return opened(m, SubscribeConfig(bool(times), metrics, number))


@api("acl.prof.destroy_subscribe_config")
def destroy_subscribe_config(m: Machine, config: int) -> int:
    """destroy_subscribe_config(config) -> ret."""
    take(m, config, SubscribeConfig)
    m.handles.close(config, m.here())
    return 0


def _model(m: Machine, model_id: int) -> LoadedModel:
    model = acl_state(m).models.get(model_id)
    if model is None:
        raise refuse(m, "prof.unknown_model", model=model_id)
    return model


@api("acl.prof.model_subscribe")
def model_subscribe(m: Machine, model_id: int, config: int) -> int:
    """model_subscribe(model_id, config) -> ret: a block for each operator of every later run goes into the pipe.

    100011 for a model that is not loaded, 148046 for one that is subscribed, 148047 between acl.prof.init and finalize,
    100042 while the file of acl.init has switched profiling on.
    """
    model, entry = _model(m, model_id), take(m, config, SubscribeConfig)
    state, known = prof_state(m), _subscriptions(m)
    if state.mode is Mode.API:
        raise refuse(m, "prof.api_conflict", other="acl.prof.init")
    if state.mode is Mode.CONFIGURED:
        facts = {"state": "the file of acl.init has switched profiling on", "remedy": "Leave one of the two out."}
        raise refuse(m, "prof.already_running", **facts)
    if model_id in known.models:
        raise refuse(m, "prof.subscribed", model=model_id)
    try:
        os.fstat(entry.number)
    except OSError:
        raise refuse(m, "prof.bad_pipe", number=entry.number) from None
    shared = [writer for _, _, writer in known.models.values() if writer.number == entry.number]
    writer = shared[0] if shared else PipeWriter(entry.number)

    def observe(start: int, work: Work) -> None:
        if entry.times:
            writer.write(_blocks(known, model_id, start, work))

    model.observers.append(observe)
    known.models[model_id] = model, observe, writer
    state.mode = Mode.SUBSCRIPTION
    return 0


def _blocks(known: Subscriptions, model_id: int, start: int, work: Work) -> bytes:
    """The blocks of one run."""
    parts = []
    for operator in work.operators:
        known.count += 1
        known.types[known.count] = operator.op_type.encode()
        known.names[known.count] = operator.name.encode()
        end = start + operator.ns
        body = _BODY.pack(model_id, 0, 0, known.count, operator.ns, start, end, operator.ns, 0, 0)
        parts += [_SIGNATURE.pack(zlib.crc32(body)), body]
        start = end
    return b"".join(parts)


def _unsubscribe(m: Machine, model_id: int) -> int:
    _model(m, model_id)
    state, known = prof_state(m), _subscriptions(m)
    entry = known.models.pop(model_id, None)
    if entry is None:
        state_of = f"for model {model_id}, which is not subscribed"
        raise refuse(m, "prof.not_running", state=state_of, before="acl.prof.model_subscribe")
    model, observe, writer = entry
    model.observers.remove(observe)
    if not any(other is writer for _, _, other in known.models.values()):
        writer.close()
    if not known.models:
        state.mode = Mode.OFF
    return 0


@api("acl.prof.model_un_subscribe")
def model_un_subscribe(m: Machine, model_id: int) -> int:
    """model_un_subscribe(model_id) -> ret: as model_unsubscribe."""
    return _unsubscribe(m, model_id)


@api("acl.prof.model_unsubscribe")
def model_unsubscribe(m: Machine, model_id: int) -> int:
    """model_unsubscribe(model_id) -> ret: nothing more comes; the last subscription of a pipe closes it."""
    return _unsubscribe(m, model_id)


# -- reading -------------------------------------------------------------------------------------------


def _fields(m: Machine, pointer: int, length: int, index: int = 0) -> tuple[int, ...]:
    """The fields of one block behind the signature. Raises Refused ``prof.op_info`` (100000)."""
    if pointer == 0 or length == 0 or length % DESC_SIZE:
        reason = f"{length} bytes are not whole blocks of {DESC_SIZE} bytes" if pointer else "the address is 0"
        raise refuse(m, "prof.op_info", reason=reason)
    if index >= length // DESC_SIZE:
        raise refuse(m, "prof.op_info", reason=f"there is no operator {index}: {length // DESC_SIZE} are there")
    data = m.memory.view(pointer, length, "host", write=False)
    for at in range(0, length, DESC_SIZE):
        (signature,) = _SIGNATURE.unpack_from(data, at)
        if zlib.crc32(data[at + _SIGNATURE.size : at + DESC_SIZE]) != signature:
            raise refuse(m, "prof.op_info", reason=f"block {at // DESC_SIZE} is not what came out of the pipe")
    return _BODY.unpack_from(data, index * DESC_SIZE + _SIGNATURE.size)


def _known(m: Machine, texts: dict[int, bytes], fields: tuple[int, ...]) -> bytes:
    found = texts.get(fields[3])
    if found is None:
        raise refuse(m, "prof.op_info", reason="name and type of an operator are given once, and were")
    return found


def _text(m: Machine, texts: dict[int, bytes], fields: tuple[int, ...], room: int) -> str:
    """A text in room for that many bytes, its closing null among them; it is forgotten."""
    found = _known(m, texts, fields)
    if not len(found) <= room <= _LONGEST or room == 0:
        raise refuse(m, "prof.op_info", reason=f"the text needs a length from {len(found) + 1} to {_LONGEST}")
    del texts[fields[3]]
    return found[: room - 1].decode(errors="replace")


@api("acl.prof.get_op_desc_size")
def get_op_desc_size(m: Machine) -> tuple[int, int]:
    """get_op_desc_size() -> (bytes, ret): the size of the block of one operator."""
    return DESC_SIZE, 0


@api("acl.prof.get_op_num")
def get_op_num(m: Machine, pointer: int, length: int) -> tuple[int, int]:
    """get_op_num(pointer, length) -> (count, ret)."""
    if pointer == 0 or length:
        _fields(m, pointer, length)
    return length // DESC_SIZE, 0


@api("acl.prof.get_op_type")
def get_op_type(m: Machine, pointer: int, length: int, index: int, room: int) -> tuple[str, int]:
    """get_op_type(pointer, length, index, type_len) -> (type, ret): once for each block; type_len as get_op_type_len
    says, at most 4096."""
    return _text(m, _subscriptions(m).types, _fields(m, pointer, length, index), room), 0


@api("acl.prof.get_op_name")
def get_op_name(m: Machine, pointer: int, length: int, index: int, room: int) -> tuple[str, int]:
    """get_op_name(pointer, length, index, name_len) -> (name, ret): once for each block."""
    return _text(m, _subscriptions(m).names, _fields(m, pointer, length, index), room), 0


@api("acl.prof.get_op_type_v2")
def get_op_type_v2(m: Machine, pointer: int, length: int, index: int) -> tuple[str, int]:
    """get_op_type_v2(pointer, length, index) -> (type, ret): once for each block; None on failure."""
    fields, texts = _fields(m, pointer, length, index), _subscriptions(m).types
    return _text(m, texts, fields, len(_known(m, texts, fields)) + 1), 0


@api("acl.prof.get_op_name_v2")
def get_op_name_v2(m: Machine, pointer: int, length: int, index: int) -> tuple[str, int]:
    """get_op_name_v2(pointer, length, index) -> (name, ret): once for each block; None on failure."""
    fields, texts = _fields(m, pointer, length, index), _subscriptions(m).names
    return _text(m, texts, fields, len(_known(m, texts, fields)) + 1), 0


@api("acl.prof.get_op_type_len")
def get_op_type_len(m: Machine, pointer: int, length: int, index: int) -> tuple[int, int]:
    """get_op_type_len(pointer, length, index) -> (bytes, ret): with the closing null."""
    return len(_known(m, _subscriptions(m).types, _fields(m, pointer, length, index))) + 1, 0


@api("acl.prof.get_op_name_len")
def get_op_name_len(m: Machine, pointer: int, length: int, index: int) -> tuple[int, int]:
    """get_op_name_len(pointer, length, index) -> (bytes, ret): with the closing null."""
    return len(_known(m, _subscriptions(m).names, _fields(m, pointer, length, index))) + 1, 0


@api("acl.prof.get_op_start")
def get_op_start(m: Machine, pointer: int, length: int, index: int) -> int:
    """get_op_start(pointer, length, index) -> ns; 0 on failure."""
    return _fields(m, pointer, length, index)[5]


@api("acl.prof.get_op_end")
def get_op_end(m: Machine, pointer: int, length: int, index: int) -> int:
    """get_op_end(pointer, length, index) -> ns; 0 on failure."""
    return _fields(m, pointer, length, index)[6]


@api("acl.prof.get_op_duration")
def get_op_duration(m: Machine, pointer: int, length: int, index: int) -> int:
    """get_op_duration(pointer, length, index) -> ns; 0 on failure."""
    return _fields(m, pointer, length, index)[4]


@api("acl.prof.get_model_id")
def get_model_id(m: Machine, pointer: int, length: int, index: int) -> int:
    """get_model_id(pointer, length, index) -> model id; 0 on failure (the real function gives the code there)."""
    return _fields(m, pointer, length, index)[0]
