"""Records of each chart form, with the shapes of real ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferlab.lab import schema
from inferlab.lab.snippet import Chart, Column, _chart

Rows = Sequence[Mapping[str, Any]]


def make(rows: Rows, columns: list[Column], chart: Chart | None, finding: str) -> dict[str, Any]:
    """A record that is whole enough for tables and charts, checked as a real one is."""
    record = {
        "snippet": f"sample/{chart.form if chart else 'table'}",
        "columns": [vars(column) for column in columns],
        "rows": [{key: schema.cell(value) for key, value in row.items()} for row in rows],
        "chart": _chart(chart),
        "finding": finding,
    }
    schema.check_result(record)
    return record


def line() -> dict[str, Any]:
    """Two series, a shared bound, spread, logarithmic axes."""
    rows = [
        {"tokens": n, "phase": phase, "rate": [rate * 0.93, rate, rate * 1.04], "bound": 3000.0}
        for phase, rates in (("prefill", (410, 800, 1240, 1610, 1700)), ("decode", (58,) * 5))
        for n, rate in zip((64, 128, 256, 512, 2048), rates, strict=True)
    ]
    columns = [
        Column("tokens", "prompt length", "tokens", 0),
        Column("phase", "phase"),
        Column("rate", "speed", "tok/s", 0, at_most="bound"),
        Column("bound", "compute bound", "tok/s", 0),
    ]
    chart = Chart(
        "line",
        "tokens",
        "rate",
        series="phase",
        bound="bound",
        log_x=True,
        log_y=True,
        title="Prefill handles 1,700 tokens a second, decode 58: the same weights, 29 times slower",
    )
    return make(rows, columns, chart, "Prefill reaches 1,700 tok/s, decode 58 tok/s.")


def plain_line() -> dict[str, Any]:
    """One series, linear axes, text on the x axis; two points have no value."""
    rows = [{"x": x, "y": y} for x, y in zip("abcd", (3.2, None, 5.5, 4.1), strict=True)]
    columns = [Column("x", "kind"), Column("y", "time", "ms")]
    return make(rows, columns, Chart("line", "x", ("y",)), "c takes longest, 5.5 ms.")


def many_lines() -> dict[str, Any]:
    """Six series: more than can be labelled in place."""
    rows = [
        {"users": u, "model": f"model {m}", "ms": u * (m + 1) * 1.7, "limit": u * (m + 1) * 1.2}
        for m in range(6)
        for u in (1, 2, 4, 8)
    ]
    columns = [
        Column("users", "users"),
        Column("model", "model"),
        Column("ms", "ITL", "ms"),
        Column("limit", "memory bound", "ms"),
    ]
    chart = Chart("line", "users", "ms", series="model", bound="limit")
    return make(rows, columns, chart, "The sixth model is six times as slow as the first.")


def bar() -> dict[str, Any]:
    """Grouped upright bars with spread and a bound that differs from bar to bar."""
    rows = [
        {"dtype": d, "pre": [p * 0.9, p, p * 1.1], "dec": [q * 0.95, q, q * 1.2], "cap": c}
        for d, p, q, c in (
            ("float32", 820, 310, 900),
            ("bfloat16", 1680, 580, 1800),
            ("int8", 1700, 1080, 1800),
        )
    ]
    columns = [
        Column("dtype", "weights"),
        Column("pre", "prefill", "tok/s"),
        Column("dec", "decode", "tok/s"),
        Column("cap", "measured bound", "tok/s"),
    ]
    chart = Chart(
        "bar",
        "dtype",
        ("pre", "dec"),
        bound="cap",
        roles={"pre": "prefill", "dec": "decode"},
        y_label="speed",
        title="int8 doubles decode and leaves prefill where it was",
    )
    return make(rows, columns, chart, "int8 decodes 1.9 times as fast as bfloat16.")


def one_bar() -> dict[str, Any]:
    """One series of upright bars under a shared bound."""
    rows = [{"n": n, "gb": g, "cap": 39.0} for n, g in ((1, 23.1), (4, 31.0), (16, 36.2))]
    columns = [
        Column("n", "threads", "", 0),
        Column("gb", "read", "GB/s"),
        Column("cap", "peak bandwidth", "GB/s"),
    ]
    chart = Chart("bar", "n", "gb", bound="cap", roles={"gb": "cache"})
    return make(rows, columns, chart, "Sixteen threads read 36.2 GB/s, 93 % of the peak.")


def stacked() -> dict[str, Any]:
    """Stacked upright bars."""
    rows = [
        {"p": p, "queue": q, "prefill": f, "decode": d}
        for p, q, f, d in (("64", 1.0, 40, 300), ("512", 3, 350, 310), ("2048", 12, 1500, 340))
    ]
    columns = [
        Column("p", "prompt length", "tokens"),
        Column("queue", "waiting", "ms", 0),
        Column("prefill", "prefill", "ms", 0),
        Column("decode", "decode", "ms", 0),
    ]
    chart = Chart(
        "bar",
        "p",
        ("queue", "prefill", "decode"),
        roles={"queue": "idle"},
        y_label="time",
        options={"stacked": True},
        title="Long prompts wait in prefill: 1.5 of 1.9 seconds",
    )
    return make(rows, columns, chart, "At 2,048 tokens 81 % of the time is prefill.")


def hbar() -> dict[str, Any]:
    """Lying bars with long names, spread, a shared bound."""
    names = (" Paris", " the capital of the French Republic", " a", " located", "\n")
    rows = [
        {"token": repr(n), "p": [p * 0.9, p, p * 1.1], "cap": 100.0}
        for n, p in zip(names, (61.2, 11.9, 5.5, 3.1, 0.4), strict=True)
    ]
    columns = [
        Column("token", "next token"),
        Column("p", "probability", "%", 1),
        Column("cap", "certainty", "%"),
    ]
    chart = Chart("hbar", "token", "p", bound="cap", title="The model is 61 % sure of Paris")
    return make(rows, columns, chart, "' Paris' has a probability of 61.2 %.")


def grouped_hbar() -> dict[str, Any]:
    """Lying bars, two series, a bound for each bar."""
    rows = [
        {"op": op, "dtype": d, "ms": ms * k, "cap": ms * k * 0.7}
        for op, ms in (("attention", 4.0), ("matmul", 12.5), ("norm", 1.1))
        for d, k in (("bf16", 1.0), ("int4", 0.4))
    ]
    columns = [
        Column("op", "operator"),
        Column("dtype", "dtype"),
        Column("ms", "time", "ms"),
        Column("cap", "memory bound", "ms"),
    ]
    chart = Chart("hbar", "op", "ms", series="dtype", bound="cap")
    return make(rows, columns, chart, "Matrix products take 12.5 ms in bf16.")


def stacked_hbar() -> dict[str, Any]:
    """Lying stacked bars."""
    rows = [
        {"m": m, "w": w, "kv": kv} for m, w, kv in (("8B, bf16", 16.1, 4.3), ("8B, int4", 4.5, 4.3))
    ]
    columns = [Column("m", "model"), Column("w", "weights", "GB"), Column("kv", "KV cache", "GB")]
    chart = Chart("hbar", "m", ("w", "kv"), roles={"kv": "cache"}, options={"stacked": True})
    return make(rows, columns, chart, "In int4 the cache is as large as the weights.")


def timeline(lanes: int = 4, steps: int = 12) -> dict[str, Any]:
    """Requests that wait, prefill and decode."""
    rows: list[dict[str, Any]] = []
    for lane in range(lanes):
        name, t = f"request {lane + 1}", lane * 60.0
        spans = [("idle", 0.0, t, "waiting")] if lane else []
        spans.append(("prefill", t, t + 90, "prefill"))
        spans += [("decode", t + 90 + 20 * i, t + 108 + 20 * i, str(i + 1)) for i in range(steps)]
        rows += [
            {"lane": name, "role": r, "start": s, "end": e, "label": text}
            for r, s, e, text in spans
        ]
    rows.append({"lane": "request 1", "role": "failure", "start": 400, "end": 420, "label": "x"})
    columns = [
        Column("lane", "request"),
        Column("role", "phase"),
        Column("start", "start", "ms", 0),
        Column("end", "end", "ms", 0),
    ]
    chart = Chart("timeline", title="Request 4 waits 180 ms for its turn")
    return make(rows, columns, chart, "The last request waits 180 ms.")


def roofline() -> dict[str, Any]:
    """Prefill and decode under measured ceilings."""
    rows = [
        {
            "name": "decode, 1 request",
            "intensity": 1.0,
            "flop_s": [28e9, 30e9, 31e9],
            "role": "decode",
        },
        {"name": "decode, 16 requests", "intensity": 16.0, "flop_s": 150e9, "role": "decode"},
        {"name": "prefill, 600 tokens", "intensity": 420.0, "flop_s": 440e9, "role": "prefill"},
    ]
    columns = [
        Column("name", "work"),
        Column("intensity", "intensity", "FLOP/byte"),
        Column("flop_s", "rate", "FLOP/s"),
    ]
    options = {"peak_flop_s": 0.84e12, "bandwidth_bytes_s": 39e9}
    title = "Decode is bound by memory, prefill by compute"
    return make(rows, columns, Chart("roofline", title=title, options=options), f"{title}.")


SAMPLES = {
    f.__name__: f
    for f in (
        line,
        plain_line,
        many_lines,
        bar,
        one_bar,
        stacked,
        hbar,
        grouped_hbar,
        stacked_hbar,
        timeline,
        roofline,
    )
}
