"""Notebook files: written as nbformat writes them, and read with a reason when they are none."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from cannlab.course import notebook_file

TINY = Path(__file__).parent / "fixtures" / "tiny"
NOTEBOOKS = sorted(TINY.rglob("*.ipynb"))


def _odd() -> nbformat.NotebookNode:
    make = nbformat.v4
    display = make.new_output(
        "display_data",
        {
            "text/plain": "a\nb",
            "image/png": "aGk=",
            "image/svg+xml": "<svg>\n</svg>",
            "application/json": {"a": "x\ny"},
        },
    )
    outputs = [make.new_output("stream", name="stdout", text="ä\nb\n"), display]
    code = make.new_code_cell("x = 'é'\n\nx", outputs=outputs, execution_count=3, id="one")
    picture = make.new_markdown_cell("![](attachment:a.txt)", id="two", attachments={"a.txt": {"text/plain": "q\nr"}})
    return make.new_notebook(cells=[code, picture, make.new_raw_cell("", id="three")])


@pytest.mark.parametrize("notebook", [_odd(), *(nbformat.read(path, 4) for path in NOTEBOOKS)])
def test_the_text_is_that_of_nbformat(notebook: nbformat.NotebookNode) -> None:
    text = nbformat.writes(notebook).rstrip("\n") + "\n"
    assert notebook_file.writes(notebook_file.reads(text)) == text
    assert notebook_file.reads(text) == notebook


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.parent.name}/{path.name}")
def test_stored_notebooks_are_valid(path: Path) -> None:
    nbformat.validate(nbformat.read(path, 4))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ('{"nbformat": 4, "cells": [', "Expecting value"),
        ("[]", "no notebook"),
        ('{"nbformat": 3}', "format 3"),
        ('{"nbformat": 4}', "no list of cells"),
        ('{"nbformat": 4, "cells": [{"cell_type": "poem"}]}', "cell 1"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": 7}]}', "cell 1"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_is_no_notebook_gets_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        notebook_file.reads(text)


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text("\ufeff" + NOTEBOOKS[0].read_text(encoding="utf-8"), encoding="utf-8")
    assert notebook_file.read(path) == notebook_file.read(NOTEBOOKS[0])


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    notebook_file.write(notebook_file.read(NOTEBOOKS[0]), path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        notebook_file.write({"metadata": {}, "cells": [], "odd": object()}, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
