"""The page of lesson 23 in a real headless Chromium: the lesson's own cells, up to the one that stops the service."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_sample_images

from cannlab.course import layout, notebook_file

pytestmark = pytest.mark.browser
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_LAST = "second-try"
"""The cell after which the service runs."""
# Drops a file of the page's own making on an element: what a drag from the desktop ends in.
_DROP = """
async ([name, type, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], name, { type }));
  const target = document.getElementById("drop");
  for (const kind of ["dragover", "drop"])
    target.dispatchEvent(new DragEvent(kind, { dataTransfer: files, bubbles: true, cancelable: true }));
}
"""


@dataclass
class Service:
    """The lesson's service and a page of the browser that shows it."""

    page: Any
    errors: list[str]

    def says(self) -> str:
        """What the page tells when the answer is there."""
        self.page.wait_for_function("!['', '...'].includes(document.getElementById('says').textContent)")
        return str(self.page.locator("#says").inner_text())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="NO BROWSER TEST: playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("NO BROWSER TEST: no Chromium on this machine")
    from nbclient import NotebookClient

    notebook = notebook_file.read(layout.find().root / "notebooks/intermediate/23_project.ipynb")
    ids = [cell.id for cell in notebook.cells]
    folder = tmp_path_factory.mktemp("project")
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}})
    with client.setup_kernel(env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}):
        for index in range(ids.index(_LAST) + 1):
            client.execute_cell(notebook.cells[index], index)
        port_cell = notebook.cells[ids.index("address")]
        port_cell.source = "print(server.server_port)"
        client.execute_cell(port_cell, ids.index("address"))
        port = int(port_cell.outputs[0].text)
        errors: list[str] = []
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
            page = browser.new_page(viewport={"width": 1024, "height": 900})
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(f"http://127.0.0.1:{port}/")
            yield Service(page, errors)
            browser.close()


@pytest.fixture
def service(running: Service) -> Iterator[Service]:
    """The page, just opened; afterwards: no script of it failed."""
    running.page.reload()
    yield running
    assert running.errors == []


def test_a_photograph_that_is_dropped_is_classified_and_painted(service: Service) -> None:
    import base64

    name = load_sample_images().filenames[1]
    data = base64.b64encode(Path(name).read_bytes()).decode()
    service.page.evaluate(_DROP, ["flower.jpg", "image/jpeg", data])
    assert service.says() == "Mostly leaf"
    service.page.locator("#picture").wait_for(state="visible")
    items = service.page.locator("#counts li").all_inner_texts()
    assert [item.split(":")[0] for item in items] == ["sky", "building", "tree", "flower", "leaf"]
    assert sum(int(item.split()[1]) for item in items) == 13 * 20
    assert service.page.evaluate("[picture.width, picture.height]") == [640, 427]
    # The paint lies on the tiles: the middle of the blossom is orange, the rest of a row below them untouched.
    red, green, blue, _ = service.page.evaluate("[...picture.getContext('2d').getImageData(300, 220, 1, 1).data]")
    assert red > green > blue
    assert service.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_photograph_that_is_chosen_is_classified(service: Service) -> None:
    service.page.locator("#file").set_input_files(load_sample_images().filenames[0])
    assert service.says() == "Mostly sky"


def test_a_file_that_is_no_photograph_is_told_and_the_next_one_works(service: Service) -> None:
    service.page.locator("#file").set_input_files({"name": "a.jpg", "mimeType": "image/jpeg", "buffer": b"<b>no</b>"})
    assert service.says() == "this is no photograph that I can read"
    assert service.page.locator("#picture").is_hidden()
    assert service.page.locator("#counts li").count() == 0
    service.page.locator("#file").set_input_files(load_sample_images().filenames[0])
    service.page.get_by_text("Mostly sky").wait_for()


def test_the_file_chooser_is_reached_by_keyboard_and_named(service: Service) -> None:
    service.page.keyboard.press("Tab")
    assert service.page.evaluate("document.activeElement.id") == "file"
    assert "3px" in service.page.evaluate("getComputedStyle(document.getElementById('drop')).outline")
    assert service.page.get_by_label("Drop a photograph here").count() == 1
