"""check-env on trees of files that stand for other machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from machines import (
    DRIVER,
    FIRMWARE,
    GIB,
    HOME,
    LATEST,
    ROOT,
    Machine,
    bare,
    failed,
    finding,
    good,
    part_info,
    source,
    toolkit_info,
    warned,
    with_toolkit,
)

from cannlab.cli.check_env import text_lines
from cannlab.env.findings import State, Status
from cannlab.env.toolkit import MARKER
from cannlab.errors import tables

Break = Callable[[Machine], object]


def test_good_server_is_real_and_fine(tmp_path: Path) -> None:
    report = good(tmp_path).check()
    assert report.state is State.REAL
    assert failed(report) == []
    assert warned(report) == []
    assert report.versions["cann"] == {"version": "8.1.RC1", "emulated": False}
    assert report.versions["driver"] == {"version": "24.1.rc2.2", "emulated": False}
    assert "2 device node(s)" in report.summary[0]
    assert "emulated" not in "\n".join(text_lines(report))


def test_good_tree_of_another_root_found_by_install_info(tmp_path: Path) -> None:
    machine = good(tmp_path)
    machine.path("/opt").mkdir(exist_ok=True)
    machine.path(ROOT).rename(machine.path("/opt/Ascend"))
    machine.write("/etc/ascend_install.info", "UserName=HwHiAiUser\nDriver_Install_Path_Param=/opt/Ascend\n")
    machine.environ.clear()
    source(machine, "/opt/Ascend/ascend-toolkit/latest")
    report = machine.check()
    assert (report.state, failed(report)) == (State.REAL, [])


# (name, what breaks the good server, the rules that then fail, words that the message must hold)
BROKEN: list[tuple[str, Break, list[str], list[str]]] = [
    (
        "driver too old, no lists",
        lambda m: m.write(f"{ROOT}/driver/version.info", "Version=23.0.3\n"),
        ["env.driver_too_old"],
        ["23.0.3", "24.1.rc2", "8.1.RC1"],
    ),
    (
        "driver of a branch that nobody lists",
        lambda m: m.write(
            f"{ROOT}/driver/version.info", DRIVER.replace("V100R001C18SPC", "V100R001C10SPC").replace("24.1", "22.0")
        ),
        ["env.driver_mismatch"],
        ["V100R001C10", "V100R001C21"],
    ),
    (
        "firmware outside of the driver's range",
        lambda m: m.write(f"{ROOT}/firmware/version.info", "Version=7.7.0.1.231\n"),
        ["env.firmware_mismatch"],
        ["7.7.0.1.231", "7.0.0 to 7.3.99"],
    ),
    (
        "kernels of another release",
        lambda m: m.write(f"{HOME}/opp_kernel/version.info", part_info("8.0.0")),
        ["env.mixed_versions"],
        ["opp_kernel 8.0.0", "8.1.RC1"],
    ),
    ("set_env.sh not sourced", lambda m: m.environ.clear(), ["env.not_sourced"], [HOME]),
    (
        "path of a removed version first",
        lambda m: m.environ.update(PATH=f"{ROOT}/ascend-toolkit/8.0.0/bin:{m.environ['PATH']}"),
        ["env.stale_path"],
        ["PATH", "8.0.0/bin"],
    ),
    (
        "libraries of another version first",
        lambda m: m.environ.update(LD_LIBRARY_PATH=f"/opt/cann-8.5.0/lib64:{m.environ['LD_LIBRARY_PATH']}"),
        ["env.stale_path"],
        ["LD_LIBRARY_PATH", "cann-8.5.0"],
    ),
    (
        "PYTHONPATH set again",
        lambda m: m.environ.update(PYTHONPATH="/home/user/lib"),
        ["env.variable_incomplete"],
        ["PYTHONPATH", "python/site-packages"],
    ),
    (
        "ASCEND_OPP_PATH lost",
        lambda m: m.environ.pop("ASCEND_OPP_PATH"),
        ["env.variable_incomplete"],
        ["ASCEND_OPP_PATH"],
    ),
    (
        "home points nowhere",
        lambda m: m.environ.update(ASCEND_HOME_PATH=f"{ROOT}/gone"),
        ["env.home_missing"],
        [f"{ROOT}/gone"],
    ),
    (
        "libascendcl.so missing",
        lambda m: m.remove(f"{HOME}/lib64/libascendcl.so"),
        ["env.library_missing"],
        ["libascendcl.so"],
    ),
    (
        "python too new for torch_npu and ATC",
        lambda m: setattr(m, "python", (3, 13, 1)),
        ["env.torch_npu_python", "env.atc_python"],
        ["3.13"],
    ),
    (
        "torch upgraded",
        lambda m: m.packages.update(torch="2.6.0"),
        ["env.torch_mismatch"],
        ["2.6.0", "2.5.1"],
    ),
    ("torch removed", lambda m: m.packages.pop("torch"), ["env.torch_missing"], ["torch_npu 2.5.1"]),
    (
        "torch_npu of a newer CANN",
        lambda m: m.packages.update(torch="2.8.0", torch_npu="2.8.0"),
        ["env.torch_npu_cann"],
        ["8.3.RC1", "8.1.RC1"],
    ),
    (
        "no permission on a card",
        lambda m: m.denied.add("/dev/davinci0"),
        ["env.device_permission"],
        ["/dev/davinci0"],
    ),
    (
        "container with the card alone",
        lambda m: m.remove("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
        ["env.device_manager_missing"],
        ["/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"],
    ),
    (
        "driver without a card",
        lambda m: m.remove("/dev/davinci0", "/dev/davinci1"),
        ["env.no_device_nodes"],
        ["24.1.rc2.2"],
    ),
    (
        "container without the driver's files",
        lambda m: m.remove(f"{ROOT}/driver"),
        ["env.driver_not_mounted"],
        ["/dev/davinci0"],
    ),
    (
        "container with the version file alone",
        lambda m: m.remove(f"{ROOT}/driver/lib64"),
        ["env.driver_libs_missing"],
        ["libascend_hal.so"],
    ),
    (
        "version file that may not be read",
        lambda m: m.denied.add(f"{ROOT}/driver/version.info"),
        ["env.version_unreadable"],
        ["Permission denied"],
    ),
    (
        "garbage in the driver's version file",
        lambda m: m.write(f"{ROOT}/driver/version.info", b"\x00\xff\xfe binary \x80"),
        ["env.version_unreadable"],
        ["no line version="],
    ),
    (
        "a word for a version",
        lambda m: m.write(f"{ROOT}/firmware/version.info", "Version=unknown\n"),
        ["env.version_unreadable"],
        ["unknown is no version"],
    ),
    (
        "garbage in the toolkit's version file",
        lambda m: m.write(f"{LATEST}/x86_64-linux/ascend_toolkit_install.info", "[broken"),
        ["env.version_unreadable"],
        ["ascend_toolkit_install.info"],
    ),
    (
        "toolkit of another architecture",
        lambda m: setattr(m, "arch", "aarch64"),
        ["env.wrong_arch"],
        ["x86_64", "aarch64"],
    ),
    (
        "ATC's packages missing",
        lambda m: (m.packages.pop("decorator"), m.packages.pop("scipy")),
        ["env.atc_package_missing"],
        ["decorator, scipy"],
    ),
    (
        "numpy 2 under ATC 8.1",
        lambda m: m.packages.update(numpy="2.1.0"),
        ["env.atc_package_too_new"],
        ["numpy 2.1.0"],
    ),
    ("no compiler part", lambda m: m.remove(f"{HOME}/compiler"), ["env.part_missing"], ["compiler"]),
]


@pytest.mark.parametrize(("breaks", "rules", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_one_thing_broken_is_named_with_a_fix(
    tmp_path: Path, breaks: Break, rules: list[str], words: list[str]
) -> None:
    machine = good(tmp_path)
    breaks(machine)
    report = machine.check()
    assert failed(report) == rules
    assert not report.fine
    text = "\n".join(text_lines(report))
    for rule in rules:
        found = finding(report, rule)
        assert found.fix.strip()
        assert f"{found.text}\n        fix: {found.fix}" in text
    for word in words:
        assert word in "\n".join(finding(report, rule).text for rule in rules)


# (name, what is not perfect, the rules that then warn)
LIMITS: list[tuple[str, Break, list[str]]] = [
    ("no kernels package", lambda m: m.remove(f"{HOME}/opp_kernel"), ["env.kernels_missing"]),
    ("no pyACL", lambda m: m.remove(f"{HOME}/python/site-packages/acl.so"), ["env.pyacl_missing"]),
    ("no firmware file", lambda m: m.remove(f"{ROOT}/firmware"), ["env.firmware_missing"]),
    ("no npu-smi", lambda m: m.remove("/usr/local/sbin/npu-smi"), ["env.npu_smi_missing"]),
    ("a small board", lambda m: setattr(m, "memory", 8 * GIB), ["env.memory_low_atc"]),
    ("NNAL of another version", lambda m: m.write(f"{ROOT}/nnal/atb/8.0.0/version.info"), ["env.nnal_mismatch"]),
    (
        "torch_npu of an older CANN",
        lambda m: m.packages.update(torch="2.4.0", torch_npu="2.4.0.post2"),
        ["env.torch_npu_cann"],
    ),
]


@pytest.mark.parametrize(("limits", "rules"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
def test_a_limit_warns_and_does_not_fail(tmp_path: Path, limits: Break, rules: list[str]) -> None:
    machine = good(tmp_path)
    limits(machine)
    report = machine.check()
    assert (failed(report), warned(report)) == ([], rules)
    assert report.fine


def test_older_driver_that_the_files_accept_is_a_note(tmp_path: Path) -> None:
    machine = good(tmp_path)
    machine.write(f"{ROOT}/driver/version.info", DRIVER.replace("24.1.rc2.2", "24.1.rc1"))
    report = machine.check()
    assert failed(report) == []
    notes = [found.text for found in report.findings if found.status is Status.NOTE]
    assert any("24.1.rc1 is older than 24.1.rc2" in text and "compatible" in text for text in notes)


def test_fix_for_torch_npu_names_the_release_of_this_cann(tmp_path: Path) -> None:
    machine = good(tmp_path)
    machine.packages.update(torch="2.4.0", torch_npu="2.4.0.post2")
    assert finding(machine.check(), "env.torch_npu_cann").fix.endswith("install torch_npu==2.4.0.post4")


def test_codes_of_the_real_stack_are_shown(tmp_path: Path) -> None:
    machine = good(tmp_path)
    machine.remove("/dev/davinci_manager")
    report = machine.check()
    assert finding(report, "env.device_manager_missing").code == "-8005"
    assert "[-8005] /dev/davinci_manager is missing" in "\n".join(text_lines(report))


def test_two_toolkits_the_one_of_the_shell_is_judged(tmp_path: Path) -> None:
    machine = good(tmp_path)
    other = f"{ROOT}/ascend-toolkit/8.2.RC1"
    machine.write(f"{other}/x86_64-linux/ascend_toolkit_install.info", toolkit_info("8.2.RC1"))
    assert machine.check().versions["cann"]["version"] == "8.1.RC1"
    machine.environ["PYTHONPATH"] = f"{other}/python/site-packages:" + machine.environ["PYTHONPATH"]
    assert failed(machine.check()) == ["env.stale_path"]


def test_toolkit_without_driver_converts_only(tmp_path: Path) -> None:
    report = with_toolkit(tmp_path).check()
    assert report.state is State.NO_DRIVER
    assert failed(report) == []
    assert "no driver" in report.summary[0]
    assert "driver" not in report.versions


def test_newer_layout_of_cann(tmp_path: Path) -> None:
    machine = good(tmp_path)
    machine.path(LATEST).unlink()
    machine.path(HOME).rename(machine.path(f"{ROOT}/cann-8.1.RC1"))
    machine.path(f"{ROOT}/cann").symlink_to("cann-8.1.RC1")
    machine.environ.clear()
    report = machine.check()
    assert failed(report) == ["env.not_sourced"]
    assert finding(report, "env.not_sourced").fix == f"source {ROOT}/cann/set_env.sh"


# -- machines without a toolkit -------------------------------------------------------------------------


def test_laptop_is_emulated_and_that_is_fine(tmp_path: Path) -> None:
    report = bare(tmp_path).check()
    assert (report.state, failed(report), warned(report)) == (State.EMULATED, [], [])
    assert "That is fine" in report.summary[0]
    assert report.versions["cann"] == {"version": "8.1.RC1", "emulated": True}


def test_every_emulated_version_is_labelled(tmp_path: Path) -> None:
    report = bare(tmp_path).check()
    text = "\n".join(text_lines(report))
    for shown in report.versions.values():
        if shown["emulated"]:
            assert shown["version"]
            assert text.count(shown["version"]) == text.count(f"{shown['version']} (emulated)") > 0


def test_empty_tree_fails_in_the_course_part_only(tmp_path: Path) -> None:
    report = Machine(tmp_path, packages={}, memory=None, disk=None).check()
    assert report.state is State.EMULATED
    assert failed(report) == ["env.package_missing", "env.kernel_missing", "env.home_unwritable"]


def test_driver_without_toolkit_is_a_note(tmp_path: Path) -> None:
    machine = bare(tmp_path)
    machine.write(f"{ROOT}/driver/version.info", DRIVER).write("/dev/davinci0")
    report = machine.check()
    assert (report.state, failed(report)) == (State.EMULATED, [])
    assert any("install a CANN toolkit" in found.text for found in report.findings)


def test_active_emulation_leaves_a_real_toolkit_alone(tmp_path: Path) -> None:
    machine = good(tmp_path)
    machine.environ.clear()
    machine.write(f"/home/user/.cache/emulated/latest/{MARKER}")
    machine.environ["ASCEND_HOME_PATH"] = "/home/user/.cache/emulated/latest"
    report = machine.check()
    assert (report.state, failed(report)) == (State.EMULATED, [])
    assert any(HOME in found.text and "not used" in found.text for found in report.findings)
    asked_for = machine.check(ROOT)
    assert (asked_for.state, failed(asked_for)) == (State.REAL, [])
    assert any("this shell runs on the emulation" in found.text for found in asked_for.findings)


def test_root_without_an_installation_fails(tmp_path: Path) -> None:
    machine = bare(tmp_path)
    machine.path("/opt/empty").mkdir(parents=True)
    assert failed(machine.check("/opt/empty")) == ["env.nothing_at_root"]


def test_root_is_looked_at_first(tmp_path: Path) -> None:
    machine = good(tmp_path)
    machine.write("/opt/other/cann/x86_64-linux/ascend_toolkit_install.info", toolkit_info("8.2.RC1"))
    machine.environ.clear()
    assert machine.check("/opt/other").versions["cann"]["version"] == "8.2.RC1"


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [("CANNLAB_SOC", "Ascend9000", "soc.unknown"), ("CANNLAB_DEVICES", "none", "soc.device_count")],
)
def test_bad_settings_of_the_emulation_fail(tmp_path: Path, name: str, value: str, rule: str) -> None:
    machine = bare(tmp_path)
    machine.environ[name] = value
    report = machine.check()
    assert failed(report) == [rule]
    assert value in finding(report, rule).text


def test_unknown_emulated_cann_warns(tmp_path: Path) -> None:
    machine = bare(tmp_path)
    machine.environ["CANNLAB_CANN"] = "8.1.RC1"
    assert warned(machine.check()) == ["env.cann_unknown"]
    machine.environ["CANNLAB_CANN"] = "current"
    assert machine.check().versions["cann"]["version"] == "9.1.0"


# -- what the course needs ------------------------------------------------------------------------------

COURSE: list[tuple[str, Break, list[str], list[str]]] = [
    ("old python", lambda m: setattr(m, "python", (3, 10, 2)), ["env.python_too_old"], []),
    ("package missing", lambda m: m.packages.clear(), ["env.package_missing"], []),
    ("package too old", lambda m: m.packages.update(jupyterlab="4.5.9"), ["env.package_too_old"], []),
    (
        "no kernel",
        lambda m: m.remove("/opt/venv/share/jupyter/kernels/python3/kernel.json"),
        ["env.kernel_missing"],
        [],
    ),
    (
        "kernel of another environment",
        lambda m: m.write("/opt/venv/share/jupyter/kernels/python3/kernel.json", '{"argv": ["/usr/bin/python3"]}'),
        ["env.kernel_other_python"],
        [],
    ),
    (
        "kernel file that is no JSON",
        lambda m: m.write("/opt/venv/share/jupyter/kernels/python3/kernel.json", "{"),
        ["env.kernel_other_python"],
        [],
    ),
    ("home not writable", lambda m: m.denied.add("/home/user"), ["env.home_unwritable"], []),
    ("disk full", lambda m: setattr(m, "disk", GIB // 4), ["env.disk_low"], []),
    ("little memory", lambda m: setattr(m, "memory", GIB), ["env.memory_low"], []),
    ("no fork", lambda m: setattr(m, "fork", False), [], ["env.no_fork"]),
]


@pytest.mark.parametrize(("breaks", "rules", "limits"), [case[1:] for case in COURSE], ids=[case[0] for case in COURSE])
def test_what_the_course_needs(tmp_path: Path, breaks: Break, rules: list[str], limits: list[str]) -> None:
    machine = bare(tmp_path)
    breaks(machine)
    report = machine.check()
    assert (failed(report), warned(report)) == (rules, limits)


def test_fix_for_missing_packages_can_be_pasted(tmp_path: Path) -> None:
    machine = bare(tmp_path)
    machine.requirements = ("python>=3.11", "jupyterlab>=4.6", "numpy>=2.4,<3")
    machine.packages = {"jupyterlab": "4.5.0"}
    fixes = [found.fix for found in machine.check().findings if found.status is Status.FAIL]
    assert fixes == [
        "/opt/venv/bin/python -m pip install 'numpy>=2.4,<3'",
        "/opt/venv/bin/python -m pip install --upgrade 'jupyterlab>=4.6'",
    ]


def test_mac_names_the_limits_that_it_lacks(tmp_path: Path) -> None:
    machine = bare(tmp_path)
    machine.platform = "darwin"
    assert any("darwin does not enforce a memory limit" in found.text for found in machine.check().findings)


# -- the JSON form --------------------------------------------------------------------------------------


def test_json_form_is_stable(tmp_path: Path) -> None:
    machine = good(tmp_path)
    machine.denied.add("/dev/davinci0")
    data = json.loads(json.dumps(machine.check().to_dict()))
    assert set(data) == {"schema", "state", "ok", "summary", "versions", "checks"}
    assert (data["schema"], data["state"], data["ok"]) == (1, "real", False)
    assert all(set(entry) == {"check", "status", "text", "fix", "rule", "code"} for entry in data["checks"])
    assert {entry["status"] for entry in data["checks"]} <= {"ok", "note", "warn", "fail"}
    assert all(set(shown) == {"version", "emulated"} for shown in data["versions"].values())


def test_json_checks_are_documented(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "check-env.md").read_text()
    seen = {
        found.check for machine in (good(tmp_path / "a"), bare(tmp_path / "b")) for found in machine.check().findings
    }
    for case in [*BROKEN, *LIMITS]:
        machine = good(tmp_path / case[0])
        case[1](machine)
        seen |= {found.check for found in machine.check().findings}
    for check in seen | {"real.root", "emulation.settings"}:
        assert f"`{check}`" in page, check


def test_every_rule_of_the_environment_has_a_fix_and_no_open_placeholder() -> None:
    for rule in tables.rules().values():
        if rule.id.startswith(("env.", "cli.")):
            assert rule.remedy.strip(), rule.id
            assert rule.causes, rule.id


def test_nothing_is_written(tmp_path: Path) -> None:
    machine = good(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    machine.check()
    assert sorted(tmp_path.rglob("*")) == before
    assert FIRMWARE in machine.path(f"{ROOT}/firmware/version.info").read_text()
