"""``npu-smi``: the emulated devices in the layout of the real tool.

What it shows: the machine of this process if there is one, else idle devices of the SoC and number that
CANNLAB_SOC and CANNLAB_DEVICES name. Values that the emulation does not model (power, temperature, bus
addresses, serial numbers) are fixed idle values or NA.

Source of layouts, keys and their order: npu-smi sections 1 to 4. Assumed: the idle values, the bus addresses,
the exit code 1 of a wrong usage.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cannlab import soc
from cannlab.cli import npu_smi_watch
from cannlab.env import versions

_MIB = 1 << 20
_BUSES = ("C1", "01", "C2", "02", "81", "41", "82", "42")
_IDLE_POWER = 90.0
_IDLE_TEMPERATURE = 35
_CARDS = ("Ascend310", "Ascend310P")
"""Chips that sit on PCIe cards, which have a product name and a serial number."""
_NO_MCU = ("Ascend310B",)
"""Chips of boards without a management controller."""
_PCI_DEVICE = {"Ascend910B": "0xD802", "Ascend910_93": "0xD803", "Ascend910": "0xD801", "Ascend310P": "0xD500"}

_USAGE = """\
Usage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]

Commands:
       watch          Show all devices' usage again and again (npu-smi info watch -h)
       proc           Show the processes of a chip
       -h             Show this help
       -m             Show the mapping of NPU, chip and logic ids
       -l             Show the cards
       -t type        Show one kind of information:
                      board, usages, memory, temp, power, health, common, ecc, proc-mem, phyid-remap

Options:
       -i %d          NPU id
       -c %d          Chip id
       -p %d          Physical id of a chip (phyid-remap)
"""
_NO_CARD = "The card or chip does not exist: npu-smi info -m lists them."
_NEEDS_CARD = "This command must input card id and chip id."


@dataclass(frozen=True, slots=True)
class Chip:
    """One emulated device as npu-smi shows it. Memory in MiB."""

    logic: int
    card: int
    chip: int
    bus: str
    total: int
    used: int
    process: tuple[int, str, int] | None
    """(process id, name, MiB) of this process if it holds device memory."""
    health: str = "OK"
    """OK, or Critical for a device that ``CANNLAB_FAULT`` lost."""

    @property
    def rate(self) -> int:
        """Memory in use, percent."""
        return 100 * self.used // self.total if self.total else 0


def _two_dies(chip: soc.Soc) -> bool:
    return chip.short == "Ascend910_93"


def _has_hbm(chip: soc.Soc) -> bool:
    return not chip.short.startswith("Ascend310")


def chips() -> tuple[soc.Soc, list[Chip]]:
    """The SoC and its devices: of this process's machine if it has one, else idle ones."""
    loaded = sys.modules.get("cannlab.machine")
    if loaded is not None:
        machine = loaded.machine()
        kind = machine.soc
        memory = [
            (device.memory_total, device.memory_total - device.memory_free, getattr(device, "lost", False))
            for device in machine.devices
        ]
    else:
        kind = soc.current()
        memory = [(kind.memory_bytes, 0, False)] * soc.device_count()
    per_card = 2 if _two_dies(kind) else 1
    name = os.path.basename(sys.executable) or "python"
    found = []
    for index, (total, used, lost) in enumerate(memory):
        bus = f"{index // len(_BUSES):04X}:{_BUSES[index % len(_BUSES)]}:00.0"
        process = (os.getpid(), name, used // _MIB) if used else None
        health = "Critical" if lost else "OK"
        chip = Chip(index, index // per_card, index % per_card, bus, total // _MIB, used // _MIB, process, health)
        found.append(chip)
    return kind, found


def _line(*cells: str) -> str:
    return "|" + "|".join(cells) + "|"


def _border(fill: str, *widths: int) -> str:
    return "+" + "+".join(fill * width for width in widths) + "+"


def _hbm_table(kind: soc.Soc, found: list[Chip], version: str) -> Iterator[str]:
    widths = (27, 15, 52)
    dies = _two_dies(kind)
    yield _border("-", 96)
    yield _line(f" npu-smi {version:<24} Version: {version:<53}")
    yield _border("-", *widths)
    yield _line(f"{' NPU   Name':<27}", " Health        ", " Power(W)    Temp(C)           Hugepages-Usage(page)")
    second = " Chip  Phy-ID" if dies else " Chip"
    yield _line(f"{second:<27}", " Bus-Id        ", " AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        ")
    yield _border("=", *widths)
    for chip in found:
        power = "-" if chip.chip else f"{_IDLE_POWER:.1f}"
        yield _line(
            f" {chip.card:<5} {kind.npu_name:<20}",
            f" {chip.health:<14}",
            f" {power:<11} {_IDLE_TEMPERATURE:<17} {0:<5}/ {0:<14}",
        )
        first = f" {chip.chip:<5} {chip.logic if dies else '':<20}"
        memory = f"{0:<5}/ {0:<11}{chip.used:<5}/ {chip.total:<14}"
        yield _line(first, f" {chip.bus:<14}", f" {0:<11} {memory}")
        last_of_card = chip.logic + 1 == len(found) or found[chip.logic + 1].card != chip.card
        yield _border("=", *widths) if last_of_card else _border("-", 96)
    yield _border("-", *widths)
    yield _line(f"{' NPU     Chip':<27}", " Process id    ", f" {'Process name':<25}| {'Process memory(MB)':<24}")
    yield _border("=", *widths)
    yield from _processes(
        found,
        96,
        lambda chip, process: _line(
            f" {chip.card:<7} {chip.chip:<18}",
            f" {process[0]:<14}",
            f" {process[1][:24]:<25}| {process[2]:<24}",
        ),
        _border("=", *widths),
    )


def _ddr_table(kind: soc.Soc, found: list[Chip], version: str) -> Iterator[str]:
    widths = (31, 17, 54)
    power = "NA" if kind.short == "Ascend310P" else f"{_IDLE_POWER / 10:.1f}"
    yield _border("-", 104)
    yield _line(f" npu-smi {version:<24} Version: {version:<61}")
    yield _border("-", *widths)
    yield _line(f"{' NPU     Name':<31}", f"{' Health':<17}", " Power(W)     Temp(C)           Hugepages-Usage(page) ")
    yield _line(f"{' Chip    Device':<31}", f"{' Bus-Id':<17}", f"{' AICore(%)    Memory-Usage(MB)':<54}")
    yield _border("=", *widths)
    for chip in found:
        yield _line(
            f" {chip.card:<7} {kind.npu_name:<22}",
            f" {chip.health:<16}",
            f" {power:<12} {_IDLE_TEMPERATURE:<17} {0:<6}/ {0:<14}",
        )
        yield _line(
            f" {chip.chip:<7} {chip.logic:<22}",
            f" {chip.bus:<16}",
            f" {0:<12} {f'{chip.used:<5}/ {chip.total}':<40}",
        )
        yield _border("=", *widths)
    yield _border("-", *widths)
    yield _line(f"{' NPU     Chip':<31}", f"{' Process id':<17}", f" {'Process name':<25}| {'Process memory(MB)':<26}")
    yield _border("=", *widths)
    yield from _processes(
        found,
        104,
        lambda chip, process: _line(
            f" {chip.card:<7} {chip.chip:<22}",
            f" {process[0]:<16}",
            f" {process[1][:24]:<25}| {process[2]:<26}",
        ),
        _border("=", *widths),
    )


def _processes(
    found: list[Chip], width: int, row: Callable[[Chip, tuple[int, str, int]], str], border: str
) -> Iterator[str]:
    for card in dict.fromkeys(chip.card for chip in found):
        rows = [row(chip, chip.process) for chip in found if chip.card == card and chip.process is not None]
        yield from rows or [_line(f" No running processes found in NPU {card}".ljust(width))]
        yield border


def table() -> str:
    """``npu-smi info``: all devices."""
    kind, found = chips()
    version = versions.emulated().driver
    lines = _hbm_table(kind, found, version) if _has_hbm(kind) else _ddr_table(kind, found, version)
    return "\n".join(lines)


def _key(name: str, value: object, width: int = 30) -> str:
    return f"\t{name:<{width}} : {value}"


def _cards(kind: soc.Soc, found: list[Chip]) -> Iterator[str]:
    cards = list(dict.fromkeys(chip.card for chip in found))
    yield _key("Card Count" if kind.short in ("Ascend310", "Ascend310B") else "Total Count", len(cards))
    yield ""
    for card in cards:
        yield _key("NPU ID", card)
        if kind.short in _CARDS:
            yield _key("Product Name", "NA")
            yield _key("Serial Number", "NA")
        yield _key("Chip Count", sum(chip.card == card for chip in found))
        yield ""


def _mapping(kind: soc.Soc, found: list[Chip]) -> Iterator[str]:
    names = ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"]
    if _two_dies(kind):
        names.insert(3, "Chip Phy-ID")
    yield "\t" + "".join(f"{name:<30}" for name in names)
    for chip in found:
        cells: list[object] = [chip.card, chip.chip, chip.logic, f"Ascend {kind.npu_name}"]
        if _two_dies(kind):
            cells.insert(3, chip.logic)
        yield "\t" + "".join(f"{cell!s:<30}" for cell in cells)
        last_of_card = chip.logic + 1 == len(found) or found[chip.logic + 1].card != chip.card
        if last_of_card and kind.short not in _NO_MCU:
            mcu = [chip.card, chip.chip + 1, *["-"] * (len(names) - 3), "Mcu"]
            yield "\t" + "".join(f"{cell!s:<30}" for cell in mcu)


def _board(kind: soc.Soc, chip: Chip, one_chip: bool, count: int) -> list[tuple[str, object]]:
    known = versions.emulated()
    firmware = known.firmware or "NA"
    unknown = "NA"
    if one_chip:
        return [
            ("NPU ID", chip.card),
            ("Chip ID", chip.chip),
            ("Chip Type", "Ascend"),
            ("Chip Name", kind.npu_name),
            ("Chip Version", "V1"),
            ("Board ID", unknown),
            ("PCB ID", unknown),
            ("BOM ID", unknown),
            ("VDie ID", unknown),
            ("NDie ID", unknown),
            ("Chip Position ID", chip.chip),
            ("PCIe Bus Info", chip.bus),
            ("Firmware Version", firmware),
        ]
    return [
        ("NPU ID", chip.card),
        ("Product Name", unknown),
        ("Model", unknown),
        ("Manufacturer", unknown),
        ("Serial Number", unknown),
        ("Software Version", known.driver),
        ("Firmware Version", firmware),
        ("Compatibility", "OK"),
        ("Board ID", unknown),
        ("PCB ID", unknown),
        ("BOM ID", unknown),
        ("PCIe Bus Info", chip.bus),
        ("Slot ID", chip.card),
        ("Class ID", unknown),
        ("PCI Vendor ID", "0x19E5"),
        ("PCI Device ID", _PCI_DEVICE.get(kind.short, unknown)),
        ("Subsystem Vendor ID", unknown),
        ("Subsystem Device ID", unknown),
        ("Chip Count", count),
    ]


def _usages(kind: soc.Soc, chip: Chip) -> list[tuple[str, object]]:
    if kind.short == "Ascend310B":
        return [
            ("Memory Capacity(MB)", chip.total),
            ("Memory Usage Rate(%)", chip.rate),
            ("Hugepages Total(page)", 0),
            ("Hugepages Usage Rate(%)", 0),
            ("Aicore Usage Rate(%)", 0),
            ("Aicpu Usage Rate(%)", 0),
            ("Ctrlcpu Usage Rate(%)", 0),
            ("Memory Bandwidth Usage Rate(%)", 0),
        ]
    hbm = _has_hbm(kind)
    ddr: list[tuple[str, object]] = [
        ("DDR Capacity(MB)", 0 if hbm else chip.total),
        ("DDR Usage Rate(%)", 0 if hbm else chip.rate),
        ("DDR Hugepages Total(page)", 0),
        ("DDR Hugepages Usage Rate(%)", 0),
    ]
    if not hbm:
        engines = [f"DVPP {name} Usage Rate(%)" for name in ("VDEC", "VPC", "VENC", "JPEGE", "JPEGD")]
        names = ["Aicore Usage Rate(%)", "Vectorcore Usage Rate(%)", "Aicpu Usage Rate(%)", "Ctrlcpu Usage Rate(%)"]
        return [*ddr, *((name, 0) for name in [*names, "DDR Bandwidth Usage Rate(%)", *engines])]
    names = [
        "Aicore Usage Rate(%)",
        "Aivector Usage Rate(%)",
        "Aicpu Usage Rate(%)",
        "Ctrlcpu Usage Rate(%)",
        "DDR Bandwidth Usage Rate(%)",
        "HBM Bandwidth Usage Rate(%)",
        "NPU Utilization(%)",
        "Aicube Usage Rate(%)",
    ]
    memory: list[tuple[str, object]] = [("HBM Capacity(MB)", chip.total), ("HBM Usage Rate(%)", chip.rate)]
    return [*ddr, *memory, *((name, 0) for name in names)]


def _memory(kind: soc.Soc, chip: Chip) -> list[tuple[str, object]]:
    if kind.short == "Ascend310B":
        return [("Total Capacity(MB)", chip.total), ("Capacity(MB)", chip.total), ("Clock Speed(MHz)", "NA")]
    if not _has_hbm(kind):
        return [
            ("Total DDR Capacity(MB)", chip.total),
            ("DDR Capacity(MB)", chip.total),
            ("DDR Clock Speed(MHz)", "NA"),
        ]
    return [
        ("DDR Capacity(MB)", 0),
        ("DDR Clock Speed(MHz)", 0),
        ("HBM Capacity(MB)", chip.total),
        ("HBM Clock Speed(MHz)", "NA"),
        ("HBM Temperature(C)", _IDLE_TEMPERATURE),
        ("HBM Manufacturer ID", "NA"),
    ]


def _common(kind: soc.Soc, chip: Chip) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        ("Memory Usage Rate(%)", 0 if _has_hbm(kind) else chip.rate),
        ("HBM Usage Rate(%)", chip.rate if _has_hbm(kind) else 0),
        ("Aicore Usage Rate(%)", 0),
        ("Aicore Freq(MHZ)", kind.cube_mhz),
        ("Aicore curFreq(MHZ)", kind.cube_mhz),
        ("Aicore Count", kind.ai_cores),
        ("Temperature(C)", _IDLE_TEMPERATURE),
    ]
    if kind.short != "Ascend310P":
        rows.append(("NPU Real-time Power(W)", f"{_IDLE_POWER:.1f}"))
    return rows


def _power(kind: soc.Soc, chip: Chip) -> list[tuple[str, object]] | str:
    if kind.short == "Ascend310P":
        return "This device does not support querying power."
    if kind.short == "Ascend310":
        return [("Rated Power Dissipation(W)", f"{_IDLE_POWER / 10:.1f}")]
    return [("NPU Real-time Power(W)", f"{_IDLE_POWER:.1f}")]


_ECC = tuple(
    f"HBM {bits} Bit {what}"
    for what in ("Error Count", "Aggregate Total Err Cnt", "Isolated Pages Count", "Next-Isolated Pages Count")
    for bits in ("Single", "Double")
)


def _ecc(kind: soc.Soc, chip: Chip) -> list[tuple[str, object]] | str:
    """The emulated memory never errs. Source of the keys: documentation of the driver."""
    return [(name, 0) for name in _ECC] if _has_hbm(kind) else _unsupported("ecc")


def _unsupported(kind: str) -> str:
    """What the tool says of a kind of information that a device does not have."""
    return f"This device does not support querying {kind}."


def _process_memory(kind: soc.Soc, chip: Chip) -> str:
    if chip.process is None:
        return "\tNo process in device."
    number, name, used = chip.process
    return f"\tProcess id:{number:<7d} Process name:{name[:17]:<17} Process memory(MB):{used}"


_CHIP_TYPES: dict[str, Callable[[soc.Soc, Chip], list[tuple[str, object]] | str]] = {
    "usages": _usages,
    "memory": _memory,
    "common": _common,
    "power": _power,
    "temp": lambda kind, chip: [("NPU Temperature (C)" if _has_hbm(kind) else "Temperature (C)", _IDLE_TEMPERATURE)],
    "health": lambda kind, chip: [("Health Status", chip.health), ("Error Code", "NA"), ("Error Information", "NA")],
    "proc-mem": _process_memory,
    "ecc": _ecc,
}
_WIDTHS = {"ecc": 40}
"""How wide the names of a kind of information are, where it is not 30."""
_OTHER_TYPES = frozenset(
    [
        "flash",
        "sensors",
        "volt",
        "mac-addr",
        "product",
        "ip",
        "sys-time",
        "i2c_check",
        "work-mode",
        "ecc-enable",
        "p2p-enable",
        "ssh-enable",
        "license",
        "customized-info",
        "device-share",
        "nve-level",
        "aicpu-config",
        "pcie-err",
        "mcu-monitor",
        "err-count",
        "boot-area",
        "vnpu-mode",
        "info-vnpu",
        "vnpu-svm",
        "cpu-num-cfg",
        "first-power-on-date",
        "vnpu-cfg-recover",
        "key-manage",
        "template-info",
        "pkcs-enable",
        "p2p-mem-cfg",
        "pwm-mode",
        "pwm-duty-ratio",
        "boot-select",
        "topo",
        "spod-info",
        "hccs",
        "hccs-bw",
        "sio-info",
        "optical-info",
        "op-timeout",
    ]
)
"""Kinds of information of the real tool that the emulated devices do not have."""


def _typed(kind: soc.Soc, found: list[Chip], wanted: str, options: dict[str, int]) -> str | None:
    """The text of ``info -t``; None for a wrong card or chip."""
    if wanted == "phyid-remap":
        chosen = [chip for chip in found if chip.logic == options["-p"]]
        if not chosen:
            return None
        chip = chosen[0]
        rows = [("Chip Physical ID", chip.logic), ("Chip Logic ID", chip.logic)]
        return "\n".join(_key(*row) for row in [*rows, ("NPU ID", chip.card), ("Chip ID", chip.chip)])
    card = [chip for chip in found if chip.card == options["-i"]]
    chosen = [chip for chip in card if options.get("-c") in (None, chip.chip)]
    if not chosen:
        return None
    if wanted == "board":
        return "\n".join(_key(*row) for row in _board(kind, chosen[0], "-c" in options, len(card)))
    lines: list[str] = []
    width = _WIDTHS.get(wanted, 30)
    if "-c" not in options:
        lines += [_key("NPU ID", options["-i"], width), _key("Chip Count", len(card), width)]
    for chip in chosen:
        answer = _CHIP_TYPES[wanted](kind, chip)
        if wanted == "common" and "-c" not in options:
            lines += ["", _key("Chip ID", chip.chip)]
        if isinstance(answer, str) and answer == _unsupported(wanted):
            return answer
        lines += [answer] if isinstance(answer, str) else [_key(*row, width) for row in answer]
        if wanted != "common" and "-c" not in options and not isinstance(answer, str):
            lines.append(_key("Chip ID", chip.chip, width))
    if wanted == "common" and "-c" not in options:
        lines += ["", _key("Chip Name", "mcu"), _key("Temperature(C)", _IDLE_TEMPERATURE)]
    return "\n".join(lines)


def _options(words: Sequence[str]) -> dict[str, int] | None:
    """``-i N`` and the like; None for anything else."""
    found: dict[str, int] = {}
    for name, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if name not in ("-i", "-c", "-p", "-d") or not value.isdecimal() or name in found:
            return None
        found[name] = int(value)
    return found


def _watch(kind: soc.Soc, found: list[Chip], words: Sequence[str]) -> int:
    """``info watch``: rows until Ctrl-C."""
    if list(words) in (["-h"], ["--help"]):
        print(npu_smi_watch.HELP, end="")
        return 0
    metrics = npu_smi_watch.default_metrics(versions.emulated().driver)
    if "-s" in words:
        at = list(words).index("-s")
        metrics = words[at + 1] if at + 1 < len(words) else ""
        words = [*words[:at], *words[at + 2 :]]
    options = _options(words)
    if options is None or "-p" in options or not npu_smi_watch.known(metrics):
        print(npu_smi_watch.HELP, end="")
        return 1
    if not 1 <= options.get("-d", 1) <= npu_smi_watch.LONGEST:
        print("Error parameter of -d")
        return 1
    chosen = [
        chip for chip in found if options.get("-i") in (None, chip.card) and options.get("-c") in (None, chip.chip)
    ]
    if not chosen:
        print(_NO_CARD)
        return 1
    _tell()
    power = "NA" if kind.short == "Ascend310P" else f"{_IDLE_POWER:.1f}"
    rows = [(chip.card, chip.chip, {"p": power, "t": _IDLE_TEMPERATURE, "m": chip.rate}) for chip in chosen]
    npu_smi_watch.watch(rows, metrics, options.get("-d", 1))
    return 0


def _usage() -> int:
    print(_USAGE, end="")
    return 1


def main(arguments: Sequence[str]) -> int:
    """Run ``npu-smi`` with these words.

    Returns:
        0, or 1 for a wrong usage, card or chip.

    Raises:
        CannlabError: ``soc.unknown`` or ``soc.device_count`` for bad settings.
    """
    words = list(arguments)
    if words in (["-h"], ["--help"], ["info", "-h"], ["info", "--help"]):
        print(_USAGE, end="")
        return 0
    known = versions.emulated()
    if words in (["-v"], ["--version"]):
        print(f"npu-smi version: {known.driver}")
        _tell()
        return 0
    if words[:1] != ["info"]:
        return _usage()
    kind, found = chips()
    rest = words[1:]
    if not rest:
        print(table())
    elif rest == ["-l"]:
        print("\n".join(_cards(kind, found)))
    elif rest == ["-m"]:
        print("\n".join(_mapping(kind, found)))
    elif rest[0] == "watch":
        return _watch(kind, found, rest[1:])
    elif rest[0] == "proc":
        # Processes one by one are seen with proc-mem; the chips answer this so.
        if _options(rest[1:]) is None:
            return _usage()
        print(_unsupported("proc"))
    elif rest[0] == "-t" and len(rest) > 1 and rest[1] in _OTHER_TYPES:
        print(_unsupported(rest[1]))
    elif rest[0] == "-t" and len(rest) > 1 and rest[1] in ("board", "phyid-remap", *_CHIP_TYPES):
        options = _options(rest[2:])
        if options is None:
            return _usage()
        if ("-p" if rest[1] == "phyid-remap" else "-i") not in options:
            print(_NEEDS_CARD)
            return 1
        text = _typed(kind, found, rest[1], options)
        if text is None:
            print(_NO_CARD)
            return 1
        print(text)
    else:
        return _usage()
    _tell()
    return 0


def _tell() -> None:
    print("cannlab: these devices, and the driver version shown, are emulated", file=sys.stderr)
