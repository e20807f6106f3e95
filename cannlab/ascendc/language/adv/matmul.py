"""The Matmul object. Source: pyasc 8 (Matmul object), 1.5; ascend-c 2.3.

In a mixed kernel the vector cores make requests and the cube core of their group serves them; in one for cube cores
alone the core does the work itself. What lies in the UB goes through global memory that the launch keeps for it. A
request is sent when everything before it is done, and a base tile is made when ``get_tensor_c`` asks for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from cannlab.ascendc.language.adv import types as configs
from cannlab.ascendc.language.adv.cube_program import (
    Cube,
    Matrix,
    Problem,
    Target,
    accumulator,
    edge,
    mode_of,
    tile_bytes,
)
from cannlab.ascendc.language.adv.tiling import TCubeTiling
from cannlab.ascendc.language.basic.block_sync import cross
from cannlab.ascendc.language.core.builder import BlockState, GlobalBuilder
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.enums import CubeFormat, LayoutMode, TPosition
from cannlab.ascendc.language.core.ir_value import GlobalAddress, IRValue, PlainValue, raw
from cannlab.ascendc.language.core.tensor import BaseTensor, GlobalTensor, LocalTensor
from cannlab.ascendc.language.fwk.tpipe import TPipe
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.dtypes import CODES, pack
from cannlab.machine.core.fractals import ROWS, up
from cannlab.machine.core.opcodes import BY_NAME
from cannlab.machine.core.pipes import ALL_PIPES, BLOCK, CUBE_CORE, VECTOR_CORE, Pipe, Space, capacity
from cannlab.machine.core.units import MIXED

_COPY, _BARRIER = BY_NAME["data_copy"].number, BY_NAME["pipe_barrier"].number
Job = tuple[Problem, Target, list[tuple[int, int]]]
_TYPES = {
    "float16": ("float16", "float32", "int8"),
    "float32": ("float16", "float32", "int8"),
    "int8": ("int32", "float16", "int8"),
}
"""Element type of A and B -> of C."""


@dataclass(frozen=True)
class MatmulType:
    """Where an operand lies, its format and type, and whether it may be transposed."""

    position: TPosition
    format: CubeFormat
    dtype: DataType
    is_trans: bool = False
    layout: LayoutMode = LayoutMode.NONE


class MatrixOffset(IRValue):
    """Where the current base tile lies in C."""

    def __init__(self, offset: Any = None, row: Any = None, col: Any = None, height: Any = None, width: Any = None):
        self.offset, self.row, self.col, self.height, self.width = offset, row, col, height, width


class MatmulIterator:
    """``with matmul.iterate() as i:`` runs its body once for each base tile; i counts from 0."""

    def __init__(self, matmul: Matmul, partial_sum: Any, local_c_matrix: Any, sync: Any) -> None:
        self._matmul = matmul

    def turns(self) -> Iterator[PlainValue]:
        """The numbers of the base tiles."""
        return self._matmul._turns()


def scratch_bytes(ub: int) -> int:
    """Bytes of global memory that a vector core's UB operands go through: A, B and C."""
    return 3 * ub


class Matmul(IRValue):
    """C = A B (+ bias) on one core's part: ``Matmul(a, b, c, bias=None, matmul_config=None, matmul_policy=0)``.

    A and B: float16, float32, int8; C: float16, float32, int32, int8 (quantised). ND or NZ, in global memory or, in a
    mixed kernel, in the UB.

    Raises:
        NotImplementedError: a form that is not emulated, naming it.
    """

    def __init__(
        self,
        a: MatmulType,
        b: MatmulType,
        c: MatmulType,
        bias: MatmulType | None = None,
        matmul_config: configs.MatmulConfig | None = None,
        matmul_policy: Any = 0,
    ) -> None:
        self._state = GlobalBuilder.get("Matmul")
        for name, each in (("a", a), ("b", b), ("c", c), ("bias", bias or c)):
            if not isinstance(each, MatmulType):
                raise TypeError(f"Matmul: {name} is a MatmulType, got {type(each).__name__}")
            if each.layout not in (LayoutMode.NONE, LayoutMode.NORMAL):
                _missing(f"layout {LayoutMode(each.layout).name}")
            if TPosition(each.position).name not in _POSITIONS:
                _missing(f"an operand at {TPosition(each.position).name}")
        if int(raw(matmul_policy)):
            _missing("matmul_policy other than 0")
        config = matmul_config or configs.MatmulConfig()
        for field in ("is_n_batch", "intra_block_part_sum", "is_enable_channel_split", "is_partial_output"):
            if bool(raw(getattr(config, field))):
                _missing(f"matmul_config with {field}")
        self._a, self._b, self._c, self._bias = a, b, c, bias or c
        self._config = config
        self._tiling: dict[str, int] | None = None
        self._registered = False
        self._reset()

    def _reset(self) -> None:
        self._left: Any = None
        self._right: Any = None
        self._bias_from: Any = None
        self._word: int | None = None
        self._words: tuple[int, int] | None = None
        self._hf32 = 0
        self._batches = (1, 1)
        self._tile = 0
        self._order: list[tuple[int, int]] = []
        self._owed = 0
        self._start = 0

    # -- before a call --------------------------------------------------------------------------------

    def init(self, tiling: TCubeTiling) -> None:
        """Take the cut."""
        if not isinstance(tiling, TCubeTiling):
            raise TypeError(f"Matmul.init takes a TCubeTiling, got {type(tiling).__name__}")
        self._reset()
        self._tiling = t = {name: int(raw(getattr(tiling, name))) for name in TCubeTiling.struct_fields}
        self._org = (t["m"], t["n"], t["k_a"], t["k_b"], 0)
        self._single = (t["single_core_m"], t["single_core_n"], t["single_core_k"])
        if self._state.launch.probing:
            return
        self._check(t)

    def _check(self, t: dict[str, int]) -> None:
        """The cut has to fit the buffers.

        Raises:
            KernelFault: it does not.
        """
        launch, soc = self._state.launch, self._state.launch.soc
        a, b = self._a.dtype.name, self._b.dtype.name
        legal = _TYPES.get(a, ())
        if a != b or self._c.dtype.name not in legal:
            launch.stop(
                "kernel.dtype",
                name="Matmul",
                types=f"A {a}, B {b}, C {self._c.dtype.name}",
                legal="; ".join(f"A and B {each}, C {' or '.join(found)}" for each, found in _TYPES.items()),
                soc=soc.name,
            )
        if t["is_bias"] and self._bias.dtype.name != accumulator(a):
            _missing(f"a bias of {self._bias.dtype.name} (only {accumulator(a)})")

        def stop(what: str, wanted: int, have: int) -> None:
            launch.stop("kernel.matmul_tiling", part=what, wanted=wanted, have=have)

        for name in ("base_m", "base_n", "base_k", "single_core_m", "single_core_n", "single_core_k", "m", "n", "k_a"):
            if t[name] <= 0:
                stop(f"{name} is {t[name]}: it", 1, t[name])
        cut = self._cut()
        for name in ("base_m", "base_n"):
            if t[name] % ROWS:
                stop(f"{name}, a multiple of 16,", up(t[name], ROWS), t[name])
        unit = BLOCK // self._a.dtype.sizeof()
        if t["base_k"] % unit and t["base_k"] < t["single_core_k"]:
            stop(f"base_k, a multiple of {unit},", up(t["base_k"], unit), t["base_k"])
        for name, base, space in (("A", t["base_m"], Space.L0A), ("B", t["base_n"], Space.L0B)):
            wanted, have = tile_bytes(base, t["base_k"], a) * cut[4], capacity(soc, space)
            if wanted > have:
                stop(f"a base tile of {name}, times db_l0{name.lower()}, in {space.name}", wanted, have)
        wanted, have = up(t["base_m"], ROWS) * up(t["base_n"], ROWS) * 4 * cut[5], capacity(soc, Space.L0C)
        if wanted > have:
            stop("a base tile of C, times db_l0c, in L0C", wanted, have)
        if t["is_bias"] and t["base_n"] * 4 > capacity(soc, Space.BIAS):
            stop("base_n elements of the bias in the bias table", t["base_n"] * 4, capacity(soc, Space.BIAS))
        wanted = tile_bytes(t["base_m"], cut[0] * t["base_k"], a) * cut[2]
        wanted += tile_bytes(t["base_n"], cut[1] * t["base_k"], b) * cut[3]
        wanted += up(t["base_n"] * 4, BLOCK) if t["is_bias"] else 0
        if wanted > capacity(soc, Space.L1) - self._start:
            stop("the tiles of A and B in L1", wanted, capacity(soc, Space.L1) - self._start)

    def _cut(self) -> tuple[int, int, int, int, int, int]:
        """(steps of a tile of A, of B, tiles of A in L1, of B, tiles in L0A and L0B, in L0C)."""
        t = self._tiling
        assert t is not None
        step_a, step_b = max(t["step_k_a"], 1), max(t["step_k_b"], 1)
        slots_a = t["depth_a1"] // (step_a * max(t["step_m"], 1))
        slots_b = t["depth_b1"] // (step_b * max(t["step_n"], 1))
        deep = min(max(t["db_l0a"], 1), max(t["db_l0b"], 1), 2)
        return step_a, step_b, min(max(slots_a, 1), 2), min(max(slots_b, 1), 2), deep, min(max(t["db_l0c"], 1), 2)

    def _ready(self, name: str) -> dict[str, int]:
        """The tiling of a registered object.

        Raises:
            KernelFault: there is none.
        """
        if not self._registered or self._tiling is None:
            self._state.launch.stop("kernel.matmul_unready", name=name)
        assert self._tiling is not None
        return self._tiling

    def set_org_shape(self, org_m: Any, org_n: Any, org_ka: Any, org_kb: Any = None, org_kc: Any = None) -> None:
        """The extents of the whole matrices, which give the row strides; org_kc is that of C where it is not n."""
        self._ready("set_org_shape")
        ka = int(raw(org_ka))
        kb = ka if org_kb is None else int(raw(org_kb))
        self._org = (int(raw(org_m)), int(raw(org_n)), ka, kb, 0 if org_kc is None else int(raw(org_kc)))

    def set_single_shape(self, single_m: Any, single_n: Any, single_k: Any) -> None:
        """The extents of this core's part."""
        self._ready("set_single_shape")
        self._single = (int(raw(single_m)), int(raw(single_n)), int(raw(single_k)))

    def set_tail(self, tail_m: Any = -1, tail_n: Any = -1, tail_k: Any = -1) -> None:
        """Smaller extents of this core's part; -1 leaves one as it is."""
        self._ready("set_tail")
        tails = [int(raw(each)) for each in (tail_m, tail_n, tail_k)]
        found = [tail if tail != -1 else old for tail, old in zip(tails, self._single, strict=True)]
        self._single = (found[0], found[1], found[2])

    def _operand(self, name: str, kind: MatmulType, value: Any, transpose: Any) -> Any:
        self._ready(name)
        if not isinstance(value, BaseTensor):
            if not isinstance(value, (int, float, PlainValue)):
                raise RuntimeError(f"No viable candidates were found to dispatch {name}()")
            if kind.dtype.name == "int8":
                _missing(f"{name} with a scalar of int8")
            return float(raw(value)), False
        if value.dtype != kind.dtype:
            raise TypeError(f"{name}: the tensor is {value.dtype}, the MatmulType {kind.dtype}")
        turned = bool(raw(transpose))
        if turned and not kind.is_trans:
            self._state.launch.stop("kernel.matmul_transpose", name=name)
        if isinstance(value, LocalTensor):
            self._local(name, value)
        return value, turned

    def _local(self, name: str, tensor: LocalTensor) -> None:
        if tensor.space != Space.UB:
            _missing(f"{name} with a tensor in {Space(tensor.space).name}")
        self._state.matmul_scratch = True
        if not self._state.launch.probing and self._state.launch.cores != VECTOR_CORE:
            self._state.launch.stop("kernel.core_kind", name=name, buffer="UB", cores="cube", other="vector")

    def set_tensor_a(self, tensor: Any, transpose: Any = False) -> None:
        """The left matrix, where this core's part begins; or one number that fills it."""
        self._left = self._operand("set_tensor_a", self._a, tensor, transpose)

    def set_tensor_b(self, tensor: Any, transpose: Any = False) -> None:
        """The right matrix, where this core's part begins; or one number that fills it."""
        self._right = self._operand("set_tensor_b", self._b, tensor, transpose)

    def set_bias(self, tensor: BaseTensor) -> None:
        """One element for each column, where this core's part begins."""
        t = self._ready("set_bias")
        if not isinstance(tensor, GlobalTensor):
            _missing("set_bias with a local tensor")
        if not t["is_bias"] and not self._state.launch.probing:
            self._state.launch.stop("kernel.matmul_bias")
        if tensor.dtype != self._bias.dtype:
            raise TypeError(f"set_bias: the tensor is {tensor.dtype}, the MatmulType {self._bias.dtype}")
        self._bias_from = tensor

    def disable_bias(self) -> None:
        """No bias from now on."""
        self._bias_from = None

    def set_quant_scalar(self, quant_scalar: Any) -> None:
        """One quantisation word for all columns (bits 0 to 31: a float's, of which the top 19 count)."""
        self._ready("set_quant_scalar")
        self._word, self._words = int(raw(quant_scalar)), None

    def set_quant_vector(self, quant_vector: GlobalTensor) -> None:
        """A quantisation word (uint64) for each column of this core's part."""
        self._ready("set_quant_vector")
        if not isinstance(quant_vector, GlobalTensor):
            raise TypeError(f"set_quant_vector takes a GlobalTensor, got {type(quant_vector).__name__}")
        if quant_vector.dtype.sizeof() != 8:
            raise TypeError(f"set_quant_vector: the words are uint64, the tensor is {quant_vector.dtype}")
        self._word, self._words = None, (quant_vector.allocation, quant_vector.offset)

    def set_hf32(self, enable_hf32: Any = False, trans_mode: Any = 0) -> None:
        """float32 operands are rounded to 11 bits of fraction: to the nearest, or (trans_mode 1) towards zero."""
        self._ready("set_hf32")
        self._hf32 = (2 if int(raw(trans_mode)) else 1) if bool(raw(enable_hf32)) else 0

    def set_batch_num(self, batch_a: Any, batch_b: Any) -> None:
        """Matrices of iterate_batch."""
        self._ready("set_batch_num")
        self._batches = (int(raw(batch_a)), int(raw(batch_b)))

    def set_workspace(self, addr: GlobalTensor | GlobalAddress, size: Any = None) -> None:
        """Where intermediate results may lie; the emulation keeps memory of its own for them."""
        self._ready("set_workspace")
        if not isinstance(addr, (GlobalTensor, GlobalAddress)):
            raise TypeError(f"set_workspace takes a GlobalTensor or a GlobalAddress, got {type(addr).__name__}")

    def end(self) -> None:
        """The object is not needed any more."""
        self._ready("end")
        self._wait()
        self._left = self._right = self._bias_from = None

    # -- the problem ----------------------------------------------------------------------------------

    def _problem(self) -> Problem:
        """What the cube core is asked for; UB operands are in global memory then."""
        t = self._tiling
        assert t is not None
        if self._left is None or self._right is None:
            missing = "set_tensor_a" if self._left is None else "set_tensor_b"
            self._state.launch.stop("kernel.matmul_operand", name=missing)
        m, n, k = self._single
        if min(m, n, k) <= 0:
            self._state.launch.stop(
                "kernel.matmul_tiling", part=f"this core's part, {m} x {n} x {k},", wanted=1, have=0
            )
        org_m, org_n, ka, kb, _ = self._org
        a_nz, b_nz = (each.format == CubeFormat.NZ for each in (self._a, self._b))
        left, turned_a = self._left
        right, turned_b = self._right
        code = CODES[self._a.dtype.name]
        if (a_nz and turned_a and self._a.dtype.sizeof() != 2) or (
            b_nz and not turned_b and self._a.dtype.sizeof() == 1
        ):
            _missing(f"NZ of {self._a.dtype} that has to be transposed")
        if (turned_a or not turned_b) and t["base_k"] % edge(code) and t["base_k"] < k:
            self._state.launch.stop(
                "kernel.matmul_tiling",
                part=f"base_k, a multiple of {edge(code)},",
                wanted=up(t["base_k"], edge(code)),
                have=t["base_k"],
            )
        a = self._matrix(left, self._a.dtype.name, a_nz, turned_a, (m, k), (org_m, ka), 0)
        b = self._matrix(right, self._b.dtype.name, b_nz, turned_b, (k, n), (kb, org_n), 1)
        bias = None
        if self._bias_from is not None:
            bias = Matrix(self._bias_from.allocation, self._bias_from.offset, self._bias.dtype.name, False, False, n)
        step_a, step_b, slots_a, slots_b, deep, out = self._cut()
        found = Problem(
            a,
            b,
            bias,
            m,
            n,
            k,
            t["base_m"],
            t["base_n"],
            t["base_k"],
            step_a,
            step_b,
            slots_a,
            slots_b,
            deep,
            out,
            t["iterate_order"] == 1,
            self._word,
            self._words,
            self._hf32,
        )
        if mode_of(accumulator(self._a.dtype.name), self._c.dtype.name, found) is None:
            self._state.launch.stop(
                "kernel.matmul_quant", source=accumulator(self._a.dtype.name), to=self._c.dtype.name
            )
        return found

    def _matrix(
        self,
        given: Any,
        dtype: str,
        nz: bool,
        turned: bool,
        extent: tuple[int, int],
        whole: tuple[int, int],
        number: int,
    ) -> Matrix:
        if isinstance(given, float):
            return Matrix(0, 0, dtype, False, turned, 0, given)
        rows, columns = extent[::-1] if turned else extent
        whole_rows, ld = whole[::-1] if turned else whole
        ld = up(whole_rows, ROWS) if nz else ld
        if isinstance(given, GlobalTensor):
            return Matrix(given.allocation, given.offset, dtype, nz, turned, ld)
        size = given.dtype.sizeof()
        c0 = BLOCK // size
        count = (-(-columns // c0) - 1) * ld * c0 + up(rows, ROWS) * c0 if nz else (rows - 1) * ld + columns
        at = self._scratch(number)
        self._barrier()
        self._move(given, at, up(count * size, BLOCK), True)
        return Matrix(at[0], at[1], dtype, nz, turned, ld)

    # -- the UB ---------------------------------------------------------------------------------------

    def _scratch(self, number: int) -> tuple[int, int]:
        """Where A, B or C of this vector core lies in global memory."""
        launch = self._state.launch
        ub = int(launch.soc.ub_bytes)
        assert self._state.matmul_memory is not None
        return self._state.matmul_memory, launch.unit.block * scratch_bytes(ub) + number * ub

    def _barrier(self) -> None:
        self._state.launch.issue(_BARRIER, 0, 0, (ALL_PIPES,))

    def _move(
        self,
        tensor: LocalTensor,
        at: tuple[int, int],
        size: int,
        out: bool,
        offset: int = 0,
        rows: int = 1,
        gap: int = 0,
    ) -> None:
        """Bytes between the UB and global memory: ``rows`` of ``size``, ``gap`` apart in the UB."""
        have = tensor.size * tensor.dtype.sizeof()
        span = rows * size + (rows - 1) * gap
        if offset + span > have:
            self._state.launch.stop(
                "kernel.tensor_range",
                name="Matmul",
                operand=0,
                wanted=offset + span,
                have=have,
                elements=tensor.size,
            )
        code = CODES[tensor.dtype.name]
        local, gm = (tensor.space, tensor.offset + offset, span), (*at, rows * size)
        operands = (gm, local) if out else (local, gm)
        imm = (rows, size, gap if out else 0, 0 if out else gap, 0)
        pipe = Pipe.MTE3 if out else Pipe.MTE2
        self._state.launch.issue(_COPY, int(pipe), pack(code, code), imm, operands)

    # -- requests -------------------------------------------------------------------------------------

    def _ask(self, jobs: list[Job], sync: bool) -> None:
        """Have the jobs done: by the cube core of the group, or here."""
        state = self._state
        launch = state.launch
        if launch.cores == CUBE_CORE or not launch.soc.split:
            cube = Cube(launch, launch.line(), self._start)
            for job in jobs:
                cube.run(*job)
            return
        server = next(each for each in launch.units if each.group == launch.unit.group and each.kind == CUBE_CORE)
        launch.letters.setdefault(server.number, deque()).append((launch.unit.number, launch.line(), jobs))
        cross(state, "message_send", int(Pipe.S), (server.number, ALL_PIPES))
        self._owed += 1
        if sync:
            self._wait()

    def _wait(self) -> None:
        while self._owed:
            self._owed -= 1
            cross(self._state, "message_wait", int(Pipe.S), ())

    def _target(self, tensor: Any, n: int, atomic: Any, dense: bool) -> Target:
        """Where C goes."""
        if not isinstance(tensor, BaseTensor):
            raise TypeError(f"Matmul: C goes to a tensor, got {type(tensor).__name__}")
        if tensor.dtype != self._c.dtype:
            raise TypeError(f"Matmul: C is {self._c.dtype}, the tensor {tensor.dtype}")
        number = int(raw(atomic))
        if number not in (0, 1, 2, 3):
            raise ValueError(f"en_atomic is 0 (replace), 1 (add), 2 (max) or 3 (min), got {number}")
        nz = self._c.format == CubeFormat.NZ
        m, org_n, kc = self._org[0], self._org[1], self._org[4]
        if isinstance(tensor, LocalTensor):
            self._local("C", tensor)
            if number:
                _missing("en_atomic with a local tensor")
            if self._state.launch.probing:
                return Target(0, 0, tensor.dtype.name, nz, 1, dense, 0)
            ld = up(self._single[0], ROWS) if nz else n
            return Target(*self._scratch(2), tensor.dtype.name, nz, ld, dense, 0)
        assert isinstance(tensor, GlobalTensor)
        ld = up(m, ROWS) if nz else kc or org_n
        return Target(tensor.allocation, tensor.offset, tensor.dtype.name, nz, ld, dense, number)

    def iterate_all(
        self,
        tensor: BaseTensor,
        en_atomic: Any = 0,
        sync: Any = True,
        en_sequential_write: Any = None,
        wait_iterate_all: Any = None,
        fake_msg: Any = None,
    ) -> None:
        """This core's whole part of C."""
        self._ready("iterate_all")
        local = isinstance(tensor, LocalTensor)
        if local and any(each is not None for each in (en_sequential_write, wait_iterate_all, fake_msg)):
            raise ValueError("iterate_all to a LocalTensor takes no en_sequential_write, wait_iterate_all and fake_msg")
        if wait_iterate_all is not None and bool(raw(wait_iterate_all)) and bool(raw(sync)):
            raise ValueError("iterate_all: wait_iterate_all needs sync=False")
        if fake_msg is not None and bool(raw(fake_msg)):
            _missing("iterate_all with fake_msg")
        dense = en_sequential_write is not None and bool(raw(en_sequential_write))
        target = self._target(tensor, self._single[1], en_atomic, dense)
        if self._state.launch.probing:
            return
        if local and not bool(raw(sync)):
            _missing("iterate_all to a LocalTensor with sync=False")
        problem = self._problem()
        self._ask([(problem, target, problem.tiles())], bool(raw(sync)))
        if isinstance(tensor, LocalTensor):
            size = tensor.dtype.sizeof()
            count = up(problem.m, ROWS) * up(problem.n, ROWS) if target.nz else problem.m * target.ld
            self._move(tensor, self._scratch(2), up(count * size, BLOCK), False)
            self._barrier()

    def wait_iterate_all(self) -> None:
        """The parts asked for with sync=False are there."""
        self._ready("wait_iterate_all")
        if not self._state.launch.probing:
            self._wait()

    def iterate(self, en_partial_sum: Any = False, sync: Any = True, local_c_matrix: Any = None) -> MatmulIterator:
        """The base tiles of this core's part, one in each turn of the ``with`` body."""
        self._ready("iterate")
        if bool(raw(en_partial_sum)):
            _missing("iterate with en_partial_sum")
        if local_c_matrix is not None:
            _missing("iterate with local_c_matrix")
        return MatmulIterator(self, en_partial_sum, local_c_matrix, sync)

    def _turns(self) -> Iterator[PlainValue]:
        if self._state.launch.probing:
            yield PlainValue(0, KnownTypes.int32)
            return
        self._iterated = self._problem()
        self._order = self._iterated.tiles()
        for number in range(len(self._order)):
            self._tile = number
            yield PlainValue(number, KnownTypes.int32)
        self._order = []

    def get_tensor_c(
        self,
        tensor: Any = None,
        en_atomic: Any = 0,
        en_sequential_write: Any = False,
        sync: Any = True,
        optional_tensor: Any = None,
    ) -> None:
        """The current base tile of C: by itself (en_sequential_write), or in its place in this core's part."""
        self._ready("get_tensor_c")
        if optional_tensor is not None:
            _missing("get_tensor_c with optional_tensor")
        if not isinstance(tensor, BaseTensor):
            _missing("get_tensor_c without a tensor")
        dense = bool(raw(en_sequential_write))
        local = isinstance(tensor, LocalTensor)
        target = self._target(tensor, self._single[1], en_atomic, dense or local)
        if self._state.launch.probing:
            return
        if not self._order:
            raise RuntimeError("get_tensor_c belongs into the body of with matmul.iterate()")
        problem = self._iterated
        i, j = self._order[self._tile]
        self._ask([(problem, target, [(i, j)])], bool(raw(sync)) or local)
        if not isinstance(tensor, LocalTensor):
            return
        rows, columns = problem.extent(i, j)
        size = tensor.dtype.sizeof()
        if dense or len(self._order) == 1:
            count = up(rows, ROWS) * up(columns, ROWS) if target.nz else rows * columns
            self._move(tensor, self._scratch(2), up(count * size, BLOCK), False)
        elif target.nz or columns * size % BLOCK or problem.n * size % BLOCK:
            _missing(
                "get_tensor_c into its place in a local tensor, of NZ or of rows that are no multiples of 32 bytes"
            )
        else:
            at = (i * problem.base_m * problem.n + j * problem.base_n) * size
            gap = (problem.n - columns) * size
            self._move(tensor, self._scratch(2), columns * size, False, at, rows, gap)
        self._barrier()

    def get_offset_c(self) -> MatrixOffset:
        """Not emulated."""
        _missing("get_offset_c")

    def iterate_batch(
        self,
        tensor: BaseTensor,
        batch_a: Any = None,
        batch_b: Any = None,
        en_sequential_write: Any = False,
        matrix_stride_a: Any = 0,
        matrix_stride_b: Any = 0,
        matrix_stride_c: Any = 0,
        en_partial_sum: Any = False,
        en_atomic: Any = 0,
        sync: Any = True,
        wait_iterate_batch: Any = None,
    ) -> None:
        """Several matmuls at once: their matrices lie one after another (or so many elements apart). Where one side has
        fewer, each of its matrices serves several of the other."""
        self._ready("iterate_batch")
        if isinstance(tensor, LocalTensor):
            _missing("iterate_batch to a local tensor")
        if bool(raw(en_sequential_write)):
            raise ValueError("iterate_batch to global memory needs en_sequential_write=False")
        if bool(raw(en_partial_sum)):
            _missing("iterate_batch with en_partial_sum")
        if wait_iterate_batch is not None and bool(raw(wait_iterate_batch)) and bool(raw(sync)):
            raise ValueError("iterate_batch: wait_iterate_batch needs sync=False")
        target = self._target(tensor, self._single[1], en_atomic, False)
        if self._state.launch.probing:
            return
        counts = [
            own if given is None else int(raw(given))
            for own, given in zip(self._batches, (batch_a, batch_b), strict=True)
        ]
        most = max(counts)
        if min(counts) < 1 or most % min(counts):
            raise ValueError(f"iterate_batch: {counts[0]} and {counts[1]} matrices do not go into each other")
        if any(isinstance(each[0], LocalTensor) for each in (self._left, self._right) if each):
            _missing("iterate_batch with local tensors")
        problem = self._problem()
        m, n, ka, kb, _ = self._org
        sizes = [self._a.dtype.sizeof(), self._b.dtype.sizeof(), self._c.dtype.sizeof()]
        given = [int(raw(each)) for each in (matrix_stride_a, matrix_stride_b, matrix_stride_c)]
        steps = [(g or whole) * s for g, whole, s in zip(given, (m * ka, kb * n, m * n), sizes, strict=True)]
        jobs: list[Job] = []
        for number in range(most):
            a = _moved(problem.a, number * counts[0] // most * steps[0])
            b = _moved(problem.b, number * counts[1] // most * steps[1])
            bias = problem.bias
            if bias is not None and bool(raw(self._config.is_bias_batch)):
                bias = _moved(bias, number * n * 4)
            out = target._replace(offset=target.offset + number * steps[2])
            jobs.append((problem._replace(a=a, b=b, bias=bias), out, problem.tiles()))
        self._ask(jobs, bool(raw(sync)))

    def wait_iterate_batch(self) -> None:
        """The batches asked for with sync=False are there."""
        self.wait_iterate_all()

    def iterate_n_batch(self, *args: Any, **kwargs: Any) -> None:
        """Not emulated."""
        _missing("iterate_n_batch")

    def get_batch_tensor_c(self, *args: Any, **kwargs: Any) -> None:
        """Not emulated."""
        _missing("get_batch_tensor_c")

    def wait_get_tensor_c(self) -> None:
        """The tiles asked for with sync=False are there."""
        self.wait_iterate_all()

    def async_get_tensor_c(self, c: LocalTensor) -> None:
        """Not emulated."""
        _missing("async_get_tensor_c")

    def set_sparse_index(self, index_global: GlobalTensor) -> None:
        """Not emulated."""
        _missing("set_sparse_index")

    def set_self_define_data(self, data_ptr: Any) -> None:
        """Not emulated."""
        _missing("set_self_define_data")

    def set_user_def_info(self, tiling_ptr: GlobalAddress) -> None:
        """Not emulated."""
        _missing("set_user_def_info")


_POSITIONS = ("GM", "VECIN", "VECCALC", "VECOUT")


def _moved(matrix: Matrix, step: int) -> Matrix:
    return matrix._replace(offset=matrix.offset + step)


def _missing(form: str) -> NoReturn:
    raise NotImplementedError(f"asc.adv.Matmul: {form} is not emulated yet (docs/asc-coverage.md says what is)")


def register_matmul(pipe: TPipe, workspace: GlobalAddress, matmul: Matmul, tiling: TCubeTiling | None = None) -> None:
    """Connect a Matmul object with the cube; without a tiling call ``matmul.init(tiling)`` afterwards."""
    state = GlobalBuilder.get("register_matmul")
    if not isinstance(pipe, TPipe) or not isinstance(matmul, Matmul) or not isinstance(workspace, GlobalAddress):
        kinds = ", ".join(type(each).__name__ for each in (pipe, workspace, matmul))
        raise TypeError(f"register_matmul takes a TPipe, a GlobalAddress and a Matmul, got {kinds}")
    state.matmul = True
    launch = state.launch
    if not launch.probing:
        if not launch.soc.split:
            launch.stop("kernel.not_on_chip", name="asc.adv.Matmul", soc=launch.soc.name)
        if launch.cores == VECTOR_CORE and len(launch.units) == launch.blocks:
            launch.stop("kernel.matmul_cores")
        if launch.cores == CUBE_CORE:
            matmul._start = pipe._next.get(Space.L1, 0)
    matmul._registered = True
    if tiling is not None:
        start = matmul._start
        matmul.init(tiling)
        matmul._start = start


def serve(state: BlockState) -> None:
    """The cube core of a group: does what its vector cores ask for, until all of them are over."""
    launch = state.launch
    me = launch.unit
    left = sum(each.group == me.group and each.kind == VECTOR_CORE for each in launch.units)
    while left:
        cross(state, "message_wait", int(Pipe.S), ())
        sender, line, jobs = launch.letters[me.number].popleft()
        if jobs is None:
            left -= 1
            continue
        cube = Cube(launch, line)
        for job in jobs:
            cube.run(*job)
        cross(state, "message_send", int(Pipe.S), (sender, int(Pipe.FIXP)))


def dismiss(state: BlockState) -> None:
    """A vector core is over: its cube core need not wait for it."""
    launch = state.launch
    if launch.cores != VECTOR_CORE:
        return
    server = next(each for each in launch.units if each.group == launch.unit.group and each.kind == CUBE_CORE)
    launch.letters.setdefault(server.number, deque()).append((launch.unit.number, (0, 0), None))
    cross(state, "message_send", int(Pipe.S), (server.number, ALL_PIPES))


def served(cores: str) -> bool:
    """Does a kernel with a Matmul object on such cores need a serving cube core?"""
    return cores in MIXED


__getattr__ = names_of(__name__)
