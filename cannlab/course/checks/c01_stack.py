"""Checks of 01_stack."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from numpy.random import Generator

from cannlab.course.spec import (
    CaseRun,
    Check,
    Fact,
    Misconception,
    call,
    change,
    fails_where,
    gives,
    got,
    how_many_right,
    raises,
    read,
    sign,
    source,
    text,
)
from cannlab.env import compatibility
from cannlab.env.check import check as check_env
from cannlab.env.example_machine import example_machine, sourced
from cannlab.env.findings import Finding, Report, State, Status, broken, note, ok, warned
from cannlab.env.system import System
from cannlab.env.version_order import version_key

_ASCEND = "/usr/local/Ascend/ascend-toolkit"
_NEW_TERMINAL = {"HOME": "/home/user", "PATH": "/usr/bin:/bin"}


def _one(rng: Generator, items: list[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


@cache
def _server(cann: str, driver: str, firmware: str) -> tuple[System, tempfile.TemporaryDirectory[str]]:
    """An example machine, made once in this process; its folder goes away with it."""
    folder = tempfile.TemporaryDirectory()
    older = ("8.0.0",) if cann else ()
    return example_machine(Path(folder.name), cann=cann, older=older, driver=driver, firmware=firmware), folder


# -- 1. layers -------------------------------------------------------------------------------------

_LAYERS = {
    "train": "adapter",
    "convert": "compiler",
    "serve": "runtime",
    "batch": "compiler",
    "missing": "kernel",
    "health": "driver",
}


def _wrong_layer(name: str, job: str, layer: str, what: str, why: str, do: str) -> Misconception:
    return Misconception(
        name,
        change(f'"{job}": "{_LAYERS[job]}"', f'"{job}": "{layer}"'),
        got(lambda result: str(result.get(job)).strip().lower() == layer),
        what=what,
        why=why,
        do=do,
    )


def _other_layer(job: str, wrong: str, why: str) -> Misconception:
    """Any other wrong layer of a job: says which job, not which layer."""
    return Misconception(
        f"{job}_elsewhere",
        change(f'"{job}": "{_LAYERS[job]}"', f'"{job}": "{wrong}"'),
        got(lambda result: str(result.get(job)).strip().lower() != _LAYERS[job]),
        what=f"the layer of {job} is another one.",
        why=why,
        do="Ask what the job starts with and what must come out, and find the box in the picture that does this.",
    )


LAYERS = Check(
    "01_stack.layers",
    run=read("layer"),
    reference=lambda: _LAYERS,
    compare=text(),
    must=(how_many_right("layers are"),),
    misconceptions=(
        Misconception(
            "job_missing",
            change('    "health": "driver",\n', ""),
            got(lambda result: any(not str(result.get(job, "")).strip() for job in _LAYERS)),
            what="some job has no layer yet.",
            why="The answer is one word for each of the six jobs: " + ", ".join(_LAYERS) + ".",
            do="Write a layer for every job; the line below names those that are missing.",
        ),
        _wrong_layer(
            "batch_at_run_time",
            "batch",
            "runtime",
            "the program that loads the om shall change the batch.",
            "an om is compiled for its shapes: task list and memory plan belong to them.",
            "Ask who fixed the shape, and let that layer do it again.",
        ),
        _wrong_layer(
            "serve_in_pytorch",
            "serve",
            "adapter",
            "a whole framework is loaded in order to run one finished om.",
            "PyTorch does not read om files, and needs much of the box's 4 GB.",
            "Look for the layer whose interface loads and runs models.",
        ),
        _wrong_layer(
            "convert_in_pytorch",
            "convert",
            "adapter",
            "an adapter shall convert an ONNX file.",
            "an adapter connects a framework to a device at run time; it writes no om and it needs an NPU.",
            "Find the box in the picture that writes model.om.",
        ),
        _wrong_layer(
            "compiler_invents",
            "missing",
            "compiler",
            "the compiler shall make an operator that CANN lacks.",
            "ATC puts together operators that the library has; it cannot make up a new one.",
            "Somebody must write a program for the chip: choose the layer where that is done.",
        ),
        _wrong_layer(
            "health_by_runtime",
            "health",
            "runtime",
            "a program shall find out whether a card is hot.",
            "temperature and power are read by the driver's own tool, without any program of yours.",
            "Choose the layer that owns the chip.",
        ),
        _wrong_layer(
            "rewrite_the_training",
            "train",
            "kernel",
            "a whole training script shall be written again for the chip.",
            "the highest layer that can do the job is the right one, and a PyTorch script can stay a PyTorch script.",
            "Look for the box that connects PyTorch to CANN.",
        ),
        _wrong_layer(
            "train_as_om",
            "train",
            "compiler",
            "a training script shall become an om.",
            "an om is a finished model for inference; training changes the weights in every step.",
            "Stay in PyTorch, and name the layer that PyTorch needs.",
        ),
        _other_layer("train", "driver", "the job starts with a PyTorch program and stays one."),
        _other_layer("convert", "runtime", "the job starts with a model file and ends with another model file."),
        _other_layer(
            "serve", "compiler", "the job starts with a finished om; loading and running it is all that is left."
        ),
        _other_layer("batch", "adapter", "the shape of the input was fixed when the om was made."),
        _other_layer("missing", "adapter", "no layer above the chip's own programs can make up an operator."),
        _other_layer("health", "kernel", "the question is about the card, not about a program on it."),
    ),
)


# -- 2. which_atc ----------------------------------------------------------------------------------


def _draw_which(rng: Generator, size: str) -> dict[str, Any]:
    versions = ["8.0.0", "8.1.RC1", "8.2.RC1", "8.3.RC1", "9.0.0"]
    first = int(rng.integers(3))
    older, newer, unused = (f"{_ASCEND}/{version}/bin" for version in versions[first : first + 3])
    program = "msprof" if size == "another program" else "atc"
    files = {f"{unused}/{name}": True for name in ("atc", "msprof")}
    files |= {f"{newer}/atc": True, f"{older}/atc": True, "/usr/bin/python3": True, "/usr/bin/atcd": True}
    files[f"{newer}/msprof"] = True
    folders = {
        "older first": [older, newer],
        "newer first": [newer, older],
        "not executable": [older, newer],
        "last slash": ["/usr/local/bin", f"{older}/", newer],
        "nowhere": [f"/opt/tools{int(rng.integers(10, 99))}/bin"],
        "another program": [older, newer],
    }[size]
    if size == "not executable":
        files[f"{older}/atc"] = False
    return {"program": program, "path": ":".join([*folders, "/usr/bin", "/bin"]), "files": files}


def _hits(program: str, path: str, files: dict[str, bool]) -> list[str]:
    names = [f"{folder.rstrip('/')}/{program}" for folder in path.split(":")]
    return [name for name in names if files.get(name)]


def _which(program: str, path: str, files: dict[str, bool]) -> str | None:
    return next(iter(_hits(program, path, files)), None)


def _which_of_files(program: str, path: str, files: dict[str, bool]) -> str | None:
    return next((name for name, runs in files.items() if runs and name.endswith(f"/{program}")), None)


_ALL_HITS = """# exercise: 01_stack.which_atc
def which(program, path, files):
    names = [folder.rstrip("/") + "/" + program for folder in path.split(":")]
    hits = [name for name in names if files.get(name)]
    return {pick} if hits else None
"""

WHICH = Check(
    "01_stack.which_atc",
    run=call("which"),
    draw=_draw_which,
    sizes=("older first", "newer first", "not executable", "last slash", "nowhere", "another program"),
    reference=_which,
    misconceptions=(
        Misconception(
            "this_machine",
            """# exercise: 01_stack.which_atc
def which(program, path, files):
    import shutil
    return shutil.which(program, path=path)
""",
            source("shutil"),
            what="the program is looked for on this machine.",
            why="the server's files are not here: the argument files says what exists there.",
            do="Follow the rule by hand: look each name up in files.",
        ),
        Misconception(
            "newest_wins",
            _ALL_HITS.format(pick="max(hits)"),
            gives(lambda **case: max(_hits(**case), default=None)),
            what="the newest version is taken.",
            why="a shell does not know versions: it takes the first hit of PATH, also if that is an old toolkit.",
            do="Go through PATH from left to right and stop at the first hit.",
        ),
        Misconception(
            "last_wins",
            _ALL_HITS.format(pick="hits[-1]"),
            gives(lambda **case: _hits(**case)[-1] if _hits(**case) else None),
            what="the last hit in PATH is taken.",
            why="the first hit wins: that is why set_env.sh puts its folders in front.",
            do="Return at the first hit, inside the loop.",
        ),
        Misconception(
            "whatever_exists",
            change("files.get(name)", "name in files"),
            fails_where(lambda program, path, files: not all(files.values())),
            what="a file is taken that may not be executed.",
            why="the shell passes over a file without the right to execute it and looks on.",
            do="Ask for the value in files, not only for the key.",
        ),
        Misconception(
            "not_on_path",
            """# exercise: 01_stack.which_atc
def which(program, path, files):
    for name in files:
        if files[name] and name.endswith("/" + program):
            return name
    return None
""",
            gives(_which_of_files),
            what="a file is found whose folder is not in PATH.",
            why="a toolkit that lies on the disk and is not in PATH does not exist for the shell.",
            do="Go through the folders of path, and look each name up in files.",
        ),
        Misconception(
            "two_slashes",
            change('folder.rstrip("/") + "/" + program', 'folder + "/" + program'),
            fails_where(lambda program, path, files: "/:" in path),
            what="a folder that ends with a slash is missed.",
            why='"/a/bin/" + "/" + "atc" has two slashes, and no key of files looks like that.',
            do='Remove the last slash first: folder.rstrip("/").',
        ),
        Misconception(
            "folder_only",
            change("return name", 'return folder.rstrip("/")'),
            got(lambda result, program, path, files: isinstance(result, str) and result.endswith("/bin")),
            what="the folder comes back, not the file.",
            why="the question is which file runs, and its path ends with the program's name.",
            do="Return the whole path, folder and name.",
        ),
        Misconception(
            "empty_text",
            change("return None", 'return ""'),
            got(lambda result, program, path, files: result == ""),
            what="an empty text comes back when nothing is found.",
            why='"nothing" is None here; a caller that joins paths would go on with an empty text.',
            do="Return None after the loop.",
        ),
        Misconception(
            "always_atc",
            change('"/" + program', '"/atc"'),
            fails_where(lambda program, path, files: program != "atc"),
            what="atc is looked for, whatever program is asked for.",
            why="every command is found by the same rule, and the name is an argument.",
            do="Use program instead of the fixed name.",
        ),
    ),
)


# -- 3. set_env ------------------------------------------------------------------------------------

_SEARCH = {"PATH": "bin", "LD_LIBRARY_PATH": "lib64", "PYTHONPATH": "python/site-packages"}


def _draw_set_env(rng: Generator, size: str) -> dict[str, Any]:
    cann = _one(rng, ["8.1.RC1", "8.2.RC1"])
    number = int(rng.integers(10, 99))
    own = {"LD_LIBRARY_PATH": f"/opt/lib{number}:/usr/local/lib", "PYTHONPATH": f"/home/user/tools{number}"}
    environ = {
        "new terminal": _NEW_TERMINAL,
        "own entries": {**_NEW_TERMINAL, **own},
        "older toolkit": sourced({**_NEW_TERMINAL, **own}, "8.0.0"),
        "one variable": {**_NEW_TERMINAL, "PYTHONPATH": own["PYTHONPATH"]},
        "no PATH": {"HOME": "/home/user", "LD_LIBRARY_PATH": own["LD_LIBRARY_PATH"]},
        "second time": sourced(_NEW_TERMINAL, cann),
    }[size]
    return {"environ": dict(environ), "home": f"{_ASCEND}/{cann}"}


def _entries(environ: Any, name: str) -> list[str]:
    value = environ.get(name)
    return value.split(":") if isinstance(value, str) and value != "" else []


def _check_env_is_content(case: CaseRun) -> Fact:
    """The shell with the answer's variables passes check-env on the example machine."""
    do = "Set what check-env names as set_env.sh does; in a search path the toolkit's folder comes first."
    environ = case.got
    if not isinstance(environ, dict) or not all(isinstance(value, str) for value in environ.values()):
        return Fact("check_env", False, "the result is no mapping of variables to texts", "Return the new mapping.")
    cann = case.inputs["home"].rsplit("/", 1)[1]
    row = compatibility.driver_for(cann)
    assert row is not None
    report = check_env(replace(_server(cann, row.driver, row.firmware)[0], environ=environ))
    failed = [finding.text for finding in report.findings if finding.status is Status.FAIL]
    return Fact("check_env", not failed, failed[0].rstrip(".") if failed else "check-env finds nothing broken", do)


def _nothing_is_lost(case: CaseRun) -> Fact:
    """Old entries are there in their order; other variables are as they were."""
    do = "Start from a copy of environ, and keep the old text of each search path behind the new folder."
    old, new = case.inputs["environ"], case.got
    if not isinstance(new, dict):
        return Fact("kept", False, "the result is no mapping", do)
    for name, value in old.items():
        if name in _SEARCH:
            rest = iter(_entries(new, name))
            lost = next((entry for entry in _entries(old, name) if entry not in rest), None)
            if lost is not None:
                return Fact("kept", False, f"{name} has lost {lost}, or changed its place", do)
        elif not name.startswith("ASCEND_") and name != "TOOLCHAIN_HOME" and new.get(name) != value:
            return Fact("kept", False, f"the variable {name} is lost or changed", do)
    return Fact("kept", True, "every old entry is there, in its order")


def _no_empty_entry(case: CaseRun) -> Fact:
    """No search path has an empty entry."""
    do = "Write the colon only if there is an old text to put behind it."
    for name in _SEARCH:
        if isinstance(case.got, dict) and isinstance(case.got.get(name), str) and "" in case.got[name].split(":"):
            return Fact("no_empty_entry", False, f"{name} has an empty entry: the current folder", do)
    return Fact("no_empty_entry", True, "no search path has an empty entry")


def _some(test: Callable[[list[str], list[str], str], bool]) -> Callable[..., bool]:
    """True if some search path of a result is so: ``test(new entries, old entries, the toolkit's folder)``."""

    def ask(result: Any, environ: dict[str, str], home: str) -> bool:
        return any(
            test(_entries(result, name), _entries(environ, name), f"{home}/{folder}")
            for name, folder in _SEARCH.items()
        )

    return ask


def _toolkit_is_named(case: CaseRun) -> Fact:
    """The variables by which programs find the toolkit and its operators."""
    home = case.inputs["home"]
    wanted = {"ASCEND_HOME_PATH": home, "ASCEND_TOOLKIT_HOME": home, "ASCEND_OPP_PATH": f"{home}/opp"}
    wrong = next((name for name, value in wanted.items() if case.got.get(name) != value), None)
    if wrong is None:
        return Fact("toolkit_named", True, "the three ASCEND variables lead to the toolkit")
    do = f"Set it to {wanted[wrong]}: set_env.sh sets it, and other programs read it."
    return Fact("toolkit_named", False, f"{wrong} does not lead to the toolkit in {home}", do)


SET_ENV = Check(
    "01_stack.set_env",
    run=call("set_env"),
    draw=_draw_set_env,
    sizes=("new terminal", "own entries", "older toolkit", "one variable", "no PATH", "second time"),
    must=(_check_env_is_content, _nothing_is_lost, _no_empty_entry, _toolkit_is_named),
    misconceptions=(
        Misconception(
            "unset_variable",
            change("environ.get(name)", "environ[name]"),
            raises("KeyError"),
            what="a variable is read that was never set.",
            why="in a new terminal LD_LIBRARY_PATH and PYTHONPATH do not exist.",
            do="Read with environ.get(name): it gives None for a variable that is not set.",
        ),
        Misconception(
            "forgets_everything",
            change("new = dict(environ)", "new = {}"),
            got(lambda result, environ, home: "HOME" not in result),
            what="the other variables are gone.",
            why="set_env.sh adds to a shell; a shell without HOME or LANG breaks other programs.",
            do="Start from a copy: new = dict(environ).",
        ),
        Misconception(
            "empty_entry",
            change('(f":{old}" if old else "")', "f\":{old or ''}\""),
            got(lambda result, environ, home: any("" in result.get(name, "x").split(":") for name in _SEARCH)),
            what="a search path ends with a colon.",
            why="an empty entry means the current folder: a file acl.py lying there would be imported instead.",
            do="Write the colon only if the variable was set before.",
        ),
        Misconception(
            "overwrites",
            change('new[name] = f"{home}/{folder}" + (f":{old}" if old else "")', 'new[name] = f"{home}/{folder}"'),
            got(_some(lambda new, old, folder: new == [folder] and old not in ([], [folder]))),
            what="a search path holds the toolkit's folder and nothing else.",
            why="with PATH overwritten the shell does not even find ls.",
            do="Put the old text behind the new folder, with a colon between them.",
        ),
        Misconception(
            "behind",
            change(
                'f"{home}/{folder}" + (f":{old}" if old else "")', '(f"{old}:" if old else "") + f"{home}/{folder}"'
            ),
            got(_some(lambda new, old, folder: len(new) > 1 and new[-1] == folder and old[-1:] != [folder])),
            what="the toolkit's folder stands at the end of a search path.",
            why="the first hit wins: behind an older toolkit this one is never reached.",
            do="Put the new folder in front and the old text behind it.",
        ),
        Misconception(
            "lib_for_lib64",
            change('"lib64"', '"lib"'),
            got(lambda result, environ, home: f"{home}/lib" in _entries(result, "LD_LIBRARY_PATH")),
            what="LD_LIBRARY_PATH leads to lib.",
            why="libascendcl.so lies in the toolkit's lib64.",
            do="Use the folder that the exercise names: lib64.",
        ),
        Misconception(
            "only_if_unset",
            change("        new[name] = f", "        new[name] = old or f"),
            got(
                lambda result, environ, home: (
                    environ.get("PATH") == result["PATH"] and f"{home}/bin:" not in result["PATH"]
                )
            ),
            what="a search path that was set stays as it was.",
            why="a value from another program, or of an older toolkit, does not lead to this toolkit.",
            do="Put the folder in front in every case.",
        ),
        Misconception(
            "python_forgotten",
            change(', "PYTHONPATH": "python/site-packages"', ""),
            got(lambda result, environ, home: f"{home}/python/site-packages" not in _entries(result, "PYTHONPATH")),
            what="PYTHONPATH does not lead to the toolkit.",
            why="acl and te lie in python/site-packages; without it `import acl` and ATC's operator compiler fail.",
            do="Treat PYTHONPATH like the other two search paths.",
        ),
    ),
)


# -- 4. triplet ------------------------------------------------------------------------------------


def _tables() -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
    rows = {version: (row.torch, row.cann) for version, row in compatibility.torch_npu_rows().items()}
    pythons = {}
    for torch in ("2.13.0", *(torch for torch, _ in rows.values())):
        fitting = compatibility.torch_python(torch)
        assert fitting is not None
        pythons[torch] = (fitting.first, fitting.last)
    return rows, pythons


def _neighbour(python: str, by: int) -> str:
    return f"3.{int(python.split('.')[1]) + by}"


def _draw_triplet(rng: Generator, size: str) -> dict[str, Any]:
    pythons = _tables()[1]
    several = ["2.7.1", "2.8.0", "2.9.0", "2.6.0", "2.3.1"]
    torch = {
        "many rows": "2.1.0",
        "two digits": "2.10.0",
        "no row": "2.13.0",
        "unknown": _one(rng, ["1.11.0", "2.0.1"]),
        "cpu": _one(rng, ["2.5.1", "2.6.0"]),
    }.get(size) or _one(rng, several)
    first, last = pythons.get(torch, ("3.8", "3.11"))
    python = {
        "first": first,
        "last": last,
        "too old": _neighbour(first, -1),
        "too new": _neighbour(last, 1),
        "two digits": _one(rng, ["3.11", "3.12"]),
        "no row": _one(rng, ["3.11", "3.12"]),
    }.get(size, "3.10")
    return {"torch": f"{torch}+cpu" if size == "cpu" else torch, "python": python}


def _pick(
    torch: str,
    python: str,
    *,
    fits: Callable[[str, str], bool] | None = None,
    order: Callable[[str], Any] | None = version_key,
    runs: Callable[[str, str, str], bool] | None = None,
    nearest: bool = False,
) -> tuple[str, str] | None:
    """The right pair; each argument twists one step."""
    rows, pythons = _tables()
    torch = torch.split("+")[0]
    if nearest and all(row[0] != torch for row in rows.values()):
        older = [row[0] for row in rows.values() if version_key(row[0]) < version_key(torch)]
        torch = max(older, key=version_key, default=torch)
    same = fits or (lambda one, other: one == other)
    versions = [version for version, row in rows.items() if same(row[0], torch)]
    if not versions:
        return None
    inside = runs or (lambda first, mine, last: version_key(first) <= version_key(mine) <= version_key(last))
    first, last = pythons[torch]
    if not inside(first, python, last):
        return None
    newest = max(versions, key=order) if order else versions[-1]
    return newest, rows[newest][1]


TRIPLET = Check(
    "01_stack.triplet",
    run=call("pick"),
    draw=_draw_triplet,
    sizes=("many rows", "two digits", "first", "last", "too old", "too new", "cpu", "no row", "unknown"),
    reference=_pick,
    misconceptions=(
        Misconception(
            "newest_text",
            change("max(versions, key=version_key)", "max(versions)"),
            gives(lambda **case: _pick(**case, order=str)),
            what="the newest version is found by comparing texts.",
            why='as texts "2.1.0.post8" is greater than "2.1.0.post17", because "8" comes after "1".',
            do="Compare by version: max(versions, key=version_key).",
        ),
        Misconception(
            "python_text",
            change("version_key(first) <= version_key(python) <= version_key(last)", "first <= python <= last"),
            gives(lambda **case: _pick(**case, runs=lambda first, mine, last: first <= mine <= last)),
            what="the Python versions are compared as texts.",
            why='as texts "3.10" is smaller than "3.9".',
            do="Compare version_key(python) with version_key(first) and version_key(last).",
        ),
        Misconception(
            "nearest_row",
            change(
                "    if not versions:\n        return None\n",
                "    if not versions:\n"
                "        older = [row[0] for row in ROWS.values() if version_key(row[0]) < version_key(torch)]\n"
                "        if not older:\n"
                "            return None\n"
                "        torch = max(older, key=version_key)\n"
                "        versions = [version for version, row in ROWS.items() if row[0] == torch]\n",
            ),
            gives(lambda **case: _pick(**case, nearest=True)),
            what="a torch without a row gets the torch_npu of an older torch.",
            why="torch_npu is built against one torch; beside another one the import ends in undefined symbol.",
            do="Return None if no row names this torch.",
        ),
        Misconception(
            "cpu_suffix",
            change('torch = torch.split("+")[0]', "torch = torch.strip()"),
            fails_where(lambda torch, python: "+" in torch),
            what="a torch such as 2.5.1+cpu is not recognised.",
            why='what follows "+" says how a package was built; the version is before it.',
            do='Cut it off first: torch.split("+")[0].',
        ),
        Misconception(
            "any_python",
            change(
                "    if not version_key(first) <= version_key(python) <= version_key(last):\n        return None\n", ""
            ),
            gives(lambda **case: _pick(**case, runs=lambda first, mine, last: True)),
            what="the Python version is not looked at.",
            why="pip has no package of torch_npu for another Python, so the installation fails.",
            do="Return None unless python lies between the two ends of PYTHONS[torch].",
        ),
        Misconception(
            "ends_excluded",
            change("<= version_key(python) <=", "< version_key(python) <"),
            fails_where(
                lambda torch, python: python in _tables()[1].get(torch.split("+")[0], ()) and torch != "2.13.0"
            ),
            what="the first and the last Python are left out.",
            why="both ends of the range are supported.",
            do="Compare with <= on both sides.",
        ),
        Misconception(
            "prefix",
            change("row[0] == torch]", "row[0].startswith(torch[:3])]"),
            gives(lambda **case: _pick(**case, fits=lambda row, torch: row.startswith(torch[:3]))),
            what="rows of another torch are taken too.",
            why='"2.1" is the beginning of "2.10.0", "2.11.0" and "2.12.0" as well.',
            do="Compare the whole version: row[0] == torch.",
        ),
        Misconception(
            "unknown_torch",
            change(
                "    versions = [version for version, row in ROWS.items() if row[0] == torch]\n"
                "    if not versions:\n        return None\n    first",
                "    versions = [version for version, row in ROWS.items() if row[0] == torch]\n    first",
            ),
            raises("KeyError") | raises("ValueError", "empty"),
            what="a torch that is in no table ends in an exception.",
            why="a project may name any torch, also one that never had a torch_npu.",
            do="Look for rows first, and return None if there are none.",
        ),
        Misconception(
            "last_of_the_table",
            change("max(versions, key=version_key)", "versions[-1]"),
            gives(lambda **case: _pick(**case, order=None)),
            what="the last row of the table is taken, and that is the oldest one.",
            why="the order of a table is no promise.",
            do="Compare the versions: max(versions, key=version_key).",
        ),
        Misconception(
            "same_name",
            """# exercise: 01_stack.triplet
def pick(torch, python):
    torch = torch.split("+")[0]
    if torch not in ROWS:
        return None
    return torch, ROWS[torch][1]
""",
            got(lambda result, torch, python: isinstance(result, (list, tuple)) and result[0] == torch.split("+")[0])
            & ~got(lambda result, torch, python: ".post" in str(result)),
            what="torch_npu is taken to have the number of its torch, and nothing more.",
            why="one torch may have several torch_npu: 2.1.0, 2.1.0.post12, 2.1.0.post17, each for another CANN.",
            do="Collect all rows whose torch is the one you look for, then take the newest.",
        ),
    ),
)


# -- 5. predict ------------------------------------------------------------------------------------

Machine = dict[str, Any]


def _draw_machines(rng: Generator, size: Any) -> dict[str, Any]:
    def kind(*, toolkit: bool = True, driver: str = "fits", firmware: bool = True, sourced: bool = True) -> Machine:
        cann = _one(rng, ["8.1.RC1", "8.2.RC1"])
        row = compatibility.driver_for(cann)
        assert row is not None
        version = {
            "fits": row.driver,
            "none": "",
            "newer": _one(rng, ["25.2.0", "25.5.1"]),
            "older": {"8.1.RC1": "23.0.1", "8.2.RC1": "24.1.rc2"}[cann],
        }[driver]
        return {
            "cann": cann if toolkit else "",
            "driver": version,
            "firmware": row.firmware if firmware and version else "",
            "sourced": sourced,
        }

    machines = [
        kind(driver="none"),
        kind(driver="newer"),
        kind(firmware=False),
        kind(sourced=False),
        kind(sourced=False, driver="older"),
        kind(toolkit=False, sourced=False),
    ]
    return {"machines": [machines[index] for index in rng.permutation(len(machines))]}


def _observed(machines: list[Machine]) -> list[tuple[str, int]]:
    """State and exit code of check-env, run on each machine."""
    found = []
    for machine in machines:
        server, _ = _server(machine["cann"], machine["driver"], machine["firmware"])
        environ = server.environ if machine["sourced"] else _NEW_TERMINAL
        report = check_env(replace(server, environ=environ))
        found.append((report.state.value, 0 if report.fine else 1))
    return found


def _is_old(machine: Machine) -> bool:
    row = compatibility.driver_for(machine["cann"])
    return bool(row and machine["driver"]) and version_key(machine["driver"]) < version_key(row.driver if row else "0")


def _twisted(
    state: Callable[[Machine, str], str] = lambda machine, right: right,
    code: Callable[[Machine, int], int] = lambda machine, right: right,
) -> Callable[[list[Machine]], list[tuple[str, int]]]:
    """A wrong prediction: state and exit code of each machine, changed."""

    def predict(machines: list[Machine]) -> list[tuple[str, int]]:
        pairs = zip(machines, _observed(machines), strict=True)
        return [(state(machine, right), code(machine, exit_code)) for machine, (right, exit_code) in pairs]

    return predict


_BROKEN = 'bool(m["cann"]) and (not m["sourced"] or old)'
_STATE = '"emulated" if not m["cann"] else "real" if m["driver"] else "no_driver"'

PREDICT = Check(
    "01_stack.predict",
    run=read("prediction"),
    draw=_draw_machines,
    reference=_observed,
    compare=text(),
    must=(how_many_right("pairs are"),),
    misconceptions=(
        Misconception(
            "warning_fails",
            change(_BROKEN, 'bool(m["cann"]) and (not m["sourced"] or old or bool(m["driver"] and not m["firmware"]))'),
            gives(_twisted(code=lambda m, right: 1 if m["cann"] and m["driver"] and not m["firmware"] else right)),
            what="a missing version file of the firmware counts as broken.",
            why="it is a warning: the pair cannot be compared, and everything may well work.",
            do="Count failures only; notes and warnings leave the exit code at 0.",
        ),
        Misconception(
            "newer_driver_fails",
            change('version_key(m["driver"]) < version_key(wanted)', 'version_key(m["driver"]) != version_key(wanted)'),
            gives(
                _twisted(
                    code=lambda m, right: (
                        1 if m["cann"] and m["driver"] and m["driver"].startswith(("25.2", "25.5")) else right
                    )
                )
            ),
            what="a driver that is newer than the toolkit's counts as broken.",
            why="the driver must not be older; a newer one serves older toolkits too.",
            do="Look for drivers that are older than the one released with the CANN.",
        ),
        Misconception(
            "no_driver_fails",
            change(_BROKEN, 'bool(m["cann"]) and (not m["sourced"] or old or not m["driver"])'),
            gives(_twisted(code=lambda m, right: 1 if m["cann"] and not m["driver"] else right)),
            what="a toolkit without a driver counts as broken.",
            why="that machine converts models, which needs no NPU; the state says what it cannot do.",
            do="Ask of each machine whether what is there can work.",
        ),
        Misconception(
            "no_toolkit_fails",
            change(_BROKEN, 'not m["cann"] or not m["sourced"] or old'),
            gives(_twisted(code=lambda m, right: right if m["cann"] else 1)),
            what="a machine without a toolkit counts as broken.",
            why="the emulation answers there, and that is fine.",
            do="Expect 0 where nothing real is asked to work.",
        ),
        Misconception(
            "installed_is_enough",
            change('not m["sourced"] or old', "old"),
            gives(_twisted(code=lambda m, right: int(bool(m["cann"]) and _is_old(m)))),
            what="a toolkit that is installed and not sourced counts as fine.",
            why="a shell without the variables of set_env.sh finds neither atc nor libascendcl.so.",
            do="Look at the entry sourced of each machine with a toolkit.",
        ),
        Misconception(
            "counts_failures",
            change("1 if broken else 0", '(not m["sourced"]) + old if broken else 0'),
            gives(_twisted(code=lambda m, right: right and int(not m["sourced"]) + int(_is_old(m)))),
            what="the exit code counts the failures.",
            why="it answers one question: is something broken? One failure or ten, it is 1.",
            do="Write 1 for every machine with at least one failure.",
        ),
        Misconception(
            "broken_is_two",
            change("1 if broken else 0", "2 if broken else 0"),
            gives(_twisted(code=lambda m, right: 2 * right)),
            what="a broken machine gets exit code 2.",
            why="2 says that the command itself was typed wrongly.",
            do="Use 1 for something that is broken.",
        ),
        Misconception(
            "driver_is_real",
            change(_STATE, '"real" if m["driver"] else "no_driver" if m["cann"] else "emulated"'),
            gives(_twisted(state=lambda m, right: "real" if m["driver"] else right)),
            what="a driver alone is taken for the real stack.",
            why="without a toolkit there is no runtime and no acl: the emulation answers, and the cards are a note.",
            do="Look for the toolkit first.",
        ),
        Misconception(
            "no_driver_is_emulated",
            change(_STATE, '"real" if m["cann"] and m["driver"] else "emulated"'),
            gives(_twisted(state=lambda m, right: "emulated" if right == "no_driver" else right)),
            what="a toolkit without a driver is taken for no toolkit.",
            why="its atc is the real one: check-env has a state of its own for such a machine.",
            do="Use the state for a toolkit alone.",
        ),
        Misconception(
            "no_pairs",
            change("prediction.append((state, 1 if broken else 0))", "prediction.append(1 if broken else 0)"),
            sign(lambda attempt: any(type(item) is int for case in attempt.cases for item in case.got)),
            what="a machine has one value instead of two.",
            why="each machine needs its state and its exit code.",
            do='Write pairs, such as ("real", 0).',
        ),
        Misconception(
            "codes",
            change("1 if broken else 0", "0"),
            got(lambda result, machines: [pair[0] for pair in result] == [pair[0] for pair in _observed(machines)]),
            what="every state is right, and some exit code is not.",
            why="an exit code is 1 where something that is there cannot work, and 0 everywhere else.",
            do="Go through the machines with a toolkit: ask whether it is sourced, and whether the driver is too old.",
        ),
        Misconception(
            "states",
            change(_STATE, '"real"'),
            got(lambda result, machines: [pair[1] for pair in result] == [pair[1] for pair in _observed(machines)]),
            what="every exit code is right, and some state is not.",
            why="the state says which parts are there: a toolkit and a driver, a toolkit alone, or no toolkit.",
            do="Look at cann and driver of each machine, and at nothing else.",
        ),
        Misconception(
            "both",
            '# exercise: 01_stack.predict\nprediction = [("real", 1)] * len(machines)',
            sign(lambda attempt: any(len(case.got) == len(case.inputs["machines"]) for case in attempt.failed)),
            what="some state and some exit code are wrong.",
            why="which parts are there is one question, and whether they can work is another.",
            do="Write down the six states first, from cann and driver alone; then the exit codes.",
        ),
    ),
)


# -- 6. plan ---------------------------------------------------------------------------------------

_ORDER = (
    "real.driver",
    "real.firmware",
    "real.devices",
    "real.toolkit",
    "real.toolkit_parts",
    "real.toolkit_arch",
    "real.libascendcl",
    "real.atc_python",
    "real.torch_python",
    "real.torch",
    "real.torch_npu",
    "real.atc_packages",
    "real.set_env",
)


def _findings(rng: Generator) -> dict[str, Finding]:
    """Findings as check-env reports them, by a short name."""
    cann, python = _one(rng, ["8.1.RC1", "8.2.RC1"]), "/home/user/npu/bin/python"
    toolkit = {"release": cann, "arch": _one(rng, ["x86_64", "aarch64"])}
    set_env = f"{_ASCEND}/set_env.sh"
    package = _one(rng, ["decorator", "attrs", "psutil", "sympy"])
    unset = [
        broken(
            "real.set_env",
            "env.variable_incomplete",
            variable=name,
            wanted=f"{_ASCEND}/{cann}/{folder}",
            set_env=set_env,
        )
        for name, folder in _SEARCH.items()
    ]
    return {
        "driver": broken("real.driver", "env.driver_too_old", driver="23.0.1", wanted="25.0.rc1", **toolkit),
        "libascendcl": broken(
            "real.libascendcl",
            "env.library_missing",
            library="libascendcl.so",
            folder=f"{_ASCEND}/{cann}/lib64",
            **toolkit,
        ),
        "python": broken("real.atc_python", "env.atc_python", python="3.12", release=cann, first="3.7", last="3.11"),
        "torch": broken(
            "real.torch", "env.torch_mismatch", torch="2.12.0", torch_npu="2.5.1", wanted="2.5.1", python=python
        ),
        "package": broken(
            "real.atc_packages", "env.atc_package_missing", packages=package, quoted=package, python=python
        ),
        **{f"set_env {number}": finding for number, finding in enumerate(unset)},
        "kernel": broken("course.kernel", "env.kernel_missing", folder="/home/user/npu", python=python),
        "disk": broken("course.disk", "env.disk_low", folder="/home/user", free="0.4", wanted=1, need="the course"),
        "firmware": warned("real.firmware", "env.firmware_missing", driver="23.0.1"),
        "npu_smi": warned("real.npu_smi", "env.npu_smi_missing"),
        "nnal": note("real.nnal", "NNAL is installed"),
        "toolkit": ok("real.toolkit", f"toolkit {cann}"),
        "memory": ok("course.memory", "64 GiB of memory"),
    }


_SHELL = ("set_env 0", "set_env 1", "set_env 2")
_FINE = ("toolkit", "memory", "nnal")
_REPORTS = {
    "nothing": (*_FINE,),
    "warnings only": ("firmware", "npu_smi", *_FINE),
    "one": ("torch", *_FINE),
    "shell": (*_SHELL, "firmware", *_FINE),
    "course": ("kernel", "disk", "driver", *_SHELL, *_FINE),
    "everything": ("driver", "libascendcl", "python", "torch", "package", *_SHELL, "kernel", "firmware", *_FINE),
}


def _draw_report(rng: Generator, size: str) -> dict[str, Any]:
    findings = _findings(rng)
    names = _REPORTS[size]
    listed = [findings[names[index]] for index in rng.permutation(len(names))]
    if _unsorted(listed) == _plan_of(listed):  # a report in the right order would ask nothing
        listed.reverse()
    return {"text": json.dumps(Report(State.REAL, (), {}, tuple(listed)).to_dict())}


def _failed(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.status is Status.FAIL]


def _plan_of(findings: list[Finding], unknown: int = len(_ORDER)) -> list[str]:
    """The plan; ``unknown`` is the place of a check that is not in the order."""

    def place(finding: Finding) -> int:
        return _ORDER.index(finding.check) if finding.check in _ORDER else unknown

    commands = list(dict.fromkeys(finding.fix for finding in sorted(_failed(findings), key=place)))
    return [*commands, "cannlab check-env"] if commands else []


def _read(text: str) -> list[Finding]:
    return [Finding(**entry | {"status": Status(entry["status"])}) for entry in json.loads(text)["checks"]]


def _plan(text: str) -> list[str]:
    return _plan_of(_read(text))


def _unsorted(findings: list[Finding], order: Callable[[list[str]], list[str]] = list) -> list[str]:
    commands = order(list(dict.fromkeys(finding.fix for finding in _failed(findings))))
    return [*commands, "cannlab check-env"] if commands else []


_SORT = 'failed.sort(key=lambda found: ORDER.index(found["check"]) if found["check"] in ORDER else len(ORDER))'

PLAN = Check(
    "01_stack.plan",
    run=call("plan"),
    draw=_draw_report,
    sizes=tuple(_REPORTS),
    reference=_plan,
    misconceptions=(
        Misconception(
            "unknown_check",
            change(_SORT, 'failed.sort(key=lambda found: ORDER.index(found["check"]))'),
            raises("ValueError", "list"),
            what="a check that is not in ORDER ends in an exception.",
            why="check-env has more checks than the list, and a later version adds some.",
            do="Give an unknown check the place len(ORDER), behind all others.",
        ),
        Misconception(
            "warnings_too",
            change('found["status"] == "fail"', 'found["fix"]'),
            got(
                lambda result, text: any(
                    finding.fix in result for finding in _read(text) if finding.status is Status.WARN
                )
            ),
            what="commands of warnings are in the plan.",
            why="a warning has a command too, but nothing is broken: exit code 0.",
            do='Take the entries whose status is "fail".',
        ),
        Misconception(
            "repeated",
            change('list(dict.fromkeys(found["fix"] for found in failed))', '[found["fix"] for found in failed]'),
            got(lambda result, text: len(set(result)) < len(result)),
            what="a command stands in the plan more than once.",
            why="one command may repair several checks: one source sets all the variables.",
            do="Keep each command once, at its first place: list(dict.fromkeys(commands)).",
        ),
        Misconception(
            "always_check_again",
            change('[*commands, "cannlab check-env"] if commands else []', '[*commands, "cannlab check-env"]'),
            fails_where(lambda text: not _failed(_read(text)))
            & got(lambda result, text: result == ["cannlab check-env"]),
            what="a fine machine gets a plan too.",
            why="nothing failed, so there is nothing to do and nothing to check again.",
            do="Return an empty list if there are no commands.",
        ),
        Misconception(
            "no_last_check",
            change('[*commands, "cannlab check-env"] if commands else []', "commands"),
            gives(lambda text: _plan(text)[:-1]),
            what="the plan does not end with a new check.",
            why="a repair is done when check-env says so, not when its command ended.",
            do='Put "cannlab check-env" at the end of a plan that is not empty.',
        ),
        Misconception(
            "order_of_the_report",
            change("    " + _SORT + "\n", ""),
            gives(lambda text: _unsorted(_read(text))),
            what="the commands stand in the order of the report.",
            why="sourcing a shell before a driver upgrade is lost: the upgrade ends in a reboot.",
            do="Sort the failed checks by their place in ORDER.",
        ),
        Misconception(
            "alphabet",
            change(_SORT, 'failed.sort(key=lambda found: found["fix"])'),
            gives(lambda text: _unsorted(_read(text), sorted)),
            what="the commands are sorted by their text.",
            why="the alphabet knows nothing of chip, driver and shell.",
            do='Sort by the place of found["check"] in ORDER.',
        ),
        Misconception(
            "unknown_first",
            change("else len(ORDER)", "else -1"),
            gives(lambda text: _plan_of(_read(text), unknown=-1)),
            what="checks that are not in ORDER come first.",
            why="the course's own needs (a Jupyter kernel, disk space) matter after the stack below works.",
            do="Give an unknown check the place len(ORDER).",
        ),
        Misconception(
            "text_for_fix",
            change('dict.fromkeys(found["fix"] for', 'dict.fromkeys(found["text"] for'),
            got(
                lambda result, text: any(
                    finding.text in result for finding in _read(text) if finding.status is Status.FAIL
                )
            ),
            what="the plan holds what is wrong, not what to do.",
            why="a text is a sentence for a person; a fix is the command.",
            do='Take found["fix"].',
        ),
        Misconception(
            "order_lost",
            change(
                'list(dict.fromkeys(found["fix"] for found in failed))',
                'sorted({found["fix"] for found in failed}, key=len)',
            ),
            got(lambda result, text: result != _plan(text) and sorted(result) == sorted(_plan(text))),
            what="the right commands stand in another order.",
            why="a set forgets the order, and sorting again changes it.",
            do="Sort once, then remove repetitions with dict.fromkeys, which keeps the order.",
        ),
    ),
)

CHECKS = [LAYERS, WHICH, SET_ENV, TRIPLET, PREDICT, PLAN]
