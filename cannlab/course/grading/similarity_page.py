"""similarity.html: the pairs of learners whose answers are alike, and what that does not mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from cannlab.course.grading import similarity
from cannlab.course.grading.page import page, row
from cannlab.course.grading.similarity import Pair
from cannlab.trace.whole_file import write_whole


def write(
    path: Path,
    pairs: Sequence[Pair],
    left: int,
    common: int,
    as_solution: Mapping[str, Sequence[str]],
    ids: Sequence[Sequence[str]],
) -> None:
    """Write the page.

    Args:
        path: the file.
        pairs: what is alike, the most alike first.
        left: how many pairs are not listed.
        common: passages of more learners than this were left out.
        as_solution: for each exercise, who wrote the same as the course's own solution.
        ids: groups of learners whose workbooks carry the same learner's id.
    """
    parts = [
        "<h1>Similarity</h1>",
        '<p class="note"><b>This is a hint, not a verdict.</b> Short answers, and answers that follow the lesson '
        "closely, come out alike without anybody copying. Look at both answers and talk to both learners.</p>",
        f"<p>Compared are runs of {similarity.GRAM} tokens with names, numbers and texts made the same (winnowing). "
        f"What the course gives does not count, nor do runs that more than {common} learners have. Listed are pairs "
        f"with a share of at least {similarity.THRESHOLD:.0%} and at least {similarity.LEAST} common runs.</p>",
        "<h2>Pairs of learners</h2>",
        _together(pairs) if pairs else "<p>None.</p>",
    ]
    if left:
        parts.append(f"<p>{left} more pairs, less alike, are not listed.</p>")
    if ids:
        rows = [row(", ".join(group)) for group in ids]
        text = "<p>Their workbooks carry the same learner's id: one of them began from a copy of the other's.</p>"
        parts.append(f"<h2>The same workbook</h2>{text}<table>{''.join(rows)}</table>")
    if as_solution:
        rows = [row("exercise", "learners", head=True)]
        rows += [row(exercise, ", ".join(names)) for exercise, names in as_solution.items()]
        text = "<p>The same passages as the solved workbook, which is public. Often there is only one good way.</p>"
        parts.append(f"<h2>As the course's own solution</h2>{text}<table>{''.join(rows)}</table>")
    write_whole(path, page("Similarity", "\n".join(parts)))


def _together(pairs: Sequence[Pair]) -> str:
    """One row for two learners, with the exercises in which they are alike."""
    groups: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.one, pair.other].append(pair)
    ranked = sorted(groups.items(), key=lambda group: (-len(group[1]), -max(p.share for p in group[1]), group[0]))
    rows = [row("learner", "other", "exercises", "which", head=True)]
    for (one, other), found in ranked:
        which = ", ".join(f"{pair.exercise} ({pair.share:.0%})" for pair in sorted(found, key=lambda p: p.exercise))
        rows.append(row(one, other, len(found), which))
    return f"<table>{''.join(rows)}</table><p>Shares and passages: {escape('similarity.csv')}</p>"
