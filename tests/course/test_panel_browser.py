"""The panel in JupyterLab, in a real headless Chromium: keyboard, both themes, updates from another process."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cannlab.cli.lab import lab_command
from cannlab.course import notebook_file, workbook
from cannlab.course.learner import START_PAGE

pytestmark = pytest.mark.browser
KINDS = Path(__file__).parent / "fixtures" / "kinds"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
UNIT = "# exercise: 01_kinds.unit\nanswer = 'd'"
_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension:tracker": {"autoStartDefaultKernel": True},
}
# The contrast of a text with what lies behind it, after WCAG 2: blends see-through colours on the way down.
_CONTRAST = """
(node) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const numbers = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const layers = [];
  for (let at = node; at; at = at.parentElement) layers.push(numbers(getComputedStyle(at).backgroundColor));
  let back = [255, 255, 255];
  for (const layer of layers.reverse()) back = over(layer, back);
  const text = over(numbers(getComputedStyle(node).color), back);
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [a, b] = [light(text), light(back)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}
"""


@dataclass
class Lab:
    """A running JupyterLab in a learner's folder, its start page open and run."""

    page: Any
    folder: Path
    environment: dict[str, str]
    errors: list[str]

    def row(self, name: str) -> Any:
        """An exercise in the panel."""
        return self.page.locator(f"[data-exercise='01_kinds.{name}']")

    def shell(self, *words: str) -> str:
        """A command of the learner's in another process."""
        command = [sys.executable, "-m", "cannlab", *words]
        run = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120
        )
        return run.stdout + run.stderr

    def edit(self, name: str, source: str) -> None:
        """Change a cell of the workbook's file."""
        path = self.folder / "exercises/basic/01_kinds.ipynb"
        notebook = notebook_file.read(path)
        _cell(notebook, name).source = source
        notebook_file.write(notebook, path)

    def focused(self) -> str:
        """The key of the panel's element that has the focus."""
        return str(self.page.evaluate("document.activeElement.dataset.key || ''"))


def _cell(notebook: Any, name: str) -> Any:
    return next(c for c in notebook.cells if workbook.exercise_named(c.source) == f"01_kinds.{name}")


def _environment(tmp: Path) -> dict[str, str]:
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    own = {name: str(tmp / folder) for name, folder in folders.items()}
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**os.environ, **own, "PYTHONPATH": path, "CANNLAB_COURSE": str(KINDS), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="NO BROWSER TEST: playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("NO BROWSER TEST: no Chromium on this machine")
    tmp = tmp_path_factory.mktemp("lab")
    environment = _environment(tmp)
    settings = tmp / "config" / "labconfig" / "default_setting_overrides.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(_SETTINGS), encoding="utf-8")
    folder = tmp / "course"
    start = [sys.executable, "-m", "cannlab", "learn", "start", str(folder)]
    subprocess.run(start, env=environment, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lab = lab_command(folder, browser=False, port=port, page=START_PAGE)
    command = [*lab, "--ip=127.0.0.1", "--IdentityProvider.token=open"]
    errors: list[str] = []
    with (tmp / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_for(port, server, tmp / "log")
            with sync_api.sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
                page = browser.new_page(viewport={"width": 1280, "height": 720})
                page.set_default_timeout(60_000)
                page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
                page.on("pageerror", lambda error: errors.append(str(error)))
                page.goto(f"http://127.0.0.1:{port}/?token=open&reset")
                page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
                page.get_by_role("menuitem", name="Run", exact=True).click()
                page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
                page.locator(".cannlab-panel").wait_for()
                yield Lab(page, folder, environment, errors)
                browser.close()
        finally:
            server.terminate()
            server.wait(20)


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    """The page, and afterwards: nothing in it went wrong."""
    yield running
    assert running.errors == []


def test_it_shows_what_is_done_and_next_and_fits_the_window(lab: Lab) -> None:
    page = lab.page
    assert page.get_by_role("progressbar", name="Exercises passed").get_attribute("aria-valuemax") == "7"
    assert "0 of 7 exercises passed \u00b7 20 minutes left" in page.locator(".cannlab-sum").inner_text()
    assert page.locator(".cannlab-next").inner_text().startswith("Next: Split the work")
    assert lab.row("tester").inner_text().count("stretch") == 1
    wide = page.evaluate(
        "() => [...document.querySelectorAll('.cannlab-panel, .cannlab-panel *')]"
        ".filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline')"
        ".map((e) => e.className)"
    )
    assert wide == []
    box = page.locator(".cannlab-panel").bounding_box()
    assert box["x"] + box["width"] <= 1280


def test_every_control_is_reached_by_tab_and_shows_its_focus(lab: Lab) -> None:
    page = lab.page
    page.locator("[data-key='open-lesson']").focus()
    keys = [lab.focused()]
    for _ in range(6):
        page.keyboard.press("Tab")
        keys.append(lab.focused())
    assert keys == [
        "open-lesson",
        "open-workbook",
        "lesson-01_kinds",
        "hint-01_kinds.chunks",
        "reset-01_kinds.chunks",
        "hint-01_kinds.kernel",
        "reset-01_kinds.kernel",
    ]
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outline")
    assert "2px" in outline
    assert "solid" in outline
    page.keyboard.press("Shift+Tab")
    assert lab.focused() == "hint-01_kinds.kernel"
    names = page.evaluate(
        "() => [...document.querySelectorAll('.cannlab-panel button')].map((b) => b.getAttribute('aria-label'))"
    )
    assert len(names) == len(set(names)) == 16
    assert None not in names


def test_hints_come_by_enter_one_after_the_other(lab: Lab) -> None:
    page = lab.page
    page.locator("[data-key='hint-01_kinds.chunks']").focus()
    page.keyboard.press("Enter")
    box = lab.row("chunks").locator(".cannlab-hint")
    box.get_by_text("Hint 1 of 2").wait_for()
    assert box.locator("code").inner_text() == "n // cores"
    page.get_by_role("button", name="Hint 2 of 2 for Split the work").wait_for()
    assert lab.focused() == "hint-01_kinds.chunks"
    page.keyboard.press("Space")
    box.get_by_text("Hint 2 of 2").wait_for()
    page.get_by_role("button", name="Hint 1 of 2 for Split the work").wait_for()
    assert "Hint 2 of 2" in page.get_by_role("status").filter(has_text="Hint").inner_text()
    assert page.locator(".jp-mod-editMode .cm-editor.cm-focused").count() == 0  # Enter did not go on to the cell


def test_a_lesson_folds_by_keyboard_and_stays_so(lab: Lab) -> None:
    page = lab.page
    summary = page.locator("[data-key='lesson-01_kinds']")
    summary.focus()
    page.keyboard.press("Enter")
    lab.row("unit").wait_for(state="hidden")
    lab.shell("learn", "hint", "01_kinds.unit")
    time.sleep(1.5)
    assert lab.row("unit").is_hidden()
    page.keyboard.press("Space")
    lab.row("unit").wait_for()
    assert lab.focused() == "lesson-01_kinds"


def test_a_check_that_passes_elsewhere_shows_up(lab: Lab) -> None:
    lab.edit("unit", UNIT)
    assert "PASSED" in lab.shell("learn", "check", "01_kinds.unit")
    lab.page.locator("[data-exercise='01_kinds.unit'][data-state='passed']").wait_for(timeout=10_000)
    assert lab.page.get_by_role("progressbar", name="Exercises passed").get_attribute("aria-valuenow") == "1"
    assert "1 check" in lab.row("unit").inner_text()
    lab.page.get_by_text("Who adds passed", exact=True).wait_for(state="attached", timeout=5_000)


def test_reset_asks_first_and_can_be_left(lab: Lab) -> None:
    page = lab.page
    lab.edit("unit", UNIT)
    page.locator("[data-key='reset-01_kinds.unit']").focus()
    page.keyboard.press("Space")
    page.get_by_role("group", name="Reset Who adds?").wait_for()
    assert lab.focused() == "no-01_kinds.unit"  # the harmless one
    page.keyboard.press("Escape")
    page.get_by_role("group", name="Reset Who adds?").wait_for(state="hidden")
    assert lab.focused() == "reset-01_kinds.unit"
    path = lab.folder / "exercises/basic/01_kinds.ipynb"
    assert _cell(notebook_file.read(path), "unit").source == UNIT
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    assert lab.focused() == "yes-01_kinds.unit"
    page.keyboard.press("Enter")
    lab.row("unit").get_by_text("is as it was given").wait_for()
    assert 'answer = "?"' in _cell(notebook_file.read(path), "unit").source
    assert list((lab.folder / "backups").glob("01_kinds.*.ipynb"))
    page.locator("[data-exercise='01_kinds.unit'][data-state='open']").wait_for()


def test_both_themes_are_readable(lab: Lab) -> None:
    page = lab.page
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.get_by_role("menuitem", name="Settings", exact=True).click()
        page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Theme$")).click()
        page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{theme}$")).click()
        light = "true" if theme.endswith("Light") else "false"
        page.locator(f"body[data-jp-theme-light='{light}']").wait_for(state="attached")
        page.locator("[data-key='reset-01_kinds.kernel']").click()
        time.sleep(0.5)
        folder = os.environ.get("CANNLAB_SCREENSHOTS")
        if folder:
            page.screenshot(path=str(Path(folder) / f"panel {theme}.png"))
        texts = page.locator(
            ".cannlab-panel :is(.cannlab-title, .cannlab-sum, .cannlab-quiet, .cannlab-name, .cannlab-id,"
            " .cannlab-button, .cannlab-question, .cannlab-what > *)"
        )
        contrasts = {texts.nth(n).inner_text(): texts.nth(n).evaluate(_CONTRAST) for n in range(texts.count())}
        assert len(contrasts) > 10
        assert {text: round(c, 2) for text, c in contrasts.items() if c < 4.5} == {}
        page.locator("[data-key='no-01_kinds.kernel']").click()


def test_the_workbook_opens_in_a_tab(lab: Lab) -> None:
    lab.page.locator("[data-key='open-workbook']").click()
    lab.page.get_by_role("tab", name="01_kinds.ipynb").wait_for()
    lab.page.locator(".jp-NotebookPanel:visible").get_by_text("# exercise: 01_kinds.chunks").wait_for()
