"""``cannlab graph``: what is in an om, and what became of the model's nodes."""

from __future__ import annotations

from pathlib import Path


def run(om: Path, before: Path | None, picture: Path | None, *, as_json: bool) -> int:
    """Print the graph, and write the picture if it is asked for."""
    from cannlab.atc.graph_view import view
    from cannlab.errors import CannlabError, diagnose

    found = view(om, before)
    print(found.to_json() if as_json else found.text())
    if picture is not None:
        try:
            found.picture().save(picture)
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise CannlabError(diagnose("atc.not_written", path=str(picture), reason=reason)) from problem
    return 0
