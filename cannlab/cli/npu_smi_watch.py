"""``npu-smi info watch``: columns of metrics, a row for each chip, again and again.

Source: npu-smi 4, the help of the driver's tool (letters of the metrics, limits of -d), outputs of 23.0 (no columns for
NPU Util and AI Cube unless they are asked for). Values that the emulation does not model are 0.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

METRICS = {
    "p": ("Pwr(W)", "Power Usage"),
    "t": ("Temp(C)", "Temperature"),
    "a": ("AI Core(%)", "AI Core Usage"),
    "i": ("AI Cpu(%)", "AI Cpu Usage"),
    "c": ("Ctrl Cpu(%)", "Control Cpu Usage"),
    "m": ("Memory(%)", "Memory Usage"),
    "b": ("Memory BW(%)", "Memory Bandwidth Usage"),
    "n": ("NPU Util(%)", "NPU Utilization"),
    "u": ("AI Cube(%)", "AI Cube Usage"),
}
"""Letter -> heading, meaning; in the order of the columns."""
_RECENT = 25
"""The major version of the driver from which on all columns are shown."""
LONGEST = 100
"""Seconds between two rows, at most."""

HELP = """\
Usage: npu-smi info watch [Options...]

Options:
       -i %d          NPU ID
       -c %d          Chip ID
       -d %d          Seconds between two rows [1~100, default is 1]
       -s             One or more metrics, for example: info watch -s ptaicmb
""" + "".join(f"                          {letter} - {meaning}\n" for letter, (_, meaning) in METRICS.items())


def default_metrics(driver: str) -> str:
    """The columns without -s, by the version of the driver."""
    major = driver.partition(".")[0]
    return "".join(METRICS) if major.isdecimal() and int(major) >= _RECENT else "ptaicmb"


def known(metrics: str) -> bool:
    """True for one or more different letters of metrics."""
    return bool(metrics) and set(metrics) <= set(METRICS) and len(set(metrics)) == len(metrics)


def watch(rows: Sequence[tuple[int, int, Mapping[str, object]]], metrics: str, seconds: int) -> None:
    """Print a heading and then the rows every so many seconds, until Ctrl-C.

    Args:
        rows: card, chip and what is known of its metrics.
    """
    shown = [letter for letter in METRICS if letter in metrics]
    names = ["NpuID(Idx)", "ChipId(Idx)", *(METRICS[letter][0] for letter in shown)]
    print("".join(f"{name:<12}" for name in names))
    while True:
        for card, chip, values in rows:
            cells = [card, chip, *(values.get(letter, 0) for letter in shown)]
            print("".join(f"{cell!s:<12}" for cell in cells))
        sys.stdout.flush()
        time.sleep(seconds)
