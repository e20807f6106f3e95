"""MatmulApiTiling, MultiCoreMatmulTiling, BatchMatmulTiling: how a matmul is cut, computed on the host.

Source: pyasc 3. The toolkit searches; the rule here has its documented aim, and meets the documented limits:

1. Over cores: of all grids of at most ``dim`` parts the one whose part takes least: its products (about 205 for each
   k in the time that one more row or column takes to load) and what it loads (m + n). Parts are multiples of 16 (or of
   set_align_split) where the matrix is larger than one.
2. The base tile: of those that L0C (128 KB), L0A and L0B (64 KB each, twice where they can) hold, with a base_k of at
   least 128 bytes, the one that loads least for each product; rows and columns that only fill a tile up count as work,
   and a divisor of the part is preferred.
3. L1: what is left after bias and quantisation words is shared by A and B: two tiles each, as many base_k long as
   there is room for.

Simplified: step_m and step_n are 1, the parts are computed without a model of the L2 cache; set_single_range,
set_double_buffer and the lower bounds of set_split_range are taken without effect.
"""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.adv.tiling import TCubeTiling
from cannlab.ascendc.lib.host.enums import (
    CubeFormat,
    DataType,
    DequantType,
    MatrixMadType,
    MatrixTraverse,
    ScheduleType,
    TPosition,
)
from cannlab.ascendc.lib.host.platform import PlatformAscendC
from cannlab.machine.core.fractals import ROWS, up

_SIZES = {
    DataType.DT_FLOAT: 4,
    DataType.DT_FLOAT16: 2,
    DataType.DT_INT8: 1,
    DataType.DT_INT32: 4,
    DataType.DT_BF16: 2,
    DataType.DT_UINT64: 8,
    DataType.DT_INT64: 8,
    DataType.DT_UINT8: 1,
}
_OPERANDS = (DataType.DT_FLOAT, DataType.DT_FLOAT16, DataType.DT_INT8, DataType.DT_BF16)
_OK, _FAILED = 0, -1
_BASE_MOST = 256
"""Elements of a base tile's side: beyond them L0A or L0B leave no useful base_k."""


_PRODUCTS = 205
"""Products for each k while one element is loaded: 4,096 a cycle, at 40 bytes a cycle of half. Source: ascend-c 2.6."""


class MatmulConfigParams:
    """Options for set_matmul_config_params."""

    def __init__(
        self,
        mm_config_type: int = 1,
        enable_l1_cache_ub: bool = False,
        schedule_type: ScheduleType = ScheduleType.INNER_PRODUCT,
        traverse: MatrixTraverse = MatrixTraverse.NOSET,
        en_vec_nd2nz: bool = False,
    ) -> None:
        self.mm_config_type = mm_config_type
        self.enable_l1_cache_ub = enable_l1_cache_ub
        self.schedule_type = schedule_type
        self.traverse = traverse
        self.en_vec_nd2nz = en_vec_nd2nz


class _Type:
    """Where an operand lies, its format and type."""

    def __init__(self, pos: Any, format_: Any, data_type: Any, is_trans: Any = False) -> None:
        self.position, self.format, self.type = TPosition(pos), CubeFormat(format_), DataType(data_type)
        self.trans = bool(is_trans)

    @property
    def size(self) -> int:
        return _SIZES[self.type]


class MatmulApiTilingBase:
    """What all tilings share. Setters give 0, or -1 for values that are not taken.

    Args:
        platform: what get_ascendc_platform() gave.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) != 1 or kwargs or not isinstance(args[0], PlatformAscendC):
            raise TypeError(f"{type(self).__name__} takes the platform: {type(self).__name__}(get_ascendc_platform())")
        soc = args[0].soc_
        self._l1, self._l0a, self._l0b, self._l0c = soc.l1_bytes, soc.l0a_bytes, soc.l0b_bytes, soc.l0c_bytes
        self._ub, self._bt = soc.ub_bytes, soc.bt_bytes
        self._whole = (self._l1, self._l0c, self._ub, self._bt)
        self._l1 = min(self._l1, soc.l1_usable_bytes)
        half = DataType.DT_FLOAT16
        self._a = _Type(TPosition.GM, CubeFormat.ND, half)
        self._b = _Type(TPosition.GM, CubeFormat.ND, half)
        self._c = _Type(TPosition.GM, CubeFormat.ND, DataType.DT_FLOAT)
        self._bias_type = _Type(TPosition.GM, CubeFormat.ND, DataType.DT_FLOAT)
        self._has_bias = False
        self._org: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._shape = (-1, -1, -1)
        self._fix = (-1, -1, -1)
        self._range = (-1, -1, -1, -1, -1, -1)
        self._traverse = MatrixTraverse.NOSET
        self._layouts: dict[str, tuple[int, ...]] = {"a": (0,) * 5, "b": (0,) * 5, "c": (0,) * 5}
        self._batch = 0
        self._batch_info: tuple[int, ...] = ()
        self._base = (0, 0, 0)
        self._dim = 1
        self._single_given = (-1, -1, -1)
        self._align = (-1, -1, -1)
        self._split_k = False

    # -- setters --------------------------------------------------------------------------------------

    def set_a_type(self, pos: TPosition, type: CubeFormat, data_type: DataType, is_trans: bool = False) -> int:
        """The left matrix: where, format, element type, transposed."""
        return self._set_operand("_a", pos, type, data_type, is_trans)

    def set_b_type(self, pos: TPosition, type: CubeFormat, data_type: DataType, is_trans: bool = False) -> int:
        """The right matrix: where, format, element type, transposed."""
        return self._set_operand("_b", pos, type, data_type, is_trans)

    def _set_operand(self, which: str, pos: Any, format_: Any, data_type: Any, is_trans: Any) -> int:
        if data_type not in _OPERANDS:
            return _FAILED
        setattr(self, which, _Type(pos, format_, data_type, is_trans))
        return _OK

    def set_c_type(self, pos: TPosition, type: CubeFormat, data_type: DataType) -> int:
        """The result: where, format, element type."""
        if data_type not in _SIZES:
            return _FAILED
        self._c = _Type(pos, type, data_type)
        return _OK

    def set_bias_type(self, pos: TPosition, type: CubeFormat, data_type: DataType) -> int:
        """The bias: where, format, element type."""
        if data_type not in _SIZES:
            return _FAILED
        self._bias_type = _Type(pos, type, data_type)
        return _OK

    def enable_bias(self, is_bias_in: bool = False) -> int:
        """Is there a bias?"""
        self._has_bias = bool(is_bias_in)
        return _OK

    def set_shape(self, m: int, n: int, k: int) -> int:
        """What is computed, of the whole matrices; -1 is all."""
        if any(each == 0 or each < -1 for each in (m, n, k)):
            return _FAILED
        self._shape = (m, n, k)
        return _OK

    def set_org_shape(self, org_m_in: int, org_n_in: int, org_k_in: int, org_kb_in: int | None = None) -> int:
        """The extents of the whole matrices; with four numbers k of A and of B."""
        kb = org_k_in if org_kb_in is None else org_kb_in
        if min(org_m_in, org_n_in, org_k_in, kb) <= 0:
            return _FAILED
        self._org = (org_m_in, org_n_in, org_k_in, kb)
        return _OK

    def set_buffer_space(self, l1_size: int = -1, l0_c_size: int = -1, ub_size: int = -1, bt_size: int = -1) -> int:
        """Bytes of the buffers that may be used; -1 is all of one."""
        given = (l1_size, l0_c_size, ub_size, bt_size)
        if any(each < -1 or each > whole for each, whole in zip(given, self._whole, strict=True)):
            return _FAILED
        self._l1, self._l0c, self._ub, self._bt = (
            now if each == -1 else each
            for each, now in zip(given, (self._l1, self._l0c, self._ub, self._bt), strict=True)
        )
        return _OK

    def set_fix_split(self, base_m_in: int = -1, base_n_in: int = -1, base_k_in: int = -1) -> int:
        """The base tile's extents; -1 leaves one to the tiling."""
        if any(each == 0 or each < -1 for each in (base_m_in, base_n_in, base_k_in)):
            return _FAILED
        self._fix = (base_m_in, base_n_in, base_k_in)
        return _OK

    def set_split_range(
        self,
        max_base_m: int = -1,
        max_base_n: int = -1,
        max_base_k: int = -1,
        min_base_m: int = -1,
        min_base_n: int = -1,
        min_base_k: int = -1,
    ) -> int:
        """Upper bounds of the base tile are kept; lower ones are taken without effect."""
        self._range = (max_base_m, max_base_n, max_base_k, min_base_m, min_base_n, min_base_k)
        return _OK

    def set_traverse(self, traverse: MatrixTraverse) -> int:
        """Base tiles along m or along n first."""
        self._traverse = MatrixTraverse(traverse)
        return _OK

    def set_mad_type(self, mad_type: MatrixMadType) -> int:
        """How float32 is multiplied; the tiling does not depend on it."""
        MatrixMadType(mad_type)
        return _OK

    def set_dequant_type(self, dequant_type: DequantType) -> int:
        """Quantisation by one word or one for each column; the latter takes room in L1."""
        DequantType(dequant_type)
        return _OK

    def set_double_buffer(
        self, a: bool, b: bool, c: bool, bias: bool, trans_nd2nz: bool = True, trans_nz2nd: bool = True
    ) -> int:
        """Reserved: without effect."""
        return _OK

    def set_a_layout(self, b: int, s: int, n: int, g: int, d: int) -> int:
        """The left matrices' layout in a batch."""
        return self._layout("a", b, s, n, g, d)

    def set_b_layout(self, b: int, s: int, n: int, g: int, d: int) -> int:
        """The right matrices' layout in a batch."""
        return self._layout("b", b, s, n, g, d)

    def set_c_layout(self, b: int, s: int, n: int, g: int, d: int) -> int:
        """The results' layout in a batch."""
        return self._layout("c", b, s, n, g, d)

    def _layout(self, which: str, *sizes: int) -> int:
        self._layouts[which] = sizes
        return _OK

    def set_batch_num(self, batch: int) -> int:
        """Matrices of a batch."""
        if batch <= 0:
            return _FAILED
        self._batch = batch
        return _OK

    def set_batch_info_for_normal(self, batch_a: int, batch_b: int, m: int, n: int, k: int) -> int:
        """Batches of matrices that lie one after another."""
        if min(batch_a, batch_b, m, n, k) <= 0:
            return _FAILED
        self._batch_info = (batch_a, batch_b, m, n, k)
        return _OK

    def set_matmul_config_params(self, *args: Any, **kwargs: Any) -> None:
        """Hints for the template; of them traverse counts."""
        if args and isinstance(args[0], MatmulConfigParams):
            params = args[0]
        else:
            names = {name.removesuffix("_in"): value for name, value in kwargs.items()}
            params = MatmulConfigParams(*args, **names)
        if params.traverse != MatrixTraverse.NOSET:
            self._traverse = MatrixTraverse(params.traverse)

    def set_sparse(self, is_sparse_in: bool = False) -> int:
        """Is B 2:4 sparse? Not taken: the emulated Matmul object has no such form."""
        return _FAILED if is_sparse_in else _OK

    # -- getters --------------------------------------------------------------------------------------

    def get_base_m(self) -> int:
        """base_m of the last get_tiling, or the fixed one."""
        return self._got(0)

    def get_base_n(self) -> int:
        """base_n of the last get_tiling, or the fixed one."""
        return self._got(1)

    def get_base_k(self) -> int:
        """base_k of the last get_tiling, or the fixed one."""
        return self._got(2)

    def _got(self, which: int) -> int:
        return self._base[which] or max(self._fix[which], 0)

    # -- the rule -------------------------------------------------------------------------------------

    def get_tiling(self, tiling: TCubeTiling) -> int:
        """Fill the struct; 0, or -1 where there is no such cut (the struct is left as it was then)."""
        if not isinstance(tiling, TCubeTiling):
            raise TypeError(f"get_tiling fills a TCubeTiling, got {type(tiling).__name__}")
        org = self._org
        if self._batch_info and org[0] <= 0:
            m, n, k = self._batch_info[2:]
            org = (m, n, k, k)
        shape = [own if own > 0 else whole for own, whole in zip(self._shape, org[:3], strict=True)]
        if org[0] <= 0:
            k = shape[2]
            org = (shape[0], shape[1], k, k)
        if min(shape) <= 0 or self._a.type != self._b.type:
            return _FAILED
        parts = self._parts(shape[0], shape[1], shape[2])
        if parts is None:
            return _FAILED
        single, grid = parts
        base = self._base_tile(single)
        if base is None:
            return _FAILED
        l1 = self._l1_tiles(single, base)
        if l1 is None:
            return _FAILED
        self._base, self._single, self._grid = base, single, grid
        used = min(grid[0] * grid[1] * grid[2], self._dim)
        step_a, slots_a, step_b, slots_b = l1
        size = self._a.size
        values = {
            "used_core_num": used,
            "m": org[0],
            "n": org[1],
            "k_a": org[2],
            "k_b": org[3],
            "single_core_m": single[0],
            "single_core_n": single[1],
            "single_core_k": single[2],
            "base_m": base[0],
            "base_n": base[1],
            "base_k": base[2],
            "depth_a1": step_a * slots_a,
            "depth_b1": step_b * slots_b,
            "step_m": 1,
            "step_n": 1,
            "is_bias": int(self._has_bias),
            "iterate_order": int(self._traverse == MatrixTraverse.FIRSTN),
            "share_l1_size": (base[0] * step_a * slots_a + base[1] * step_b * slots_b) * base[2] * size,
            "share_l0c_size": base[0] * base[1] * 4,
            "step_k_a": step_a,
            "step_k_b": step_b,
            "db_l0a": 2 if self._twice(base[0], base[2], self._l0a) else 1,
            "db_l0b": 2 if self._twice(base[1], base[2], self._l0b) else 1,
            "db_l0c": 2 if base[0] * base[1] * 4 * 2 <= self._l0c else 1,
            "batch_num": self._batch,
        }
        if self._batch_info:
            values |= {"batch_m": self._batch_info[0], "batch_n": self._batch_info[1]}
            values |= {"single_batch_m": self._batch_info[0], "single_batch_n": self._batch_info[1]}
        for which, names in (("a", "bsngd"), ("b", "bsngd")):
            for name, value in zip(names, self._layouts[which], strict=True):
                values[f"{which}_layout_info_{name}"] = value
        for name, value in zip(("b", "s1", "n", "g", "s2"), self._layouts["c"], strict=True):
            values[f"c_layout_info_{name}"] = value
        for name, value in values.items():
            setattr(tiling, name, value)
        return _OK

    def _parts(self, m: int, n: int, k: int) -> tuple[tuple[int, int, int], tuple[int, int, int]] | None:
        """The extents of a core's part, and the grid of parts."""
        given = self._single_given
        align = [each if each > 0 else least for each, least in zip(self._align, (ROWS, ROWS, 32), strict=True)]
        deeps = range(1, self._dim + 1) if self._split_k else (1,)
        best: tuple[tuple[int, ...], tuple[int, int, int], tuple[int, int, int]] | None = None
        for deep in deeps:
            sk = k
            if self._split_k:
                sk = min(given[2], k) if given[2] > 0 else min(up(-(-k // deep), align[2]), k)
            for rows in range(1, self._dim // deep + 1):
                for columns in range(1, self._dim // deep // rows + 1):
                    sm = min(given[0], m) if given[0] > 0 else min(up(-(-m // rows), align[0]), m)
                    sn = min(given[1], n) if given[1] > 0 else min(up(-(-n // columns), align[1]), n)
                    grid = (-(-m // sm), -(-n // sn), -(-k // sk))
                    parts = grid[0] * grid[1] * grid[2]
                    if parts > self._dim and max(given) <= 0:
                        continue
                    cost = (up(sm, ROWS) * up(sn, ROWS) + _PRODUCTS * (sm + sn)) * sk
                    key = (cost, parts, sm, sk)
                    if best is None or key < best[0]:
                        best = (key, (sm, sn, sk), grid)
        return None if best is None else best[1:]

    def _twice(self, base: int, long: int, have: int) -> bool:
        return self._tile(base, long) * 2 <= have

    def _edge(self) -> int:
        return 32 if self._a.size == 1 else ROWS

    def _tile(self, base: int, long: int) -> int:
        """Bytes of a tile of A or B."""
        return up(base, self._edge()) * up(long, self._edge()) * self._a.size

    def _sides(self, extent: int, fixed: int, most: int) -> list[int]:
        """Candidates for base_m or base_n, larger first."""
        if fixed > 0:
            return [up(fixed, ROWS)]
        top = min(up(extent, self._edge()), most if most > 0 else _BASE_MOST, _BASE_MOST)
        return list(range(top // ROWS * ROWS or ROWS, 0, -ROWS))

    def _base_tile(self, single: tuple[int, int, int]) -> tuple[int, int, int] | None:
        bias = self._has_bias
        best: tuple[tuple[float, ...], tuple[int, int, int]] | None = None
        for base_m in self._sides(single[0], self._fix[0], self._range[0]):
            for base_n in self._sides(single[1], self._fix[1], self._range[1]):
                if base_m * base_n * 4 > self._l0c or (bias and base_n * 4 > self._bt):
                    continue
                base_k = self._base_k(base_m, base_n, single[2])
                if not base_k:
                    continue
                # What is loaded for each product, with rows and columns that only fill a tile up.
                whole_m, whole_n = up(single[0], base_m), up(single[1], base_n)
                waste = whole_m * whole_n / (single[0] * single[1])
                even = single[0] % base_m == 0 and single[1] % base_n == 0
                load = (1 / base_m + 1 / base_n) * waste
                short = base_k < min(64 // self._a.size * 2, single[2])
                key = (short, load * (1.0 if even else 1.1), -base_k, -base_m)
                if best is None or key < best[0]:
                    best = (key, (base_m, base_n, base_k))
        return None if best is None else best[1]

    def _base_k(self, base_m: int, base_n: int, k: int) -> int:
        """The longest base_k that both L0 buffers hold (twice, if they can); 0 where none fits."""
        edge = self._edge()
        if self._fix[2] > 0:
            fits = self._tile(base_m, self._fix[2]) <= self._l0a and self._tile(base_n, self._fix[2]) <= self._l0b
            return self._fix[2] if fits else 0
        for times in (2, 1):
            rows = min(self._l0a // up(base_m, edge), self._l0b // up(base_n, edge))
            long = rows // (times * self._a.size) // edge * edge
            if self._range[2] > 0:
                long = min(long, self._range[2] // edge * edge)
            if long > 0:
                return min(long, up(k, edge))
        return 0

    def _l1_tiles(self, single: tuple[int, int, int], base: tuple[int, int, int]) -> tuple[int, int, int, int] | None:
        """(base_k steps of a tile of A in L1, tiles of A, and of B)."""
        room = self._l1 - (up(base[1] * 4, 32) if self._has_bias else 0) - up(base[1] * 8, 32)
        steps = -(-single[2] // base[2])
        for slots in (2, 1):
            step = steps
            while (
                step > 1 and slots * (self._tile(base[0], step * base[2]) + self._tile(base[1], step * base[2])) > room
            ):
                step = -(-step // 2)
            if slots * (self._tile(base[0], step * base[2]) + self._tile(base[1], step * base[2])) <= room:
                return step, slots, step, slots
        return None


class MatmulApiTiling(MatmulApiTilingBase):
    """The tiling of a matmul on one core."""


class MultiCoreMatmulTiling(MatmulApiTilingBase):
    """The tiling of a matmul on several cores."""

    def set_dim(self, dim: int) -> int:
        """At most so many parts: vector cores of a mixed kernel, cube cores of one for these alone."""
        if dim <= 0:
            return _FAILED
        self._dim = dim
        return _OK

    def set_single_shape(self, single_m_in: int = -1, single_n_in: int = -1, single_k_in: int = -1) -> int:
        """The extents of a core's part; -1 leaves one to the tiling."""
        if any(each == 0 or each < -1 for each in (single_m_in, single_n_in, single_k_in)):
            return _FAILED
        self._single_given = (single_m_in, single_n_in, single_k_in)
        return _OK

    def set_single_range(
        self, max_m: int = -1, max_n: int = -1, max_k: int = -1, min_m: int = -1, min_n: int = -1, min_k: int = -1
    ) -> int:
        """Taken without effect: the parts follow from the dim."""
        return _OK

    def set_align_split(self, align_m: int, align_n: int, align_k: int) -> int:
        """Parts are multiples of these; -1: of 16."""
        if any(each == 0 or each < -1 for each in (align_m, align_n, align_k)):
            return _FAILED
        self._align = (align_m, align_n, align_k)
        return _OK

    def enable_multi_core_split_k(self, flag: bool) -> None:
        """May k be split over cores too? The kernel adds the parts up (en_atomic=1)."""
        self._split_k = bool(flag)

    def get_single_shape(self) -> tuple[int, int, int]:
        """A core's part, of the last get_tiling."""
        return getattr(self, "_single", (0, 0, 0))

    def get_core_num(self) -> tuple[int, int, int]:
        """(parts, along m, along n), of the last get_tiling."""
        grid = getattr(self, "_grid", (0, 0, 0))
        return grid[0] * grid[1] * grid[2], grid[0], grid[1]


class BatchMatmulTiling(MatmulApiTilingBase):
    """The tiling of a batch of matmuls on one core."""

    def get_core_num(self) -> tuple[int, int, int]:
        """(parts, along m, along n), of the last get_tiling."""
        grid = getattr(self, "_grid", (0, 0, 0))
        return grid[0] * grid[1] * grid[2], grid[0], grid[1]
