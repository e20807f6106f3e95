"""Activation: the real names, in this process and in its children."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cannlab
from cannlab import activation
from cannlab.env.toolkit import emulated_toolkit
from cannlab.errors import CannlabError

Write = Callable[..., str]


def test_not_importable_without_activation(stand_in: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("acl")


def test_one_module_object_under_both_names(stand_in: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cannlab.activate() == "emulated"
    import acl
    import acl.deep.config as config
    import standin
    import standin.deep.config as own

    assert acl is standin
    assert config is own
    assert acl.deep.config is own
    assert acl.loads == [1]
    assert sys.modules["acl.rt"] is standin.rt
    assert acl.rt.get_device_count() == (8, 0)
    for module in (acl, config):
        assert module.__name__.startswith("standin")
        assert module.__spec__.name == module.__name__
    assert importlib.reload(config) is own
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("acl.nothing")


def test_from_import_and_submodule_first(stand_in: str) -> None:
    cannlab.activate()
    from acl.deep.config import VALUE

    assert VALUE == "emulated"


def test_auto_says_once_which_backend_it_took(stand_in: str, capsys: pytest.CaptureFixture[str]) -> None:
    cannlab.activate()
    cannlab.activate()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "cannlab: no real NPU here: emulating 8 x Ascend910B1, CANN 8.1.RC1 (emulated)\n"


def test_asked_for_emulation_is_silent(
    stand_in: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CANNLAB_BACKEND", "emulated")
    cannlab.activate()
    assert capsys.readouterr().err == ""


def test_deactivate_takes_everything_back(stand_in: str) -> None:
    before = (dict(os.environ), list(sys.path), list(sys.meta_path))
    cannlab.activate()
    importlib.import_module("acl")
    assert dict(os.environ) != before[0]
    cannlab.deactivate()
    assert (dict(os.environ), sys.path, sys.meta_path) == before
    assert not activation.is_active()


def test_ipython_extension(stand_in: str) -> None:
    cannlab.load_ipython_extension(None)
    assert importlib.import_module("acl").rt.get_device_count() == (8, 0)
    cannlab.unload_ipython_extension(None)
    assert not activation.is_active()


def test_a_file_of_the_learner_does_not_answer_as_acl(
    stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acl.py").write_text("raise SystemExit('the wrong acl')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert cannlab.activate() == "emulated"
    assert importlib.import_module("acl").rt.get_device_count() == (8, 0)


# -- the real stack ---------------------------------------------------------------------------------------


def install_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    site = tmp_path / "toolkit" / "site-packages"
    (site / "acl").mkdir(parents=True)
    (site / "acl" / "__init__.py").write_text(body)
    monkeypatch.syspath_prepend(str(site))


REAL = "class rt:\n    @staticmethod\n    def get_device_count():\n        return {answer}\n"


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        (REAL.format(answer="2, 0"), "real"),
        (REAL.format(answer="0, 0"), "emulated"),
        (REAL.format(answer="0, 507899"), "emulated"),
        ("raise ImportError('libascendcl.so: cannot open shared object file')\n", "emulated"),
        ("import os\nos._exit(11)\n", "emulated"),
        ("print('noise 3')\n", "emulated"),
    ],
    ids=["two devices", "no device", "an error code", "library missing", "crash", "no rt"],
)
def test_auto_takes_the_real_stack_only_with_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, taken: str
) -> None:
    install_real(tmp_path, monkeypatch, body)
    environment, path = dict(os.environ), list(sys.path)
    assert cannlab.activate() == taken
    assert activation.is_active() is (taken == "emulated")
    if taken == "real":
        assert (dict(os.environ), sys.path) == (environment, path)
    assert "acl" not in sys.modules


def test_real_is_refused_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_BACKEND", "real")
    with pytest.raises(CannlabError) as problem:
        cannlab.activate()
    assert problem.value.diagnosis.rule == "env.real_backend_missing"
    assert not activation.is_active()


def test_unknown_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_BACKEND", "fast")
    with pytest.raises(CannlabError, match="'fast'"):
        cannlab.activate()


# -- the emulated toolkit's folder --------------------------------------------------------------------------


def test_paths_of_set_env_exist(stand_in: str) -> None:
    cannlab.activate()
    home = Path(os.environ["ASCEND_HOME_PATH"])
    for part in ("runtime", "compiler", "opp", "lib64"):
        assert (home / part).is_dir()
    assert Path(os.environ["ASCEND_OPP_PATH"]).is_dir()
    for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH"):
        ours = [part for part in os.environ[name].split(os.pathsep) if part.startswith(str(home))]
        assert ours
        assert os.environ[name].startswith(str(home))
        if name != "LD_LIBRARY_PATH":
            assert all(Path(part).is_dir() for part in ours)
    assert "emulated_by=cannlab" in (home / "compiler" / "version.info").read_text()


def test_the_folder_has_a_set_env_that_programs_can_source(
    stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANNLAB_CACHE", str(tmp_path / "a cache"))
    toolkit = emulated_toolkit((stand_in,))
    command = f'. "{toolkit.root}/set_env.sh" && . "{toolkit.root}/set_env.sh" && env -0'
    clean = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", command], env=clean, capture_output=True, text=True, check=True, timeout=60)
    found = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    wanted = toolkit.environment(clean)
    assert {name: found[name] for name in wanted} == wanted


def test_folder_is_made_once_and_never_seen_half_made(stand_in: str, tmp_path: Path) -> None:
    cannlab.activate()
    first = os.environ["ASCEND_HOME_PATH"]
    cannlab.deactivate()
    marker = Path(first) / "seen"
    marker.touch()
    cannlab.activate()
    assert os.environ["ASCEND_HOME_PATH"] == first
    assert marker.exists()
    assert [folder.name for folder in (tmp_path / "a cache").iterdir() if ".part" in folder.name] == []


def test_another_place_is_used_if_the_cache_is_no_folder(
    stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CANNLAB_CACHE", str(tmp_path / "file" / "below"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cannlab.activate()
    assert os.environ["ASCEND_HOME_PATH"].startswith(str(tmp_path / "cannlab-"))


def test_no_place_at_all_is_named(stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CANNLAB_CACHE", str(tmp_path / "file" / "below"))
    monkeypatch.setattr("cannlab.env.toolkit._private_temporary", lambda: tmp_path / "file" / "other")
    with pytest.raises(CannlabError) as problem:
        cannlab.activate()
    assert problem.value.diagnosis.rule == "env.cache_unwritable"
    assert not activation.is_active()
    assert "ASCEND_HOME_PATH" not in os.environ


# -- children ----------------------------------------------------------------------------------------------


def python(*words: str) -> str:
    answer = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_subprocess_of_an_activated_process(stand_in: str, program: Write) -> None:
    cannlab.activate()
    path = program(stand_in + "import acl.deep.config as c, acl, standin\nprint(acl is standin, c.VALUE)\n")
    assert python(path) == "True emulated\n"


def test_subprocess_reaches_cannlab_when_it_is_not_on_its_path(stand_in: str, program: Write) -> None:
    cannlab.activate()
    hooks = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    site = os.environ["PYTHONPATH"].split(os.pathsep)[-1]
    os.environ["PYTHONPATH"] = os.pathsep.join([hooks, site])
    path = program("import sys\nassert 'cannlab' not in sys.modules\nimport acl\nprint(acl.__name__)\n")
    thin = Path(hooks, "acl.py")
    patch = "_activation.EMULATED['acl'] = 'standin'\n_activation.take_over"
    thin.write_text(thin.read_text().replace("_activation.take_over", patch))
    assert python(path) == "standin\n"


def test_spawned_children(stand_in: str, program: Write) -> None:
    path = program(
        stand_in
        + "import multiprocessing, os\n"
        + "def work(number):\n"
        + "    import acl.rt\n"
        + "    return number, acl.rt.get_device_count(), 'standin' in acl.__name__\n"
        + "if __name__ == '__main__':\n"
        + "    import cannlab\n"
        + "    cannlab.activate()\n"
        + "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        + "        print(pool.map(work, [1, 2]))\n"
    )
    assert python(path) == "[(1, (8, 0), True), (2, (8, 0), True)]\n"


def test_users_sitecustomize_still_runs(stand_in: str, program: Write, tmp_path: Path) -> None:
    (tmp_path / "site" / "sitecustomize.py").write_text("print('mine')\n")
    (tmp_path / "site" / "usercustomize.py").write_text("")
    cannlab.activate()
    assert python(program("print('prog')\n")) == "mine\nprog\n"


def test_import_cannlab_is_light() -> None:
    code = (
        "import sys, cannlab\n"
        "heavy = {'numpy', 'onnx', 'onnxruntime', 'torch', 'matplotlib', 'typer', 'rich'} & set(sys.modules)\n"
        "print(sorted(heavy))\n"
    )
    assert python("-c", code) == "[]\n"


def test_the_command_is_on_path_after_activation(stand_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    cannlab.activate()
    told = subprocess.run(["cannlab", "explain", "107002"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0
    assert told.stdout.startswith("107002")
