"""An HTML page of a grading: one file, nothing loaded from anywhere, no script."""

from __future__ import annotations

from html import escape

from cannlab.course.result_html import DARK

_STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 1.5rem auto; padding: 0 1rem; color: #1f2328;
  background: #fff; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #d0d7de; vertical-align: top; }
td.n, th.n { text-align: right; }
pre { background: #f6f8fa; padding: .6rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; }
section { margin: 1.5rem 0; }
.bar { display: inline-block; width: 8rem; height: .7rem; background: #d0d7de; }
.bar span { display: block; height: 100%; background: #1a7f37; }
.note { border-left: 4px solid #b35900; padding: .2rem .8rem; margin: .4rem 0; }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3; } pre { background: #161b22; } th, td { border-color: #30363d; }
  .bar { background: #30363d; } a { color: #58a6ff; }
}
"""
# The verdict's colour stands in its own element, as notebooks need it; a dark page overrides it.
_STYLE += "@media (prefers-color-scheme: dark) {\n"
_STYLE += "".join(f'  b[style*="{light}"] {{ color: {dark} !important; }}\n' for light, dark in DARK.items()) + "}\n"
# Even if a text were not escaped somewhere, a browser would run nothing and load nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, body: str) -> bytes:
    """A whole page from escaped parts. ``title`` is escaped here."""
    text = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
    return text.encode("utf-8", "backslashreplace")


def row(*cells: object, head: bool = False) -> str:
    """A table's row; numbers stand to the right. Text is escaped; a Markup is taken as it is."""
    tag = "th" if head else "td"
    parts = []
    for cell in cells:
        kind = ' class="n"' if isinstance(cell, (int, float)) else ""
        parts.append(f"<{tag}{kind}>{cell if isinstance(cell, Markup) else escape(str(cell))}</{tag}>")
    return f"<tr>{''.join(parts)}</tr>"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def bar(part: int, whole: int) -> Markup:
    """A share as a bar."""
    percent = 100 * part // whole if whole else 0
    return Markup(f'<span class="bar"><span style="width:{percent}%"></span></span>')
