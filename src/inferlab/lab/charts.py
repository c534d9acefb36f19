"""Draw a record as SVG: the same bytes each time, text as text, readable on a phone and in print.

The title is the sentence, the alternative text the finding. Spread is drawn, and a measured bound
is a dashed line. What each form looks like stands in `chart_forms`, `chart_bars` and
`chart_roofline`.
"""

import io
import re
import warnings
from collections.abc import Mapping
from html import escape
from typing import Any

from inferlab.errors import InferlabError
from inferlab.lab import chart_style

MAX_BYTES = 40_000


def render(record: Mapping[str, Any], theme: str = "light") -> str:
    """The record's chart as an SVG element, for a page or a file; `theme` is light or dark.

    Raises InferlabError when the record has no chart, or one too large for a page.
    """
    if not record.get("chart"):
        raise InferlabError(f"{record.get('snippet', 'the record')} has no chart: give chart=")
    import matplotlib as mpl

    from inferlab.lab import chart_bars, chart_forms, chart_roofline
    from inferlab.lab.chart_frame import Frame

    draw = {
        "line": chart_forms.line,
        "timeline": chart_forms.timeline,
        "roofline": chart_roofline.roofline,
        "bar": chart_bars.bar,
        "hbar": chart_bars.hbar,
    }[record["chart"]["form"]]
    with mpl.rc_context(chart_style.settings()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the reader's fonts have it
        frame = Frame(record, chart_style.theme_of(theme))
        draw(frame)
        frame.finish()
        raw = _svg(frame.figure)
    text = _tidy(raw, _slug(record, theme), alt_text(record))
    if (size := len(text.encode())) > MAX_BYTES:
        raise InferlabError(
            f"the chart of {record['snippet']} takes {size:,} bytes, more than {MAX_BYTES:,}: "
            "record fewer rows, for instance every tenth"
        )
    return text


def alt_text(record: Mapping[str, Any]) -> str:
    """What the chart says to those who do not see it: the finding, and what is drawn."""
    kinds = {
        "line": "Line chart",
        "bar": "Bar chart",
        "hbar": "Bar chart",
        "timeline": "Timeline",
        "roofline": "Roofline chart",
    }
    return f"{kinds[record['chart']['form']]}: {record['finding']}"


def _svg(figure: Any) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(out, metadata=nothing)
    return out.getvalue()


def _slug(record: Mapping[str, Any], theme: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{record.get('snippet', 'chart')}-{theme}".lower())


def _tidy(svg: str, slug: str, alt: str) -> str:
    """Matplotlib's file as an element that many may stand in one page: unique ids, less to load."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", body))
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{slug}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{slug}-", body).replace("xlink:href", "href")
    body = re.sub(r'( (?:d|x|y|x1|y1|width|height|transform|points)=")([^"]*)"', _rounded, body)
    body = re.sub(
        r"stroke-width: (\d+\.\d{3,})", lambda m: f"stroke-width: {float(m[1]):.2f}", body
    )
    body = body.replace("'DejaVu Sans'", chart_style.READER_FONTS.replace('"', "'"))
    body = re.sub(r"\n\s*", "\n", body).replace("<g>\n</g>\n", "")
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', body)
    assert size is not None
    width, height = (f"{float(side) * 1.25:g}" for side in size.groups())
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[1]} {size[2]}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="{slug}-title">\n'
        f'<title id="{slug}-title">{escape(alt)}</title>\n'
    )
    return opening + body[body.index(">") + 1 :].lstrip()


def _rounded(match: "re.Match[str]") -> str:
    def number(found: "re.Match[str]") -> str:
        return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")

    text = re.sub(r"-?\d+\.\d+", number, match[2])
    return match[1] + (_short_path(text) if match[1] == ' d="' else text) + '"'


def _short_path(path: str) -> str:
    """The same path with H and V for level and upright lines: half the size of many rectangles."""
    parts = re.findall(r"([MLz])\s*([^MLzCQ]*)", path)
    if re.search("[CQ]", path):
        return " ".join(path.split())
    short, last = [], ["", ""]
    for command, numbers in parts:
        at = numbers.split()
        if command == "L" and at[1] == last[1]:
            short.append(f"H{at[0]}")
        elif command == "L" and at[0] == last[0]:
            short.append(f"V{at[1]}")
        else:
            short.append(command + " ".join(at))
        last = at or last
    return "".join(short)
