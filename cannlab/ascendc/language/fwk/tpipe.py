"""TPipe, TQue, TQueBind, TBuf, TBufPool. Source: pyasc 5, ascend-c 2.3."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.core.builder import GlobalBuilder
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.enums import HardEvent, TPosition
from cannlab.ascendc.language.core.ir_value import IRValue, PlainValue, raw
from cannlab.ascendc.language.core.tensor import LocalTensor, buffer_tensor, space_of
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.pipes import BLOCK, Pipe, Space, usable
from cannlab.machine.core.queues import Buffer, Queue

_FILLS: dict[int, Pipe] = {
    TPosition.GM: Pipe.MTE2,
    TPosition.VECIN: Pipe.MTE2,
    TPosition.VECOUT: Pipe.V,
    TPosition.VECCALC: Pipe.V,
    TPosition.A1: Pipe.MTE2,
    TPosition.B1: Pipe.MTE2,
    TPosition.C1: Pipe.MTE2,
    TPosition.A2: Pipe.MTE1,
    TPosition.B2: Pipe.MTE1,
    TPosition.C2: Pipe.MTE1,
    TPosition.CO1: Pipe.M,
    TPosition.CO2: Pipe.FIXP,
}
_USES: dict[int, Pipe] = {
    TPosition.GM: Pipe.MTE3,
    TPosition.VECIN: Pipe.V,
    TPosition.VECOUT: Pipe.MTE3,
    TPosition.VECCALC: Pipe.V,
    TPosition.A1: Pipe.MTE1,
    TPosition.B1: Pipe.MTE1,
    TPosition.C1: Pipe.MTE1,
    TPosition.A2: Pipe.M,
    TPosition.B2: Pipe.M,
    TPosition.C2: Pipe.M,
    TPosition.CO1: Pipe.FIXP,
    TPosition.CO2: Pipe.MTE3,
}


class TQueBind(IRValue):
    """A queue whose tensors are filled at one position and used at another."""

    def __init__(
        self, src: TPosition = TPosition.VECIN, dst: TPosition = TPosition.VECIN, depth: int = 0, mask: int = 0
    ) -> None:
        self._state = GlobalBuilder.get(type(self).__name__)
        if isinstance(depth, TPosition):
            raise TypeError(f"depth is {depth!r}: the position comes first, then the depth: TQue(position, depth)")
        if isinstance(depth, PlainValue) or not isinstance(depth, int):
            raise RuntimeError("depth of a queue must be a compile-time int")
        self._position = src
        self._fills, self._uses = _FILLS[src], _USES[dst]
        self._depth = depth
        self._queue: Queue | None = None

    def _bound(self, name: str) -> Queue:
        if self._queue is None:
            raise RuntimeError(f"{name}: the queue has no buffers yet; call pipe.init_buffer(queue, num, len) first")
        return self._queue

    def _in_place(self, name: str, what: Any, refused: bool) -> bool:
        """Does the call name a tensor? The toolkit's headers take that with depth 0 only.

        With depth 0 they know no other deque, while an alloc_tensor that makes a tensor compiles.
        """
        given = isinstance(what, LocalTensor)
        if given != (self._depth == 0) and (given or refused):
            self._state.launch.stop("kernel.queue_in_place", name=name, depth=self._depth)
        return given

    def alloc_tensor(self, what: DataType | LocalTensor) -> LocalTensor | None:
        """A tensor over a free buffer; with a tensor (depth 0) that tensor gets the buffer."""
        queue = self._bound("alloc_tensor")
        self._in_place("alloc_tensor", what, False)
        if queue.whole:
            return buffer_tensor(queue.buffers[0], _element(what))
        buffer = self._state.launch.queue_alloc(queue)
        if isinstance(what, LocalTensor):
            _take(what, buffer)
            return None
        return buffer_tensor(buffer, _element(what))

    def enque(self, tensor: LocalTensor, src_user_pos: Any = None, dst_user_pos: Any = None) -> None:
        """Put a filled tensor into the queue. Returns None."""
        self._state.launch.queue_enque(self._own("enque", tensor, src_user_pos, dst_user_pos))

    def deque(
        self, what: DataType | LocalTensor, src_user_pos: Any = None, dst_user_pos: Any = None
    ) -> LocalTensor | None:
        """Take the oldest tensor out of the queue, after its filling is done; with depth 0 the tensor that is given."""
        queue = self._bound("deque")
        self._positions(src_user_pos, dst_user_pos)
        if self._in_place("deque", what, True):
            self._state.launch.queue_deque(queue, self._own("deque", what))
            return None
        buffer = self._state.launch.queue_deque(queue)
        return buffer_tensor(buffer, _element(what))

    def free_tensor(self, tensor: LocalTensor) -> None:
        """Give a tensor's buffer back."""
        queue = self._bound("free_tensor")
        if not queue.whole:
            self._state.launch.queue_free(self._own("free_tensor", tensor))

    def free_all_event(self) -> None:
        """Release the queue's events; the emulation has nothing to release."""
        self._bound("free_all_event")

    def vacant_in_que(self) -> PlainValue:
        """May another tensor be enqueued? (A queue of depth 0 counts none: never.)"""
        queue = self._bound("vacant_in_que")
        return PlainValue(self._count(queue) < queue.depth, KnownTypes.int1)

    def has_tensor_in_que(self) -> PlainValue:
        """Is a tensor enqueued?"""
        return PlainValue(self._count(self._bound("has_tensor_in_que")) > 0, KnownTypes.int1)

    @staticmethod
    def _count(queue: Queue) -> int:
        """Tensors enqueued; where they are handed on in place the queue keeps no count of them."""
        return len(queue.waiting) if queue.depth else 0

    def has_idle_buffer(self) -> PlainValue:
        """Is a buffer free?"""
        idle = any(buffer.state == 0 for buffer in self._bound("has_idle_buffer").buffers)
        return PlainValue(idle, KnownTypes.int1)

    def get_tensor_count_in_que(self) -> PlainValue:
        """How many tensors are enqueued (int32)."""
        return PlainValue(self._count(self._bound("get_tensor_count_in_que")), KnownTypes.int32)

    def _own(self, name: str, tensor: Any, src: Any = None, dst: Any = None) -> Buffer:
        queue = self._bound(name)
        self._positions(src, dst)
        if not isinstance(tensor, LocalTensor):
            raise TypeError(f"{name} expects a LocalTensor, got {type(tensor).__name__}")
        if tensor.buffer is None or tensor.buffer.queue is not queue:
            self._state.launch.stop("kernel.foreign_tensor", name=name)
        assert tensor.buffer is not None
        return tensor.buffer

    def _positions(self, src: Any, dst: Any) -> None:
        if src is None and dst is None:
            return
        if _FILLS.get(src) is not self._fills or _USES.get(dst) is not self._uses:
            raise NotImplementedError(
                "enque and deque with user positions that name other pipes than the queue's are not emulated yet: "
                "make a TQueBind with these positions"
            )


class TQue(TQueBind):
    """A queue on one position: VECIN is filled by copies and used by the vector unit, VECOUT the other way round."""

    def __init__(self, pos: TPosition = TPosition.VECIN, depth: int | None = None, mask: int = 0) -> None:
        if depth is None:
            raise RuntimeError("depth of a queue must be a compile-time int")
        super().__init__(pos, pos, depth, mask)


class TBuf(TQueBind):
    """Scratch memory without a queue."""

    def __init__(self, pos: TPosition = TPosition.VECCALC) -> None:
        super().__init__(pos, pos, 0)

    def get(self, dtype: DataType, len: Any = None, shape: Any = None) -> LocalTensor:
        """A tensor over the buffer, or over its first ``len`` elements."""
        buffer = self._bound("get").buffers[0]
        tensor = buffer_tensor(buffer, dtype)
        if len is not None:
            tensor.size = _fits(self._state.launch, "get", int(raw(len)), dtype, buffer.size)
        return tensor

    def get_with_offset(self, size: Any, buf_offset: Any, dtype: DataType) -> LocalTensor:
        """A tensor of ``size`` elements from a byte of the buffer on; the offset is a Python multiple of 32."""
        if not isinstance(buf_offset, int) or buf_offset % BLOCK:
            raise ValueError("buf_offset must be a compile-time multiple of 32 bytes")
        buffer = self._bound("get_with_offset").buffers[0]
        tensor = buffer_tensor(buffer, dtype)
        tensor.offset += buf_offset
        count = int(raw(size))
        tensor.size = _fits(self._state.launch, "get_with_offset", count, dtype, buffer.size - buf_offset)
        return tensor


def _fits(launch: Any, name: str, count: int, dtype: DataType, have: int) -> int:
    if count * dtype.sizeof() > have:
        launch.stop(
            "kernel.tensor_range",
            name=name,
            operand=0,
            wanted=count * dtype.sizeof(),
            have=have,
            elements=have // dtype.sizeof(),
        )
    return count


def _element(what: Any) -> DataType:
    if not isinstance(what, DataType):
        raise TypeError(f"a DataType is expected, got {type(what).__name__}")
    return what


def _take(tensor: LocalTensor, buffer: Buffer) -> None:
    tensor.space, tensor.offset, tensor.position, tensor.buffer = (
        buffer.space,
        buffer.start,
        buffer.queue.position,
        buffer,
    )
    tensor.size = buffer.size // max(tensor.dtype.sizeof(), 1)


class TPipe(IRValue):
    """Gives out the local buffers and the events. One per kernel.

    Raises:
        RuntimeError: a second one while the first exists.
    """

    def __init__(self) -> None:
        self._state = GlobalBuilder.get("TPipe")
        if self._state.pipe is not None:
            raise RuntimeError("TPipe instance is already created")
        self._state.pipe = self
        self._next: dict[int, int] = {}

    def init_buffer(self, *args: Any, **kwargs: Any) -> None:
        """``(que, num, len)``: num buffers of len bytes; ``(buf, num)`` for a TBuf, num in bytes. Rounded up to 32."""
        if (args and isinstance(args[0], TBuf)) or "buf" in kwargs:
            buf, size = _arguments("init_buffer", ("buf", "num"), args, kwargs)
            self._init(buf, 1, int(raw(size)), True)
            return
        que, count, size = _arguments("init_buffer", ("que", "num", "len"), args, kwargs)
        _queue("init_buffer", que)
        self._init(que, int(raw(count)), int(raw(size)), False)

    def _init(self, que: TQueBind, count: int, size: int, whole: bool) -> None:
        space = space_of(self._state.launch.soc, int(que._position))
        if space is None:
            raise ValueError(f"{TPosition(que._position).name} lies in global memory: it has no buffers")
        size = -(-size // BLOCK) * BLOCK
        start = self._next.get(space, 0)
        buffers = [(int(space), start + number * size, size) for number in range(count)]
        _room(self._state, space, start, count * size)
        que._queue = self._state.launch.queue_init(
            int(que._position), que._fills, que._uses, que._depth, buffers, whole
        )
        self._next[space] = start + count * size

    def init_buf_pool(self, buf_pool: TBufPool, len: Any = 0, share_buf: TBufPool | None = None) -> None:
        """Reserve ``len`` bytes for a pool, or let it share those of another one."""
        _pool("init_buf_pool", buf_pool)
        space = buf_pool._space
        size = -(-int(raw(len)) // BLOCK) * BLOCK
        if share_buf is not None:
            buf_pool._share(share_buf, size)
            return
        start = self._next.get(space, 0)
        _room(self._state, space, start, size)
        buf_pool._take(start, size)
        self._next[space] = start + size

    def rest(self, space: Space) -> tuple[int, int]:
        """First byte behind the buffers, and the end of what can be had."""
        end = usable(self._state.launch.soc, space)
        floor = self._state.auto_floor if space is Space.UB else None
        return self._next.get(space, 0), end if floor is None else floor

    def alloc_event_id(self, event: HardEvent = HardEvent.V_S) -> PlainValue:
        """An event id that is not in use."""
        used = self._state.events.setdefault(int(event), set())
        ids = self._state.launch.soc.event_ids
        found = next((number for number in range(ids) if number not in used), ids)
        used.add(found)
        return PlainValue(found, KnownTypes.int32)

    def release_event_id(self, id: Any, event: HardEvent = HardEvent.V_S) -> None:
        """Give an event id back."""
        self._state.events.setdefault(int(event), set()).discard(int(raw(id)))

    def fetch_event_id(self, event: HardEvent = HardEvent.V_S) -> PlainValue:
        """An event id for use at once, without keeping it."""
        used = self._state.events.setdefault(int(event), set())
        return PlainValue(next((n for n in range(8) if n not in used), 0), KnownTypes.int32)

    def get_base_addr(self, logic_pos: TPosition | None = None) -> PlainValue:
        """First byte of a position's local buffer."""
        return PlainValue(0, KnownTypes.uint64)

    def init(self) -> None:
        """Start again after ``destroy``."""
        self._clear()

    def destroy(self) -> None:
        """Give everything back; another TPipe may follow."""
        self._clear()
        self._state.pipe = None

    def reset(self) -> None:
        """Give the buffers back; queues can be initialised again."""
        self._clear()

    def _clear(self) -> None:
        self._next = {}
        self._state.launch.pipe_reset()


def _room(state: Any, space: Space, start: int, size: int) -> None:
    """What is reserved has to be there; automatic tensors take the UB's end, and buffers stay below them."""
    most = usable(state.launch.soc, space)
    taken = most - state.auto_floor if space is Space.UB and state.auto_floor is not None else 0
    if start + size > most - taken:
        facts = {"used": start + taken, "wanted": size, "usable": most}
        if space is Space.UB:
            state.launch.stop("kernel.ub_overflow", **facts)
        state.launch.stop("kernel.buffer_overflow", buffer=space.name, **facts)


def _queue(name: str, given: Any) -> None:
    """pyasc 1.1.1 takes a TQue; a TQueBind that is none gets no buffers anywhere."""
    if not isinstance(given, TQue):
        raise RuntimeError(
            f"No viable candidates were found to dispatch {name}(): que is a {type(given).__name__}, not a TQue"
        )


def _pool(name: str, given: Any) -> None:
    if not isinstance(given, TBufPool):
        raise RuntimeError(f"No viable candidates were found to dispatch {name}()")


class TBufPool(IRValue):
    """Bytes of a position that several stages of a kernel use one after another.

    ``TPipe.init_buf_pool`` reserves them, ``init_buffer`` gives them out, ``reset`` takes all back. Two pools may share
    their bytes; whoever initialises buffers there last owns them.
    """

    def __init__(self, pos: TPosition | None = None, buf_id_size: Any = 4) -> None:
        self._state = GlobalBuilder.get("TBufPool")
        position = TPosition.VECCALC if pos is None else pos
        space = space_of(self._state.launch.soc, int(position))
        if space is None:
            raise ValueError(f"{TPosition(position).name} lies in global memory: it has no buffers")
        self._space, self._most = space, int(raw(buf_id_size))
        self._start = self._size = self._used = self._count = 0

    def _take(self, start: int, size: int) -> None:
        self._start, self._size, self._used, self._count = start, size, 0, 0

    def _share(self, other: TBufPool, size: int) -> None:
        _pool("init_buf_pool", other)
        if other._space is not self._space or size > other._size:
            self._over(other._size, size)
        self._take(other._start, size)

    def _over(self, have: int, wanted: int) -> None:
        self._state.launch.stop("kernel.pool_overflow", used=self._used, wanted=wanted, usable=have, most=self._most)

    def init_buf_pool(self, buf_pool: TBufPool, len: Any = 0, share_buf: TBufPool | None = None) -> None:
        """Reserve ``len`` of this pool's bytes for another pool, or let it share those of a third."""
        _pool("init_buf_pool", buf_pool)
        size = -(-int(raw(len)) // BLOCK) * BLOCK
        if share_buf is not None:
            buf_pool._share(share_buf, size)
            return
        if self._used + size > self._size:
            self._over(self._size, size)
        buf_pool._take(self._start + self._used, size)
        self._used += size

    def init_buffer(self, *args: Any, **kwargs: Any) -> None:
        """``(que, num, len)``: num buffers of len bytes; ``(buf, len)`` for a TBuf. Rounded up to 32."""
        whole = bool(args and isinstance(args[0], TBuf)) or "buf" in kwargs
        if whole:
            que, size = _arguments("init_buffer", ("buf", "len"), args, kwargs)
            count: Any = 1
        else:
            que, count, size = _arguments("init_buffer", ("que", "num", "len"), args, kwargs)
        if not whole:
            _queue("init_buffer", que)
        number, each = int(raw(count)), -(-int(raw(size)) // BLOCK) * BLOCK
        if self._used + number * each > self._size or self._count + number > self._most:
            self._over(self._size, number * each)
        start = self._start + self._used
        buffers = [(int(self._space), start + place * each, each) for place in range(number)]
        que._queue = self._state.launch.queue_init(
            int(que._position), que._fills, que._uses, que._depth, buffers, whole
        )
        self._used += number * each
        self._count += number

    def reset(self) -> None:
        """Take all buffers back: queues can be initialised again, with other sizes."""
        self._state.launch.pool_reset(int(self._space), self._start, self._size)
        self._used = self._count = 0


def get_tpipe_ptr() -> TPipe:
    """The kernel's TPipe."""
    pipe = GlobalBuilder.get("get_tpipe_ptr").pipe
    if pipe is None:
        raise RuntimeError("there is no TPipe yet: create one first")
    assert isinstance(pipe, TPipe)
    return pipe


def _arguments(name: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    values = dict(zip(names, args, strict=False))
    if len(args) > len(names) or any(key not in names or key in values for key in kwargs):
        raise RuntimeError(f"No viable candidates were found to dispatch {name}()")
    values.update(kwargs)
    if len(values) != len(names):
        raise RuntimeError(f"No viable candidates were found to dispatch {name}()")
    return [values[key] for key in names]


__all__ = ["Space", "TBuf", "TBufPool", "TPipe", "TQue", "TQueBind", "get_tpipe_ptr"]


__getattr__ = names_of(__name__)
