"""Bars, upright and lying: grouped or stacked, from zero, with their values and spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferlab.lab import schema, tables
from inferlab.lab.chart_forms import Series, series_of
from inferlab.lab.chart_frame import DASH, DIRECT, EndLabel, Frame, KeyItem, number
from inferlab.lab.chart_style import FONT, WIDTH, Look, ink_on, looks


@dataclass(frozen=True)
class Bar:
    """One bar (or one part of a stacked one): where it stands and what it shows."""

    group: int
    position: float  # of its middle, along the axis of categories
    width: float
    base: float
    value: Any  # a cell
    series: Series
    look: Look
    bound: float | None

    @property
    def end(self) -> float:
        return self.base + float(schema.center(self.value))

    @property
    def high(self) -> float:
        """Where its whisker ends."""
        between = schema.spread(self.value)
        return max(self.end, between[1] if between and not self.base else self.end)


def bar(frame: Frame) -> None:
    """Upright bars: one group for each x, one bar in it for each series."""
    series, groups, bars = _bars(frame)
    axes = frame.axes
    for one in bars:
        low_high = _whisker(one)
        axes.bar(
            one.position,
            schema.center(one.value),
            one.width,
            one.base,
            **_bar_style(frame, one),
        )
        if low_high:
            axes.errorbar(one.position, one.end, yerr=low_high, **_whisker_style(frame))
    pitch = (WIDTH - 70 - (90 if _end_labels(frame, series) else 0)) / max(1, len(groups))
    _values(frame, bars, upright=True, room=pitch * bars[0].width)
    _bounds(frame, bars, upright=True)
    _names(frame, series, bars, upright=True, room=pitch * bars[0].width)
    lines = ["\n".join(frame.wrap(group, pitch - 4)) for group in groups]
    axes.set_xticks(range(len(groups)), lines)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.55, len(groups) - 0.45)
    axes.set_ylim(_bottom(bars) * 1.14, _top(bars) * 1.14)
    axes.yaxis.set_major_formatter(_number_format())
    chart = frame.chart
    frame.x_label = frame.axis_label([chart["x"]], chart.get("x_label"), False)
    frame.y_label = frame.axis_label(chart["y"], chart.get("y_label"), False)


def hbar(frame: Frame) -> None:
    """Lying bars, for long names: the first row on top."""
    series, groups, bars = _bars(frame)
    axes, chart = frame.axes, frame.chart
    lanes = len(groups) * (1 if _stacked(frame) else len(series))
    frame.height = 60 + max(120.0, 30.0 * lanes)
    for one in bars:
        axes.barh(
            one.position,
            schema.center(one.value),
            one.width,
            one.base,
            **_bar_style(frame, one),
        )
        if low_high := _whisker(one):
            axes.errorbar(one.end, one.position, xerr=low_high, **_whisker_style(frame))
    _values(frame, bars, upright=False, room=0)
    _bounds(frame, bars, upright=False)
    _names(frame, series, bars, upright=False, room=0)
    lines = ["\n".join(frame.wrap(group, 120)) for group in groups]
    axes.set_yticks(range(len(groups)), lines)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlim(_bottom(bars) * 1.2, _top(bars) * 1.2)
    axes.grid(visible=False)
    axes.grid(axis="x", color=frame.theme.grid, linewidth=0.8)
    axes.xaxis.set_major_formatter(_number_format())
    frame.x_label = frame.axis_label(chart["y"], chart.get("y_label"), False)
    frame.y_label = frame.axis_label([chart["x"]], chart.get("x_label"), False)


def _bars(frame: Frame) -> tuple[list[Series], list[str], list[Bar]]:
    chart = frame.chart
    series = series_of(frame)
    values = list(dict.fromkeys(schema.center(row[chart["x"]]) for row in frame.rows))
    stacked = _stacked(frame)
    width = 0.62 if stacked or len(series) == 1 else 0.84 / len(series)
    bases = [0.0] * len(values)
    bars: list[Bar] = []
    for number_of, (one, look) in enumerate(
        zip(series, looks(frame.theme, [s.role for s in series]), strict=True)
    ):
        offset = 0.0 if stacked else (number_of - (len(series) - 1) / 2) * width
        for row in one.rows:
            if schema.center(row[one.y]) is None:
                continue
            group = values.index(schema.center(row[chart["x"]]))
            bound = schema.center(row.get(chart["bound"])) if chart.get("bound") else None
            base = bases[group] if stacked else 0.0
            bars.append(Bar(group, group + offset, width, base, row[one.y], one, look, bound))
            bases[group] += schema.center(row[one.y])
    digits = frame.digits(chart["x"])
    names = [tables.format_value(value, digits) for value in values]
    return series, names, bars


def _end_labels(frame: Frame, series: Sequence[Series]) -> bool:
    beside = _stacked(frame) and 1 < len(series) <= DIRECT
    return bool(beside or frame.chart.get("bound"))


def _top(bars: Sequence[Bar]) -> float:
    return max(max(bar.high, bar.bound or 0) for bar in bars) or 1.0


def _bottom(bars: Sequence[Bar]) -> float:
    return min(0.0, *(bar.end for bar in bars))


def _whisker(one: Bar) -> list[list[float]] | None:
    between = schema.spread(one.value)
    if not between:
        return None
    center = float(schema.center(one.value))
    return [[center - between[0]], [between[1] - center]]


def _bar_style(frame: Frame, one: Bar) -> dict[str, Any]:
    return {
        "color": one.look.color,
        "edgecolor": frame.theme.surface,
        "linewidth": 0.8,
        "hatch": one.look.hatch,
        "zorder": 2,
    }


def _whisker_style(frame: Frame) -> dict[str, Any]:
    style = {"ecolor": frame.theme.ink, "elinewidth": 1.3, "capsize": 3, "fmt": "none"}
    return {**style, "zorder": 3, "path_effects": _halo(frame, 3.2)}


def _halo(frame: Frame, width: float) -> list[Any]:
    """An edge in the page's colour, so that a line shows on a bar of any colour."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground=frame.theme.surface)]


def _values(frame: Frame, bars: Sequence[Bar], *, upright: bool, room: float) -> None:
    """Each bar's value at its end, or inside a part of a stacked bar that is large enough."""
    stacked = _stacked(frame)
    top = _top(bars)
    names = {bar.series.name for bar in bars}
    for one in bars:
        text = tables.format_value(one.value, frame.digits(one.series.y))
        if not upright and not stacked and 1 < len(names) <= DIRECT:
            text += f"  {one.series.name}"
        if upright and frame.text_width(text) > room + 6:
            continue
        if stacked:
            share = (one.end - one.base) / top
            if share * (200 if upright else 230) < (18 if upright else frame.text_width(text) + 8):
                continue
            middle = (one.base + one.end) / 2
            spot = (one.position, middle) if upright else (middle, one.position)
            frame.axes.text(
                *spot,
                text,
                ha="center",
                va="center_baseline",
                color=ink_on(one.look.color),
                fontsize=FONT,
                zorder=4,
                bbox={"facecolor": one.look.color, "edgecolor": "none", "pad": 1.5},
            )
            continue
        end = one.high
        if one.bound is not None and one.bound >= end and (one.bound - end) / top < 0.1:
            end = one.bound  # past the dashed line, which would cross the number
        at = (one.position, end) if upright else (end, one.position)
        frame.axes.annotate(
            text,
            at,
            (0, 4) if upright else (5, 0),
            textcoords="offset points",
            ha="center" if upright else "left",
            va="bottom" if upright else "center_baseline",
            color=frame.theme.ink,
            fontsize=FONT,
            zorder=4,
        )


def _bounds(frame: Frame, bars: Sequence[Bar], *, upright: bool) -> None:
    """A dashed line at the bound: across the axes where all share one, else over each bar."""
    known = [(bar, float(bar.bound)) for bar in bars if bar.bound is not None]
    if not known:
        return
    label = frame.label(frame.chart["bound"])
    style: dict[str, Any] = {"color": frame.theme.muted, "linewidth": 1.8, "linestyle": DASH}
    style["path_effects"] = _halo(frame, 3.6)
    if len({bound for _, bound in known}) == 1:
        draw_all = frame.axes.axhline if upright else frame.axes.axvline
        draw_all(known[0][1], zorder=3, **style)
    else:
        for one, bound in known:
            ends = one.position - one.width / 2, one.position + one.width / 2
            draw = frame.axes.hlines if upright else frame.axes.vlines
            draw(bound, *ends, zorder=3, **style)
    if upright:
        frame.ends.append(EndLabel(known[-1][1], label, frame.theme.muted))
    else:
        look = Look(frame.theme.muted, "", "")
        frame.key.append(KeyItem(label, look, dashed=True))


def _names(
    frame: Frame, series: Sequence[Series], bars: Sequence[Bar], *, upright: bool, room: float
) -> None:
    """The series' names where the bars are, if they fit, else in a key with swatches."""
    if len(series) == 1:
        return
    if len(series) <= DIRECT:
        if _stacked(frame) and upright:
            last = max(bar.group for bar in bars)
            for one in (bar for bar in bars if bar.group == last):
                label = EndLabel((one.base + one.end) / 2, one.series.name, one.look.color)
                frame.ends.append(label)
            return
        if not _stacked(frame) and not upright:
            return  # they stand beside the values
        if not _stacked(frame) and all(frame.text_width(s.name) <= room - 4 for s in series):
            _names_below(frame, bars)
            return
    seen = {bar.series.name: bar.look for bar in bars}
    items = [KeyItem(name, look) for name, look in seen.items()]
    frame.key = [*items, *frame.key]


def _names_below(frame: Frame, bars: Sequence[Bar]) -> None:
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top"}
    for one in bars:
        spot = (one.position, 0.0)
        frame.axes.annotate(
            one.series.name, spot, (0, -4), color=one.look.color, annotation_clip=False, **style
        )
    frame.axes.tick_params(axis="x", pad=4 + FONT * 1.3)


def _stacked(frame: Frame) -> bool:
    return bool(frame.chart.get("options", {}).get("stacked"))


def _number_format() -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(number)
