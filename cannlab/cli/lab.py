"""``cannlab lab``: JupyterLab in the learner's folder."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from cannlab.errors import CannlabError, diagnose


def lab_command(folder: Path, *, browser: bool, port: int | None, page: str = "") -> list[str]:
    """The command that starts JupyterLab: no news, no update check, root allowed for root.

    Args:
        page: notebook that it opens, relative to the folder; the folder itself if "".

    Source: real-inputs 4.
    """
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]
    if page:
        command.append(f"--LabApp.default_url=/lab/tree/{page}")
    if not browser:
        command.append("--no-browser")
    if port is not None:
        command += [f"--port={port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command


def _course_folder() -> Path:
    """The learner's folder round the working directory, or a new one in it."""
    from cannlab.course import layout
    from cannlab.course.learner import Folder
    from cannlab.course.progress import folder_of

    root = folder_of()
    if root is None:
        root = Path.cwd() / "cannlab-course"
        Folder(root, layout.find()).start()
        print(f"cannlab: your copy of the course is in {root}", file=sys.stderr)
    return root


def _page(folder: Path) -> str:
    """The lesson to open: the first one in this folder with an exercise that is not passed; "" if there is none."""
    from cannlab.course import layout
    from cannlab.course.learner import Folder

    learner = Folder(folder, layout.find())
    state = learner.progress.read().exercises
    for lesson in learner.layout.course.lessons:
        path = learner.lesson(lesson)
        done = all(state[e.id].passed if e.id in state else e.stretch for e in lesson.exercises)
        if path.is_file() and not done:
            return path.relative_to(folder).as_posix()
    return ""


def run(folder: Path | None, *, browser: bool, port: int | None) -> int:
    """Start JupyterLab at the next lesson and stay until it ends.

    Args:
        folder: where it opens; if None the learner's folder round the working directory, which is made
            (``cannlab-course``) if there is none.

    Returns:
        JupyterLab's own exit code.

    Raises:
        CannlabError: rules ``cli.lab_folder``, ``cli.lab_missing``.
    """
    place = (folder or _course_folder()).absolute()
    if not place.is_dir():
        problem = "it is a file" if place.exists() else "there is no such folder"
        raise CannlabError(diagnose("cli.lab_folder", folder=str(folder), problem=problem))
    if importlib.util.find_spec("jupyterlab") is None:
        raise CannlabError(diagnose("cli.lab_missing", python=sys.executable))
    server = subprocess.Popen(lab_command(place, browser=browser, port=port, page=_page(place)))
    while True:
        try:
            return server.wait()
        except KeyboardInterrupt:
            continue  # JupyterLab has the same Ctrl-C: it asks, or ends by itself
