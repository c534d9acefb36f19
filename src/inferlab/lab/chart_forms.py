"""Lines, timelines and rooflines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferlab.lab import schema
from inferlab.lab.chart_frame import DIRECT, EndLabel, Frame, KeyItem, number
from inferlab.lab.chart_style import FONT, Look, ink_on, looks

DASH = (0, (4, 2.5))
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
    chart, axes = frame.chart, frame.axes
    series = series_of(frame)
    every_x = list(dict.fromkeys(schema.center(row[chart["x"]]) for row in frame.rows))
    numeric = all(isinstance(x, int | float) for x in every_x)
    place = {x: float(x) if numeric else float(i) for i, x in enumerate(every_x)}
    for one, look in zip(series, looks(frame.theme, [s.role for s in series]), strict=True):
        points = [
            (place[schema.center(row[chart["x"]])], row[one.y])
            for row in one.rows
            if schema.center(row[one.y]) is not None
        ]
        if points:
            _one_line(frame, points, look)
            _name(frame, one.name, look, points[-1], len(series))
    _bound_lines(frame, series, place)
    _line_axes(frame, every_x, numeric)
    axes.margins(x=0.04)


def _one_line(frame: Frame, points: Sequence[Point], look: Look) -> None:
    xs, ys = [x for x, _ in points], [schema.center(y) for _, y in points]
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
    spreads = [schema.spread(y) or (schema.center(y), schema.center(y)) for _, y in points]
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
    from matplotlib.ticker import FuncFormatter, NullLocator

    chart, axes = frame.chart, frame.axes
    if chart.get("log_x") and numeric:
        axes.set_xscale("log")
    if chart.get("log_y"):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0] if axes.dataLim.y0 < 0 else 0.0))
    if not numeric:
        axes.set_xticks(range(len(every_x)), [str(x) for x in every_x])
    elif chart.get("log_x") and len(every_x) <= 7:
        axes.set_xticks([float(x) for x in every_x])
    for axis, log, own in ((axes.xaxis, "log_x", not numeric), (axes.yaxis, "log_y", False)):
        if not own:
            axis.set_major_formatter(FuncFormatter(number))
        if chart.get(log):
            axis.set_minor_locator(NullLocator())
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
    for lane, start, end in _joined(bars, whole / 1500 if len(frame.rows) > 200 else -1):
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


def roofline(frame: Frame) -> None:
    """What arithmetic intensity allows (dashed: measured ceilings), and what each row reached."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes, rows, options = frame.axes, frame.rows, frame.chart["options"]
    peak, bandwidth = options["peak_flop_s"], options["bandwidth_bytes_s"]
    size, unit = next(
        (s, u) for s, u in ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1.0, "FLOP/s")) if peak >= s
    )
    ridge = peak / bandwidth
    xs = [schema.center(row["intensity"]) for row in rows]
    ys = [schema.center(row["flop_s"]) / size for row in rows]
    left, right = min(*xs, ridge) / 2.5, max(*xs, ridge) * 5
    roof = [left * bandwidth / size, peak / size, peak / size]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot([left, ridge, right], roof, color=frame.theme.muted, linewidth=1.8, linestyle=DASH)
    axes.set_xlim(left, right)
    axes.set_ylim(min(*ys, roof[0]) / 1.6, peak / size * 3)
    roles = [frame.role(row["name"], row.get("role")) for row in rows]
    for row, x, y, look in zip(rows, xs, ys, looks(frame.theme, roles), strict=True):
        _roof_point(frame, row, x, y, look, size)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10, numticks=6))
        axis.set_major_formatter(FuncFormatter(number))
        axis.set_minor_locator(NullLocator())
    _roof_names(frame, peak / size, unit, bandwidth, ridge, right)
    x_label = frame.chart.get("x_label") or "arithmetic intensity (FLOP/byte)"
    frame.x_label = f"{x_label}, log scale"
    frame.y_label = f"{frame.chart.get('y_label') or 'rate'} ({unit}), log scale"


def _roof_names(
    frame: Frame, peak: float, unit: str, bandwidth: float, ridge: float, right: float
) -> None:
    """Names of the two ceilings, above the roof where nothing else can be."""
    style: dict[str, Any] = {"color": frame.theme.muted, "fontsize": FONT}
    flat = f"measured compute: {peak:.3g} {unit}"
    frame.axes.annotate(
        flat, (right, peak), (-2, 5), textcoords="offset points", ha="right", **style
    )
    left = frame.axes.get_xlim()[0]
    middle = (left * ridge) ** 0.5
    slope = f"measured memory:\n{bandwidth / 1e9:.3g} GB/s"
    for number_of, text in enumerate(reversed(slope.split("\n"))):
        frame.axes.annotate(
            text,
            (middle, middle * bandwidth * peak / (ridge * bandwidth)),
            (-6, 8 + number_of * FONT * 1.2),
            textcoords="offset points",
            ha="right",
            **style,
        )


def _roof_point(
    frame: Frame, row: Mapping[str, Any], x: float, y: float, look: Look, size: float
) -> None:
    between = schema.spread(row["flop_s"])
    if between:
        frame.axes.plot([x, x], [end / size for end in between], color=look.color, linewidth=2)
    frame.axes.plot(
        [x],
        [y],
        color=look.color,
        marker=look.marker,
        markersize=9,
        markeredgecolor=frame.theme.surface,
        linestyle="none",
        zorder=4,
    )
    frame.axes.annotate(
        str(row["name"]),
        (x, y),
        (9, -11),
        textcoords="offset points",
        color=look.color,
        fontsize=FONT,
        zorder=5,
    )
