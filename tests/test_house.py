"""The house rules: floors, no branch on a name, no word of places outside the project."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cannlab"
FLOORS = {
    "soc": 1, "trace": 1, "errors": 1, "om": 1,
    "machine": 2, "profiler": 2,
    "acl": 3, "ascendc": 3, "torch_npu": 3, "atc": 3, "env": 3, "aclruntime": 3,
    "cli": 4, "course": 4,
}  # fmt: skip
FACES = {"acl", "ascendc", "torch_npu", "atc", "aclruntime"}


def _sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Dotted names of cannlab modules that a module imports (anywhere in it)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _part(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "cannlab" and len(parts) > 1 and parts[1] in FLOORS else None


@pytest.mark.parametrize("path", _sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_never_go_up(path: Path) -> None:
    inside = path.relative_to(ROOT).with_suffix("").parts
    here = inside[1] if len(inside) > 2 else None
    if here is None:
        return  # the package's own entry points stand above all floors
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ".".join(inside[:-1])
    for name in _imports(tree, package):
        other = _part(name)
        if other is None or other == here:
            continue
        assert FLOORS[other] <= FLOORS[here], f"{here} (floor {FLOORS[here]}) imports {name} (floor {FLOORS[other]})"
        assert not (here in FACES and other in FACES), f"the face {here} imports the face {other}"


def test_every_folder_of_the_package_has_a_floor() -> None:
    folders = {path.parent.relative_to(PACKAGE).parts[0] for path in _sources() if path.parent != PACKAGE}
    assert folders <= set(FLOORS)


def test_no_file_is_called_utils_or_helpers() -> None:
    bad = {"util.py", "utils.py", "helpers.py", "helper.py", "misc.py", "common.py"}
    pyasc = ("language/basic/common.py", "language/core/utils.py", "lib/utils.py", "runtime/utils.py")
    real_names = {"acl/util.py", *(f"ascendc/{name}" for name in pyasc)}
    allowed = {PACKAGE / name for name in real_names}  # modules of the real packages
    assert [path for path in _sources() if path.name in bad and path not in allowed] == []


def test_init_files_only_hand_names_on() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        if path.parent == PACKAGE or PACKAGE / "ascendc" in path.parents:
            continue  # the emulated pyasc has the real package's modules, some of which are folders here
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            assert not isinstance(node, ast.ClassDef), f"{path}: move the class into a file of its own"


MODEL_NAMES = ("resnet", "mobilenet", "vgg16", "bert", "densenet", "squeezenet", "yolo", "efficientnet")


def test_nothing_branches_on_a_models_or_files_name() -> None:
    """No comparison, membership test or startswith/endswith in the package against a model's name."""
    for path in _sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare | ast.Call | ast.Match):
                continue
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", "")
                if name not in {"startswith", "endswith", "find", "search", "match", "fullmatch", "index", "count"}:
                    continue
            texts = [
                n.value.lower() for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
            found = [text for text in texts for model in MODEL_NAMES if model in text]
            assert not found, f"{path}:{node.lineno} compares with {found}"


FORBIDDEN = (
    "/wo" + "rk/",
    "sub" + "agent",
    "this " + "session",
    "pypi" + ".org",
    "file" + "s.pythonhosted",
    "clau" + "de",
)


def test_the_repo_speaks_of_the_project_alone() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", errors="ignore").lower()
        for word in FORBIDDEN:
            assert word not in text, f"{name} says {word!r}"


def test_import_cannlab_loads_nothing_heavy() -> None:
    heavy = ["numpy", "onnx", "onnxruntime", "torch", "matplotlib", "IPython", "typer", "rich", "sklearn"]
    code = f"import sys, cannlab; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_test_files_have_names_of_their_own() -> None:
    """Two test files of one name cannot be collected together."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
