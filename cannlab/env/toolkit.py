"""The emulated toolkit as files: a small real folder, so that the paths of ``set_env.sh`` exist and ``atc`` is on PATH.

The folder holds what programs look at, and nothing that pretends to be a library: the part folders that
torch_npu checks, version files that say ``emulated_by=cannlab``, ``set_env.sh``, the commands ``atc``, ``npu-smi``
and ``msprof``, and in ``python/site-packages`` one thin module for each emulated package, which hands over to
cannlab (see ``cannlab.activation``). It is made once, beside its name and then renamed, so a half-made one
is never seen; its name is derived from its contents, so another Python or version gets another folder.

Source of the layout and of the variables: pyacl-and-atc 7 (set_env.sh), torch-npu 1 (what torch_npu checks).
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cannlab.env import versions
from cannlab.errors import CannlabError, diagnose

MARKER = "cannlab_emulated.info"
"""A file of this name marks a toolkit folder as emulated."""

_PARTS = ("runtime", "compiler", "toolkit", "opp", "opp_kernel", "hccl")
_FOLDERS = (
    "lib64/plugin/opskernel",
    "lib64/plugin/nnengine",
    "tools/aml/lib64/plugin",
    "tools/ccec_compiler/bin",
    "compiler/ccec_compiler/bin",
    "opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{arch}",
    "python/site-packages",
)
_SET_ENV = "set_env.sh"
"""The script beside ``latest`` that programs source; it names the folder, so it is written last."""
_COMMANDS = ("atc", "npu-smi", "msprof")

_THIN_MODULE = '''\
"""The emulated {name}: hands over to cannlab."""
import sys

try:
    import cannlab.activation as _activation
except ImportError:
    sys.path.append({parent!r})
    try:
        import cannlab.activation as _activation
    except ImportError as _problem:
        raise ImportError(
            "{name} is emulated by cannlab here, and this Python cannot import cannlab. "
            "Run the program with " + {python!r} + ", or open a shell without `cannlab env`."
        ) from _problem
_activation.take_over(__name__)
'''


@dataclass(frozen=True, slots=True)
class Toolkit:
    """An emulated toolkit folder. ``home`` is what ASCEND_HOME_PATH names; ``root`` is its parent."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "latest"

    @property
    def hooks(self) -> Path:
        """The folder on PYTHONPATH that makes the emulated packages importable in child processes."""
        return self.home / "python" / "site-packages"

    def variables(self) -> dict[str, str]:
        """The variables that set_env.sh sets to one value."""
        home = str(self.home)
        return {
            "ASCEND_TOOLKIT_HOME": home,
            "ASCEND_HOME_PATH": home,
            "ASCEND_AICPU_PATH": home,
            "ASCEND_OPP_PATH": str(self.home / "opp"),
            "TOOLCHAIN_HOME": str(self.home / "toolkit"),
        }

    def search_paths(self) -> dict[str, list[str]]:
        """The folders that set_env.sh puts in front of each search path, in order."""
        arch = platform.machine() or "x86_64"
        tiling = f"opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{arch}"

        def under(*parts: str) -> list[str]:
            return [str(self.home / part) for part in parts]

        return {
            "LD_LIBRARY_PATH": under(
                "tools/aml/lib64",
                "tools/aml/lib64/plugin",
                "lib64",
                "lib64/plugin/opskernel",
                "lib64/plugin/nnengine",
                tiling,
            ),
            "PYTHONPATH": under("python/site-packages", "opp/built-in/op_impl/ai_core/tbe"),
            "PATH": under("bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin"),
        }

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The changed variables of ``environ`` once the toolkit is on it; doing it twice changes nothing."""
        changed = self.variables()
        for name, folders in self.search_paths().items():
            kept = [part for part in environ.get(name, "").split(os.pathsep) if part and part not in folders]
            changed[name] = os.pathsep.join([*folders, *kept])
        return changed


def _command(name: str) -> str:
    """A script that runs one command of cannlab; ``cannlab`` itself for ""."""
    python = shlex.quote(sys.executable)
    parent = shlex.quote(_package_parent())
    return (
        "#!/bin/sh\n"
        f"# {f'The emulated {name}' if name else 'cannlab of the Python that made this folder'}.\n"
        f"PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}{parent}\n"
        "export PYTHONPATH\n"
        f'exec {python} -m cannlab {name} "$@"\n'
    )


def _package_parent() -> str:
    return str(Path(__file__).resolve().parents[2])


def _files(packages: tuple[str, ...]) -> dict[str, str]:
    """Relative path -> text of every file of the folder."""
    version = versions.emulated()
    arch = platform.machine() or "x86_64"
    stamp = "emulated_by=cannlab\n"
    files = {
        MARKER: f"cann={version.cann}\ndriver={version.driver}\n{stamp}",
        _SET_ENV: "",
        f"latest/{MARKER}": f"cann={version.cann}\ndriver={version.driver}\n{stamp}",
        f"latest/{arch}-linux/ascend_toolkit_install.info": (
            f"package_name=Ascend-cann-toolkit\nversion={version.cann}\ninnerversion={version.cann_branch}\n"
            f"arch={arch}\nos=linux\n{stamp}"
        ),
    }
    for part in _PARTS:
        files[f"latest/{part}/version.info"] = f"Version={version.cann_internal}\nversion_dir={version.cann}\n{stamp}"
    for name in _COMMANDS:
        files[f"latest/bin/{name}"] = _command(name)
    files["latest/bin/cannlab"] = _command("")
    for name in packages:
        files[f"latest/python/site-packages/{name}.py"] = _THIN_MODULE.format(
            name=name, parent=_package_parent(), python=sys.executable
        )
    for folder in _FOLDERS:
        files[f"latest/{folder.format(arch=arch)}/.keep"] = ""
    return files


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where cannlab keeps what it can make again: ``CANNLAB_CACHE``, else the user's cache folder."""
    if environ.get("CANNLAB_CACHE"):
        return Path(environ["CANNLAB_CACHE"]).absolute()
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]).absolute() / "cannlab"
    base = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / base / "cannlab"


def emulated_toolkit(packages: tuple[str, ...]) -> Toolkit:
    """The emulated toolkit's folder, made if it is not there yet.

    Args:
        packages: the top-level names that are emulated; each gets a thin module.

    Raises:
        CannlabError: rule ``env.cache_unwritable`` if no folder can be written.
    """
    files = _files(packages)
    digest = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in sorted(files.items())).encode())
    name = f"toolkit-{digest.hexdigest()[:16]}"
    cache = cache_folder(os.environ)
    problem: OSError | None = None
    for base in (cache, _private_temporary()):
        root = base / name
        if (root / MARKER).is_file():
            return Toolkit(root)
        try:
            _make(root, files)
            return Toolkit(root)
        except OSError as error:
            problem = problem or error
    assert problem is not None
    raise CannlabError(diagnose("env.cache_unwritable", folder=str(cache), problem=problem.strerror or str(problem)))


def _private_temporary() -> Path:
    """A folder below the temporary folder that belongs to this user alone."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"cannlab-{user}"
    if folder.exists() and hasattr(os, "getuid") and folder.stat().st_uid != user:
        return Path(tempfile.gettempdir()) / f"cannlab-{user}-{os.getpid()}"
    return folder


def _make(root: Path, files: Mapping[str, str]) -> None:
    from cannlab.env.shell import shell_code

    root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = Path(tempfile.mkdtemp(prefix=root.name + ".", suffix=".part", dir=root.parent))
    try:
        for name, text in files.items():
            file = part / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            if "/bin/" in name:
                file.chmod(0o755)
        (part / _SET_ENV).write_text(shell_code(Toolkit(root), {}), encoding="utf-8")
        try:
            part.rename(root)
        except OSError:
            if not (root / MARKER).is_file():  # another process made it first: then that one is ours
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
