"""The commands: their output, their exit codes, and what bad input gets."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cannlab.cli import explain, lab
from cannlab.cli.app import call
from cannlab.cli.run import split_arguments
from cannlab.course import layout
from cannlab.errors import tables
from cannlab.trace import Record

Write = Callable[..., str]
Output = pytest.CaptureFixture[str]


# -- the command itself ------------------------------------------------------------------------------------


def test_help_names_every_command(capsys: Output) -> None:
    assert call(["--help"]) == 0
    text = capsys.readouterr().out
    for name in ("check-env", "env", "learn", "lab", "demo", "run", "profile", "atc", "npu-smi", "explain"):
        assert name in text


def test_version_is_labelled(capsys: Output) -> None:
    assert call(["--version"]) == 0
    assert capsys.readouterr().out == "cannlab 0.1.0, CANN 8.1.RC1 (emulated)\n"


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["check-env", "--nonsense"], ["env", "--devices", "many"], ["explain"], ["explain", "--lst"]],
)
def test_bad_usage_is_2(words: list[str], capsys: Output) -> None:
    assert call(words) == 2
    captured = capsys.readouterr()
    assert "Error" in captured.err
    assert captured.out == ""


def test_a_diagnosis_is_printed_and_gives_1(capsys: Output) -> None:
    assert call(["env", "--soc", "Ascend9000"]) == 1
    captured = capsys.readouterr()
    assert "there is no SoC named 'Ascend9000'" in captured.err
    assert "  do: " in captured.err
    assert captured.out == ""


def test_mistakes_of_cannlab_itself_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cannlab.cli.check_env.run", lambda **_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        call(["check-env"])


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("cannlab.cli.check_env.run", interrupted)
    assert call(["check-env"]) == 130


def test_closed_pipe_is_quiet() -> None:
    command = f'"{sys.executable}" -m cannlab explain --list | head -1'
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (answer.stdout, answer.stderr) == ("Raised by cannlab:\n", "")


@pytest.mark.parametrize(("command", "module"), [("atc", "cannlab.atc"), ("demo", "cannlab.cli.demo")])
def test_words_reach_the_program_as_typed(command: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import ModuleType

    seen: list[list[str]] = []
    fake = ModuleType(module)
    fake.main = lambda words: seen.append(words) or 7  # type: ignore[attr-defined,func-returns-value]
    monkeypatch.setitem(sys.modules, module, fake)
    words = ["--model=a b.onnx", "--framework", "5", "-h", "--help", "--", "--version", "", "-x=1"]
    assert call([command, *words]) == 7
    assert seen == [words]


def test_learn_has_commands_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    from types import ModuleType

    import typer

    part = ModuleType("cannlab.cli.learn")
    part.app = typer.Typer()  # type: ignore[attr-defined]

    @part.app.command()
    def check(name: str, seed: int = 1) -> None:
        print(name, seed)
        raise typer.Exit(3)

    @part.app.command()
    def next() -> None:
        print("next")

    monkeypatch.setitem(sys.modules, "cannlab.cli.learn", part)
    assert call(["learn", "check", "01_stack.a", "--seed", "5"]) == 3
    assert call(["learn", "next"]) == 0
    assert call(["learn", "nothing"]) == 2
    assert call(["learn", "--help"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("01_stack.a 5\nnext\n")
    assert "Usage: cannlab learn" in captured.out
    assert "nothing" in captured.err


def test_a_missing_part_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setitem(sys.modules, "cannlab.cli.demo", None)
    assert call(["demo"]) == 1
    assert "`cannlab demo` is not part of this installation" in capsys.readouterr().err


# -- check-env ---------------------------------------------------------------------------------------------


def test_check_env_json_and_text_agree(capsys: Output) -> None:
    code = call(["check-env", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert code == (0 if data["ok"] else 1)
    assert call(["check-env"]) == code
    text = capsys.readouterr().out
    for entry in data["checks"]:
        if entry["check"] not in ("course.disk", "course.memory"):
            assert entry["text"] in text
    assert "\033[" not in text


def test_check_env_root_must_be_a_folder(tmp_path: Path, capsys: Output) -> None:
    assert call(["check-env", "--root", str(tmp_path / "nothing")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert call(["check-env", "--root", str(tmp_path)]) == 1
    assert "no toolkit and no driver" in capsys.readouterr().out


def test_check_env_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom cannlab.cli.app import call\ncall(['check-env', '--json'])\n"
        "print(sorted({'numpy', 'torch', 'onnx', 'onnxruntime', 'matplotlib'} & set(sys.modules)), file=sys.stderr)\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert answer.stderr == "[]\n"


# -- env -----------------------------------------------------------------------------------------------------


def in_shell(script: str, shell: str = "bash") -> str:
    answer = subprocess.run([shell, "-c", script], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


ENV = f'eval "$("{sys.executable}" -m cannlab env --soc Ascend310P3 --devices 2 2>/dev/null)"'


@pytest.mark.parametrize("shell", ["bash", "sh", "zsh"])
def test_env_sets_up_a_shell(shell: str) -> None:
    import shutil

    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    text = in_shell(
        f"{ENV}; for name in atc npu-smi msprof; do command -v $name; done; npu-smi info -m 2>/dev/null; env", shell
    )
    lines = text.splitlines()
    assert [os.path.basename(line) for line in lines[:3]] == ["atc", "npu-smi", "msprof"]
    assert all("a cache/" in line for line in lines[:3])
    assert text.count("Ascend 310P3") == 2
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    assert (values["CANNLAB_SOC"], values["CANNLAB_DEVICES"], values["CANNLAB_BACKEND"]) == (
        "Ascend310P3",
        "2",
        "emulated",
    )
    assert os.path.isdir(values["ASCEND_HOME_PATH"] + "/runtime")


def test_env_twice_changes_nothing() -> None:
    once, twice = in_shell(f"{ENV}; env | sort").splitlines(), in_shell(f"{ENV}; {ENV}; env | sort").splitlines()
    assert once == twice
    path = next(line for line in once if line.startswith("PATH="))
    assert path.count("/latest/bin") == 1


def test_env_keeps_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/some/where else")
    assert in_shell(f'{ENV}; echo "$LD_LIBRARY_PATH"').rstrip("\n").endswith(":/some/where else")
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert not in_shell(f'{ENV}; echo "$LD_LIBRARY_PATH"').rstrip("\n").endswith(":")


def test_env_of_an_unknown_shell(capsys: Output) -> None:
    assert call(["env", "--shell", "fish"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "'fish'" in captured.err


def test_env_reaches_programs(stand_in: str, program: Write) -> None:
    path = program(stand_in + "import acl\nprint(acl.rt.get_device_count())\n")
    code = f"import sys\n{stand_in}from cannlab.cli.app import call\nsys.exit(call(['env']))"
    assert in_shell(f"""eval "$("{sys.executable}" -c "{code}")"; "{sys.executable}" "{path}" """) == "(8, 0)\n"


# -- run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["p.py"], ([], None, ["p.py"])),
        (
            ["--soc", "X", "--trace=t", "p.py", "--soc", "Y", "--", "-m"],
            (["--soc", "X", "--trace=t"], None, ["p.py", "--soc", "Y", "--", "-m"]),
        ),
        (["-m", "a.b", "-m", "--help"], ([], "a.b", ["-m", "--help"])),
        (["--devices", "2", "-m"], (["--devices", "2"], "", [])),
        (["--help", "p.py"], (["--help"], None, ["p.py"])),
        (["--", "-odd.py"], ([], None, ["-odd.py"])),
        ([], ([], None, [])),
    ],
)
def test_run_splits_its_words(words: list[str], parts: tuple[list[str], str | None, list[str]]) -> None:
    assert split_arguments(words) == parts


def test_run_is_main_with_its_own_arguments(program: Write, capsys: Output) -> None:
    path = program(
        "import os, sys\n"
        "print(__name__, __file__ == sys.argv[0], sys.argv[1:], sys.path[0] == os.path.dirname(__file__))\n"
        "print(sys.modules['__main__'].__dict__ is globals(), __spec__, os.environ['CANNLAB_SOC'])\n"
    )
    assert call(["run", "--soc", "Ascend310P3", path, "--soc", "x", "--help", "--", "-m"]) == 0
    assert capsys.readouterr().out == (
        "__main__ True ['--soc', 'x', '--help', '--', '-m'] True\nTrue None Ascend310P3\n"
    )


def test_run_a_module_and_a_package(
    program: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    program("import sys\nprint(__name__, __package__, sys.argv[1:], __spec__.name)\n", "tool.py")
    folder = tmp_path / "my work" / "pack"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text("VALUE = 5\n")
    (folder / "__main__.py").write_text("from .part import VALUE\nprint(__name__, __package__, VALUE)\n")
    monkeypatch.chdir(tmp_path / "my work")
    assert call(["run", "-m", "tool", "-x", "--help"]) == 0
    assert call(["run", "-m", "pack"]) == 0
    assert call(["run", "pack/__main__.py"]) == 1  # as python does: no package, no relative import
    captured = capsys.readouterr()
    assert captured.out == "__main__  ['-x', '--help'] tool\n__main__ pack 5\n"
    assert "attempted relative import" in captured.err


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(3)", 3, ""),
        ("import sys; sys.exit('no luck')", 1, "no luck\n"),
        ("raise KeyboardInterrupt", 130, "Interrupted.\n"),
    ],
)
def test_run_passes_the_exit_status_on(program: Write, capsys: Output, body: str, status: int, said: str) -> None:
    os.environ["CANNLAB_BACKEND"] = "emulated"
    assert call(["run", program(body)]) == status
    assert capsys.readouterr().err == said


def test_run_shows_the_learners_traceback_alone(program: Write, capsys: Output) -> None:
    path = program(
        "from cannlab import soc\n\ndef outer():\n    soc.get('Ascend1')\n\n"
        "try:\n    outer()\nexcept Exception as first:\n    raise ValueError('second') from first\n"
    )
    assert call(["run", path]) == 1
    text = capsys.readouterr().err
    assert "line 4, in outer" in text
    assert "line 9, in <module>" in text
    assert "direct cause" in text
    assert "/cannlab/" not in text


def test_run_can_show_every_frame(program: Write, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_TRACEBACK", "full")
    assert call(["run", program("from cannlab import soc\nsoc.get('Ascend1')\n")]) == 1
    assert "cannlab/soc/soc.py" in capsys.readouterr().err


def test_run_shows_a_syntax_error_as_python_does(program: Write, capsys: Output) -> None:
    path = program("x = (1,\n")
    assert call(["run", path]) == 1
    text = capsys.readouterr().err
    assert "SyntaxError: '(' was never closed" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "words", [["run"], ["run", "--bad", "p.py"], ["run", "missing.py"], ["run", "-m"], ["run", "-m", "no.such"]]
)
def test_run_bad_usage(words: list[str], capsys: Output) -> None:
    assert call(words) == 2
    assert capsys.readouterr().out == ""


def test_run_refuses_what_is_no_program(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "data.py").write_bytes(b"\x7fELF\0\0")
    assert call(["run", str(tmp_path / "data.py")]) == 2
    assert call(["run", str(tmp_path)]) == 2
    assert "no Python source" in capsys.readouterr().err


def test_run_help_is_its_own(capsys: Output) -> None:
    assert call(["run", "--help"]) == 0
    assert "--trace FILE" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--soc", "Ascend0"], ["--devices", "0"], ["--devices", "x"]])
def test_run_bad_settings(words: list[str], program: Write, capsys: Output) -> None:
    assert call(["run", *words, program("print('ran')")]) == 1
    assert capsys.readouterr().out == ""


def test_run_uses_the_emulator(stand_in: str, program: Write, capsys: Output) -> None:
    assert call(["run", program("import acl\nprint(acl.rt.get_device_count())\n")]) == 0
    assert capsys.readouterr().out == "(8, 0)\n"


TRACED = (
    "import atexit\nfrom cannlab.machine import machine\n"
    "atexit.register(lambda: machine().record.faults.append({'rule': 'at.exit'}))\n"
    "machine().record.faults.append({'rule': 'first'})\n"
)


@pytest.mark.parametrize(("end", "status"), [("", 0), ("raise SystemExit(5)\n", 5), ("1 / 0\n", 1)])
def test_run_writes_the_record_also_when_the_program_fails(
    program: Write,
    tmp_path: Path,
    cannlab_command: Callable[..., subprocess.CompletedProcess[str]],
    end: str,
    status: int,
) -> None:
    target = tmp_path / "run.npz"
    answer = cannlab_command(
        "run", "--soc", "Ascend310P3", "--devices", "2", "--trace", str(target), program(TRACED + end)
    )
    assert answer.returncode == status
    record = Record.load(target)
    assert (record.soc, record.devices) == ("Ascend310P3", 2)
    assert [fault["rule"] for fault in record.faults] == ["first", "at.exit"]
    assert [file.name for file in tmp_path.iterdir() if ".part" in file.name] == []


def test_run_record_goes_where_it_was_asked_for_although_the_program_moves(
    program: Write, tmp_path: Path, cannlab_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    answer = cannlab_command("run", "--trace", "run.npz", program("import os\nos.chdir('/')\n"), cwd=tmp_path)
    assert answer.returncode == 0
    assert (tmp_path / "run.npz").is_file()


def test_run_refuses_a_bad_trace_before_the_program_runs(program: Write, tmp_path: Path, capsys: Output) -> None:
    path = program("print('ran')\n")
    for target in (tmp_path / "missing" / "run.npz", tmp_path):
        assert call(["run", "--trace", str(target), path]) == 1
    assert capsys.readouterr().out == ""


def test_run_interrupted_from_outside(program: Write, tmp_path: Path) -> None:
    path = program("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    child = subprocess.Popen(
        [sys.executable, "-m", "cannlab", "run", "--trace", str(tmp_path / "t.npz"), path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background lets its children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 130
    assert "Traceback" not in err


# -- explain ---------------------------------------------------------------------------------------------------


def test_explain_a_code_that_is_raised(capsys: Output) -> None:
    assert call(["explain", "soc.unknown"]) == 0
    text = capsys.readouterr().out
    rule = tables.rule("soc.unknown")
    assert "there is no SoC named NAME." in text
    for part in (rule.title, rule.lesson, rule.source, *rule.causes):
        assert part in text


def test_explain_gives_every_rule_of_a_code(capsys: Output) -> None:
    assert call(["explain", "-8005"]) == 0
    text = capsys.readouterr().out
    for name, rule in tables.rules().items():
        assert (f"({name})" in text) == ("-8005" in rule.codes.values())


def test_explain_a_known_code_says_that_it_is_not_emulated(capsys: Output) -> None:
    raised = {code for rule in tables.rules().values() for code in rule.codes.values()}
    code = next(code for code in tables.known_codes() if code not in raised)
    assert call(["explain", code]) == 0
    text = capsys.readouterr().out
    assert tables.known_codes()[code].title in text
    assert "does not raise it" in text


@pytest.mark.parametrize(
    ("typed", "near"), [("10702", "107002"), ("E1001", "E10001"), ("soc.unknow", "soc.unknown"), ("507l35", "507035")]
)
def test_explain_suggests_near_codes(typed: str, near: str, capsys: Output) -> None:
    assert call(["explain", typed]) == 1
    assert near in explain.near_codes(typed)
    assert near in capsys.readouterr().err


def test_explain_a_constant_and_a_word(capsys: Output) -> None:
    assert call(["explain", "acl_error_invalid_param"]) == 0
    assert capsys.readouterr().out.startswith("100000: ACL_ERROR_INVALID_PARAM")
    assert call(["explain", "device"]) == 0
    text = capsys.readouterr().out
    assert "107001" in text
    assert "(runtime.device_not_set)" in text


def test_explain_shows_no_notes_of_the_authors_and_marks_lessons_to_come(capsys: Output) -> None:
    to_come = {lesson.id for lesson in layout.find().course.lessons if lesson.later}
    rule = next((name for name, rule in tables.rules().items() if rule.lesson in to_come), None)
    if rule is not None:
        assert call(["explain", rule]) == 0
        assert f"lesson {tables.rule(rule).lesson[:2]}, to come" in capsys.readouterr().out
    assert call(["explain", "soc.unknown"]) == 0
    assert "to come" not in capsys.readouterr().out
    for name, rule in tables.rules().items():
        found = explain.look_up(name)
        assert found is not None
        text = "\n".join(explain.explanation_lines(found))
        assert "learner-problems" not in text
        assert "<<" not in text
        assert rule.source


def test_explain_nothing_near(capsys: Output) -> None:
    assert call(["explain", "zzzzzzzz"]) == 1
    assert "near it" not in capsys.readouterr().err


def test_explain_list_holds_every_code_once(capsys: Output) -> None:
    assert call(["explain", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = [line.split()[0].rstrip(":") for line in lines if re.match(r"  \S", line)]
    assert max(map(len, lines)) <= 100
    raised = {code for rule in tables.rules().values() for code in rule.codes.values() if code}
    silent = {name for name, rule in tables.rules().items() if not any(rule.codes.values())}
    assert sorted(first) == sorted(raised | silent | set(tables.known_codes()))


def test_every_rule_can_be_explained() -> None:
    for name in tables.rules():
        found = explain.look_up(name)
        assert found is not None
        text = "\n".join(explain.explanation_lines(found))
        assert not re.search(r"\{\w", text), name


# -- lab -------------------------------------------------------------------------------------------------------


def test_lab_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    words = lab.lab_command(tmp_path, browser=False, port=8899)
    assert words[:3] == [sys.executable, "-m", "jupyterlab"]
    assert {
        f"--ServerApp.root_dir={tmp_path}",
        "--LabApp.news_url=",
        "--no-browser",
        "--port=8899",
        "--allow-root",
    } <= set(words)
    assert "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate" in words
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not {"--allow-root", "--no-browser"} & set(lab.lab_command(tmp_path, browser=True, port=None))


def test_lab_needs_a_folder(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "file").touch()
    assert call(["lab", str(tmp_path / "none")]) == 1
    assert call(["lab", str(tmp_path / "file")]) == 1
    text = capsys.readouterr().err
    assert "there is no such folder" in text
    assert "it is a file" in text


def test_lab_passes_jupyters_exit_code_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "lab_command", lambda *_, **__: [sys.executable, "-c", "raise SystemExit(9)"])
    assert call(["lab", str(tmp_path)]) == 9


@pytest.mark.slow
def test_lab_serves(tmp_path: Path) -> None:
    import socket
    from urllib.request import urlopen

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    words = [sys.executable, "-m", "cannlab", "lab", str(tmp_path), "--no-browser", "--port", str(port)]
    server = subprocess.Popen(
        words, env={**os.environ, **folders}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            try:
                assert urlopen(f"http://127.0.0.1:{port}/login", timeout=5).status == 200
                break
            except OSError:
                time.sleep(0.2)
        else:
            pytest.fail("JupyterLab did not answer")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
