"""The roofline: what the machine allows at each arithmetic intensity, and what was reached."""

from collections.abc import Mapping
from typing import Any

from inferlab.lab import schema
from inferlab.lab.chart_frame import DASH, Frame, log_ticks
from inferlab.lab.chart_style import FONT, Look, looks

_AXES = (350.0, 225.0)  # about what the axes measure, to see which labels would overlap


def roofline(frame: Frame) -> None:
    """Measured ceilings as one dashed roof, each row as a point under it; both axes logarithmic."""
    axes, rows, options = frame.axes, frame.rows, frame.chart["options"]
    bandwidth, size, unit = options["bandwidth_bytes_s"], *_unit(options["peak_flop_s"])
    peak = options["peak_flop_s"] / size
    ridge = options["peak_flop_s"] / bandwidth
    xs = [schema.center(row["intensity"]) for row in rows]
    ys = [schema.center(row["flop_s"]) / size for row in rows]
    left, right = min(*xs, ridge) / 2.5, max(*xs, ridge) * 5
    roof = [left * bandwidth / size, peak, peak]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot([left, ridge, right], roof, color=frame.theme.muted, linewidth=1.8, linestyle=DASH)
    axes.set_xlim(left, right)
    axes.set_ylim(min(*ys, roof[0]) / 2, peak * 3)
    _roof_names(frame, peak, unit, bandwidth, (left * ridge) ** 0.5, right)
    roles = [frame.role(row["name"], row.get("role")) for row in rows]
    taken: list[tuple[float, float, float]] = []
    for row, x, y, look in zip(rows, xs, ys, looks(frame.theme, roles), strict=True):
        _point(frame, row, (x, y), look, size)
        _point_name(frame, str(row["name"]), (x, y), look, taken)
    log_ticks(axes.xaxis, *axes.get_xlim())
    log_ticks(axes.yaxis, *axes.get_ylim())
    x_label = frame.chart.get("x_label") or "arithmetic intensity (FLOP/byte)"
    frame.x_label = f"{x_label}, log scale"
    frame.y_label = f"{frame.chart.get('y_label') or 'rate'} ({unit}), log scale"


def _unit(peak: float) -> tuple[float, str]:
    sizes = ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"))
    return next((s for s in sizes if peak >= s[0]), (1.0, "FLOP/s"))


def _roof_names(
    frame: Frame, peak: float, unit: str, bandwidth: float, middle: float, right: float
) -> None:
    """Names of the two ceilings, above the roof where nothing else can be."""
    style: dict[str, Any] = {
        "color": frame.theme.muted,
        "fontsize": FONT,
        "textcoords": "offset points",
        "ha": "right",
    }
    flat = f"measured compute: {peak:.3g} {unit}"
    frame.axes.annotate(flat, (right, peak), (-2, 5), **style)
    size = {"TFLOP/s": 1e12, "GFLOP/s": 1e9, "MFLOP/s": 1e6}.get(unit, 1.0)
    height = middle * bandwidth / size
    for above, text in enumerate((f"{bandwidth / 1e9:.3g} GB/s", "measured memory:")):
        spot = (-6.0, 8 + above * FONT * 1.2)
        frame.axes.annotate(text, (middle, height), spot, **style)


def _point(
    frame: Frame, row: Mapping[str, Any], at: tuple[float, float], look: Look, size: float
) -> None:
    x, y = at
    if between := schema.spread(row["flop_s"]):
        frame.axes.plot([x, x], [end / size for end in between], color=look.color, linewidth=2)
    edge = frame.theme.surface
    spot: dict[str, Any] = {
        "marker": look.marker,
        "markersize": 9,
        "markeredgecolor": edge,
        "zorder": 4,
    }
    frame.axes.plot([x], [y], color=look.color, linestyle="none", **spot)


def _point_name(
    frame: Frame,
    name: str,
    at: tuple[float, float],
    look: Look,
    taken: list[tuple[float, float, float]],
) -> None:
    """The name beside its point, on the side with room, below names that are already there."""
    share_x, share_y = frame.axes.transAxes.inverted().transform(frame.axes.transData.transform(at))
    width = frame.text_width(name)
    leftward = share_x * _AXES[0] + 12 + width > _AXES[0]
    start = share_x * _AXES[0] + (-9 - width if leftward else 9)
    down = -4.0
    while any(
        start < end and begin < start + width and abs(share_y * _AXES[1] + down - y) < FONT * 1.1
        for begin, end, y in taken
    ):
        down -= 3
    taken.append((start, start + width, share_y * _AXES[1] + down))
    frame.axes.annotate(
        name,
        at,
        (-9 if leftward else 9, down),
        textcoords="offset points",
        ha="right" if leftward else "left",
        color=look.color,
        fontsize=FONT,
        zorder=5,
    )
