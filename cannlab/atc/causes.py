"""Why an operator of an om may be off: what its numbers give away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.errors import Diagnosis, diagnose

HALF_MAX, HALF_NORMAL, HALF_BITS = 65504.0, 2.0**-14, 11
EXPLAINED = 0.2
"""A cause must explain the error up to this part of it."""


@dataclass(frozen=True)
class Facts:
    """What is known of a layer that is off.

    Attributes:
        operator, node, op_type: the om's operator, the last ONNX node in it, its GE type.
        got: what it gives where it reads the reference's values (or in the whole run, if that cannot be had).
        wanted: the reference. inputs: the reference's values of what it reads.
        lost: (value, stored value) of a constant that float16 does not hold.
        stored: the largest of the reference's values that the operator stores as float16, its results or on the way.
    """

    operator: str
    node: str
    op_type: str
    got: NDArray[Any]
    wanted: NDArray[Any]
    inputs: Sequence[NDArray[Any]]
    lost: tuple[float, float] | None
    stored: float = 0.0


def inherited(facts: Facts) -> Diagnosis:
    """The operator itself is right."""
    return diagnose("atc.layer_inherited", operator=facts.operator, node=facts.node)


def find(facts: Facts, tolerance: float) -> Diagnosis:
    """The cause that fits: overflow, a lost constant, an affine change, underflow, cancellation, another."""
    names: dict[str, Any] = {"operator": facts.operator, "node": facts.node}
    got, wanted = facts.got.astype(np.float64), facts.wanted.astype(np.float64)
    if facts.stored > HALF_MAX or not np.isfinite(got[np.isfinite(wanted)]).all():
        if facts.lost is not None and facts.lost[1] == 0:
            return diagnose("atc.layer_lost_constant", value=facts.lost[0], stored=facts.lost[1], **names)
        largest = max(facts.stored, float(np.abs(wanted).max()))
        return diagnose("atc.layer_overflow", largest=f"{largest:.4g}", **names)
    error = float(np.linalg.norm(got - wanted))
    if facts.lost is not None:
        return diagnose("atc.layer_lost_constant", value=facts.lost[0], stored=facts.lost[1], **names)
    whole = _affine(got.reshape(-1), wanted.reshape(-1))
    if whole is not None and whole[2] < EXPLAINED * error:
        return diagnose("atc.layer_scaled", factor=f"{whole[0]:.3g}", offset=float(f"{whole[1]:.2g}"), **names)
    if got.ndim >= 3 and got.shape[1] > 1:
        fits = [_affine(got[:, c].reshape(-1), wanted[:, c].reshape(-1)) for c in range(got.shape[1])]
        known = [fit for fit in fits if fit is not None]
        if len(known) == len(fits) and float(np.linalg.norm([fit[2] for fit in known])) < EXPLAINED * error:
            channel = int(np.argmax([abs(fit[0] - 1) + abs(fit[1]) for fit in known]))
            factor, offset = f"{known[channel][0]:.3g}", float(f"{known[channel][1]:.2g}")
            return diagnose("atc.layer_scaled_channels", channel=channel, factor=factor, offset=offset, **names)
    small = (np.abs(wanted) < HALF_NORMAL) & (wanted != 0)
    if small.mean() > 0.5:
        return diagnose("atc.layer_underflow", share=float(small.mean()), **names)
    largest = max(
        (float(np.abs(value).max(initial=0.0)) for value in facts.inputs if value.dtype.kind == "f"), default=0.0
    )
    size = float(np.sqrt(np.mean(wanted**2)))
    step = largest * 2.0**-HALF_BITS
    if step > tolerance * size:
        return diagnose("atc.layer_cancellation", largest=largest, size=size, step=step, **names)
    return diagnose("atc.layer_other", error=error / max(float(np.linalg.norm(wanted)), 1e-30), **names)


def _affine(got: NDArray[np.float64], wanted: NDArray[np.float64]) -> tuple[float, float, float] | None:
    """(factor, offset, length of what is left) of the best ``got = factor * wanted + offset``; None for constants."""
    if wanted.size < 3 or np.ptp(wanted) == 0:
        return None
    factor, offset = np.polyfit(wanted, got, 1)
    return float(factor), float(offset), float(np.linalg.norm(got - factor * wanted - offset))
