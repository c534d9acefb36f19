"""A record's rows as a table: in the terminal, in Markdown and in HTML, without torch.

Numbers stand right, with the same digits in a column; units stand in the head; a repeated cell
shows its median and, in brackets, its lowest and highest sample. A row with `highlight: True` is
the one that matters.
"""

import html
import math
from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import Any

from inferlab.lab import schema

DASH = "–"  # an undefined cell
_RANGE = "–"
_MARK = "→ "
Cell = tuple[str, str]  # what is shown, and the spread beside it ("" when there is none)


def to_text(record: Mapping[str, Any], *, highlight: Collection[int] | None = None) -> str:
    """The table for a terminal; highlighted rows (by index) begin with an arrow."""
    marked = _marked(record, highlight)
    columns = [_padded(record, column) for column in record["columns"]]
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    lines.insert(1, "  ".join("─" * len(column[0]) for column in columns))
    if marked:
        marks = [number - 2 in marked for number in range(len(lines))]
        lines = [(_MARK if m else "  ") + line for m, line in zip(marks, lines, strict=True)]
    return "\n".join(lines)


def to_markdown(record: Mapping[str, Any], *, highlight: Collection[int] | None = None) -> str:
    """The table in GitHub's Markdown; highlighted rows are bold."""
    marked = _marked(record, highlight)
    columns = record["columns"]
    lines = [_line(_md(head(record, column)) for column in columns)]
    lines.append(_line("---:" if is_numeric(record, column) else ":---" for column in columns))
    cells = [_cells(record, column) for column in columns]
    for number, row in enumerate(zip(*cells, strict=True)):
        texts = (_md(_joined(cell)) for cell in row)
        lines.append(_line(f"**{text}**" if number in marked else text for text in texts))
    return "\n".join(lines)


def to_html(
    record: Mapping[str, Any], *, highlight: Collection[int] | None = None, caption: str = ""
) -> str:
    """The table for a page, in a region that scrolls sideways on a narrow screen.

    Classes: `lab-table` (region), `num` (numbers), `spread` (lowest, highest), `highlight` (row).
    """
    marked = _marked(record, highlight)
    columns = record["columns"]
    kinds = [' class="num"' if is_numeric(record, column) else "" for column in columns]
    heads = "".join(
        f'<th scope="col"{kind}>{html.escape(head(record, column))}</th>'
        for kind, column in zip(kinds, columns, strict=True)
    )
    cells = [_cells(record, column) for column in columns]
    rows = []
    for number, row in enumerate(zip(*cells, strict=True)):
        tone = ' class="highlight"' if number in marked else ""
        fields = (f"<td{kind}>{_html(c)}</td>" for kind, c in zip(kinds, row, strict=True))
        rows.append(f"<tr{tone}>{''.join(fields)}</tr>")
    name = html.escape(caption or record["finding"], quote=True)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    body = "\n".join(rows)
    return (
        f'<div class="lab-table" role="region" tabindex="0" aria-label="{name}">\n<table>{title}\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def head(record: Mapping[str, Any], column: Mapping[str, Any]) -> str:
    """A column's head: its label and unit, and that its brackets hold lowest and highest."""
    unit = f", {column['unit']}" if column.get("unit") else ""
    repeated = any(schema.spread(row.get(column["key"])) for row in record["rows"])
    return f"{column['label']}{unit}" + (f" (low{_RANGE}high)" if repeated else "")


def digits_of(record: Mapping[str, Any], column: Mapping[str, Any]) -> int:
    """Decimals that all numbers of a column get: as asked, else about three significant ones."""
    if column.get("digits") is not None:
        return int(column["digits"])
    values = [schema.center(row.get(column["key"])) for row in record["rows"]]
    numbers = [abs(value) for value in values if _is_number(value) and value != 0]
    if not numbers or all(float(number).is_integer() for number in numbers):
        return 0
    typical = 2 - math.floor(math.log10(median(numbers)))
    visible = -math.floor(math.log10(min(numbers)))  # so that the smallest does not show as 0
    return min(max(0, typical, visible), 6)


def format_value(value: Any, digits: int | None = None) -> str:
    """One value as tables show it: 1,234.5, yes or no, text as it is, a dash for None.

    Without `digits`, a fraction gets about three significant ones.
    """
    value = schema.center(value)
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not _is_number(value):
        return str(value)
    if digits is None:
        digits = digits_of({"rows": [{"v": value}]}, {"key": "v"})
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def is_numeric(record: Mapping[str, Any], column: Mapping[str, Any]) -> bool:
    """Whether a column holds numbers (and perhaps undefined cells), so that it is set right."""
    values = [schema.center(row.get(column["key"])) for row in record["rows"]]
    known = [value for value in values if value is not None]
    return bool(known) and all(_is_number(value) for value in known)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _marked(record: Mapping[str, Any], highlight: Collection[int] | None) -> set[int]:
    if highlight is not None:
        return set(highlight)
    return {number for number, row in enumerate(record["rows"]) if row.get("highlight") is True}


def _cells(record: Mapping[str, Any], column: Mapping[str, Any]) -> list[Cell]:
    digits = digits_of(record, column)
    return [_cell(row.get(column["key"]), digits) for row in record["rows"]]


def _cell(value: Any, digits: int) -> Cell:
    between = schema.spread(value)
    spread = _RANGE.join(format_value(end, digits) for end in between) if between else ""
    return format_value(value, digits), spread


def _joined(cell: Cell) -> str:
    return f"{cell[0]} ({cell[1]})" if cell[1] else cell[0]


def _padded(record: Mapping[str, Any], column: Mapping[str, Any]) -> list[str]:
    """A column's head and cells, all equally wide; medians and spreads align each for itself."""
    cells = _cells(record, column)
    if is_numeric(record, column):
        shown = max(len(value) for value, _ in cells)
        spread = max(len(spread) for _, spread in cells)
        texts = [
            value.rjust(shown) + (f" ({s})" if s else "").rjust(spread + 3 if spread else 0)
            for value, s in cells
        ]
    else:
        texts = [_joined(cell) for cell in cells]
    texts = [head(record, column), *texts]
    width = max(map(len, texts))
    return [
        text.rjust(width) if is_numeric(record, column) else text.ljust(width) for text in texts
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _md(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _html(cell: Cell) -> str:
    value, spread = (html.escape(part) for part in cell)
    return f'{value} <span class="spread">({spread})</span>' if spread else value
