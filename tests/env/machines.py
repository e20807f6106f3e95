"""Trees of files that stand for other machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cannlab.env.check import check
from cannlab.env.findings import Finding, Report, Status
from cannlab.env.system import System

GIB = 1 << 30
ROOT = "/usr/local/Ascend"
HOME = f"{ROOT}/ascend-toolkit/8.1.RC1"
LATEST = f"{ROOT}/ascend-toolkit/latest"
PARTS = ("runtime", "compiler", "toolkit", "opp", "opp_kernel", "hccl")

DRIVER = """\
Version=24.1.rc2.2
ascendhal_version=7.35.23
Innerversion=V100R001C18SPC001B233
compatible_version=[V100R001C30],[V100R001C13],[V100R001C15],[V100R001C17],[V100R001C18]
compatible_version_fw=[7.0.0,7.3.99]
package_version=24.1.rc2.2
"""
FIRMWARE = "Version=7.3.0.1.231\nfirmware_version=1.0\npackage_version=24.1.rc2\n"


def toolkit_info(version: str = "8.1.RC1", arch: str = "x86_64", branch: str = "V100R001C21SPC001B238") -> str:
    return (
        f"package_name=Ascend-cann-toolkit\nversion={version}\ninnerversion={branch}\n"
        "compatible_version=[V100R001C15],[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21]\n"
        f"arch={arch}\nos=linux\npath={ROOT}/ascend-toolkit/{version}/{arch}-linux\n"
    )


def part_info(version: str = "8.1.RC1") -> str:
    return f'Version=7.7.0.1.238\nversion_dir={version}\ntimestamp=20250428\nrequired_package_opp_version="7.7"\n'


PACKAGES = {
    "torch": "2.5.1+cpu",
    "torch_npu": "2.5.1",
    "numpy": "1.26.4",
    "decorator": "5.1.1",
    "attrs": "23.2.0",
    "psutil": "5.9.8",
    "scipy": "1.11.4",
    "sympy": "1.12",
    "protobuf": "4.25.3",
    "absl-py": "2.1.0",
    "jupyterlab": "4.6.6",
}


@dataclass
class Machine:
    """A machine to build: files, links, variables, packages."""

    tree: Path
    environ: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=lambda: dict(PACKAGES))
    python: tuple[int, int, int] = (3, 11, 7)
    denied: set[str] = field(default_factory=set)
    memory: int | None = 64 * GIB
    disk: int | None = 100 * GIB
    fork: bool = True
    platform: str = "linux"
    arch: str = "x86_64"
    requirements: tuple[str, ...] = ("python>=3.11", "jupyterlab>=4.6")

    def path(self, path: str) -> Path:
        return self.tree / path.lstrip("/")

    def write(self, path: str, text: str | bytes = "") -> Machine:
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return self

    def remove(self, *paths: str) -> Machine:
        for path in paths:
            file = self.path(path)
            if file.is_dir() and not file.is_symlink():
                for inner in sorted(file.rglob("*"), reverse=True):
                    inner.rmdir() if inner.is_dir() and not inner.is_symlink() else inner.unlink()
                file.rmdir()
            else:
                file.unlink()
        return self

    def system(self) -> System:
        installed: Mapping[str, str] = self.packages
        free = self.disk
        lookup: Callable[[str], str | None] = installed.get
        return System(
            root=self.tree,
            environ=self.environ,
            python=self.python,
            executable="/opt/venv/bin/python",
            prefix="/opt/venv",
            home="/home/user",
            platform=self.platform,
            machine=self.arch,
            package=lookup,
            requirements=self.requirements,
            memory=self.memory,
            disk=lambda _: free,
            fork=self.fork,
            denied=frozenset(self.denied),
        )

    def check(self, *roots: str) -> Report:
        return check(self.system(), roots)


def bare(tree: Path) -> Machine:
    """A laptop: Python, Jupyter, a home; nothing of Ascend."""
    machine = Machine(tree, packages={"jupyterlab": "4.6.6", "torch": "2.13.0"})
    machine.path("/home/user").mkdir(parents=True)
    argv: dict[str, Any] = {"argv": ["/opt/venv/bin/python", "-m", "ipykernel_launcher"]}
    machine.write("/opt/venv/share/jupyter/kernels/python3/kernel.json", json.dumps(argv))
    machine.write("/proc/sys/user/max_user_namespaces", "31000\n")
    return machine


def with_toolkit(tree: Path) -> Machine:
    """A host with toolkit 8.1.RC1 whose set_env.sh is sourced, and no driver."""
    machine = bare(tree)
    machine.packages = dict(PACKAGES)
    machine.write(f"{HOME}/x86_64-linux/ascend_toolkit_install.info", toolkit_info())
    for part in PARTS:
        machine.write(f"{HOME}/{part}/version.info", part_info())
    machine.write(f"{HOME}/lib64/libascendcl.so").write(f"{HOME}/python/site-packages/acl.so")
    machine.write(f"{HOME}/bin/atc").write(f"{ROOT}/ascend-toolkit/set_env.sh")
    machine.path(LATEST).symlink_to("8.1.RC1")
    source(machine, LATEST)
    return machine


def source(machine: Machine, home: str) -> None:
    """What set_env.sh of that toolkit sets (its folders go in front)."""

    def front(name: str, *folders: str) -> None:
        rest = machine.environ.get(name, "/usr/bin" if name == "PATH" else "")
        machine.environ[name] = ":".join([*(f"{home}/{folder}" for folder in folders), *filter(None, [rest])])

    machine.environ |= {"ASCEND_TOOLKIT_HOME": home, "ASCEND_HOME_PATH": home, "ASCEND_OPP_PATH": f"{home}/opp"}
    front("PATH", "bin", "compiler/ccec_compiler/bin")
    front("LD_LIBRARY_PATH", "tools/aml/lib64", "lib64")
    front("PYTHONPATH", "python/site-packages", "opp/built-in/op_impl/ai_core/tbe")


def good(tree: Path) -> Machine:
    """A server with two 910B cards on which everything fits."""
    machine = with_toolkit(tree)
    machine.write(f"{ROOT}/driver/version.info", DRIVER).write(f"{ROOT}/firmware/version.info", FIRMWARE)
    machine.write(f"{ROOT}/driver/lib64/driver/libascend_hal.so").write("/usr/local/sbin/npu-smi")
    for node in ("davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"):
        machine.write(f"/dev/{node}")
    return machine


def failed(report: Report) -> list[str]:
    """Rules of the findings that failed."""
    return [finding.rule for finding in report.findings if finding.status is Status.FAIL]


def warned(report: Report) -> list[str]:
    """Rules of the findings that warn."""
    return [finding.rule for finding in report.findings if finding.status is Status.WARN]


def finding(report: Report, rule: str) -> Finding:
    """The finding of one rule."""
    return next(found for found in report.findings if found.rule == rule)
