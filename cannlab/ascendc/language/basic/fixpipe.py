"""fixpipe: results out of L0C. Source: pyasc 5, 6, 7.9."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.builder import BlockState
from cannlab.ascendc.language.core.enums import CO2Layout, QuantModes
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.language.core.tensor import GlobalTensor
from cannlab.ascendc.language.core.types import DataCopyCO12DstParams, FixpipeConfig, FixpipeParamsV220
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.cube import VECTOR_MODES
from cannlab.machine.core.layout import WORD, signed
from cannlab.machine.core.pipes import Pipe

_TWO = (("dst", d.of(GlobalTensor)), ("src", d.is_tensor))
_REST = (("params", d.of(FixpipeParamsV220)), ("config", d.of(FixpipeConfig)))
_ROWS = FixpipeConfig.cfg_row_major()
_FORMS = (d.Form(*_TWO, *_REST, config=_ROWS), d.Form(*_TWO, ("cbuf_workspace", d.is_tensor), *_REST, config=_ROWS))
_SHIFT = 1 << 36


def fixpipe(*args: Any, **kwargs: Any) -> None:
    """fixpipe(dst, src[, cbuf_workspace], params[, config]): L0C to global memory, converted, with ReLU, as rows or NZ.

    ``cbuf_workspace`` (L1, uint64) holds one word per column for the vector modes.
    """
    state = d.state("fixpipe")
    _, values = d.dispatch("fixpipe", _FORMS, args, kwargs)
    p, config = values["params"], values["config"]
    sizes = d.numbers(p.n_size, p.m_size, p.src_stride, p.dst_stride)
    matrices = d.numbers(p.nd_num, p.src_nd_stride, p.dst_nd_stride)
    relu, split = int(bool(raw(p.relu_en))), int(bool(raw(p.is_channel_split)))
    words = values.get("cbuf_workspace")
    rows = config.layout == CO2Layout.ROW_MAJOR
    issue(
        state,
        values["dst"],
        values["src"],
        words,
        sizes,
        p.quant_pre,
        int(raw(p.deq_scalar)),
        matrices,
        relu,
        rows,
        split,
    )


def copy_out(state: BlockState, dst: Any, src: Any, p: DataCopyCO12DstParams) -> None:
    """data_copy with DataCopyCO12DstParams: the scalar word comes from set_fix_pipe_pre_quant_flag."""
    sizes = d.numbers(p.n_size, p.m_size, p.src_stride, p.dst_stride)
    relu, split, rows = int(bool(raw(p.relu_pre))), int(bool(raw(p.channel_split))), bool(raw(p.nz2nd_en))
    issue(state, dst, src, None, sizes, p.quant_pre, state.pre_quant, (1, 0, 0), relu, rows, split)


def issue(
    state: BlockState,
    dst: Any,
    src: Any,
    words: Any,
    sizes: tuple[int, ...],
    mode: QuantModes,
    word: int,
    matrices: tuple[int, ...],
    relu: int,
    rows: bool,
    split: int,
) -> None:
    """Issue a fixpipe."""
    word &= WORD
    if word & _SHIFT:
        raise NotImplementedError("asc.fixpipe with the shift of the quantisation word is not emulated: clear bit 36")
    if (mode in VECTOR_MODES) != (words is not None):
        needs = "needs" if mode in VECTOR_MODES else "takes no"
        raise ValueError(f"fixpipe with {QuantModes(mode).name} {needs} cbuf_workspace (one uint64 word per column)")
    if 0 in sizes[:2] or matrices[0] == 0:
        return
    imm = (*sizes, int(mode), signed(word), *matrices, relu, int(rows), split, state.atomic)
    tensors = (dst, src) if words is None else (dst, src, words)
    name = "fixpipe" if words is None else "fixpipe_vector"
    d.emit_wide(state, d.row(name), tensors, imm, "fixpipe", int(Pipe.FIXP))


def set_fix_pipe_pre_quant_flag(config: Any) -> None:
    """The quantisation word for data_copy out of L0C: bits 0 to 31 the scale, 37 to 45 the offset, 46 signed."""
    d.state("set_fix_pipe_pre_quant_flag").pre_quant = int(raw(config))


__getattr__ = names_of(__name__)
