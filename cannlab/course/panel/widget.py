"""The panel as a widget: shows the overview, gives hints, resets exercises, follows the progress file."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from cannlab.course import bundle, hints, layout
from cannlab.course.learner import Folder
from cannlab.course.panel.overview import hint_counts, overview
from cannlab.course.progress import Progress, folder_of
from cannlab.course.result_html import markdown
from cannlab.errors import CannlabError

_HERE = Path(__file__).parent
_EVERY = 0.5
"""Seconds between two looks at the progress file."""


class Panel(anywidget.AnyWidget):
    """The progress panel. ``state`` is :func:`~cannlab.course.panel.overview.overview`'s data."""

    _esm = (_HERE / "panel.js").read_text(encoding="utf-8")
    _css = (_HERE / "panel.css").read_text(encoding="utf-8")
    state = traitlets.Dict().tag(sync=True)

    def __init__(self) -> None:
        self._layout = layout.find()
        self._root = folder_of()
        self._progress = Progress.here()
        self._hints = hint_counts(self._layout)
        self._seen: tuple[int, int] | None = None
        super().__init__(state=self._overview())
        self.on_msg(self._message)
        _follow(self)

    def _overview(self) -> dict[str, Any]:
        self._seen = self._stamp()
        return overview(self._layout, self._progress.read(), self._root, self._hints)

    def _stamp(self) -> tuple[int, int] | None:
        """What changes when the progress file does; it is replaced as a whole."""
        try:
            found = self._progress.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def refresh(self) -> None:
        """Show the progress file as it is now, if it has changed."""
        if self._stamp() != self._seen:
            with contextlib.suppress(CannlabError):
                # A file that cannot be read leaves the panel as it was; the next check says what is wrong with it.
                self.state = self._overview()

    # -- what the buttons ask for ------------------------------------------------------------------

    def _message(self, _widget: Any, content: Any, _buffers: Any) -> None:
        kind, exercise = content.get("kind"), str(content.get("exercise", ""))
        try:
            if kind == "hint":
                self._hint(exercise)
            elif kind == "reset":
                self._reset(exercise)
        except CannlabError as problem:
            self.send({"kind": "problem", "exercise": exercise, "text": problem.diagnosis.text()})
        self.refresh()

    def _hint(self, exercise: str) -> None:
        found = hints.next_hint(exercise, self._progress)
        answer = {"kind": "hint", "exercise": exercise, "title": found.title, "more": found.more}
        self.send(answer | {"html": markdown(found.markdown)})

    def _reset(self, exercise: str) -> None:
        folder = Folder.here(self._layout) if self._root is None else Folder(self._root, self._layout)
        entry = self._layout.course.exercise(exercise)
        lesson = None if entry is None else self._layout.course.lesson(entry.lesson)
        if entry is None or lesson is None:
            raise bundle.unknown(self._layout, exercise)
        backup = folder.reset(entry, lesson).relative_to(folder.root).as_posix()
        text = (
            f"{entry.title} is as it was given. Your workbook before that: {backup}. "
            "If it is open, reload it: File, Reload Notebook from Disk."
        )
        self.send({"kind": "done", "exercise": exercise, "text": text})

    def __repr__(self) -> str:
        state = self.state
        return f"<cannlab panel: {state['done']} of {state['total']} exercises, {state['minutes']} minutes left>"


def _follow(panel: Panel) -> None:
    """Look at the progress file now and then, for as long as the panel exists; after each cell of this notebook too."""
    reference = weakref.ref(panel)

    async def watch() -> None:
        while (found := reference()) is not None and found.comm is not None:
            found.refresh()
            del found
            await asyncio.sleep(_EVERY)

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return  # no kernel: nobody is looking
    task = loop.create_task(watch())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


_tasks: set[asyncio.Task[None]] = set()
"""The loop holds tasks weakly; they end with their panel."""
