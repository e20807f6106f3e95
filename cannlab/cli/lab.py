"""``cannlab lab``: JupyterLab in the learner's folder."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from cannlab.course.learner import START_PAGE
from cannlab.errors import CannlabError, diagnose


def lab_command(folder: Path, *, browser: bool, port: int | None) -> list[str]:
    """The command that starts JupyterLab: no news, no update check, root allowed for root.

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
    if (folder / START_PAGE).is_file():
        command.append(f"--LabApp.default_url=/lab/tree/{START_PAGE}")
    if not browser:
        command.append("--no-browser")
    if port is not None:
        command += [f"--port={port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command


def run(folder: Path | None, *, browser: bool, port: int | None) -> int:
    """Start JupyterLab and stay until it ends.

    Args:
        folder: where it opens; the current folder if None.

    Returns:
        JupyterLab's own exit code.

    Raises:
        CannlabError: rules ``cli.lab_folder``, ``cli.lab_missing``.
    """
    place = (folder or Path.cwd()).absolute()
    if not place.is_dir():
        problem = "it is a file" if place.exists() else "there is no such folder"
        raise CannlabError(diagnose("cli.lab_folder", folder=str(folder), problem=problem))
    if importlib.util.find_spec("jupyterlab") is None:
        raise CannlabError(diagnose("cli.lab_missing", python=sys.executable))
    server = subprocess.Popen(lab_command(place, browser=browser, port=port))
    while True:
        try:
            return server.wait()
        except KeyboardInterrupt:
            continue  # JupyterLab has the same Ctrl-C: it asks, or ends by itself
