"""The picture of a compiled graph: the ONNX nodes of each operator, the operator, its time."""

from __future__ import annotations

import io

from cannlab.atc.graph_view import GraphView
from cannlab.profiler.timeline import Picture

MOST = 60
"""Operators in a picture; more cannot be read."""
COLOURS = {"cube": "#8e5ea2", "memory": "#2a9d8f", "vector": "#3d6fb6", "launch": "#9aa5b1"}
CHARACTERS = 44
"""Length of a label, at most."""
_DPI, _ROW_INCHES, _WIDTH_INCHES = 110, 0.27, 12.5


def draw(view: GraphView) -> Picture:
    """Draw the first operators of a graph; the same graph gives the same bytes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

    rows = view.operators[:MOST]
    longest = max((row.ns for row in rows), default=1)
    types = {node.name: node.op_type for node in view.nodes}
    with matplotlib.rc_context(rc={**matplotlib.rcParamsDefault, "backend": "agg"}):
        figure = Figure(figsize=(_WIDTH_INCHES, 1.5 + _ROW_INCHES * max(1, len(rows))), dpi=_DPI)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.01, 0.55 / figure.get_figheight(), 0.98, 1 - 1.1 / figure.get_figheight()))
        axes.set_xlim(0, 100)
        axes.set_ylim(len(rows) - 0.3, -1.3)
        axes.axis("off")
        for x, text in ((1, "ONNX nodes"), (47, "operator of the om"), (79, "time, coloured by what it waits for")):
            axes.text(x, -0.9, text, fontsize=8, weight="bold", va="center")
        for y, row in enumerate(rows):
            axes.add_patch(Rectangle((46, y - 0.4), 31, 0.8, facecolor="#eef1f6", edgecolor="#b8c0cc", linewidth=0.6))
            axes.text(46.6, y, _cut(f"{row.op_type}: {row.name}", CHARACTERS), fontsize=7, va="center", clip_on=True)
            if row.nodes:
                label = " + ".join(types.get(node, node) for node in row.nodes)
                axes.text(1, y, _cut(label, CHARACTERS), fontsize=7, va="center")
                axes.plot((33, 41.5), (y, y), color="#6b705c", linewidth=0.4 + 0.3 * len(row.nodes))
            else:
                axes.text(1, y, "(put in by the compiler)", fontsize=7, va="center", color="#8a8f98")
            width = 14 * row.ns / longest
            axes.add_patch(Rectangle((79, y - 0.3), width, 0.6, facecolor=COLOURS[row.bound_by]))
            axes.text(79.5 + width, y, f"{row.ns / 1000:.1f} us", fontsize=6.5, va="center")
            for source in row.sources:
                far = y - source
                if far > 1:  # what is not the operator right before comes from further up
                    bend = f"arc3,rad={min(0.6, 0.12 + 0.02 * far)}"
                    axes.add_patch(
                        FancyArrowPatch(
                            (46, source),
                            (46, y),
                            connectionstyle=bend,
                            arrowstyle="-|>",
                            mutation_scale=6,
                            linewidth=0.6,
                            color="#c44536",
                        )
                    )
        title = view.summary()
        if len(view.operators) > MOST:
            title += f"\nThe first {MOST} of {len(view.operators)} operators; the table has all."
        figure.text(0.015, 1 - 0.12 / figure.get_figheight(), title, fontsize=9, va="top")
        used = [name for name in COLOURS if any(row.bound_by == name for row in rows)]
        handles = [Patch(facecolor=COLOURS[name], label=name) for name in used]
        if handles:
            figure.legend(handles=handles, loc="lower center", ncols=len(handles), fontsize=8, frameon=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return Picture(buffer.getvalue())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
