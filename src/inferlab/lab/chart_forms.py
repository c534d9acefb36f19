"""Lines and timelines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferlab.lab import schema
from inferlab.lab.chart_frame import DASH, DIRECT, EndLabel, Frame, KeyItem, log_ticks, number
from inferlab.lab.chart_style import FONT, Look, ink_on, looks

Point = tuple[float, Any]  # x, and a cell


@dataclass(frozen=True)
class Series:
    """Rows that belong together: a column of y values, and one value of the series column."""

    name: str
    role: str
    y: str
    rows: list[Mapping[str, Any]]


def series_of(frame: Frame) -> list[Series]:
    """The chart's series, in order of first appearance."""
    chart = frame.chart
    key = chart.get("series")
    values = list(dict.fromkeys(schema.center(row[key]) for row in frame.rows)) if key else [None]
    found = []
    for value in values:
        rows = [row for row in frame.rows if not key or schema.center(row[key]) == value]
        for y in chart["y"]:
            parts = [str(value)] if key else []
            if len(chart["y"]) > 1 or not key:
                parts.append(frame.label(y))
            found.append(Series(", ".join(parts), frame.role(value, y), y, rows))
    return found


def line(frame: Frame) -> None:
    """y against x: a marker at each point, a band for the spread, a dashed line for the bound."""
    chart = frame.chart
    series = series_of(frame)
    every_x = list(dict.fromkeys(schema.center(row[chart["x"]]) for row in frame.rows))
    numeric = all(isinstance(x, int | float) for x in every_x)
    place = {x: float(x) if numeric else float(i) for i, x in enumerate(every_x)}
    for one, look in zip(series, looks(frame.theme, [s.role for s in series]), strict=True):
        points = [(place[schema.center(row[chart["x"]])], row[one.y]) for row in one.rows]
        points.sort(key=lambda point: point[0])
        known = [point for point in points if schema.center(point[1]) is not None]
        if known:
            _one_line(frame, points, look)
            _name(frame, one.name, look, known[-1], len(series))
    _bound_lines(frame, series, place)
    _line_axes(frame, every_x, numeric)


def _one_line(frame: Frame, points: Sequence[Point], look: Look) -> None:
    """One series; where a value is undefined the line has a gap."""
    xs = [x for x, _ in points]
    ys = [math.nan if schema.center(y) is None else schema.center(y) for _, y in points]
    few = len(points) <= 30
    frame.axes.plot(
        xs,
        ys,
        color=look.color,
        linewidth=2,
        marker=look.marker if few else None,
        markersize=6,
        markeredgecolor=frame.theme.surface,
        markeredgewidth=0.6,
        zorder=3,
    )
    spreads = [schema.spread(cell) or (y, y) for (_, cell), y in zip(points, ys, strict=True)]
    if any(low < high for low, high in spreads):
        low, high = zip(*spreads, strict=True)
        frame.axes.fill_between(xs, low, high, color=look.color, alpha=0.22, linewidth=0)


def _name(frame: Frame, name: str, look: Look, last: Point, count: int) -> None:
    if count == 1 and not frame.chart.get("bound") and not frame.chart.get("series"):
        return  # the axis says what the only line is
    if count <= DIRECT:
        frame.ends.append(EndLabel(schema.center(last[1]), name, look.color))
    else:
        frame.key.append(KeyItem(name, look, mark=True))


def _bound_lines(frame: Frame, series: Sequence[Series], place: Mapping[Any, float]) -> None:
    """The bound, once where all series share it."""
    key, x_key = frame.chart.get("bound"), frame.chart["x"]
    if not key:
        return
    drawn: list[list[Point]] = []
    for one in series:
        points = [
            (place[schema.center(row[x_key])], schema.center(row.get(key)))
            for row in one.rows
            if schema.center(row.get(key)) is not None
        ]
        if not points or points in drawn:
            continue
        xs, ys = zip(*points, strict=True)
        frame.axes.plot(xs, ys, color=frame.theme.muted, linewidth=1.6, linestyle=DASH, zorder=2)
        if not drawn:
            frame.ends.append(EndLabel(ys[-1], frame.label(key), frame.theme.muted))
        drawn.append(points)


def _line_axes(frame: Frame, every_x: Sequence[Any], numeric: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    chart, axes = frame.chart, frame.axes
    axes.margins(x=0.04)
    axes.yaxis.set_major_formatter(FuncFormatter(number))
    if chart.get("log_y"):
        axes.set_yscale("log")
        log_ticks(axes.yaxis, *axes.get_ylim())
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0] if axes.dataLim.y0 < 0 else 0.0))
    if not numeric:
        axes.set_xticks(range(len(every_x)), [str(x) for x in every_x])
    elif chart.get("log_x"):
        axes.set_xscale("log")
        log_ticks(axes.xaxis, *axes.get_xlim())
        if len(every_x) <= 7:
            axes.set_xticks([float(x) for x in every_x])
            axes.xaxis.set_minor_locator(NullLocator())
    else:
        whole = all(float(x).is_integer() for x in every_x)
        nice = MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10], integer=whole)
        axes.xaxis.set_major_locator(nice)
        axes.xaxis.set_major_formatter(FuncFormatter(number))
    log_x = bool(chart.get("log_x") and numeric)
    frame.x_label = frame.axis_label([chart["x"]], chart.get("x_label"), log_x)
    frame.y_label = frame.axis_label(chart["y"], chart.get("y_label"), bool(chart.get("log_y")))


def timeline(frame: Frame) -> None:
    """What happens when: one lane for each `lane`, one bar for each row, coloured by `role`."""
    from matplotlib.ticker import FuncFormatter

    axes, rows = frame.axes, frame.rows
    lanes = list(dict.fromkeys(str(row["lane"]) for row in rows))
    frame.height = 58 + max(26.0, min(34.0, 420.0 / len(lanes))) * len(lanes)
    roles = list(dict.fromkeys(str(row.get("role") or "neutral") for row in rows))
    for role, look in zip(roles, looks(frame.theme, roles), strict=True):
        own = [row for row in rows if str(row.get("role") or "neutral") == role]
        _segments(frame, own, lanes, look)
        name = str(frame.chart.get("options", {}).get("names", {}).get(role, role))
        if len(roles) > 1:
            frame.key.append(KeyItem(name, look))
    start, end = min(row["start"] for row in rows), max(row["end"] for row in rows)
    axes.set_xlim(min(0, start), end + 0.01 * (end - min(0, start)) or 1)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.grid(visible=False)
    axes.grid(axis="x", color=frame.theme.grid, linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(number))
    frame.x_label = frame.axis_label(["start"], frame.chart.get("x_label") or "time", False)


def _segments(
    frame: Frame, rows: Sequence[Mapping[str, Any]], lanes: Sequence[str], look: Look
) -> None:
    """All bars of one role as one path: a thousand of them must fit a small file."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    whole = max(row["end"] for row in frame.rows) - min(row["start"] for row in frame.rows)
    corners: list[tuple[float, float]] = []
    bars = [(lanes.index(str(row["lane"])), row["start"], row["end"]) for row in rows]
    for lane, start, end in _joined(bars, whole / 1000 if len(frame.rows) > 200 else -1):
        low, high = lane - 0.36, lane + 0.36
        corners += [(start, low), (end, low), (end, high), (start, high), (start, low)]
    codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY] * (len(corners) // 5)
    edge = 0.8 if len(rows) <= 100 else 0.3
    patch = PathPatch(
        Path(corners, codes),
        facecolor=look.color,
        edgecolor=frame.theme.surface,
        hatch=look.hatch,
        linewidth=edge,
        zorder=2,
    )
    frame.axes.add_patch(patch)
    for row in rows:
        _segment_label(frame, row, lanes, look, whole)


def _joined(bars: Sequence[tuple[int, float, float]], gap: float) -> list[tuple[int, float, float]]:
    """Bars of one lane that are less than `gap` apart, which no eye could tell apart, as one."""
    found: list[tuple[int, float, float]] = []
    for lane, start, end in sorted(bars):
        if found and found[-1][0] == lane and start - found[-1][2] < gap:
            found[-1] = (lane, found[-1][1], max(end, found[-1][2]))
        else:
            found.append((lane, start, end))
    return found


def _segment_label(
    frame: Frame, row: Mapping[str, Any], lanes: Sequence[str], look: Look, whole: float
) -> None:
    """The row's `label` inside its bar, where it fits."""
    text = str(row.get("label") or "")
    room = (row["end"] - row["start"]) / (whole or 1) * 320  # about what the axes are wide
    if not text or frame.text_width(text) + 6 > room:
        return
    frame.axes.text(
        (row["start"] + row["end"]) / 2,
        lanes.index(str(row["lane"])),
        text,
        ha="center",
        va="center_baseline",
        fontsize=FONT,
        color=ink_on(look.color),
        zorder=4,
        bbox={"facecolor": look.color, "edgecolor": "none", "pad": 1.5},
    )
