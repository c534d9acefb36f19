"""Pick one number out of a record and write it as its column says, for use inside a sentence."""

from collections.abc import Mapping
from typing import Any

from inferlab.errors import InferlabError
from inferlab.lab.schema import center
from inferlab.lab.store import Record
from inferlab.lab.tables import format_value

RowChoice = int | str | Mapping[str, Any]


def value_text(
    record: Record,
    column: str,
    *,
    row: RowChoice = 0,
    over: RowChoice | None = None,
    digits: int | None = None,
    unit: str | bool = True,
    scale: float = 1.0,
    percent: bool = False,
) -> str:
    """The cell of `column` in the row chosen, with its unit; or a ratio when `over` is given.

    row: a position, "max" or "min" of the column, or the cells that the row must have.
    over: the column of the same row, or the row of the same column, to divide by.
    """
    chosen = pick_row(record, column, row)
    number = _cell(record, chosen, column)
    if over is not None:
        number = _ratio(record, column, chosen, number, over)
        return _plain(number * 100, digits, "%") if percent else _plain(number, digits, "")
    if not isinstance(number, int | float) or isinstance(number, bool):
        return str(number)
    described: Mapping[str, Any] = next((c for c in record["columns"] if c["key"] == column), {})
    if digits is None and scale == 1.0:
        digits = described.get("digits")
    if percent:
        return _plain(number * 100, digits, "%")
    shown = unit if isinstance(unit, str) else described.get("unit", "") if unit else ""
    return _plain(number * scale, digits, shown)


def pick_row(record: Record, column: str, choice: RowChoice) -> Mapping[str, Any]:
    """The row that `choice` means. Raises InferlabError, saying which rows there are."""
    rows: list[Mapping[str, Any]] = record["rows"]
    if isinstance(choice, int):
        if not -len(rows) <= choice < len(rows):
            raise InferlabError(f"{record['snippet']} has {len(rows)} rows, so no row {choice}")
        return rows[choice]
    if choice in ("max", "min"):
        known = [row for row in rows if isinstance(center(row.get(column)), int | float)]
        if not known:
            raise InferlabError(f"{record['snippet']}: column {column!r} holds no number")
        return (max if choice == "max" else min)(known, key=lambda row: center(row[column]))
    if isinstance(choice, str):
        raise InferlabError(f"row={choice!r}: expected a position, a dict, 'max' or 'min'")
    for row in rows:
        if all(key in row and center(row[key]) == wanted for key, wanted in choice.items()):
            return row
    there = [{key: center(row.get(key)) for key in choice} for row in rows]
    raise InferlabError(f"{record['snippet']} has no row with {dict(choice)}; it has {there}")


def _cell(record: Record, row: Mapping[str, Any], column: str) -> Any:
    if column not in row:
        raise InferlabError(
            f"{record['snippet']} has no column {column!r}; it has {', '.join(row)}"
        )
    found = center(row[column])
    return "undefined" if found is None else found


def _ratio(
    record: Record, column: str, row: Mapping[str, Any], number: Any, over: RowChoice
) -> float:
    if isinstance(over, str) and over not in ("max", "min"):
        divisor = _cell(record, row, over)
    else:
        divisor = _cell(record, pick_row(record, column, over), column)
    if not isinstance(number, int | float) or not isinstance(divisor, int | float) or not divisor:
        raise InferlabError(f"{record['snippet']}: {number!r} / {divisor!r} is no ratio")
    return float(number) / float(divisor)


def _plain(number: float, digits: int | None, unit: str) -> str:
    text = format_value(number, digits)
    return f"{text}\u00a0{unit}" if unit else text  # a number and its unit stay on one line
