"""The checks of a real installation: driver, firmware, toolkit, shell, devices, and the Python beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from cannlab.env import compatibility
from cannlab.env.findings import Finding, broken, note, ok, warned
from cannlab.env.installation import (
    DEVICE_MANAGERS,
    Installation,
    Toolkit,
    VersionFile,
    branches,
)
from cannlab.env.system import System
from cannlab.env.version_order import is_version, release, version_key

_GIB = 1 << 30
_ATC_MEMORY_GIB = 16
_BRANCH = re.compile(r"V\d+R\d+C\d+")


def python_text(system: System, numbers: int = 3) -> str:
    """The Python version as text (``3.11``)."""
    return ".".join(str(number) for number in system.python[:numbers])


def check_toolkit(system: System, toolkit: Toolkit) -> Iterator[Finding]:
    """Version files, parts of one release, architecture."""
    unreadable = [file for file in (toolkit.version, *toolkit.parts.values()) if file is not None and file.problem]
    for file in unreadable:
        yield broken("real.toolkit", "env.version_unreadable", path=file.path, problem=file.problem)
    if not toolkit.cann:
        return
    facts = {"release": toolkit.cann, "home": toolkit.home, "arch": system.machine}
    yield ok("real.toolkit", f"toolkit {toolkit.cann} at {toolkit.home}")
    other = {
        part: file.values["version_dir"]
        for part, file in toolkit.parts.items()
        if not file.problem and file.values["version_dir"].lower() != toolkit.cann.lower()
    }
    if other:
        parts = ", ".join(f"{part} {version}" for part, version in other.items())
        yield broken("real.toolkit_parts", "env.mixed_versions", parts=parts, **facts)
    missing = [part for part in ("runtime", "compiler") if not system.is_folder(f"{toolkit.home}/{part}")]
    for part in missing:
        yield broken("real.toolkit_parts", "env.part_missing", part=part, **facts)
    compiled = f"{toolkit.home}/opp/built-in/op_impl/ai_core/tbe/kernel"
    if "opp_kernel" not in toolkit.parts and not system.is_folder(compiled):
        yield warned("real.kernels", "env.kernels_missing", **facts)
    built = toolkit.version.values.get("arch", "") if toolkit.version else ""
    if built and built != system.machine:
        machine = system.machine
        yield broken(
            "real.toolkit_arch", "env.wrong_arch", built=built, machine=machine, home=toolkit.home, release=toolkit.cann
        )
    if not other and not missing and not unreadable:
        yield ok(
            "real.toolkit_parts", f"parts of one release: {', '.join(toolkit.parts) or 'no version.info to compare'}"
        )


def _branch(text: str) -> str:
    found = _BRANCH.match(text)
    return found.group() if found else ""


def _lists_fit(driver: VersionFile, toolkit: Toolkit) -> bool | None:
    """Whether driver or toolkit names the other as compatible; None if the files hold no lists."""
    driver_list = branches(driver.values.get("compatible_version", ""))
    toolkit_values = toolkit.version.values if toolkit.version else {}
    toolkit_list = branches(toolkit_values.get("compatible_version", ""))
    driver_branch = _branch(driver.values.get("innerversion", ""))
    toolkit_branch = _branch(toolkit_values.get("innerversion", ""))
    known = [
        branch in accepted
        for branch, accepted in ((toolkit_branch, driver_list), (driver_branch, toolkit_list))
        if branch and accepted
    ]
    return any(known) if known else None


def check_driver(system: System, found: Installation, toolkit: Toolkit | None) -> Iterator[Finding]:
    """Driver files, and the driver against the toolkit."""
    driver = found.driver
    if driver is None:
        if found.nodes:
            yield broken("real.driver", "env.driver_not_mounted", nodes=", ".join(found.nodes))
        return
    if driver.problem:
        yield broken("real.driver", "env.version_unreadable", path=driver.path, problem=driver.problem)
        return
    version = driver.values["version"]
    libraries = [f"{found.driver_root}/lib64/driver", f"{found.driver_root}/lib64"]
    if not any(system.exists(f"{folder}/libascend_hal.so") for folder in libraries):
        yield broken(
            "real.driver", "env.driver_libs_missing", driver=version, root=found.driver_root, library="libascend_hal.so"
        )
    if toolkit is None or not toolkit.cann:
        yield ok("real.driver", f"driver {version}")
        return
    row = compatibility.driver_for(toolkit.cann)
    fits = _lists_fit(driver, toolkit)
    older = row is not None and version_key(version) < version_key(row.driver)
    wanted = row.driver if row else f"the one released with CANN {toolkit.cann}"
    if fits is False:
        yield broken(
            "real.driver",
            "env.driver_mismatch",
            driver=version,
            driver_branch=driver.values.get("innerversion", "no branch"),
            release=toolkit.cann,
            toolkit_branch=toolkit.version.values.get("innerversion", "no branch") if toolkit.version else "no branch",
            wanted=wanted,
            arch=system.machine,
        )
    elif fits is None and older:
        yield broken(
            "real.driver",
            "env.driver_too_old",
            driver=version,
            release=toolkit.cann,
            wanted=wanted,
            arch=system.machine,
        )
    elif older:
        yield note(
            "real.driver",
            f"driver {version} is older than {wanted}, released with CANN {toolkit.cann}; "
            "their version files call the pair compatible",
        )
    elif fits is None and row is None:
        yield note(
            "real.driver", f"driver {version}: no table row for CANN {toolkit.cann}, so the pair is not compared"
        )
    else:
        yield ok("real.driver", f"driver {version} fits CANN {toolkit.cann}")


def check_firmware(system: System, found: Installation) -> Iterator[Finding]:
    """Firmware against the driver."""
    driver, firmware = found.driver, found.firmware
    if driver is None or driver.problem:
        return
    version = driver.values["version"]
    if firmware is None:
        yield warned("real.firmware", "env.firmware_missing", driver=version)
        return
    if firmware.problem:
        yield broken("real.firmware", "env.version_unreadable", path=firmware.path, problem=firmware.problem)
        return
    installed = firmware.values["version"]
    ranges = [
        (low.strip(), high.strip())
        for low, comma, high in (
            entry.partition(",") for entry in branches(driver.values.get("compatible_version_fw", ""))
        )
        if comma and is_version(low) and is_version(high)
    ]
    if not ranges:
        yield note(
            "real.firmware", f"firmware {installed}: driver {version} states no range, so the pair is not compared"
        )
    elif any(version_key(low) <= version_key(installed) <= version_key(high) for low, high in ranges):
        yield ok("real.firmware", f"firmware {installed} fits driver {version}")
    else:
        yield broken(
            "real.firmware",
            "env.firmware_mismatch",
            firmware=installed,
            driver=version,
            accepted=", ".join(f"{low} to {high}" for low, high in ranges),
            wanted=f"<{ranges[-1][0]} to {ranges[-1][1]}>",
        )


def check_devices(system: System, found: Installation) -> Iterator[Finding]:
    """Device nodes and the permission on them; npu-smi."""
    driver = found.driver.values.get("version", "") if found.driver else ""
    if not found.nodes:
        if found.driver is not None:
            yield broken("real.devices", "env.no_device_nodes", driver=driver or "of unknown version")
        return
    missing = [path for path in DEVICE_MANAGERS if not system.exists(path)]
    if missing:
        yield broken(
            "real.devices",
            "env.device_manager_missing",
            missing=" and ".join(missing) + (" is" if len(missing) == 1 else " are"),
            present=f"{found.nodes[0]} is" if len(found.nodes) == 1 else f"{len(found.nodes)} devices are",
        )
    present = [path for path in DEVICE_MANAGERS if path not in missing]
    denied = [path for path in (*found.nodes, *present) if not system.may(path, os.R_OK | os.W_OK)]
    if denied:
        yield broken("real.devices", "env.device_permission", nodes=", ".join(denied))
    if not missing and not denied:
        yield ok("real.devices", f"{len(found.nodes)} device(s): {', '.join(found.nodes)}")
    folders = ["/usr/local/sbin", "/usr/local/bin", *system.environ.get("PATH", "").split(":")]
    if not any(folder.startswith("/") and system.exists(f"{folder}/npu-smi") for folder in folders):
        yield warned("real.npu_smi", "env.npu_smi_missing")


def check_shell(system: System, toolkit: Toolkit, others: tuple[Toolkit, ...]) -> Iterator[Finding]:
    """The variables of set_env.sh."""
    environ = system.environ
    facts = {"set_env": toolkit.set_env}
    set_home = [name for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME") if environ.get(name)]
    if not set_home:
        yield broken("real.set_env", "env.not_sourced", release=toolkit.cann or "?", home=toolkit.home, **facts)
        return
    for name in set_home:
        if not system.is_folder(environ[name]):
            yield broken("real.set_env", "env.home_missing", variable=name, value=environ[name], **facts)
            return
    home = system.resolve(environ[set_home[0]])
    fine = True
    needed = {"PATH": "bin", "LD_LIBRARY_PATH": "lib64", "PYTHONPATH": "python/site-packages"}
    for variable, folder in needed.items():
        entries = [entry.rstrip("/") for entry in environ.get(variable, "").split(":") if entry.startswith("/")]
        ours = next((at for at, entry in enumerate(entries) if _inside(system.resolve(entry), home)), None)
        foreign = next(
            (at for at, entry in enumerate(entries) if _of_another_toolkit(system, entry, home, others)), None
        )
        if foreign is not None and (ours is None or foreign < ours):
            fine = False
            yield broken(
                "real.set_env", "env.stale_path", variable=variable, entry=entries[foreign], home=home, **facts
            )
        elif f"{home}/{folder}" not in [system.resolve(entry) for entry in entries]:
            fine = False
            yield broken(
                "real.set_env", "env.variable_incomplete", variable=variable, wanted=f"{home}/{folder}", **facts
            )
    opp = environ.get("ASCEND_OPP_PATH", "")
    if not opp or not system.is_folder(opp):
        fine = False
        wanted = f"folder of operators ({home}/opp)"
        yield broken("real.set_env", "env.variable_incomplete", variable="ASCEND_OPP_PATH", wanted=wanted, **facts)
    if fine:
        yield ok("real.set_env", f"set_env.sh of {home} is sourced")


def _inside(path: str, home: str) -> bool:
    return path == home or path.startswith(home + "/")


def _of_another_toolkit(system: System, entry: str, home: str, others: tuple[Toolkit, ...]) -> bool:
    """True for a path inside another toolkit, installed or already removed."""
    path = system.resolve(entry)
    if _inside(path, home):
        return False
    named = re.search(r"/(ascend-toolkit/[^/]+|cann(-[^/]+)?)/", path + "/")
    return named is not None or any(_inside(path, other.home) for other in others)


def check_libraries(system: System, toolkit: Toolkit) -> Iterator[Finding]:
    """libascendcl.so and pyACL inside the toolkit."""
    home, arch = toolkit.home, system.machine
    folders = [f"{home}/{name}" for name in ("lib64", "runtime/lib64", f"{arch}-linux/lib64", "acllib/lib64")]
    facts = {"release": toolkit.cann or "of your release", "arch": arch}
    if any(system.exists(f"{folder}/libascendcl.so") for folder in folders):
        yield ok("real.libascendcl", "libascendcl.so is there")
    else:
        yield broken("real.libascendcl", "env.library_missing", library="libascendcl.so", folder=folders[0], **facts)
    site = f"{home}/python/site-packages"
    if not any(re.fullmatch(r"acl(\..*so)?", name) for name in system.names(site)):
        yield warned("real.pyacl", "env.pyacl_missing", folder=site, **facts)


def check_atc_python(system: System, toolkit: Toolkit) -> Iterator[Finding]:
    """The Python and the packages that ATC's operator compiler needs."""
    if not toolkit.cann:
        return
    python, fitting = python_text(system, 2), compatibility.atc_python(toolkit.cann)
    if fitting.holds(python):
        yield ok("real.atc_python", f"Python {python} fits ATC of CANN {toolkit.cann}")
    else:
        yield broken(
            "real.atc_python",
            "env.atc_python",
            python=python,
            release=toolkit.cann,
            first=fitting.first,
            last=fitting.last,
        )
    packages = compatibility.atc_packages(toolkit.cann)
    missing = [package.name for package in packages if system.package(package.name) is None]
    if missing:
        quoted = " ".join(f"'{p.name}<{p.below}'" if p.below else p.name for p in packages if p.name in missing)
        names = ", ".join(missing)
        yield broken(
            "real.atc_packages", "env.atc_package_missing", packages=names, quoted=quoted, python=system.executable
        )
    fine = not missing
    for package in packages:
        version = system.package(package.name)
        if version and package.below and is_version(version) and version_key(version) >= version_key(package.below):
            fine = False
            yield broken(
                "real.atc_packages",
                "env.atc_package_too_new",
                package=package.name,
                version=version,
                below=package.below,
                release=toolkit.cann,
                python=system.executable,
            )
    if fine:
        yield ok("real.atc_packages", "the Python packages of ATC are installed")


def check_torch(system: System, toolkit: Toolkit) -> Iterator[Finding]:
    """torch, torch_npu, CANN and Python as one row of the compatibility list."""
    torch_npu = system.package("torch_npu") or system.package("torch-npu")
    torch = system.package("torch")
    if torch_npu is None:
        yield note("real.torch_npu", "torch_npu is not installed: PyTorch programs do not reach the NPU")
        return
    row = compatibility.torch_npu_row(torch_npu)
    wanted = row.torch if row else ".".join(str(number) for number in release(torch_npu, 3))
    python = system.executable
    if torch is None:
        yield broken("real.torch", "env.torch_missing", torch_npu=torch_npu, torch=wanted, python=python)
    elif release(torch, 2) != release(torch_npu, 2) or (row and torch.split("+")[0] != row.torch):
        yield broken("real.torch", "env.torch_mismatch", torch=torch, torch_npu=torch_npu, wanted=wanted, python=python)
    else:
        yield ok("real.torch", f"torch {torch} fits torch_npu {torch_npu}")
    fitting = compatibility.torch_python(wanted)
    if fitting is not None and not fitting.holds(python_text(system, 2)):
        yield broken(
            "real.torch_python",
            "env.torch_npu_python",
            python=python_text(system, 2),
            torch_npu=torch_npu,
            first=fitting.first,
            last=fitting.last,
        )
    if row is None:
        yield note("real.torch_npu", f"torch_npu {torch_npu}: not in the compatibility list, so CANN is not compared")
    elif toolkit.cann:
        better = compatibility.torch_npu_for(toolkit.cann, wanted)
        install_cann = f"./Ascend-cann-toolkit_{row.cann}_linux-{system.machine}.run --install"
        command = f"{python} -m pip install torch_npu=={better}" if better else install_cann
        facts = {"torch_npu": torch_npu, "wanted": row.cann, "release": toolkit.cann, "command": command}
        if version_key(toolkit.cann) < version_key(row.cann):
            yield broken("real.torch_npu", "env.torch_npu_cann", **facts)
        elif version_key(toolkit.cann) > version_key(row.cann):
            yield warned("real.torch_npu", "env.torch_npu_cann", **facts)
        else:
            yield ok("real.torch_npu", f"torch_npu {torch_npu} fits CANN {toolkit.cann}")


def check_nnal(system: System, toolkit: Toolkit, roots: tuple[str, ...]) -> Iterator[Finding]:
    """NNAL (libatb.so) beside the toolkit, if it is installed."""
    for root in roots:
        versions = [name for name in system.names(f"{root}/nnal/atb") if is_version(name)]
        if not versions:
            continue
        if toolkit.cann and toolkit.cann.lower() not in [version.lower() for version in versions]:
            yield warned(
                "real.nnal",
                "env.nnal_mismatch",
                nnal=", ".join(versions),
                release=toolkit.cann,
                arch=system.machine,
            )
        elif not system.environ.get("ATB_HOME_PATH"):
            yield note("real.nnal", f"NNAL is installed; LLM stacks need: source {root}/nnal/atb/set_env.sh")
        else:
            yield ok("real.nnal", f"NNAL {versions[-1]} is sourced")
        return


def check_atc_memory(system: System) -> Iterator[Finding]:
    """Memory for ATC's parallel compilation."""
    if system.memory is not None and system.memory < _ATC_MEMORY_GIB * _GIB:
        memory = f"{system.memory / _GIB:.1f}"
        yield warned("real.atc_memory", "env.memory_low_atc", memory=memory, wanted=_ATC_MEMORY_GIB)


def check_real(
    system: System, found: Installation, toolkit: Toolkit | None, roots: tuple[str, ...], emulating: bool
) -> Iterator[Finding]:
    """Every check of a real installation, in the order in which a mistake is best repaired.

    Args:
        emulating: the shell runs on the emulation, so its variables say nothing about the real toolkit.
    """
    yield from check_driver(system, found, toolkit)
    yield from check_firmware(system, found)
    yield from check_devices(system, found)
    if toolkit is None:
        return
    yield from check_toolkit(system, toolkit)
    if emulating:
        yield note("real.set_env", f"this shell runs on the emulation; in a fresh one: source {toolkit.set_env}")
    else:
        yield from check_shell(system, toolkit, tuple(other for other in found.toolkits if other.home != toolkit.home))
    yield from check_libraries(system, toolkit)
    yield from check_torch(system, toolkit)
    yield from check_atc_python(system, toolkit)
    yield from check_atc_memory(system)
    yield from check_nnal(system, toolkit, roots)
