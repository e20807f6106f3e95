"""Pictures of a run: streams and host threads as lanes, and the pipes of a kernel's cores.

Drawn without a display; the same record gives the same bytes (nothing about the program that drew it is stored).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cannlab.profiler.kernel_spans import PIPES, KernelSpan
from cannlab.trace import Record, TaskKind
from cannlab.trace.whole_file import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DPI = 110
_LANE_INCHES = 0.42
_WIDTH_INCHES = 11.0
_CHARACTER_INCHES = 0.075
_SHORTEST = 5
"""Characters that a cut name keeps at least; a shorter rest says nothing."""
"""Width of a character of a label, about."""
_LABELS = 400
"""At most so many labels: more cannot be read."""

_COLOURS = {
    "host": "#9aa5b1",
    "copy in": "#2a9d8f",
    "copy out": "#e9a23b",
    "copy on device": "#7fb069",
    "operator": "#3d6fb6",
    "model": "#c9d7ec",
    "kernel": "#8e5ea2",
    "event": "#c44536",
    "callback": "#6b705c",
}
_KINDS = {
    TaskKind.COPY_H2D: "copy in",
    TaskKind.COPY_D2H: "copy out",
    TaskKind.COPY_D2D: "copy on device",
    TaskKind.COPY_H2H: "host",
    TaskKind.COPY_P2P: "copy on device",
    TaskKind.MEMSET: "copy on device",
    TaskKind.MODEL: "model",
    TaskKind.OPERATOR: "operator",
    TaskKind.KERNEL: "kernel",
    TaskKind.EVENT_RECORD: "event",
    TaskKind.EVENT_WAIT: "event",
    TaskKind.EVENT_RESET: "event",
    TaskKind.CALLBACK: "callback",
}
_PIPE_COLOURS = {
    "S": "#9aa5b1",
    "V": "#3d6fb6",
    "M": "#8e5ea2",
    "MTE1": "#7fb069",
    "MTE2": "#2a9d8f",
    "MTE3": "#e9a23b",
    "FIXP": "#c44536",
}


class Picture:
    """A finished picture (PNG); a notebook shows it."""

    def __init__(self, png: bytes) -> None:
        self.png = png

    def save(self, path: Path) -> None:
        """Write the PNG file, whole or not at all. OSError if it cannot be written."""
        write_whole(path, self.png)

    def __repr__(self) -> str:
        return "<picture>"

    def _repr_png_(self) -> bytes:
        return self.png


@dataclass(frozen=True, slots=True)
class _Bar:
    lane: int
    start: int
    end: int
    group: str
    label: str
    thin: bool = False


def _unit(ns: int) -> tuple[int, str]:
    """(ns in one unit of the axis, its name)."""
    for size, name in ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")):
        if ns >= 2 * size:
            return size, name
    return 1, "ns"


def _draw(
    lanes: Sequence[str],
    bars: Sequence[_Bar],
    colours: dict[str, str],
    title: str,
    window: tuple[int, int] | None = None,
) -> Picture:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    with matplotlib.rc_context(rc={**matplotlib.rcParamsDefault, "backend": "agg"}):
        figure = Figure(figsize=(_WIDTH_INCHES, 1.35 + _LANE_INCHES * max(1, len(lanes))), dpi=_DPI)
        FigureCanvasAgg(figure)
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        whole = min((bar.start for bar in bars), default=0), max((bar.end for bar in bars), default=1)
        first, last = window or whole
        size, unit = _unit(max(1, last - first))
        groups = [group for group in colours if any(bar.group == group for bar in bars)]
        for group in groups:
            chosen = [bar for bar in bars if bar.group == group]
            for lane in sorted({bar.lane for bar in chosen}):
                for thin in (False, True):
                    spans = [
                        ((bar.start - first) / size, (bar.end - bar.start) / size)
                        for bar in chosen
                        if bar.lane == lane and bar.thin is thin
                    ]
                    height = 0.5 if thin else 0.8
                    axes.broken_barh(
                        spans,
                        (lane - height / 2, height),
                        facecolors=colours[group],
                        edgecolors="white" if group != "event" else colours[group],
                        linewidth=0.4 if group != "event" else 1.2,
                        zorder=3 if thin else 2,
                    )
        _label(axes, bars, first, size, max(1, last - first))
        axes.set_yticks(range(len(lanes)), lanes)
        axes.set_ylim(len(lanes) - 0.4, -0.6)
        axes.set_xlim(0, max(1, last - first) / size)
        axes.set_xlabel(f"simulated time ({unit})" + (f"; 0 is {first / 1e6:.2f} ms into the run" if window else ""))
        axes.set_title(title, loc="left", fontsize=10)
        axes.grid(axis="x", color="#d8dde3", linewidth=0.6, zorder=0)
        axes.tick_params(labelsize=8)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        if groups:
            handles = [Patch(facecolor=colours[group], label=group) for group in groups]
            figure.legend(handles=handles, loc="outside lower center", ncols=len(groups), fontsize=8, frameon=False)
        if not bars:
            axes.text(0.5, 0.5, "nothing ran", transform=axes.transAxes, ha="center", va="center", fontsize=10)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return Picture(buffer.getvalue())


def _label(axes: Axes, bars: Sequence[_Bar], first: int, size: int, whole: int) -> None:
    """Write a bar's name into it where it fits, the longest bars first; never over a name that stands there."""
    inches = (_WIDTH_INCHES - 1.6) / whole
    written = 0
    taken: dict[int, list[tuple[float, float]]] = {}
    for bar in sorted(bars, key=lambda bar: (bar.start - bar.end, bar.lane, bar.start)):
        room = int((bar.end - bar.start) * inches / _CHARACTER_INCHES)
        if written >= _LABELS or room < 3:
            return
        if not bar.label or room < min(len(bar.label), _SHORTEST):
            continue
        text = bar.label if len(bar.label) <= room else bar.label[: room - 1] + "…"
        dark = bar.group in ("operator", "kernel", "copy in", "event", "callback", "V", "M", "MTE2", "FIXP")
        middle = ((bar.start + bar.end) / 2 - first) / size
        half = len(text) * _CHARACTER_INCHES / inches / size / 2
        lane = taken.setdefault(bar.lane, [])
        if any(middle - half < right and left < middle + half for left, right in lane):
            continue
        lane.append((middle - half, middle + half))
        colour = "white" if dark else "#1d2733"
        axes.text(middle, bar.lane, text, ha="center", va="center", fontsize=7, color=colour, zorder=4, clip_on=True)
        written += 1


def _stream_name(device: int, stream: int) -> str:
    """Synchronous copies belong to no stream; the record gives them -1."""
    return f"NPU {device} stream {stream}" if stream >= 0 else f"NPU {device} sync copies"


def timeline(record: Record, title: str = "", window: tuple[int, int] | None = None) -> Picture:
    """A run: one lane for each host thread and each stream.

    Args:
        record: what the machine did.
        title: the picture's title; the SoC and the length of the run if it is "".
        window: first and last simulated ns to draw; the whole run if None. (Initialising takes tens of
            milliseconds, one copy microseconds: a picture of the whole shows the first alone.) Lanes without
            anything in the window are left out.

    Raises:
        ValueError: the window ends before it starts.
    """
    if window is not None and window[0] >= window[1]:
        raise ValueError(f"the window {window} is empty: give (first ns, last ns)")
    calls, tasks = list(record.calls.rows()), list(record.tasks.rows())
    threads = sorted({row["thread"] for row in calls})
    streams = sorted({(row["device"], row["stream"]) for row in tasks})
    lanes = [f"host thread {thread}" for thread in threads]
    lanes += [_stream_name(device, stream) for device, stream in streams]
    bars = [
        _Bar(
            threads.index(row["thread"]),
            row["start"],
            row["end"],
            "host",
            record.strings[row["name"]].rpartition(".")[2],
        )
        for row in calls
    ]
    parents = {row["parent"] for row in tasks}
    for number, row in enumerate(tasks):
        kind = TaskKind(row["kind"])
        inner = row["parent"] >= 0
        label = (record.strings[row["name"]] or kind.name) if number not in parents else ""
        lane = len(threads) + streams.index((row["device"], row["stream"]))
        bars.append(_Bar(lane, row["start"], row["end"], _KINDS[kind], label, thin=inner))
    if window is not None:
        first, last = window
        bars = [
            replace(bar, start=max(bar.start, first), end=min(bar.end, last))
            for bar in bars
            if bar.start <= last and bar.end >= first
        ]
        used = sorted({bar.lane for bar in bars})
        lanes = [lanes[lane] for lane in used]
        bars = [replace(bar, lane=used.index(bar.lane)) for bar in bars]
    length = max((bar.end for bar in bars), default=0) - (window[0] if window is not None else 0)
    size, unit = _unit(length)
    return _draw(
        lanes, bars, _COLOURS, title or f"{record.soc} (emulated): {length / size:.3g} {unit} simulated", window
    )


def kernel_timeline(spans: Sequence[KernelSpan], title: str = "", cores: int = 2) -> Picture:
    """A kernel's instructions: one lane for each pipe of its first cores.

    Args:
        spans: when each instruction ran.
        title: the picture's title.
        cores: how many cores to draw; the others are counted in the title.
    """
    ran = sorted({span.core for span in spans})
    drawn = ran[:cores]
    used = [(core, pipe) for core in drawn for pipe in PIPES if any(s.core == core and s.pipe == pipe for s in spans)]
    lanes = [f"core {core} {pipe}" for core, pipe in used]
    bars = [
        _Bar(used.index((span.core, span.pipe)), span.start, span.end, span.pipe, span.name)
        for span in spans
        if span.core in drawn
    ]
    left = f" ({len(drawn)} of {len(ran)} cores drawn)" if len(ran) > len(drawn) else ""
    return _draw(lanes, bars, _PIPE_COLOURS, (title or "kernel, simulated") + left)
