"""Charts: the same bytes each time, small, readable, honest, and open to those who do not see."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import chart_samples
import matplotlib as mpl
import pytest
from chart_samples import SAMPLES

from inferlab.errors import InferlabError
from inferlab.lab import chart_frame, chart_style, charts
from inferlab.lab.snippet import Chart, Column

SVG = "{http://www.w3.org/2000/svg}"
EACH = [(name, theme) for name in SAMPLES for theme in ("light", "dark")]


@cache
def rendered(name: str, theme: str = "light") -> str:
    return charts.render(SAMPLES[name](), theme)


def parsed(name: str, theme: str = "light") -> ET.Element:
    return ET.fromstring(rendered(name, theme))


def texts(svg: ET.Element) -> list[str]:
    return ["".join(node.itertext()) for node in svg.iter(f"{SVG}text")]


def heading(name: str) -> str:
    record = SAMPLES[name]()
    return str(record["chart"]["title"] or record["finding"])


@pytest.mark.parametrize(("name", "theme"), EACH)
def test_every_form_is_small_and_says_its_finding(name: str, theme: str) -> None:
    record = SAMPLES[name]()
    text = rendered(name, theme)
    assert len(text.encode()) <= 40_000
    svg = ET.fromstring(text)
    assert svg.tag == f"{SVG}svg"
    assert svg.get("role") == "img"
    title = svg.find(f"{SVG}title")
    assert title is not None
    assert svg.get("aria-labelledby") == title.get("id")
    assert record["finding"] in (title.text or "")
    assert title.text == charts.alt_text(record)


@pytest.mark.parametrize(("name", "theme"), EACH)
def test_the_sentence_stands_on_top_and_no_text_is_cut_off(name: str, theme: str) -> None:
    svg = parsed(name, theme)
    _, _, width, height = map(float, (svg.get("viewBox") or "").split())
    assert width == chart_style.WIDTH
    assert " ".join(texts(svg)).startswith(heading(name))
    for left, right, y, text in boxes(svg):
        assert left >= -1, f"{text!r} begins left of the drawing"
        assert right <= width + 1, f"{text!r} ends right of the drawing"
        assert 0 < y <= height, f"{text!r} is above or below the drawing"


def boxes(svg: ET.Element) -> Iterator[tuple[float, float, float, str]]:
    """Left, right, baseline and content of each text, as wide as matplotlib's own font makes it."""
    with mpl.rc_context(chart_style.settings()):
        frame = chart_frame.Frame(SAMPLES["line"](), chart_style.theme_of("light"))
    for node in svg.iter(f"{SVG}text"):
        style, text = node.get("style") or "", "".join(node.itertext())
        size = float((re.search(r"(\d+(?:\.\d+)?)px", style) or ["", "12"])[1])
        with mpl.rc_context(chart_style.settings()):
            width = frame.text_width(text, size, "bold" if "700" in style else "normal")
        x, y = float(node.get("x") or 0), float(node.get("y") or 0)
        for place in re.findall(r"translate\((\S+) (\S+)\)", node.get("transform") or ""):
            x, y = float(place[0]), float(place[1])
        anchor = (re.search(r"text-anchor: (\w+)", style) or ["", "start"])[1]
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        yield left, left + width, y, text


@pytest.mark.parametrize(("name", "theme"), EACH)
def test_text_is_text_large_enough_for_a_phone_in_the_readers_font(name: str, theme: str) -> None:
    text = rendered(name, theme)
    sizes = [float(size) for size in re.findall(r"(\d+(?:\.\d+)?)px", text)]
    assert sizes
    assert min(sizes) * 360 / chart_style.WIDTH >= 10
    assert "system-ui" in text
    assert "DejaVu" not in text
    assert "font-face" not in text
    assert "http" not in text.replace("http://www.w3.org/", ""), "no address but the namespaces'"


@pytest.mark.parametrize(("name", "theme"), EACH)
def test_ids_are_its_own_so_that_many_charts_fit_one_page(name: str, theme: str) -> None:
    text = rendered(name, theme)
    ids = re.findall(r' id="([^"]+)"', text)
    slug = f"{SAMPLES[name]()['snippet'].replace('/', '-')}-{theme}-"
    assert len(ids) == len(set(ids))
    assert all(one.startswith(slug) for one in ids)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    assert used <= set(ids)


def test_the_bytes_are_the_same_in_another_process_and_after_other_charts(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from chart_samples import SAMPLES\nfrom inferlab.lab import charts\n"
        "for name, make in reversed(SAMPLES.items()):\n"
        "    for theme in ('dark', 'light'):\n"
        "        open(f'{sys.argv[2]}/{name}-{theme}', 'w').write(charts.render(make(), theme))\n"
    )
    folder = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", code, folder, str(tmp_path)], check=True)
    for name, theme in EACH:
        assert rendered(name, theme) == (tmp_path / f"{name}-{theme}").read_text()
    assert not re.search(r"<dc:|<metadata|20\d\d-\d\d", charts.render(SAMPLES["bar"]()))


def colors(svg: ET.Element) -> set[str]:
    return set(re.findall(r"#[0-9a-f]{6}", ET.tostring(svg, encoding="unicode").lower()))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_prefill_and_decode_have_their_colours_and_their_hatches(theme: str) -> None:
    roles = chart_style.theme_of(theme).roles
    wanted = {roles["prefill"].lower(), roles["decode"].lower()}
    for name in ("line", "bar", "timeline", "roofline"):
        assert wanted <= colors(parsed(name, theme)), name
    assert len(parsed("bar", theme).findall(f".//{SVG}pattern")) == 2
    assert chart_style.HATCHES["prefill"] != chart_style.HATCHES["decode"]


def test_roles_of_one_meaning_share_the_colour_and_differ_beside_it() -> None:
    theme = chart_style.theme_of("light")
    first, second, neutral, other = chart_style.looks(
        theme, ["decode", "decode", "neutral", "neutral"]
    )
    assert first.color == second.color == theme.roles["decode"]
    assert (first.hatch, first.marker) != (second.hatch, second.marker)
    assert neutral.color != other.color
    assert not set(theme.neutrals) & set(theme.roles.values())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_stand_out_from_the_page_and_text_from_them(theme: str) -> None:
    found = chart_style.theme_of(theme)
    for color in (*found.roles.values(), *found.neutrals):
        assert contrast(color, found.surface) >= 3, color
        assert contrast(chart_style.ink_on(color), color) >= 4.5, color
    for color in (found.ink, found.muted):
        assert contrast(color, found.surface) >= 4.5, color


def contrast(one: str, other: str) -> float:
    """Of two colours, by WCAG 2.2."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_axes_name_quantity_and_unit_and_logarithmic_ones_say_so() -> None:
    assert {"speed (tok/s), log scale", "prompt length (tokens), log scale"} <= set(
        texts(parsed("line"))
    )
    assert {"time (ms)", "kind"} <= set(texts(parsed("plain_line")))
    assert {"speed (tok/s)", "weights"} <= set(texts(parsed("bar")))
    assert {"probability (%)", "next token"} <= set(texts(parsed("hbar")))
    assert "time (ms)" in texts(parsed("timeline"))
    roof = texts(parsed("roofline"))
    assert {"arithmetic intensity (FLOP/byte), log scale", "rate (GFLOP/s), log scale"} <= set(roof)


def test_series_are_labelled_in_place_up_to_four() -> None:
    for name, labels in {
        "line": {"prefill", "decode", "compute bound"},
        "stacked": {"waiting", "prefill", "decode"},
        "roofline": {"decode, 1 request", "prefill, 600 tokens"},
        "grouped_hbar": {"4.00  bf16", "1.60  int4"},
        "many_lines": {f"model {number}" for number in range(6)},
        "timeline": {"prefill", "decode", "idle", "failure"},
    }.items():
        assert labels <= set(texts(parsed(name))), name


def test_short_names_stand_under_their_bars_and_long_ones_in_a_key() -> None:
    def draw(names: tuple[str, str]) -> list[str]:
        rows = [{"n": n, "k": k, "v": n + 1.0} for n in (1, 2) for k in names]
        columns = [Column("n", "n"), Column("k", "kind"), Column("v", "value")]
        record = chart_samples.make(rows, columns, Chart("bar", "n", "v", series="k"), "A finding.")
        return texts(ET.fromstring(charts.render(record)))

    assert draw(("bf16", "int4")).count("bf16") == 2
    long = "a long name of a configuration"
    assert draw((long, "int4")).count(long) == 1


def dashed(svg: ET.Element) -> int:
    return ET.tostring(svg, encoding="unicode").count("stroke-dasharray")


def test_the_bound_is_a_dashed_line_with_its_name() -> None:
    for name, label in {
        "line": "compute bound",
        "bar": "measured bound",
        "one_bar": "peak bandwidth",
        "hbar": "certainty",
        "grouped_hbar": "memory bound",
        "roofline": "measured compute: 840 GFLOP/s",
    }.items():
        svg = parsed(name)
        assert dashed(svg) >= 1, name
        assert label in texts(svg), name
    for name in ("plain_line", "stacked", "timeline"):
        assert dashed(parsed(name)) == 0, "only a bound is dashed"


def draw(name: str) -> chart_frame.Frame:
    """The chart before it becomes a file."""
    from inferlab.lab import chart_bars, chart_forms, chart_roofline

    record = SAMPLES[name]()
    forms: dict[str, Any] = {
        **{"line": chart_forms.line, "timeline": chart_forms.timeline},
        **{"bar": chart_bars.bar, "hbar": chart_bars.hbar, "roofline": chart_roofline.roofline},
    }
    with mpl.rc_context(chart_style.settings()):
        frame = chart_frame.Frame(record, chart_style.theme_of("light"))
        forms[record["chart"]["form"]](frame)
        frame.finish()
    return frame


def test_bars_start_at_zero_and_are_as_high_as_their_values() -> None:
    for name in ("bar", "one_bar", "stacked"):
        axes = draw(name).axes
        assert axes.get_ylim()[0] == 0
        assert all(patch.get_y() >= 0 for patch in axes.patches)
    assert [round(p.get_height()) for p in draw("bar").axes.patches] == [
        820, 1680, 1700, 310, 580, 1080,
    ]  # fmt: skip
    tops = [p.get_y() + p.get_height() for p in draw("stacked").axes.patches]
    assert tops[-1] == 12 + 1500 + 340
    assert draw("hbar").axes.get_xlim()[0] == 0
    assert draw("plain_line").axes.get_ylim()[0] == 0


def test_a_negative_bar_is_seen() -> None:
    rows = [{"n": "a", "v": -2.5}, {"n": "b", "v": 1.0}]
    columns = [Column("n", "n"), Column("v", "change", "%")]
    record = chart_samples.make(rows, columns, Chart("bar", "n", "v"), "a loses 2.5 %.")
    assert "-2.50" in texts(ET.fromstring(charts.render(record)))


ROOFS = {
    "apart": [(1.0, 29e9), (16.0, 150e9), (420.0, 440e9)],
    "under the corner": [(1.0, 29e9), (16.0, 360e9), (62.0, 740e9), (410.0, 915e9)],
    "at the roof": [(12.0, 830e9), (60.0, 838e9), (420.0, 839e9), (425.0, 835e9)],
    "one spot": [(100.0, 300e9), (101.0, 302e9), (102.0, 298e9), (100.5, 301e9), (99.0, 300e9)],
}


@pytest.mark.parametrize("name", ROOFS)
def test_names_on_a_roofline_cross_nothing_and_stay_by_their_points(name: str) -> None:
    from inferlab.lab import chart_roofline

    rows = [
        {"name": f"{number} tokens", "intensity": x, "flop_s": y}
        for number, (x, y) in enumerate(ROOFS[name], 100)
    ]
    columns = [Column("name", "work"), Column("intensity", "i"), Column("flop_s", "rate")]
    roof = {"peak_flop_s": max(840e9, *(y for _, y in ROOFS[name])), "bandwidth_bytes_s": 80e9}
    record = chart_samples.make(rows, columns, Chart("roofline", options=roof), "A finding.")
    with mpl.rc_context(chart_style.settings()):
        frame = chart_frame.Frame(record, chart_style.theme_of("light"))
        chart_roofline.roofline(frame)
        frame.finish()
    shown: list[Any] = [text for text in frame.axes.texts if text.get_text()]
    boxes = [text.get_window_extent(frame.canvas.get_renderer()) for text in shown]
    lines = frame.axes.lines
    spots = [
        frame.axes.transData.transform(line.get_xydata()[0])
        for line in lines
        if len(line.get_xdata()) == 1
    ]
    for number, (text, box) in enumerate(zip(shown, boxes, strict=True)):
        said = text.get_text()
        assert not any(box.contains(*spot) for spot in spots), f"{said} hides a point"
        assert not any(
            line.get_transform().transform_path(line.get_path()).intersects_bbox(box, False)
            for line in lines
        ), f"{said} crosses a line"
        assert not box.padded(-1).count_overlaps([b.padded(-1) for b in boxes[:number]]), said
        if "tokens" in said:
            own = frame.axes.transData.transform(text.xy)
            gap = max(abs(own[1] - (box.y0 + box.y1) / 2) - 6, 0)
            leaders = [one.xy for one in frame.axes.texts if not one.get_text()]
            assert gap < 16 or text.xy in leaders, f"{said} stands away without a line"


def test_spread_is_drawn() -> None:
    bands = draw("line").axes.collections
    assert len(bands) == 2
    band = bands[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (410 * 0.93, 1700 * 1.04)
    assert len(draw("bar").axes.containers) == 6 + 6, "a whisker for each bar"
    low, high = draw("roofline").axes.lines[1].get_ydata()
    assert (low, high) == (28, 31)


def test_an_undefined_value_is_a_gap_and_no_zero() -> None:
    (line,) = draw("plain_line").axes.lines
    assert [str(y) for y in line.get_ydata()] == ["3.2", "nan", "5.5", "4.1"]


def test_a_timeline_of_a_thousand_steps_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    record = chart_samples.timeline(lanes=16, steps=64)
    assert len(charts.render(record).encode()) <= 40_000
    monkeypatch.setattr(charts, "MAX_BYTES", 10_000)
    with pytest.raises(InferlabError, match=r"takes .* bytes, more than 10,000: record fewer rows"):
        charts.render(record)


def test_labels_that_would_overlap_move_apart() -> None:
    placed = chart_frame.spread_out([50.0, 51.0, 52.0], [12.0, 12.0, 12.0], 0, 100)
    assert all(b - a >= 11.9 for a, b in pairwise(placed))
    assert chart_frame.spread_out([1.0, 99.0], [10.0, 10.0], 0, 100) == [5, 95]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (64, "64"),
        (2048, "2,048"),
        (3e6, "3M"),
        (2.5e9, "2.5G"),
        (1e12, "1T"),
    ],
)
def test_numbers_on_axes(value: float, text: str) -> None:
    assert chart_frame.number(value) == text


def test_what_cannot_be_drawn_is_an_error() -> None:
    record = SAMPLES["line"]()
    with pytest.raises(InferlabError, match="unknown chart theme 'blue'; one of light, dark"):
        charts.render(record, "blue")
    with pytest.raises(InferlabError, match="has no chart"):
        charts.render({**record, "chart": None})


def test_two_names_at_one_point_of_a_roofline_do_not_overlap() -> None:
    record = SAMPLES["roofline"]()
    record["rows"].append({**record["rows"][0], "name": "decode, same"})
    found = {text: y for _, _, y, text in boxes(ET.fromstring(charts.render(record)))}
    assert abs(found["decode, same"] - found["decode, 1 request"]) >= chart_style.FONT


def test_many_narrow_bars_keep_their_axis_and_lose_their_numbers() -> None:
    rows = [{"n": n, "v": None if n == 3 else 1000.0 + n} for n in range(20)]
    columns = [Column("n", "n"), Column("v", "value", "tok/s")]
    record = chart_samples.make(rows, columns, Chart("bar", "n", "v"), "A finding.")
    found = texts(ET.fromstring(charts.render(record)))
    assert {"0", "2", "19", "1,000"} <= set(found)
    assert "1,007" not in found


def test_a_title_without_spaces_still_fits_the_page() -> None:
    record = SAMPLES["line"]()
    record["chart"]["title"] = "A_word_that_is_" + "very_" * 30 + "long and more"
    assert "long" in " ".join(texts(ET.fromstring(charts.render(record))))


@pytest.mark.parametrize("top", [1.9, 40.0, 3e5])
def test_a_logarithmic_axis_has_ticks_whatever_it_spans(top: float) -> None:
    rows = [{"x": float(x), "v": value} for x, value in ((1, 1.0), (2, top))]
    columns = [Column("x", "x"), Column("v", "value")]
    chart = Chart("line", "x", "v", log_y=True, log_x=True)
    svg = ET.fromstring(charts.render(chart_samples.make(rows, columns, chart, "A finding.")))
    at = [x for x, _, _, text in boxes(svg) if re.fullmatch(r"[\d.,]+[MGT]?", text)]
    assert 2 + 3 <= len(at) <= 2 + 9


def test_whole_numbers_are_not_marked_between_them() -> None:
    rows = [{"n": n, "v": 1.0 + n} for n in (8, 24)]
    columns = [Column("n", "prompt", "tokens"), Column("v", "time", "ms")]
    record = chart_samples.make(rows, columns, Chart("line", "n", "v"), "A finding.")
    assert not [t for t in texts(ET.fromstring(charts.render(record))) if t.endswith(".5")]
