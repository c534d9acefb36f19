"""What a snippet calls: choose sizes by profile, say what it needs, and record its result once."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

from inferlab.errors import InferlabError
from inferlab.files import write_atomic
from inferlab.lab import process, schema
from inferlab.lab.settings import options

if TYPE_CHECKING:
    from inferlab.hardware import Ceilings

_STARTED_AT, _STARTED = datetime.now(UTC), perf_counter()
_MARK = "__inferlab_recorded__"


@dataclass(frozen=True)
class Column:
    """One column of the table: where its cells are, what they are called, and in which unit.

    `at_most` names the column (or gives the number) that holds this column's physical bound; for
    a time, whose bound is the least it can be, `at_least` does.
    `instant` marks a point in time, which may be 0, in a unit of durations, which may not.
    """

    key: str
    label: str
    unit: str = ""
    digits: int | None = None
    at_most: str | float | None = None
    instant: bool = False
    at_least: str | float | None = None


@dataclass(frozen=True)
class Chart:
    """How to draw the rows. Forms: line, bar, hbar, timeline, roofline; all data come from rows.

    `x`, `y`, `series` and `bound` are keys of the rows; `roles` gives a column or a series value
    one of the palette's meanings. A timeline reads `lane`, `start`, `end` and, where there are,
    `role` and `label` of each row, and renames roles by `options={"names": {"idle": "waiting"}}`; a
    roofline reads `name`, `intensity`, `flop_s` and `role`, with `peak_flop_s` and
    `bandwidth_bytes_s` in `options`. `options={"stacked": True}` stacks bars, which start at zero
    and so have no logarithmic axis.
    """

    form: str
    x: str = ""
    y: tuple[str, ...] | str = ()
    title: str | None = None
    series: str | None = None
    bound: str | None = None
    log_x: bool = False
    log_y: bool = False
    x_label: str | None = None
    y_label: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def ceilings() -> "Ceilings":
    """The measured ceilings of the device that this run measures (kept from an earlier run)."""
    from inferlab import hardware

    return hardware.ceilings(options().device)


def require(*needs: str) -> None:
    """End the snippet as not measured unless all is here: "cuda", "mps", "package:NAME"."""
    for need in needs:
        if reason := _lacks(need):
            unavailable(reason, depth=2)


def unavailable(reason: str, *, depth: int = 1) -> NoReturn:
    """End the snippet with status 0 as not measured on this machine, for instance "needs ..."."""
    path = _claim(sys._getframe(depth).f_globals)
    finding = f"Not measured on this machine: {reason}."
    _deliver(_draft(path, finding=finding) | {"status": "unavailable", "reason": reason}, path)
    raise SystemExit(0)


def record(
    *,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    finding: str,
    chart: Chart | None = None,
    parameters: Mapping[str, Any] | None = None,
    model: Any = None,
    notes: Sequence[str] = (),
    server: Mapping[str, Any] | None = None,
) -> None:
    """Hand over the result: print it when run alone, keep it when run by the lab. Call it once.

    rows: one dict for each row; a list of numbers in a cell is repeated samples, shown as median
        and spread; None is an undefined cell; `"highlight": True` marks the row that matters.
    finding: one sentence, computed from the rows, true whatever the machine gives.
    parameters: what was asked for. model: anything with `describe()`.
    server: url, version and model of the server that was measured, if any.
    Raises InferlabError for a result that no honest run can give: an empty table, NaN, a duration
    of zero, a value beyond its physical bound.
    """
    path = _claim(sys._getframe(1).f_globals)
    draft = _draft(
        path,
        finding=finding,
        columns=[asdict(column) for column in columns],
        rows=[{key: schema.cell(value) for key, value in row.items()} for row in rows],
        chart=_chart(chart),
        parameters=schema.plain(parameters or {}),
        model=_describe(model),
        notes=list(notes),
    )
    if server is not None:
        draft["server"] = schema.plain(server)
    schema.check_result(draft)
    _deliver(draft, path)


def _claim(caller: dict[str, Any]) -> Path:
    """The calling snippet's path; a second call from the same run is an error."""
    if caller.get(_MARK):
        raise InferlabError("a snippet records exactly once: a second lab.record was called")
    if "__file__" not in caller:
        raise InferlabError("lab.record needs a snippet in a file; save it as snippets/x/y.py")
    caller[_MARK] = True
    return Path(caller["__file__"]).resolve()


def _draft(path: Path, **fields: Any) -> dict[str, Any]:
    """The part of a record that only this process knows, taken before it imports anything more."""
    modules = process.imported_modules()
    packages = [name for name in schema.TRACKED_PACKAGES if name in sys.modules]
    asked = options()
    model = fields.get("model") or {}
    empty: dict[str, Any] = {
        "columns": [],
        "rows": [],
        "chart": None,
        "parameters": {},
        "model": None,
        "notes": [],
    }
    cells = [cell for row in fields.get("rows", []) for cell in row.values()]
    return {
        "schema_version": schema.SCHEMA_VERSION,
        "snippet": f"{path.parent.name}/{path.stem}",
        "status": "ok",
        "profile": asked.profile,
        "settings": {"device": asked.device},
        **empty,
        "chart": None,
        "model": None,
        **fields,
        "environment": {
            "device": model.get("device") or process.device_in_use(asked.device),
            "num_threads": process.num_threads(),
            "packages": process.versions(packages),
        },
        "source": {"snippet_sha256": schema.digest(path.read_bytes()), "modules": modules},
        "run": {
            "started_at": _STARTED_AT.isoformat(timespec="seconds"),
            "duration_s": round(perf_counter() - _STARTED, 3),
            "peak_memory_bytes": process.peak_memory_bytes(),
            "command": f"python snippets/{path.parent.name}/{path.name}",
            "repeats": max((len(c["samples"]) for c in cells if isinstance(c, dict)), default=1),
        },
    }


def _deliver(draft: dict[str, Any], path: Path) -> None:
    asked = options()
    if asked.record_to is not None:
        write_atomic(asked.record_to, json.dumps(draft, ensure_ascii=False))
        print(draft["finding"])
        return
    from inferlab.lab import tables

    if draft["status"] == "ok":
        print(tables.to_text(draft), end="\n\n")
    print(draft["finding"])
    schema.check_bounds(draft)
    if asked.chart is not None and draft["chart"]:
        from inferlab.lab import charts

        write_atomic(asked.chart, charts.render(draft, "light"))
        print(f"chart: {asked.chart}")
    if asked.json is not None:
        from inferlab.lab import machine

        complete = machine.complete(draft, root=path.parent.parent.parent)
        write_atomic(asked.json, json.dumps(complete, indent=1, ensure_ascii=False) + "\n")
        print(f"record: {asked.json}")


def _chart(chart: Chart | None) -> dict[str, Any] | None:
    if chart is None:
        return None
    y = (chart.y,) if isinstance(chart.y, str) else chart.y
    return {**schema.plain(asdict(chart)), "y": list(y)}


def _describe(model: Any) -> dict[str, Any] | None:
    if model is None or isinstance(model, Mapping):
        return schema.plain(model)  # type: ignore[no-any-return]
    return schema.plain(model.describe())  # type: ignore[no-any-return]


def _lacks(need: str) -> str | None:
    """Why the machine cannot serve `need`, or None when it can."""
    if need.startswith("package:"):
        from importlib.util import find_spec

        name = need.removeprefix("package:")
        return None if find_spec(name) else f"needs the Python package {name}"
    if need not in ("cuda", "mps"):
        raise InferlabError(f"lab.require({need!r}): expected 'cuda', 'mps' or 'package:NAME'")
    words = {"cuda": "a CUDA GPU", "mps": "an Apple GPU"}[need]
    if (asked := options().device) not in ("auto", need):
        return f"needs {words}, and this run was asked to use {asked}"
    import torch

    there = torch.cuda.is_available() if need == "cuda" else torch.backends.mps.is_available()
    return None if there else f"needs {words}"
