"""``cannlab compare``: an om against the model that it was compiled from."""

from __future__ import annotations

from pathlib import Path


def run(model: Path, om: Path, inputs: Path | None, *, seed: int, tolerance: float, as_json: bool) -> int:
    """Compare and print; returns 1 if a layer is off."""
    from cannlab.atc.comparison import compare, read_inputs

    arrays = None if inputs is None else read_inputs(inputs)
    found = compare(model, om, arrays, seed=seed, tolerance=tolerance)
    print(found.to_json() if as_json else found.text())
    return int(found.first_bad is not None)
