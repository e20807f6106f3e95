"""Every kernel of the course and of these tests, through the official front end.

The official package is installed into an environment of its own (``CANNLAB_PYASC`` names a Python that has it
already); nothing of it is kept. Where it cannot be had the tests are skipped.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VERSION = "1.1.1"
SELF = {"test_asc_official.py"}
WHERE_OURS_REFUSES = {
    "k_backwards": "a loop with a negative step lowers there, and never runs",
    "bare_counter_carried": "brings the process down there",
    "swapped_queue_arguments": "becomes a queue of depth 9 on A1 there",
}
"""Kernels that the official front end takes and this one refuses on purpose."""
OTHER_CLASS = {
    "k_several_targets": "its dependency scan stumbles with a TypeError before its own rule is reached",
    "unknown_operation": "its dependency scan stumbles with a bare AttributeError",
    "reassigned_type": "found by its verifier only",
    "global_buffer_of_a_number": "found by its verifier only",
    "copy_of_a_number": "found by its verifier only",
}
"""Kernels that both refuse, with another exception there."""


def _python(folder):
    given = os.environ.get("CANNLAB_PYASC")
    if given:
        return given
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no environment could be made for pyasc: {made.stderr[-200:]}")
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    try:
        done = subprocess.run([*install, f"pyasc=={VERSION}", "numpy<2"], capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        pytest.skip("pyasc's wheel did not arrive within 600 s")
    if done.returncode:
        pytest.skip(f"pyasc {VERSION} cannot be installed here (it has wheels for Linux only): {done.stderr[-300:]}")
    return python


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """A Python that has the official package."""
    python = _python(tmp_path_factory.mktemp("pyasc"))
    found = subprocess.run(
        [python, "-c", "import asc, asc._C.libpyasc; print(asc.__file__)"], capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip(f"pyasc {VERSION} does not load here: {found.stderr[-300:]}")
    return python


NEVER_LAUNCHED = {}
"""Kernels that no run launches, by file and name, and why."""
UNPORTABLE = {"k_block": "launched with bfloat16, which numpy lacks there"}
"""Kernels whose text cannot stand alone, by name, and why."""


def _mentions(path):
    return "asc.jit" in path.read_text(encoding="utf-8")


def _programs():
    found = [path for path in sorted((ROOT / "examples").glob("*.py")) if _mentions(path)]
    for folder in ("notebooks", "solutions"):
        found += [path for path in sorted((ROOT / folder).rglob("*.ipynb")) if _mentions(path)]
    return found


def _kernels(path):
    """Names of the jit functions that a program defines."""
    text = path.read_text(encoding="utf-8")
    cells = [text]
    if path.suffix == ".ipynb":
        cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    found = set()
    for cell in cells:
        lines = ["" if line.startswith(("%", "!")) else line for line in cell.splitlines()]
        try:
            tree = ast.parse("\n".join(lines))
        except SyntaxError:
            assert "asc.jit" not in cell, f"{path}: a cell with a kernel cannot be read"
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any("asc.jit" in ast.unparse(d) for d in node.decorator_list):
                found.add(node.name)
    return found


def _left_out(ours):
    """Kernels of programs and of the tests that are in no record, neither themselves nor called by another."""
    texts = {}
    for entry in ours:
        where = entry["where"].partition("::")[0]
        where = where if where.endswith((".ipynb", ".py")) and not where.startswith("tests") else "tests"
        texts[where] = texts.get(where, "") + entry.get("text", "") + f"\ndef {entry['name']}("
    missing = []
    for path in [*_programs(), *sorted(HERE.glob("*.py"))]:
        where = path.relative_to(ROOT).as_posix()
        text = texts.get("tests" if path.parent == HERE else where, "")
        missing += [f"{where}:{name}" for name in sorted(_kernels(path)) if f"def {name}(" not in text]
    return missing


def _record(target):
    """Run the tests, programs and notebooks that have kernels; the emulator's verdicts go to ``target``."""
    environ = {
        **os.environ,
        "KERNEL_RECORD": str(target),
        "KERNEL_ROOT": str(ROOT),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
        "CANNLAB_DIAGNOSES": "off",
        "OMP_NUM_THREADS": "1",
    }
    for name in ("CANNLAB_SOC", "CANNLAB_DEVICES"):
        environ.pop(name, None)
    tests = [str(path) for path in sorted(HERE.glob("test_*.py")) if path.name not in SELF]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "kernel_recorder", "-p", "no:cacheprovider", *tests]
    ran = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-2000:]
    for path in _programs():
        ran = subprocess.run(
            [sys.executable, str(HERE / "kernel_recorder.py"), str(path)],
            cwd=target.parent,
            env=environ,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, f"{path.relative_to(ROOT)}: {ran.stderr[-2000:]}"


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """The file with every kernel and what the emulator said; ``KERNEL_KEPT`` names one made before."""
    kept = os.environ.get("KERNEL_KEPT")
    if kept:
        return Path(kept)
    target = tmp_path_factory.mktemp("kernels") / "record.jsonl"
    _record(target)
    return target


@pytest.fixture(scope="module")
def verdicts(official, record, tmp_path_factory):
    """(what the emulator said, what the official front end said) of every kernel."""
    answers = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    lines = record.read_text(encoding="utf-8").splitlines()
    for _ in range(len(lines) + 1):
        subprocess.run(
            [official, str(HERE / "official_lowering.py"), str(record), str(answers)], capture_output=True, text=True
        )
        if len(answers.read_text(encoding="utf-8").splitlines()) == len(lines):
            break
    said = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    assert len(said) == len(lines)
    ours = [json.loads(line) for line in lines]
    return [(mine, theirs) for mine, theirs in zip(ours, said, strict=True) if "unportable" not in mine]


def _told(pairs):
    return "\n".join(
        f"{mine['name']} ({mine['where']}): here {mine['refused'] or 'accepted'} {mine['message'][-200:]!r}, "
        f"there {theirs.get('refused') or 'accepted'} {theirs.get('message', '')[-300:]!r}"
        for mine, theirs in pairs
    )


def test_no_kernel_is_left_out(record):
    ours = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert set(_left_out(ours)) == set(NEVER_LAUNCHED)
    unportable = {entry["name"]: entry["unportable"] for entry in ours if "unportable" in entry}
    assert set(unportable) == set(UNPORTABLE), unportable


def test_what_runs_here_compiles_there(verdicts):
    accepted = [pair for pair in verdicts if not pair[0]["refused"]]
    assert len({mine["name"] for mine, _ in accepted}) >= 15
    wrong = [(mine, theirs) for mine, theirs in accepted if 'extern "C"' not in theirs.get("cpp", "")]
    assert not wrong, _told(wrong)


def test_what_compiles_there_runs_here(verdicts):
    wrong = [
        (mine, theirs)
        for mine, theirs in verdicts
        if mine["refused"] and not theirs.get("refused") and mine["name"] not in WHERE_OURS_REFUSES
    ]
    assert not wrong, _told(wrong)


def test_refusals_are_of_the_same_class(verdicts):
    refused = [(mine, theirs) for mine, theirs in verdicts if mine["refused"] and theirs.get("refused")]
    assert len({mine["name"] for mine, _ in refused}) >= 30
    wrong = [
        (mine, theirs)
        for mine, theirs in refused
        if mine["name"] not in OTHER_CLASS
        and "is not emulated" not in mine["message"]
        and mine["refused"].replace("PassesFailed", "RuntimeError") != theirs["refused"]
    ]
    assert not wrong, _told(wrong)


def test_refusals_come_before_the_kernel_runs_and_name_the_line(verdicts):
    late = [pair for pair in verdicts if pair[0]["when"] == "during"]
    assert not late, _told(late)
    nowhere = [
        (mine, theirs)
        for mine, theirs in verdicts
        if mine["refused"] in ("CodegenError", "UnsupportedSyntaxError") and not mine["line"]
    ]
    assert not nowhere, _told(nowhere)
