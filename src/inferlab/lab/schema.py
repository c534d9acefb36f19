"""The record: what a finished measurement must hold, when it is believed, and what its key covers.

A record is plain JSON (a dict here), so that a page, another machine and a reader's own script can
all read it. `check_result` refuses what no honest run can give; `key_of` decides what a change
makes stale.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from inferlab.errors import InferlabError

SCHEMA_VERSION = 1
PROFILES = ("smoke", "quick", "full")  # each satisfies the ones before it
DEVICES = ("auto", "cpu", "cuda", "mps")
TRACKED_PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "gguf", "triton")
TIME_UNITS = frozenset({"s", "ms", "us", "µs", "ns"})
FORMS = ("line", "bar", "hbar", "timeline", "roofline")
ROLES = ("prefill", "decode", "cache", "idle", "failure", "neutral")
NAME = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")

_FIELDS: dict[str, type] = {
    "snippet": str,
    "key": str,
    "status": str,
    "profile": str,
    "parameters": dict,
    "settings": dict,
    "columns": list,
    "rows": list,
    "finding": str,
    "notes": list,
    "environment": dict,
    "ceilings": dict,
    "noise": dict,
    "source": dict,
    "run": dict,
}
_FORM_KEYS = {
    "timeline": ("lane", "start", "end"),
    "roofline": ("name", "intensity", "flop_s"),
}


class BeyondBoundError(InferlabError):
    """A result above its physical bound: either the bound or the result was measured wrongly."""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def plain(value: Any) -> Any:
    """`value` in JSON's types: tuples become lists, numpy and torch scalars become numbers."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def cell(value: Any) -> Any:
    """One cell as the record keeps it: repeated samples become their median and spread."""
    value = plain(value)
    if isinstance(value, list) and value and all(_is_number(item) for item in value):
        low, high = min(value), max(value)
        return {"median": median(value), "low": low, "high": high, "samples": value}
    return value


def center(value: Any) -> Any:
    """The value a table or chart shows for a cell: the median of samples, else the cell itself."""
    return value["median"] if isinstance(value, Mapping) else value


def spread(value: Any) -> tuple[float, float] | None:
    """Lowest and highest sample of a repeated cell, None for a single value."""
    if isinstance(value, Mapping) and len(value["samples"]) > 1:
        return value["low"], value["high"]
    return None


def key_of(record: Mapping[str, Any]) -> str:
    """The key: everything that, when it changes, means the measurement must be made again."""
    environment, source = record["environment"], record["source"]
    covered = {
        "snippet": source["snippet_sha256"],
        "modules": source["modules"],
        "parameters": record["parameters"],
        "profile": record["profile"],
        "settings": record["settings"],
        "packages": environment["packages"],
        "python": environment["python"],
        "fingerprint": environment["fingerprint"],
        "server": record.get("server"),
    }
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return digest(text.encode())


def check_result(record: Mapping[str, Any]) -> None:
    """Refuse rows, columns, finding or chart that no honest run can give (InferlabError)."""
    columns, rows = record["columns"], record["rows"]
    if not columns:
        raise InferlabError("the table has no columns; give lab.record columns=[lab.Column(...)]")
    if not rows:
        raise InferlabError("the table is empty: no row was recorded; check what the loop measured")
    finding = record["finding"]
    if not isinstance(finding, str) or not finding.strip() or "\n" in finding:
        raise InferlabError("the finding must be one sentence on one line, computed from the rows")
    if re.search(r"\b(nan|inf)\b", finding.lower()):
        raise InferlabError(f"the finding holds a number that is not finite: {finding!r}")
    keys = [column["key"] for column in columns]
    if len(set(keys)) != len(keys):
        raise InferlabError(f"two columns share a key: {', '.join(keys)}")
    for number, row in enumerate(rows, 1):
        _check_row(number, row, columns, _instants(record))
    if record.get("chart"):
        _check_chart(record["chart"], rows)


def check_bounds(record: Mapping[str, Any]) -> None:
    """Raise BeyondBoundError when a median passes its bound: a column's `at_most` or `at_least`
    (a number, or the column that holds it), or the roof of a roofline chart.
    """
    for number, row in enumerate(record["rows"], 1):
        for column in record["columns"]:
            value, unit = center(row.get(column["key"])), column.get("unit", "")
            where = f"row {number}, column {column['key']!r}"
            for side, sign in (("at_most", 1), ("at_least", -1)):
                bound = column.get(side)
                limit = center(row.get(bound)) if isinstance(bound, str) else bound
                if _is_number(value) and _is_number(limit) and sign * value > sign * limit:
                    raise _beyond(where, value, limit, unit)
        if (record.get("chart") or {}).get("form") == "roofline":
            options, rate = record["chart"]["options"], center(row["flop_s"])
            roof = options["bandwidth_bytes_s"] * center(row["intensity"])
            roof = min(options["peak_flop_s"], roof)
            if rate > roof:
                raise _beyond(f"row {number}, column 'flop_s'", rate, roof, "FLOP/s")


def _beyond(where: str, value: float, limit: float, unit: str) -> BeyondBoundError:
    bound = f"{limit:,.6g} {unit}".rstrip()
    return BeyondBoundError(
        f"{where}: {value:,.6g} is beyond its physical bound {bound}; either what was timed is "
        "not the whole work, or the bound is wrong"
    )


def check_record(record: Any) -> None:
    """Refuse a record that is incomplete, altered since it was written, or dishonest."""
    if not isinstance(record, Mapping):
        raise InferlabError("not a record: expected a JSON object")
    version = record.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InferlabError(
            f"schema version {version!r}, but this inferlab reads {SCHEMA_VERSION}; measure again"
        )
    for field, kind in _FIELDS.items():
        if not isinstance(record.get(field), kind):
            raise InferlabError(f"field {field!r} is missing or not a {kind.__name__}")
    if not NAME.fullmatch(record["snippet"]):
        raise InferlabError(f"{record['snippet']!r} is not a snippet name like 'prefill/length'")
    if record["profile"] not in PROFILES:
        raise InferlabError(f"unknown profile {record['profile']!r}; one of {', '.join(PROFILES)}")
    try:
        expected = key_of(record)
    except (KeyError, TypeError) as error:
        raise InferlabError(f"a field that the key covers is missing: {error}") from error
    if record["key"] != expected:
        raise InferlabError("its key does not match its content: it was altered or cut short")
    if record["status"] == "ok":
        check_result(record)
        check_bounds(record)
    elif record["status"] != "unavailable" or not record.get("reason"):
        raise InferlabError(f"status {record['status']!r} is neither ok nor unavailable and why")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _instants(record: Mapping[str, Any]) -> set[str]:
    """Columns in a unit of time that hold points in time, which may be 0, not durations."""
    instants = {column["key"] for column in record["columns"] if column.get("instant")}
    chart = record.get("chart") or {}
    if chart.get("form") == "timeline":
        instants |= {"start", "end"}
    elif chart.get("form") == "line":
        instants.add(chart["x"])
    return instants


def _check_row(
    number: int, row: Any, columns: Sequence[Mapping[str, Any]], instants: set[str]
) -> None:
    if not isinstance(row, Mapping):
        raise InferlabError(f"row {number} is not a dict of column keys and values")
    for key, value in row.items():
        where = f"row {number}, column {key!r}"
        if isinstance(value, list):
            raise InferlabError(f"{where}: a list must hold numbers, at least one; got {value!r}")
        if isinstance(value, Mapping) and not value.get("samples"):
            raise InferlabError(f"{where}: give repeated samples as a list of numbers")
        for sample in _samples(value):
            if not math.isfinite(sample):
                raise InferlabError(f"{where}: {sample} is not a result; use None where undefined")
    for column in columns:
        key = column["key"]
        if key not in row:
            raise InferlabError(f"row {number} has no {key!r}; use None where it is undefined")
        if column.get("unit") in TIME_UNITS and key not in instants:
            for sample in _samples(row[key]):
                if sample <= 0:
                    raise InferlabError(
                        f"row {number}, column {key!r}: a duration of {sample:g} {column['unit']} "
                        "cannot be; time more work than one clock tick"
                    )


def _samples(value: Any) -> list[float]:
    if isinstance(value, Mapping):
        return [value["median"], value["low"], value["high"], *value["samples"]]
    return [value] if _is_number(value) else []


def _check_chart(chart: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    form = chart.get("form")
    if form not in FORMS:
        raise InferlabError(f"unknown chart form {form!r}; one of {', '.join(FORMS)}")
    if form in ("bar", "hbar") and (chart.get("log_x") or chart.get("log_y")):
        raise InferlabError("bars start at zero, so they have no logarithmic axis; use form='line'")
    fixed = _FORM_KEYS.get(form, ())
    if not fixed and not (chart["x"] and chart["y"]):
        raise InferlabError(f"the {form} chart needs x= and y=, keys of the rows")
    keys = fixed or (chart["x"], *chart["y"])
    keys += tuple(chart[name] for name in ("series", "bound") if chart.get(name))
    for number, row in enumerate(rows, 1):
        for key in keys:
            if key not in row or (key in fixed and center(row[key]) is None):
                raise InferlabError(
                    f"the {form} chart needs {key!r} in each row; row {number} has none"
                )
    if not fixed and all(center(row[key]) is None for row in rows for key in chart["y"]):
        raise InferlabError(f"the {form} chart has nothing to draw: all its values are None")
    unknown = set(chart.get("roles", {}).values()) - set(ROLES)
    if unknown:
        raise InferlabError(f"unknown role {sorted(unknown)[0]!r}; one of {', '.join(ROLES)}")
    if form == "roofline":
        for option in ("peak_flop_s", "bandwidth_bytes_s"):
            if not _is_number(chart.get("options", {}).get(option)):
                raise InferlabError(f"the roofline chart needs options={{'{option}': number}}")
    for number, row in enumerate(rows, 1):
        if form == "timeline" and row["end"] < row["start"]:
            raise InferlabError(f"row {number}: the timeline's end lies before its start")
