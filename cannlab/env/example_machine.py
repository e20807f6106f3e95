"""An Ascend server as a tree of files: check-env runs on it where no such server is.

The lessons and their checks break it in one place and read the report. It holds what check-env looks at: version
files, libraries, device nodes, set_env.sh. The files are empty where only their name counts.

Source of paths and file formats: pyacl-and-atc 7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from cannlab.env.installation import DEFAULT_ROOT, DEVICE_MANAGERS
from cannlab.env.system import System
from cannlab.env.toolkit import Toolkit

_GIB = 1 << 30
_MACHINE = "x86_64"
_PREFIX = "/home/user/npu"
_HOME = "/home/user"
_PARTS = ("runtime", "compiler", "toolkit", "opp", "opp_kernel")

PACKAGES: Mapping[str, str] = {
    "torch": "2.5.1",
    "torch_npu": "2.5.1",
    "numpy": "1.26.4",
    "decorator": "5.1.1",
    "attrs": "24.2.0",
    "psutil": "6.1.0",
    "scipy": "1.13.1",
    "sympy": "1.13.1",
    "protobuf": "3.20.3",
    "absl-py": "2.1.0",
}
"""The Python packages of the example machine: torch and torch_npu of CANN 8.1.RC1, and what ATC imports."""


def sourced(environ: Mapping[str, str], cann: str = "latest") -> dict[str, str]:
    """The variables of a shell after ``source set_env.sh``.

    Args:
        environ: the variables before.
        cann: the toolkit's folder below ascend-toolkit: a version, or ``latest``.
    """
    root = f"{DEFAULT_ROOT}/ascend-toolkit"
    set_env = Toolkit(Path(root))
    latest, home = str(set_env.home), f"{root}/{cann}"
    return {**environ, **{name: value.replace(latest, home) for name, value in set_env.environment(environ).items()}}


def example_machine(
    root: Path,
    *,
    cann: str = "8.1.RC1",
    older: tuple[str, ...] = (),
    driver: str = "24.1.rc2",
    firmware: str = "7.3.0.1.231",
    nodes: int = 2,
    packages: Mapping[str, str] = PACKAGES,
    python: tuple[int, int, int] = (3, 10, 14),
    environ: Mapping[str, str] | None = None,
) -> System:
    """Write the files of an example machine; its shell has sourced set_env.sh, and nothing is wrong with it.

    Args:
        root: an empty folder that stands for ``/``.
        cann: version of the toolkit that ``latest`` names; "" for a machine without a toolkit.
        older: versions of toolkits beside it.
        driver: version of the driver; "" for none (then there is no firmware and no device node either).
        firmware: version of the firmware; "" if its version file is missing.
        nodes: number of /dev/davinciN.
        packages: Python distributions and their versions.
        python: version of Python.
        environ: the shell's variables; by default what set_env.sh gives (nothing of it without a toolkit).

    Raises:
        OSError: the folder cannot be written.
    """
    files: dict[str, str] = {
        f"{_HOME}/.bashrc": "",
        f"{_PREFIX}/share/jupyter/kernels/python3/kernel.json": json.dumps({"argv": [f"{_PREFIX}/bin/python"]}),
    }
    for version in filter(None, (*older, cann)):
        files |= _toolkit_files(f"{DEFAULT_ROOT}/ascend-toolkit/{version}", version)
    if driver:
        files |= {
            f"{DEFAULT_ROOT}/driver/version.info": f"Version={driver}\n",
            f"{DEFAULT_ROOT}/driver/lib64/driver/libascend_hal.so": "",
            "/usr/local/sbin/npu-smi": "",
            **dict.fromkeys((f"/dev/davinci{index}" for index in range(nodes)), ""),
            **dict.fromkeys(DEVICE_MANAGERS, ""),
        }
        if firmware:
            files[f"{DEFAULT_ROOT}/firmware/version.info"] = f"Version={firmware}\n"
    for path, text in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    plain = {"HOME": _HOME, "PATH": "/usr/bin:/bin"}
    if cann:
        toolkits = root / DEFAULT_ROOT.lstrip("/") / "ascend-toolkit"
        (toolkits / "latest").symlink_to(cann)
        (toolkits / "set_env.sh").write_text("# sets the variables of the toolkit in latest\n", encoding="utf-8")
        plain = sourced(plain)
    return System(
        root=root,
        environ=plain if environ is None else environ,
        python=python,
        executable=f"{_PREFIX}/bin/python",
        prefix=_PREFIX,
        home=_HOME,
        platform="linux",
        machine=_MACHINE,
        package=packages.get,
        requirements=(),
        memory=64 * _GIB,
        disk=lambda path: 200 * _GIB,
        fork=True,
    )


def _toolkit_files(home: str, version: str) -> dict[str, str]:
    """Path -> text of one toolkit."""
    return {
        f"{home}/{_MACHINE}-linux/ascend_toolkit_install.info": (
            f"package_name=Ascend-cann-toolkit\nversion={version}\narch={_MACHINE}\nos=linux\n"
        ),
        **{f"{home}/{part}/version.info": f"version_dir={version}\n" for part in _PARTS},
        f"{home}/bin/atc": "",
        f"{home}/lib64/libascendcl.so": "",
        f"{home}/python/site-packages/acl.so": "",
        f"{home}/python/site-packages/te/__init__.py": "",
    }
