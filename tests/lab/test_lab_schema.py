"""What a record must hold, and what is refused with the reason."""

import io
from typing import Any

import chart_samples
import numpy as np
import pytest
from throwaway_lab import Lab

from inferlab.errors import InferlabError
from inferlab.lab import child, progress, schema

GOOD = {
    "columns": [{"key": "n", "label": "n", "unit": ""}, {"key": "s", "label": "time", "unit": "s"}],
    "rows": [{"n": 1, "s": 0.5}, {"n": 2, "s": None}],
    "finding": "A finding with information and a nanosecond.",
    "chart": None,
}
LINE = {"form": "line", "x": "n", "y": ["s"], "roles": {}}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"rows": []}, "the table is empty"),
    ({"columns": []}, "no columns"),
    ({"finding": " "}, "one sentence on one line"),
    ({"finding": "Two\nlines"}, "one sentence on one line"),
    ({"finding": "It took nan s."}, "not finite"),
    ({"finding": "It was inf times faster."}, "not finite"),
    ({"columns": GOOD["columns"] * 2}, "two columns share a key: n, s, n, s"),
    ({"rows": [3]}, "row 1 is not a dict"),
    ({"rows": [{"n": 1}]}, "row 1 has no 's'; use None"),
    ({"rows": [{"n": 1, "s": float("nan")}]}, "row 1, column 's': nan is not a result"),
    ({"rows": [{"n": float("-inf"), "s": 1}]}, "column 'n': -inf is not a result"),
    ({"rows": [{"n": 1, "s": 0}]}, "a duration of 0 s cannot be"),
    ({"rows": [{"n": 1, "s": -1}]}, "a duration of -1 s cannot be"),
    ({"rows": [{"n": 1, "s": []}]}, "a list must hold numbers"),
    ({"rows": [{"n": 1, "s": {"median": 1}}]}, "give repeated samples as a list"),
    ({"chart": {**LINE, "form": "pie"}}, "unknown chart form 'pie'; one of line, bar"),
    ({"chart": {**LINE, "x": "m"}}, "the line chart needs 'm' in each row; row 1 has none"),
    ({"chart": {**LINE, "bound": "m"}}, "needs 'm'"),
    ({"chart": {**LINE, "y": []}}, "needs x= and y="),
    ({"chart": {**LINE, "roles": {"s": "speed"}}}, "unknown role 'speed'; one of prefill"),
    ({"chart": {**LINE, "form": "bar", "log_y": True}}, "bars start at zero"),
    ({"chart": LINE, "rows": [{"n": 1, "s": None}]}, "nothing to draw"),
    ({"chart": {"form": "timeline"}}, "the timeline chart needs 'lane'"),
    (
        {
            "chart": {"form": "timeline"},
            "rows": [{"n": 1, "s": 1, "lane": "a", "start": 2, "end": 1}],
        },
        "row 1: the timeline's end lies before its start",
    ),
    (
        {
            "chart": {"form": "roofline", "options": {"peak_flop_s": 1.0}},
            "rows": [{"n": 1, "s": 1, "name": "a", "intensity": 2, "flop_s": 1}],
        },
        "needs options={'bandwidth_bytes_s': number}",
    ),
    (
        {
            "chart": {"form": "roofline", "options": {}},
            "rows": [{"n": 1, "s": 1, "name": "a", "intensity": None, "flop_s": 1}],
        },
        "needs 'intensity' in each row",
    ),
]


def test_a_good_result_is_accepted() -> None:
    schema.check_result(GOOD)
    schema.check_result({**GOOD, "chart": LINE})


@pytest.mark.parametrize(("change", "reason"), REFUSED)
def test_a_result_that_no_honest_run_gives_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InferlabError) as refused:
        schema.check_result({**GOOD, **change})
    assert reason in str(refused.value)


def test_points_in_time_may_be_zero() -> None:
    rows = [{"n": 1, "s": 0.0}]
    columns = [GOOD["columns"][0], {**GOOD["columns"][1], "instant": True}]
    schema.check_result({**GOOD, "rows": rows, "columns": columns})
    schema.check_result({**GOOD, "rows": rows, "chart": {**LINE, "x": "s", "y": ["n"]}})
    assert chart_samples.timeline()["rows"][0]["start"] == 0


def test_bounds_are_columns_or_numbers_and_hold_for_medians() -> None:
    def check(value: Any, **column: Any) -> None:
        rows = [{"v": value, "top": {"median": 10.0}}]
        schema.check_bounds({"columns": [{"key": "v", "label": "v", **column}], "rows": rows})

    check(10.0, at_most=10)
    check(10.0, at_least="top")
    check(None, at_most=1)
    check(schema.cell([8.0, 9.0, 12.0]), at_most="top")
    for value, column in ((10.5, {"at_most": "top"}), (9.0, {"at_least": 9.5})):
        with pytest.raises(schema.BeyondBoundError, match=r"row 1, column 'v': .* beyond"):
            check(value, **column)


def test_values_become_plain_json() -> None:
    value = {"a": (1, np.float32(0.5)), "b": np.arange(2), 3: {True}, "p": io.StringIO}
    assert schema.plain(value) == {
        "a": [1, 0.5], "b": [0, 1], "3": [True], "p": str(io.StringIO),
    }  # fmt: skip
    assert schema.cell([3, 1, 2]) == {"median": 2, "low": 1, "high": 3, "samples": [3, 1, 2]}
    assert schema.cell(["a", "b"]) == ["a", "b"]
    assert schema.spread(schema.cell([2.0])) is None


def test_a_record_that_was_cut_short_or_altered_is_refused(lab: Lab) -> None:
    lab.snippet("a/x")
    lab.run()
    record: dict[str, Any] = lab.status("a/x").record or {}
    schema.check_record(record)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"schema_version": 2}, "schema version 2, but this inferlab reads 1"),
        ({"rows": None}, "field 'rows' is missing or not a list"),
        ({"snippet": "../x"}, "not a snippet name"),
        ({"profile": "huge"}, "unknown profile 'huge'"),
        ({"source": {}}, "a field that the key covers is missing"),
        ({"parameters": {"n": 1}}, "altered or cut short"),
        ({"status": "odd"}, "status 'odd' is neither"),
        ({"status": "unavailable"}, "neither ok nor unavailable and why"),
        ({"rows": []}, "the table is empty"),
    ]
    for change, reason in changes:
        with pytest.raises(InferlabError) as refused:
            schema.check_record({**record, **change})
        assert reason in str(refused.value)
    with pytest.raises(InferlabError, match="expected a JSON object"):
        schema.check_record([])


def test_why_a_process_failed() -> None:
    assert child._why(-9, "") == "was killed by SIGKILL (is there enough memory?)"
    assert child._why(-11, "") == "was killed by SIGSEGV"
    assert child._why(1, "no trace") == "exited with status 1"
    trace = "Traceback (most recent call last):\n  x\ninferlab.errors.InferlabError: The cause."
    assert child._why(1, trace) == "raised InferlabError: The cause"


# Progress


def test_plain_progress_says_which_how_many_and_how_long() -> None:
    out = io.StringIO()
    ui = progress.Progress(out)
    ui.plan(["a/x", "b/y", "c/z"], {"a/x": 2.0, "b/y": None, "c/z": 70.0})
    ui.start("a/x")
    ui.finish("a/x", "done", 3.0)
    ui.start("b/y")
    ui.finish("b/y", "FAILED", 75.0)
    ui.close()
    assert out.getvalue().splitlines() == [
        "measuring 3 snippets, about 1 min 48 s",
        "[1/3] a/x (took 2.0 s before)",
        "[1/3] a/x: done in 3.0 s, about 1 min 46 s left",
        "[2/3] b/y",
        "[2/3] b/y: FAILED in 1 min 15 s, about 1 min 10 s left",
    ]


def test_without_earlier_times_it_learns_from_this_run() -> None:
    out = io.StringIO()
    ui = progress.Progress(out)
    ui.plan(["a/x", "b/y"], {"a/x": None, "b/y": None})
    assert ui.left_s() is None
    ui.start("a/x")
    ui.finish("a/x", "done", 12.0)
    assert ui.left_s() == 12
    assert "about" not in out.getvalue().splitlines()[0]


def test_a_terminal_gets_a_bar_that_leaves_plain_lines_behind() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    ui = progress.best_progress(out)
    assert isinstance(ui, progress.LiveProgress)
    ui.say("before the plan")
    ui.plan(["a/x"], {"a/x": 1.0})
    ui.start("a/x")
    ui.say("[not markup]")
    ui.finish("a/x", "done", 1.0)
    ui.close()
    text = out.getvalue()
    for part in ("before the plan", "a/x: done in 1.0 s", "[not markup]"):
        assert part in text
    progress.LiveProgress(out).close()
