"""Tables: numbers align, units stand in the head, spread shows, nothing is undefined silently."""

import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import chart_samples
import pytest

from inferlab.lab import tables
from inferlab.lab.snippet import Column


@pytest.fixture
def record() -> dict[str, Any]:
    rows: list[dict[str, Any]] = [
        {"name": "float32 | wide", "n": 64, "ms": [9.0, 10.0, 12.5], "ok": True, "share": 0.04},
        {"name": "int4 <b>", "n": 2048, "ms": None, "ok": False, "share": 0.9, "highlight": True},
        {"name": "bf16", "n": 1, "ms": [1.0, 1.0], "ok": None, "share": -0.001},
    ]
    columns = [
        Column("name", "dtype"),
        Column("n", "prompt", "tokens"),
        Column("ms", "time", "ms", 1),
        Column("ok", "exact"),
        Column("share", "share", digits=2),
    ]
    return chart_samples.make(rows, columns, None, "A finding.")


def test_text_aligns_numbers_and_marks_the_row_that_matters(record: dict[str, Any]) -> None:
    assert tables.to_text(record).splitlines() == [
        "  dtype           prompt, tokens  time, ms (low–high)  exact  share",
        "  ──────────────  ──────────────  ───────────────────  ─────  ─────",
        "  float32 | wide              64      10.0 (9.0–12.5)  yes     0.04",
        "→ int4 <b>                 2,048         –             no      0.90",
        "  bf16                         1       1.0  (1.0–1.0)  –       0.00",
    ]


def test_text_without_a_highlight_needs_no_margin(record: dict[str, Any]) -> None:
    assert tables.to_text(record, highlight=()).startswith("dtype ")
    assert tables.to_text(record, highlight=[0]).splitlines()[2].startswith("→ float32")


def test_markdown_sets_numbers_right_and_escapes_bars(record: dict[str, Any]) -> None:
    lines = tables.to_markdown(record).splitlines()
    assert lines[0] == "| dtype | prompt, tokens | time, ms (low–high) | exact | share |"
    assert lines[1] == "| :--- | ---: | ---: | :--- | ---: |"
    assert lines[2] == "| float32 \\| wide | 64 | 10.0 (9.0–12.5) | yes | 0.04 |"
    assert lines[3] == "| **int4 <b>** | **2,048** | **–** | **no** | **0.90** |"


class Cells(HTMLParser):
    """The text of each cell with its class, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[tuple[str, str]]] = []
        self.row_classes: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        kind = dict(attrs).get("class") or ""
        if tag == "tr":
            self.rows.append([])
            self.row_classes.append(kind)
        elif tag in ("td", "th"):
            self.rows[-1].append(("", kind))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            text, kind = self.rows[-1][-1]
            self.rows[-1][-1] = text + data, kind


def test_html_says_the_same_with_classes_for_the_page(record: dict[str, Any]) -> None:
    text = tables.to_html(record, caption="Speed & size")
    cells = Cells(text)
    assert cells.rows[1] == [
        ("float32 | wide", ""),
        ("64", "num"),
        ("10.0 (9.0–12.5)", "num"),
        ("yes", ""),
        ("0.04", "num"),
    ]
    assert cells.rows[2][0] == ("int4 <b>", ""), "what a cell holds is text, never markup"
    assert cells.row_classes == ["", "", "highlight", ""]
    assert 'role="region" tabindex="0" aria-label="Speed &amp; size"' in text
    assert "<caption>Speed &amp; size</caption>" in text
    assert 'aria-label="A finding."' in tables.to_html(record)


@pytest.mark.parametrize(
    ("values", "digits"),
    [
        ([1, 20, 300], 0),
        ([1.0, 2.0], 0),
        ([1.5, 20.25, 310.125], 1),
        ([1234.5, 5678.9], 0),
        ([0.00123, 0.00456], 5),
        ([0.0, None], 0),
        ([250.5, 0.02], 2),
        ([1e-12, 2.5], 6),
    ],
)
def test_a_column_has_the_digits_that_its_numbers_need(values: list[Any], digits: int) -> None:
    record = {"rows": [{"v": value} for value in values]}
    assert tables.digits_of(record, {"key": "v"}) == digits


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (None, None, "–"),
        (True, None, "yes"),
        ("text", 2, "text"),
        (1234567, None, "1,234,567"),
        (0.12345, None, "0.123"),
        (-0.0001, 2, "0.00"),
        (-3.14159, 2, "-3.14"),
        ({"median": 2.5, "low": 2, "high": 3, "samples": [2, 3]}, 1, "2.5"),
    ],
)
def test_one_value(value: Any, digits: int | None, text: str) -> None:
    assert tables.format_value(value, digits) == text


def test_tables_need_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys; from inferlab.lab import tables, charts; "
        "print([m for m in ('torch', 'matplotlib', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
