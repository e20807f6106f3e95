"""Staged hints: one more with every request, and which were seen is kept with the progress."""

from __future__ import annotations

from dataclasses import dataclass

from cannlab.course import bundle, layout
from cannlab.course.progress import Progress


@dataclass(frozen=True, slots=True)
class Hint:
    """One hint: the ``number``-th of ``of`` (counted from 1), in Markdown."""

    exercise: str
    number: int
    of: int
    markdown: str

    @property
    def title(self) -> str:
        """Its heading."""
        return f"Hint {self.number} of {self.of} for {self.exercise}"

    @property
    def more(self) -> str:
        """What comes after it."""
        if self.number < self.of:
            return "Ask again for the next one."
        return "That was the last one; asking again starts from the first."

    def text(self) -> str:
        """The hint for a shell."""
        return f"{self.title}\n\n{self.markdown}\n\n{self.more}"

    __str__ = text
    __repr__ = text

    def _repr_html_(self) -> str:
        """The hint for a notebook."""
        from html import escape

        from cannlab.course.result_html import markdown

        return f"<div><b>{escape(self.title)}</b>{markdown(self.markdown)}<div>{escape(self.more)}</div></div>"


def next_hint(exercise: str, progress: Progress | None = None) -> Hint:
    """The next hint, which counts as seen. After the last one it begins again. CannlabError for an unknown exercise."""
    _, _, part = bundle.load_part(layout.find(), exercise)
    with (progress or Progress.here()).change() as state:
        entry = state.entry(exercise)
        index = entry.hints % len(part.hints)
        entry.hints += 1
    return Hint(exercise, index + 1, len(part.hints), part.hints[index])
