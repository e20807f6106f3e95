"""Files in and out of run_pipeline. Source: pyacl-and-atc 2.3.

Assumed: the name of an output file, the input file's without its ending, "_" and the output's name without slashes.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.aclruntime.descriptions import infer_options
from cannlab.trace.whole_file import write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ENDINGS = {"BIN": ".bin", "NPY": ".npy", "TXT": ".txt"}
_RANDOM = "pure_infer_data_random"
_SEED = 0


def options_of(given: Any, rest: tuple[Any, ...]) -> infer_options:
    """The options, given as an object or one by one as older clients do it. RuntimeError for an unknown format."""
    if isinstance(given, infer_options):
        made = given
    else:
        made = infer_options()
        names = ("output_dir", "auto_dym_shape", "auto_dym_dims", "out_format", "pure_infer_mode")
        for name, value in zip(names, (given, *rest), strict=False):
            setattr(made, name, value)
    if made.out_format and made.out_format not in _ENDINGS:
        raise RuntimeError(f"the format of the outputs is BIN, NPY or TXT, not {made.out_format}")
    return made


def read(file: str) -> NDArray[Any]:
    """The array of a .npy file, the bytes of any other. RuntimeError if it cannot be read."""
    import numpy as np

    try:
        if file.lower().endswith(".npy"):
            return np.ascontiguousarray(np.load(file))
        return np.fromfile(file, np.uint8)
    except (OSError, ValueError) as problem:
        raise RuntimeError(f"{file} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None


def made_up(name: str, size: int) -> NDArray[Any]:
    """So many bytes: zeros, or random ones (always the same) if the name says so."""
    import numpy as np

    if name == _RANDOM:
        return np.random.default_rng(_SEED).integers(0, 255, size, dtype=np.uint8)
    return np.zeros(size, np.uint8)


def write(options: infer_options, file: str, name: str, array: NDArray[Any]) -> None:
    """Write one output. RuntimeError if that fails."""
    import numpy as np

    stem = Path(file).name
    for ending in (".npy", ".bin", ".NPY", ".BIN"):
        stem = stem.removesuffix(ending)
    kind = options.out_format or "BIN"
    buffer = io.BytesIO()
    if kind == "NPY":
        np.save(buffer, array)
    elif kind == "TXT":
        np.savetxt(buffer, array.reshape(-1, array.shape[-1] if array.ndim else 1))
    else:
        buffer.write(array.tobytes())
    target = Path(options.output_dir) / f"{stem}_{name.replace('/', '')}{_ENDINGS[kind]}"
    try:
        write_whole(target, buffer.getvalue())
    except OSError as problem:
        raise RuntimeError(f"{target} cannot be written: {problem.strerror or problem}") from None
