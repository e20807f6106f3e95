"""Notebook files (format 4), read and written without nbformat.

nbformat imports a validator that takes two seconds to start; a check must be there in a tenth. What is written here
is byte for byte what nbformat writes (tests/course/test_notebook_file.py holds it to that).
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from cannlab.trace.whole_file import write_whole

_CELLS = frozenset({"code", "markdown", "raw"})
_TEXT_MIMES = frozenset({"application/javascript", "image/svg+xml"})
_TRANSIENT = ("orig_nbformat", "orig_nbformat_minor", "signature")


class Node(dict[str, Any]):
    """A JSON object whose keys are attributes too, as in nbformat."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def node(value: Any) -> Any:
    """Plain JSON as Nodes, all the way down."""
    if isinstance(value, dict):
        return Node({key: node(item) for key, item in value.items()})
    return [node(item) for item in value] if isinstance(value, list) else value


def _joined(value: Any) -> Any:
    lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    return "".join(value) if lines else value


def _join_bundle(bundle: Any) -> None:
    for mime, value in bundle.items():
        if not (mime == "application/json" or (mime.startswith("application/") and mime.endswith("+json"))):
            bundle[mime] = _joined(value)


def _read_cell(cell: Any, number: int) -> None:
    if not isinstance(cell, dict) or cell.get("cell_type") not in _CELLS:
        raise ValueError(f"cell {number} is no cell")
    cell["source"] = _joined(cell.get("source", ""))
    if not isinstance(cell["source"], str):
        raise ValueError(f"cell {number} has no text")
    if not isinstance(cell.setdefault("metadata", Node()), dict):
        raise ValueError(f"cell {number} has no metadata")
    cell["metadata"].pop("trusted", None)
    for attachment in cell.get("attachments", {}).values():
        _join_bundle(attachment)
    if cell["cell_type"] == "code":
        cell.setdefault("execution_count", None)
        for output in cell.setdefault("outputs", []):
            if output.get("output_type") in ("execute_result", "display_data"):
                _join_bundle(output.get("data", {}))
            elif "text" in output:
                output["text"] = _joined(output["text"])


def reads(text: str) -> Node:
    """A notebook from the text of its file. ValueError with the reason if it is none."""
    try:
        notebook = node(json.loads(text.lstrip("\ufeff")))
    except RecursionError as problem:
        raise ValueError("nested too deep") from problem
    if not isinstance(notebook, Node) or "nbformat" not in notebook:
        raise ValueError("it is JSON, but no notebook")
    if notebook["nbformat"] != 4:
        raise ValueError(f"it has format {notebook['nbformat']}, not 4: open it in JupyterLab and save it")
    if not isinstance(notebook.get("cells"), list):
        raise ValueError("it has no list of cells")
    if not isinstance(notebook.setdefault("metadata", Node()), dict):
        raise ValueError("its metadata are no table")
    try:
        for number, cell in enumerate(notebook["cells"], 1):
            _read_cell(cell, number)
    except (AttributeError, TypeError) as problem:
        raise ValueError(f"a cell is damaged: {problem}") from problem
    return notebook


def read(path: Path) -> Node:
    """A notebook file. ValueError if it is none, OSError if it cannot be read."""
    try:
        return reads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as problem:
        raise ValueError(f"it is not UTF-8: {problem.reason}") from problem


def _split_bundle(bundle: Any) -> None:
    for mime, value in bundle.items():
        if isinstance(value, str) and (mime.startswith("text/") or mime in _TEXT_MIMES):
            bundle[mime] = value.splitlines(True)


def writes(notebook: Any) -> str:
    """The text of a notebook's file: sorted keys, one space of indentation, texts as lists of lines."""
    out = copy.deepcopy(notebook)
    for name in _TRANSIENT:
        out["metadata"].pop(name, None)
    for cell in out["cells"]:
        cell["metadata"].pop("trusted", None)
        cell["source"] = cell["source"].splitlines(True)
        for attachment in cell.get("attachments", {}).values():
            _split_bundle(attachment)
        for output in cell.get("outputs", []) if cell["cell_type"] == "code" else []:
            if output["output_type"] in ("execute_result", "display_data"):
                _split_bundle(output.get("data", {}))
            elif output["output_type"] == "stream":
                output["text"] = output["text"].splitlines(True)
    return json.dumps(out, indent=1, sort_keys=True, separators=(",", ": "), ensure_ascii=False) + "\n"


def write(notebook: Any, path: Path) -> None:
    """Write a notebook, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, writes(notebook).encode())
