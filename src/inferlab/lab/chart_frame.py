"""What every chart shares: the sentence on top, axes that name their quantity, labels in place."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferlab.lab import schema
from inferlab.lab.chart_style import FONT, LINE, TITLE, WIDTH, Look, Theme

_PAD = 6.0
DASH = (0, (4, 2.5))  # means a bound, and nothing else
_END_WIDTH = 110.0  # the most that labels beside the axes may take
# Where a point's name may stand, in points from it: beside, under or over it, then farther away.
_BESIDE = [(9, -4, "left"), (-9, -4, "right")]
_BESIDE += [(x, y, "center") for y in (-18, 10) for x in (0, 27, -27)]
_BESIDE += [(x, y, "center") for y in (-34, 26, -50, 42, -66) for x in (0, 30, -30)]
DIRECT = 4  # up to so many series are labelled where they are


@dataclass
class EndLabel:
    """A label right of the axes, at the height where its line ends."""

    y: float  # in the y axis's units
    text: str
    color: str


@dataclass(frozen=True)
class KeyItem:
    """An entry of the key, for what cannot be labelled where it is."""

    text: str
    look: Look
    dashed: bool = False
    mark: bool = False  # a line's marker instead of a bar's swatch


class Frame:
    """A figure with one pair of axes. A form draws on `axes` in data units; `finish` places all."""

    def __init__(self, record: Mapping[str, Any], theme: Theme, height: float = 290) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.record, self.chart, self.theme = record, record["chart"], theme
        self.rows: Sequence[Mapping[str, Any]] = record["rows"]
        self.height = height  # of the axes with their ticks; the heading comes on top
        self.figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
        self.figure.patch.set_visible(False)
        self.canvas: Any = FigureCanvasAgg(self.figure)  # measures text; the SVG is made later
        self.axes = self.figure.add_axes((0.1, 0.1, 0.8, 0.8))
        self.y_label, self.x_label = "", ""
        self.ends: list[EndLabel] = []
        self.key: list[KeyItem] = []
        self._style()

    def _style(self) -> None:
        axes, theme = self.axes, self.theme
        axes.patch.set_visible(False)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(theme.muted)
        axes.tick_params(colors=theme.muted, labelcolor=theme.ink, labelsize=FONT, length=3)
        axes.tick_params(axis="y", length=0)
        axes.set_axisbelow(True)
        axes.grid(axis="y", color=theme.grid, linewidth=0.8)

    # What columns are called

    def label(self, key: str) -> str:
        """A column's label; the key itself for what is not shown as a column."""
        return next((c["label"] for c in self.record["columns"] if c["key"] == key), key)

    def digits(self, key: str) -> int | None:
        """The decimals that the column's numbers are shown with, as in the table."""
        from inferlab.lab import tables

        found = [c for c in self.record["columns"] if c["key"] == key]
        return tables.digits_of(self.record, found[0]) if found else None

    def axis_label(self, keys: Sequence[str], given: str | None, log: bool) -> str:
        """Quantity and unit of the columns an axis shows; says when it is logarithmic."""
        columns = {c["key"]: c for c in self.record["columns"]}
        text = given or ", ".join(dict.fromkeys(self.label(key) for key in keys))
        units = dict.fromkeys(columns[key].get("unit", "") for key in keys if key in columns)
        unit = ", ".join(unit for unit in units if unit)
        if unit and f"({unit})" not in text:
            text += f" ({unit})"
        return text + (", log scale" if log else "")

    def role(self, *names: Any) -> str:
        """The palette's meaning of a series: given in `roles`, else what its name says."""
        roles = self.chart.get("roles", {})
        for name in names:
            if str(name) in roles:
                return str(roles[str(name)])
        return next((str(n) for n in names if n in schema.ROLES), "neutral")

    # Measuring and placing

    def text_width(self, text: str, size: float = FONT, weight: str = "normal") -> float:
        """How wide a text is, in pixels of the drawing."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(family=["DejaVu Sans"], size=size, weight=weight)
        renderer = self.canvas.get_renderer()
        width: float = renderer.get_text_width_height_descent(text or " ", font, False)[0]
        return width

    def wrap(
        self, text: str, width: float, size: float = FONT, weight: str = "normal"
    ) -> list[str]:
        """The text in lines that are at most `width` wide, where its words allow."""
        for letters in range(max(8, len(text)), 5, -1):
            lines = textwrap.wrap(text, letters, break_long_words=False) or [""]
            if all(self.text_width(line, size, weight) <= width for line in lines):
                return lines
        return textwrap.wrap(text, 8, break_long_words=False) or [""]

    def finish(self) -> None:
        """Place heading, axes and labels so that nothing is cut off."""
        title = self.chart.get("title") or self.record["finding"]
        title_lines = self.wrap(title, WIDTH - 2 * _PAD, TITLE, "bold")
        key_rows = self._key_rows()
        label_lines = self.wrap(self.y_label, WIDTH - 2 * _PAD) if self.y_label else []
        heading = _PAD + len(title_lines) * TITLE * LINE + 6
        heading += (len(key_rows) + len(label_lines)) * FONT * 1.4 + 8
        total = heading + self.height
        self.figure.set_size_inches(WIDTH / 72, total / 72)
        top = total - _PAD
        for line in title_lines:
            self._say(_PAD, top - TITLE, line, TITLE, self.theme.ink, weight="bold", zorder=-1)
            top -= TITLE * LINE
        top -= 6
        for row in key_rows:
            self._draw_key(row, top - FONT)
            top -= FONT * 1.4
        for line in label_lines:
            self._say(_PAD, top - FONT, line, FONT, self.theme.muted)
            top -= FONT * 1.4
        self._place_axes(total, heading)
        self._place_ends(total)
        if self.chart["form"] == "roofline":
            self._settle_names()

    def _settle_names(self) -> None:
        """Names within the axes clear of points, lines and each other, each by its own point."""
        from matplotlib.transforms import Bbox

        lines, axes = list[Any](self.axes.lines), self.axes.bbox
        paths = [line.get_transform().transform_path(line.get_path()) for line in lines]
        marks = {tuple(line.get_xydata()[0]) for line in lines if len(line.get_xdata()) == 1}
        taken = [Bbox([at - 7, at + 7]) for at in map(self.axes.transData.transform, marks)]
        for name in list[Any](self.axes.texts):
            (x, y), own = name.get_position(), name.xy in marks
            above = [(x, y + up, "right") for up in range(0, 40, 3)]
            for dx, dy, side in _BESIDE if own else above:
                name.set(position=(dx, dy), ha=side)
                box = name.get_window_extent(self.canvas.get_renderer())
                fits = not own or (axes.x0 < box.x0 and box.x1 < axes.x1 and axes.y0 < box.y0)
                crossed = any(path.intersects_bbox(box.padded(1), filled=False) for path in paths)
                if fits and not crossed and not box.count_overlaps(taken):
                    break
            taken.append(box.padded(4, -1))
            if own and not -20 <= dy <= 12:  # too far away to be taken for this point's
                line = {"arrowstyle": "-", "lw": 0.7, "color": name.get_color(), "shrinkB": 5}
                end = (dx, dy + (9 if dy < 0 else -2))
                self.axes.annotate("", name.xy, end, textcoords="offset points", arrowprops=line)

    def _place_axes(self, total: float, heading: float) -> None:
        self.axes.set_xlabel(self.x_label, fontsize=FONT, color=self.theme.muted, labelpad=4)
        wrapped = [self.wrap(end.text, _END_WIDTH) for end in self.ends]
        widths = [self.text_width(line) for lines in wrapped for line in lines]
        right = _PAD + (max(widths) + 6 if widths else 0)
        left, bottom = 40.0, 40.0
        for _ in range(3):  # fewer ticks fit or wider ones come as the axes change
            width, height = WIDTH - left - right, total - heading - bottom
            self.axes.set_position((left / WIDTH, bottom / total, width / WIDTH, height / total))
            box = self.axes.get_tightbbox(self.canvas.get_renderer())
            assert box is not None  # the axes are visible
            over = max(0.0, box.x1 - (WIDTH - 2)) if not widths else 0.0
            left += _PAD - box.x0
            bottom += _PAD - box.y0
            right += over

    def _place_ends(self, total: float) -> None:
        if not self.ends:
            return
        box = self.axes.get_position()
        low, high = box.y0 * total, box.y1 * total
        step = FONT * 1.1
        spots = []
        for end in self.ends:
            y = float(self.axes.transData.transform((1, end.y))[1])
            spots.append((y, end, self.wrap(end.text, _END_WIDTH)))
        spots.sort(key=lambda spot: spot[0])
        sizes = [len(lines) * step for _, _, lines in spots]
        centers = spread_out([y for y, _, _ in spots], sizes, low - step / 2, high + step)
        for center, size, (_, end, lines) in zip(centers, sizes, spots, strict=True):
            y = center + size / 2 - step + 2.5
            for line in lines:
                self._say(box.x1 * WIDTH + 6, y, line, FONT, end.color)
                y -= step

    def _say(self, x: float, y: float, text: str, size: float, color: str, **more: Any) -> None:
        width, height = self.figure.get_size_inches() * 72
        self.figure.text(x / width, y / height, text, fontsize=size, color=color, **more)

    # The key: only for what cannot be labelled where it is

    def _key_rows(self) -> list[list[tuple[float, KeyItem]]]:
        rows: list[list[tuple[float, KeyItem]]] = []
        x = math.inf
        for item in self.key:
            width = 22 + self.text_width(item.text) + 14
            if x + width > WIDTH:
                rows.append([])
                x = _PAD
            rows[-1].append((x, item))
            x += width
        return rows

    def _draw_key(self, row: Sequence[tuple[float, KeyItem]], y: float) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle

        width, height = self.figure.get_size_inches() * 72
        for x, item in row:
            at: dict[str, Any] = {"transform": self.figure.transFigure, "color": item.look.color}
            middle = (y + 4) / height
            if item.dashed or item.mark:
                line = Line2D([x / width, (x + 17) / width], [middle] * 2, **at)
                line.set_linestyle(DASH if item.dashed else "-")
                self.figure.add_artist(line)
            if item.mark:
                spot = [(x + 8.5) / width], [middle]
                self.figure.add_artist(Line2D(*spot, marker=item.look.marker, **at))
            if not (item.dashed or item.mark):
                swatch = Rectangle(
                    (x / width, (y - 1) / height),
                    17 / width,
                    10.5 / height,
                    transform=self.figure.transFigure,
                    facecolor=item.look.color,
                    edgecolor=self.theme.surface,
                    hatch=item.look.hatch,
                    linewidth=0,
                )
                self.figure.add_artist(swatch)
            self._say(x + 22, y, item.text, FONT, self.theme.ink)


def spread_out(
    centers: Sequence[float], sizes: Sequence[float], low: float, high: float
) -> list[float]:
    """Rising centers moved as little as needed so that labels of these sizes do not overlap."""
    placed = list(centers)
    for _ in range(60):
        for i in range(len(placed) - 1):
            gap = (sizes[i] + sizes[i + 1]) / 2 - (placed[i + 1] - placed[i])
            if gap > 0:
                placed[i] -= gap / 2
                placed[i + 1] += gap / 2
        placed = [
            min(max(y, low + size / 2), high - size / 2)
            for y, size in zip(placed, sizes, strict=True)
        ]
    return placed


def number(value: float, _: Any = None) -> str:
    """A number on an axis: 2,048 or 0.5 or 3M."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.6g}"


def log_ticks(axis: Any, low: float, high: float) -> None:
    """Ticks for a logarithmic axis from `low` to `high`: enough to read it, few enough to fit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    decades = math.log10(high / low)
    steps = next(steps for least, steps in _LOG_STEPS if decades > least)
    axis.set_major_locator(LogLocator(base=10, subs=steps, numticks=8))
    axis.set_major_formatter(FuncFormatter(number))
    axis.set_minor_locator(NullLocator())


_LOG_STEPS = (  # by how many decades the axis spans
    (2.0, (1.0,)),
    (0.8, (1.0, 2.0, 5.0)),
    (0.4, (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)),
    (0.0, (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
)
