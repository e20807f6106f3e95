"""npu-smi: the layouts of the real tool, and wrong usage."""

from __future__ import annotations

import itertools
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from cannlab import soc
from cannlab.cli.app import call
from cannlab.cli.npu_smi import table

Output = pytest.CaptureFixture[str]

ONE_910B = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 90.0        35                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3352 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 99910         | python                   | 3352                    |
+===========================+===============+====================================================+"""

ONE_310P = """\
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
| 0       310P3                 | OK              | NA           35                0     / 0             |
| 0       0                     | 0000:C1:00.0    | 0            1832 / 24576                            |
| NPU     Chip                  | Process id      | Process name             | Process memory(MB)        |"""


def machine_with(monkeypatch: pytest.MonkeyPatch, name: str, used_mib: list[int]) -> None:
    """Make this process hold a machine with so much memory in use."""
    kind = soc.get(name)
    devices = [
        SimpleNamespace(memory_total=kind.memory_bytes, memory_free=kind.memory_bytes - (used << 20))
        for used in used_mib
    ]
    module = ModuleType("cannlab.machine")
    module.machine = lambda: SimpleNamespace(soc=kind, devices=devices)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cannlab.machine", module)
    monkeypatch.setattr("os.getpid", lambda: 99910)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python")


@pytest.fixture
def no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cannlab.machine", raising=False)


def test_910b_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_with(monkeypatch, "Ascend910B3", [3352])
    assert table() == ONE_910B


def test_310p_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_with(monkeypatch, "Ascend310P3", [1832])
    text = table()
    for line in ONE_310P.splitlines():
        assert line in text.splitlines()
    assert {len(line) for line in text.splitlines()} == {106}


def test_the_real_machine_is_read() -> None:
    from cannlab.machine import machine, reset_machine

    reset_machine("Ascend910B4", 2)
    try:
        device = machine().devices[1]
        monkey = device.memory_used
        device.memory_used = 100 << 20
        rows = [line for line in table().splitlines() if "/ 32768" in line]
        assert [re.findall(r"(\d+) +/ 32768", row) for row in rows] == [["0"], ["100"]]
        device.memory_used = monkey
    finally:
        reset_machine()


@pytest.mark.usefixtures("no_machine")
@pytest.mark.parametrize("name", sorted(soc.table()))
def test_every_soc_has_a_straight_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_SOC", name)
    monkeypatch.setenv("CANNLAB_DEVICES", "3")
    lines = table().splitlines()
    assert len({len(line) for line in lines}) == 1
    assert all(line[0] in "|+" and line[-1] in "|+" for line in lines)
    assert sum(soc.get(name).npu_name in line for line in lines) == 3


@pytest.mark.usefixtures("no_machine")
def test_a_public_parser_reads_the_table() -> None:
    """Text tools find a device by a row `id name | health | power temp`, then `chip | bus | ... used / total`."""
    device = re.compile(r"\| (\d+)\s+(\w+)\s+\| (\w+)\s+\| ([\d.]+)\s+(\d+)\s+\d+\s+/ \d+\s+\|")
    chip = re.compile(r"\| (\d+)\s+\| ([0-9A-F:.]+)\s+\| (\d+)\s+\d+\s+/ \d+\s+(\d+)\s*/ (\d+)\s+\|")
    lines = table().splitlines()
    found = [(device.fullmatch(a), chip.fullmatch(b)) for a, b in itertools.pairwise(lines)]
    devices = [(a[1], a[2], b[5]) for a, b in found if a and b]
    assert devices == [(str(number), "910B1", "65536") for number in range(8)]


@pytest.mark.usefixtures("no_machine")
def test_two_dies_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_SOC", "Ascend910_9391")
    monkeypatch.setenv("CANNLAB_DEVICES", "4")
    lines = table().splitlines()
    assert "| Chip  Phy-ID              |" in table()
    at = next(number for number, line in enumerate(lines) if line.startswith("| 0     910_9391"))
    assert lines[at + 2] == "+" + "-" * 96 + "+"
    assert lines[at + 3].split("|")[3].split()[0] == "-"
    assert lines[at + 4].startswith("| 1     1 ")
    assert lines[at + 5].startswith("+====")


@pytest.mark.usefixtures("no_machine")
def test_note_on_stderr_says_that_it_is_emulated(capsys: Output) -> None:
    for words in (["info"], ["info", "-l"], ["info", "-t", "board", "-i", "0"], ["-v"]):
        assert call(["npu-smi", *words]) == 0
        captured = capsys.readouterr()
        assert captured.out
        assert captured.err == "cannlab: these devices, and the driver version shown, are emulated\n"


def keys(text: str) -> list[str]:
    return [line.split(" : ")[0].strip() for line in text.splitlines() if " : " in line]


@pytest.mark.usefixtures("no_machine")
def test_lists(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_DEVICES", "2")
    call(["npu-smi", "info", "-l"])
    text = capsys.readouterr().out
    assert text.startswith("\tTotal Count                    : 2\n\n\tNPU ID                         : 0\n")
    assert keys(text) == ["Total Count", "NPU ID", "Chip Count", "NPU ID", "Chip Count"]
    call(["npu-smi", "info", "-m"])
    rows = capsys.readouterr().out.splitlines()
    assert re.split(r"\s{2,}", rows[0].strip()) == ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"]
    assert re.split(r"\s{2,}", rows[2].strip()) == ["0", "1", "-", "Mcu"]
    assert re.split(r"\s{2,}", rows[3].strip()) == ["1", "0", "1", "Ascend 910B1"]
    assert all(len(row) == 121 for row in rows)


@pytest.mark.usefixtures("no_machine")
def test_lists_by_product(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_DEVICES", "1")
    for name, first, serial in (("Ascend310P3", "Total Count", True), ("Ascend310B1", "Card Count", False)):
        monkeypatch.setenv("CANNLAB_SOC", name)
        call(["npu-smi", "info", "-l"])
        found = keys(capsys.readouterr().out)
        assert found == [first, "NPU ID", *(["Product Name", "Serial Number"] if serial else []), "Chip Count"]
    call(["npu-smi", "info", "-m"])
    assert "Mcu" not in capsys.readouterr().out
    monkeypatch.setenv("CANNLAB_SOC", "Ascend910_9391")
    monkeypatch.setenv("CANNLAB_DEVICES", "2")
    call(["npu-smi", "info", "-m"])
    rows = [re.split(r"\s{2,}", row.strip()) for row in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name"]
    assert rows[2:] == [["0", "1", "1", "1", "Ascend 910_9391"], ["0", "2", "-", "-", "Mcu"]]


@pytest.mark.usefixtures("no_machine")
def test_errors_of_the_memory(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(["npu-smi", "info", "-t", "ecc", "-i", "0", "-c", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "\tHBM Single Bit Error Count               : 0"
    assert lines[-1] == "\tHBM Double Bit Next-Isolated Pages Count : 0"
    assert len(lines) == 8
    monkeypatch.setenv("CANNLAB_SOC", "Ascend310P3")
    assert call(["npu-smi", "info", "-t", "ecc", "-i", "0"]) == 0
    assert capsys.readouterr().out == "This device does not support querying ecc.\n"


@pytest.mark.usefixtures("no_machine")
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["proc"], "proc"),
        (["proc", "-i", "0", "-c", "0"], "proc"),
        (["-t", "topo"], "topo"),
        (["-t", "flash"], "flash"),
    ],
)
def test_what_the_devices_do_not_have(words: list[str], kind: str, capsys: Output) -> None:
    assert call(["npu-smi", "info", *words]) == 0
    assert capsys.readouterr().out == f"This device does not support querying {kind}.\n"


@pytest.mark.usefixtures("no_machine")
@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        (
            "Ascend910B1",
            "memory",
            [
                "NPU ID",
                "Chip Count",
                "DDR Capacity(MB)",
                "DDR Clock Speed(MHz)",
                "HBM Capacity(MB)",
                "HBM Clock Speed(MHz)",
                "HBM Temperature(C)",
                "HBM Manufacturer ID",
                "Chip ID",
            ],
        ),
        (
            "Ascend310P3",
            "memory",
            ["NPU ID", "Chip Count", "Total DDR Capacity(MB)", "DDR Capacity(MB)", "DDR Clock Speed(MHz)", "Chip ID"],
        ),
        (
            "Ascend310B1",
            "usages",
            [
                "NPU ID",
                "Chip Count",
                "Memory Capacity(MB)",
                "Memory Usage Rate(%)",
                "Hugepages Total(page)",
                "Hugepages Usage Rate(%)",
                "Aicore Usage Rate(%)",
                "Aicpu Usage Rate(%)",
                "Ctrlcpu Usage Rate(%)",
                "Memory Bandwidth Usage Rate(%)",
                "Chip ID",
            ],
        ),
        (
            "Ascend910B1",
            "common",
            [
                "NPU ID",
                "Chip Count",
                "Chip ID",
                "Memory Usage Rate(%)",
                "HBM Usage Rate(%)",
                "Aicore Usage Rate(%)",
                "Aicore Freq(MHZ)",
                "Aicore curFreq(MHZ)",
                "Aicore Count",
                "Temperature(C)",
                "NPU Real-time Power(W)",
                "Chip Name",
                "Temperature(C)",
            ],
        ),
        ("Ascend910B1", "power", ["NPU ID", "Chip Count", "NPU Real-time Power(W)", "Chip ID"]),
    ],
)
def test_key_value_kinds(
    name: str, kind: str, wanted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("CANNLAB_SOC", name)
    assert call(["npu-smi", "info", "-t", kind, "-i", "0"]) == 0
    assert keys(capsys.readouterr().out) == wanted


def test_values_come_from_the_machine(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    machine_with(monkeypatch, "Ascend910B1", [0, 16384])
    call(["npu-smi", "info", "-t", "usages", "-i", "1", "-c", "0"])
    text = capsys.readouterr().out
    assert "HBM Capacity(MB)               : 65536" in text
    assert "HBM Usage Rate(%)              : 25" in text
    call(["npu-smi", "info", "-t", "proc-mem", "-i", "1"])
    assert "Process id:99910   Process name:python            Process memory(MB):16384" in capsys.readouterr().out
    call(["npu-smi", "info", "-t", "proc-mem", "-i", "0"])
    assert "No process in device." in capsys.readouterr().out


@pytest.mark.usefixtures("no_machine")
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["info", "-t"],
        ["info", "-t", "nothing", "-i", "0"],
        ["info", "-x"],
        ["info", "-t", "board", "-i", "x"],
        ["info", "-t", "board", "-i", "0", "-i", "1"],
        ["set"],
    ],
)
def test_wrong_usage_prints_the_usage(words: list[str], capsys: Output) -> None:
    assert call(["npu-smi", *words]) == 1
    assert capsys.readouterr().out.startswith("Usage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]")


@pytest.mark.usefixtures("no_machine")
def test_missing_and_unknown_card(capsys: Output) -> None:
    assert call(["npu-smi", "info", "-t", "board"]) == 1
    assert capsys.readouterr().out == "This command must input card id and chip id.\n"
    assert call(["npu-smi", "info", "-t", "board", "-i", "8"]) == 1
    assert "does not exist" in capsys.readouterr().out


@pytest.mark.usefixtures("no_machine")
def test_watch_prints_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    naps: list[int] = []

    def nap(seconds: int) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", nap)
    assert call(["npu-smi", "info", "watch", "-i", "3", "-d", "5"]) == 130
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split()[:2] == ["NpuID(Idx)", "ChipId(Idx)"]
    assert [row.split()[0] for row in rows[1:]] == ["3", "3"]
    assert naps == [5, 5]


def test_a_lost_device_is_critical(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    from cannlab.machine import machine, reset_machine

    reset_machine("Ascend910B1", 2)
    machine().devices[1].lost = True
    rows = [line for line in table().splitlines() if "910B1" in line]
    assert ["OK" in rows[0], "Critical" in rows[1]] == [True, True]
    assert call(["npu-smi", "info", "-t", "health", "-i", "1", "-c", "0"]) == 0
    assert "Health Status                  : Critical" in capsys.readouterr().out
    reset_machine()


@pytest.mark.usefixtures("no_machine")
@pytest.mark.parametrize(
    ("words", "headings"),
    [
        ([], "Pwr(W) Temp(C) AI Core(%) AI Cpu(%) Ctrl Cpu(%) Memory(%) Memory BW(%)"),
        (["-s", "ta"], "Temp(C) AI Core(%)"),
        (["-s", "at"], "Temp(C) AI Core(%)"),
        (["-s", "un"], "NPU Util(%) AI Cube(%)"),
    ],
)
def test_columns_of_watch(words: list[str], headings: str, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    def nap(seconds: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", nap)
    monkeypatch.setenv("CANNLAB_DEVICES", "2")
    assert call(["npu-smi", "info", "watch", *words]) == 130
    rows = capsys.readouterr().out.splitlines()
    assert " ".join(rows[0].split()) == f"NpuID(Idx) ChipId(Idx) {headings}"
    assert rows[0].startswith("NpuID(Idx)  ChipId(Idx) ")
    assert len(rows[0]) == 12 * (2 + headings.count("("))
    assert [row.split()[0] for row in rows[1:]] == ["0", "1"]
    assert {len(row.split()) for row in rows[1:]} == {2 + headings.count("(")}


def test_columns_of_watch_follow_the_driver() -> None:
    from cannlab.cli.npu_smi_watch import default_metrics

    assert [default_metrics(driver) for driver in ("23.0.0", "24.1.rc2", "25.2.0", "26.0.rc1", "unknown")] == [
        *("ptaicmb", "ptaicmb", "ptaicmbnu", "ptaicmbnu", "ptaicmb")
    ]


@pytest.mark.usefixtures("no_machine")
def test_wrong_usage_of_watch(capsys: Output) -> None:
    for words in (["-s"], ["-s", "x"], ["-s", "pp"], ["-d"], ["-p", "0"]):
        assert call(["npu-smi", "info", "watch", *words]) == 1
        assert capsys.readouterr().out.startswith("Usage: npu-smi info watch")
    for words in (["-d", "0"], ["-d", "101"]):
        assert call(["npu-smi", "info", "watch", *words]) == 1
        assert capsys.readouterr().out == "Error parameter of -d\n"
    assert call(["npu-smi", "info", "watch", "-i", "99"]) == 1
    assert call(["npu-smi", "info", "watch", "-h"]) == 0
    assert "u - AI Cube Usage" in capsys.readouterr().out
