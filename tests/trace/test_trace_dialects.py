"""Each cell of the table of dialects, on traces worked out by hand."""

import pytest
from hypothesis import given
from make_traces import random_traces, trace

from inferlab.errors import InferlabError
from inferlab.trace import DIALECTS, Trace, dialect, e2e_ns, percentile, read, ttft_ns

# Role at 20 ms; reasoning at 100; content at 160 (2 tokens), 200, 260; the finish at 260, empty;
# usage (9 tokens, 4 of them reasoning or hidden) at 300 without a choice.
HAND = trace(
    [
        (20, None, "none"),
        (100, 1, "reasoning"),
        (160, 2),
        (200, 1),
        (260, 1),
        (260, None, "none"),
        (300, None, "none", False),
    ],
    n=9,
    end=301,
)


def ms(values: list[float]) -> list[float]:
    return [pytest.approx(value / 1e3, rel=1e-12) for value in values]


TABLE = [
    ("vLLM bench serve", 20, {"TPOT": [240 / 8], "ITL": [80, 60, 40, 60, 0]}),
    ("GuideLLM", 100, {"TPOT": [260 / 9], "ITL": [160 / 8]}),
    ("AIPerf", 100, {"ITL": [160 / 8], "ICL": [60, 40, 60], "TTST": [60]}),
    ("GenAI-Perf", 100, {"ITL": [20]}),
    ("llmperf", 160, {"ITL": [260 / 6]}),
    ("inference-perf", 160, {"TPOT": [100 / 8], "NTPOT": [260 / 9]}),
    ("MLPerf loadgen", 100, {"TPOT": [20]}),
]


@pytest.mark.parametrize(("tool", "ttft", "figures"), TABLE)
def test_one_trace_in_every_dialect(
    tool: str, ttft: float, figures: dict[str, list[float]]
) -> None:
    spoken = dialect(tool)
    assert spoken.ttft_s(HAND) == pytest.approx(ttft / 1e3)
    assert [figure.label for figure in spoken.figures] == list(figures)
    for label, expected in figures.items():
        assert spoken.samples_s(label, HAND) == ms(expected)


def test_the_table_names_every_tool_once() -> None:
    assert [entry.tool for entry in DIALECTS] == [tool for tool, _, _ in TABLE]


@pytest.mark.parametrize(
    ("tool", "p50", "p90", "p99"),
    [
        ("vLLM bench serve", 5.5, 9.1, 9.91),
        ("GuideLLM", 5, 9, 10),
        ("AIPerf", 5.5, 9.1, 9.91),
        ("GenAI-Perf", 5.5, 9.1, 9.91),
        ("llmperf", 5.5, 9.1, 9.91),
        ("inference-perf", 5.5, 9.1, 9.91),
        ("MLPerf loadgen", 6, 10, 10),
    ],
)
def test_each_tools_percentiles(tool: str, p50: float, p90: float, p99: float) -> None:
    values = [float(i) for i in range(1, 11)]
    spoken = dialect(tool)
    assert [spoken.percentile(values, p) for p in (50, 90, 99)] == [
        pytest.approx(p50),
        pytest.approx(p90),
        pytest.approx(p99),
    ]


def test_rounding_to_whole_nanoseconds() -> None:
    # (E2E - TTFT) / (n - 1) = 20 000 000 / 3 and 5 000 000 / 3 ns.
    up, down = trace([(0,), (20,)], n=4), trace([(0,), (5,)], n=4)
    assert dialect("GenAI-Perf").samples_s("ITL", up) == [6_666_667 / 1e9]
    assert dialect("GenAI-Perf").samples_s("ITL", down) == [1_666_667 / 1e9]
    assert dialect("MLPerf loadgen").samples_s("TPOT", up) == [6_666_666 / 1e9]
    assert dialect("AIPerf").samples_s("ITL", up) == [pytest.approx(0.02 / 3)]


def test_a_usage_chunk_is_no_first_chunk() -> None:
    only_usage = trace([(30, None, "none", False)], n=3)
    assert all(entry.ttft_s(only_usage) is None for entry in DIALECTS)


def test_a_role_only_reply_exists_for_vllm_alone() -> None:
    role_only = trace([(30, None, "none")], n=1)
    assert {entry.tool for entry in DIALECTS if entry.ttft_s(role_only) is not None} == {
        "vLLM bench serve"
    }


def test_a_tool_call_is_a_first_token_for_some() -> None:
    call = trace([(30, 1, "tool"), (50, 1, "tool")], n=2)
    seen = {entry.tool for entry in DIALECTS if entry.ttft_s(call) is not None}
    assert seen == {"vLLM bench serve", "GuideLLM", "GenAI-Perf", "MLPerf loadgen"}


def test_one_token_in_one_chunk() -> None:
    single = trace([(40, 1)], n=1)
    defined = {
        (entry.tool, figure.label)
        for entry in DIALECTS
        for figure in entry.figures
        if entry.samples_s(figure.label, single)
    }
    assert defined == {("GuideLLM", "TPOT"), ("llmperf", "ITL"), ("inference-perf", "NTPOT")}


def test_many_tokens_in_one_chunk() -> None:
    burst = trace([(40, 5)], n=5)
    assert dialect("vLLM bench serve").samples_s("TPOT", burst) == [0.0]
    assert dialect("GenAI-Perf").samples_s("ITL", burst) == []  # needs more than one chunk
    assert dialect("GuideLLM").samples_s("TPOT", burst) == [0.008]
    assert dialect("AIPerf").samples_s("TTST", burst) == []


def test_unknown_token_count_leaves_what_needs_none() -> None:
    uncounted = trace([(40,), (70,)])
    assert dialect("vLLM bench serve").samples_s("TPOT", uncounted) == []
    assert dialect("vLLM bench serve").samples_s("ITL", uncounted) == [0.03]
    assert dialect("llmperf").samples_s("ITL", uncounted) == [0.035]
    assert dialect("inference-perf").samples_s("NTPOT", uncounted) == []
    assert dialect("inference-perf").samples_s("NTPOT", trace([(40,)], n=0)) == []


def test_text_without_any_choices_entry_leaves_llmperf_nothing_to_divide_by() -> None:
    native = trace([(40, 1, "content", False)], n=1)  # not an OpenAI stream
    assert dialect("llmperf").samples_s("ITL", native) == []


def test_a_run_pools_its_successes() -> None:
    run = [HAND, trace([(50,), (60,)], n=2), trace([(1,)], n=1, status="failed"), trace(n=0)]
    reading = read(run, dialect("AIPerf"))
    assert reading.tool == "AIPerf"
    assert reading.ttft_s == (0.1, 0.05)
    assert reading.figures_s["ICL"] == (0.06, 0.04, 0.06, 0.01)
    assert reading.figures_s["ITL"] == (0.02, 0.01)
    assert reading.to_dict() == {
        "tool": "AIPerf",
        "ttft_s": [0.1, 0.05],
        "figures_s": {"ITL": [0.02, 0.01], "ICL": [0.06, 0.04, 0.06, 0.01], "TTST": [0.06, 0.01]},
    }
    assert read([], dialect("llmperf")).figures_s == {"ITL": ()}


def test_unknown_names_say_what_is_known() -> None:
    with pytest.raises(InferlabError, match=r"no dialect of 'wrk'.*GuideLLM"):
        dialect("wrk")
    with pytest.raises(InferlabError, match=r"llmperf reports no 'TPOT'\. It reports ITL"):
        dialect("llmperf").samples_s("TPOT", HAND)


@given(random_traces())
def test_no_dialect_gives_a_negative_or_undefined_number(request: Trace) -> None:
    for entry in DIALECTS:
        ttft = entry.ttft_s(request)
        assert ttft is None or ttft >= 0
        for figure in entry.figures:
            samples = entry.samples_s(figure.label, request)
            assert all(value >= 0 for value in samples)
            if ttft is None:
                assert samples == []


@given(random_traces())
def test_tools_that_count_all_text_agree_with_ours(request: Trace) -> None:
    ours = ttft_ns(request)
    expected = None if ours is None else ours / 1e9
    assert dialect("GuideLLM").ttft_s(request) == expected
    assert dialect("GenAI-Perf").ttft_s(request) == expected
    n, total = request.usage.output_tokens, e2e_ns(request)
    if n and total is not None:
        assert dialect("GuideLLM").samples_s("TPOT", request) == [pytest.approx(total / n / 1e9)]


def test_guidellms_step_is_the_first_value_whose_share_reaches_p() -> None:
    values = [4.0, 1.0, 1.0, 8.0, 2.0]
    for p in (1, 20, 39, 40, 41, 60, 80, 81, 99):
        step = next(v for v in sorted(values) if sum(w <= v for w in values) * 100 >= p * 5)
        assert dialect("GuideLLM").percentile(values, p) == step
        assert percentile(values, p, "nearest-rank") == step
