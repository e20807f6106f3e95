"""Numbers that leave the range of their type: what the overflow status of a device tells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cannlab.soc import Soc

HALF_MAX = 65504.0


def left_range(arrays: Iterable[NDArray[Any]], soc: Soc) -> bool:
    """True if one of them holds an infinity or NaN, or, where the chip saturates, the largest fp16 number."""
    import numpy as np

    for array in arrays:
        if array.dtype.kind in "iub":
            continue
        values = np.abs(array.astype(np.float32))
        if soc.saturates and array.dtype.itemsize == 2 and bool((values >= HALF_MAX).any()):
            return True
        if not np.isfinite(values).all():
            return True
    return False
