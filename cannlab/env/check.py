"""check-env: what this machine has, whether it fits together, and what is emulated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from cannlab import soc
from cannlab.activation import emulated_names
from cannlab.env import versions
from cannlab.env.course_checks import check_course
from cannlab.env.findings import Finding, Report, State, Status, broken, note, of_diagnosis, warned
from cannlab.env.installation import Installation, Toolkit, find_installation, install_roots
from cannlab.env.real_checks import check_real, python_text
from cannlab.env.system import System
from cannlab.env.toolkit import MARKER
from cannlab.errors import CannlabError, tables


def check(system: System, roots: Sequence[str] = ()) -> Report:
    """Check one machine.

    Args:
        system: the machine (``this_machine()``, or a tree of files in a test).
        roots: folders to look for a real installation in; the usual ones by default. Given, they are
            judged as a real installation even if the emulation is active in this shell.
    """
    found = find_installation(system, roots)
    state = _state(system, found, bool(roots))
    toolkit = _used_toolkit(system, found)
    findings: list[Finding] = []
    if roots and not found.toolkits and found.driver is None:
        findings += [broken("real.root", "env.nothing_at_root", root=" or ".join(roots))]
    if state is State.EMULATED:
        findings += _emulation_checks(system)
        findings += _unused_parts(found)
    else:
        searched = tuple(install_roots(system, roots))
        findings += check_real(system, found, toolkit, searched, _emulator_asked_for(system))
    findings += check_course(system)
    summary, shown = _summary(system, found, toolkit, state)
    return Report(state, summary, shown, tuple(findings))


def _emulator_asked_for(system: System) -> bool:
    """True if this shell runs on the emulation: activated, or CANNLAB_BACKEND says so."""
    home = system.environ.get("ASCEND_HOME_PATH", "")
    return system.environ.get("CANNLAB_BACKEND") == "emulated" or bool(home and system.exists(f"{home}/{MARKER}"))


def _state(system: System, found: Installation, given: bool) -> State:
    if not found.toolkits or (_emulator_asked_for(system) and not given):
        return State.EMULATED
    return State.REAL if found.driver is not None or found.nodes else State.NO_DRIVER


def _used_toolkit(system: System, found: Installation) -> Toolkit | None:
    """The toolkit that ASCEND_HOME_PATH names, else the first one found."""
    named = system.environ.get("ASCEND_HOME_PATH") or system.environ.get("ASCEND_TOOLKIT_HOME")
    if named:
        home = system.resolve(named)
        for toolkit in found.toolkits:
            if toolkit.home == home:
                return toolkit
    return found.toolkits[0] if found.toolkits else None


def _emulation_checks(system: System) -> Iterator[Finding]:
    """Settings of the emulation that cannot be used."""
    for read in (soc.current, soc.device_count):
        try:
            read(system.environ)
        except CannlabError as error:
            yield of_diagnosis("emulation.settings", Status.FAIL, error.diagnosis)
    value = system.environ.get("CANNLAB_CANN")
    if value is not None and value not in tables.CANN_VERSIONS:
        yield warned(
            "emulation.settings",
            "env.cann_unknown",
            value=value,
            known=" or ".join(tables.CANN_VERSIONS),
            default=tables.DEFAULT_CANN,
        )


def _unused_parts(found: Installation) -> Iterator[Finding]:
    """Parts of a real stack that the emulation leaves alone."""
    for toolkit in found.toolkits:
        text = f"a real toolkit {toolkit.cann or 'of unknown version'} at {toolkit.home} is not used by this shell"
        yield note("real.toolkit", f"{text}; to check it: cannlab check-env --root {os.path.dirname(toolkit.link)}")
    if found.driver is not None or found.nodes:
        version = found.driver.values.get("version", "of unknown version") if found.driver else "not visible here"
        text = f"an Ascend driver is here ({version}, {len(found.nodes)} device nodes)"
        hint = "" if found.toolkits else "; to use the NPU install a CANN toolkit and source its set_env.sh"
        yield note("real.driver", text + hint)


def _summary(
    system: System, found: Installation, toolkit: Toolkit | None, state: State
) -> tuple[tuple[str, ...], dict[str, dict[str, Any]]]:
    python = python_text(system)
    shown: dict[str, dict[str, Any]] = {"python": {"version": python, "emulated": False}}

    def real(name: str, version: str | None) -> None:
        if version:
            shown[name] = {"version": version, "emulated": False}

    real("torch", system.package("torch"))
    if state is State.EMULATED:
        asked = system.environ.get("CANNLAB_CANN")
        known = versions.emulated(asked if asked in tables.CANN_VERSIONS else tables.DEFAULT_CANN)
        for name, version in (("cann", known.cann), ("driver", known.driver), ("firmware", known.firmware)):
            shown[name] = {"version": version, "emulated": True}
        try:
            machine = f"{soc.device_count(system.environ)} x {soc.current(system.environ).name}"
        except CannlabError:
            machine = "no usable device settings"
        emulated = ", ".join(
            f"{title} {versions.labelled(version)}"
            for title, version in (("CANN", known.cann), ("driver", known.driver), ("firmware", known.firmware))
        )
        nothing = not found.toolkits and found.driver is None and not found.nodes
        first = (
            "There is no CANN toolkit and no Ascend driver on this machine. That is fine: cannlab emulates both."
            if nothing
            else "The emulation answers in this shell."
        )
        names = ", ".join(emulated_names()) or "none yet"
        return (
            first,
            f"Emulated: {machine} (emulated), {emulated}.",
            f"Python packages that the emulation answers: {names}.",
        ), shown
    cann = toolkit.cann if toolkit else ""
    real("cann", cann)
    real("driver", found.driver.values.get("version") if found.driver else None)
    real("firmware", found.firmware.values.get("version") if found.firmware else None)
    real("torch_npu", system.package("torch_npu"))
    if state is State.NO_DRIVER:
        return (
            f"A real CANN toolkit {cann or 'of unknown version'}, and no driver: models can be converted here, "
            "programs that need a device cannot run.",
            "To run the course's programs anyway: CANNLAB_BACKEND=emulated.",
        ), shown
    return (f"A real CANN toolkit {cann or 'of unknown version'} with {len(found.nodes)} device node(s).",), shown
