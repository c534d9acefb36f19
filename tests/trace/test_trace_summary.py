"""A run's rates, goodput, load and trustworthiness."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_traces import MS, S, random_traces, trace

from inferlab.errors import InferlabError
from inferlab.trace import (
    Bounds,
    InFlight,
    Tail,
    Trace,
    Usage,
    broken_identities,
    in_flight,
    is_good,
    summarize,
)
from inferlab.trace.identities import check_counts, check_rates
from inferlab.trace.load import duration_ns, peak_rate_s, schedule_lag, token_events

RUNS = st.lists(random_traces(), max_size=8)

# Ten seconds: two successes (30 and 10 tokens), one failure, one cut off.
RUN = [
    trace([(100, 1), (1100, 29)], n=30, end=1100, sent=0, scheduled=0),
    trace([(2400, 1), (2900, 9)], n=10, end=3000, sent=2000, scheduled=1990),
    trace([(3500,)], end=4000, sent=3000, scheduled=3000, status="timeout"),
    trace([], end=10_000, sent=3000, scheduled=3000, status="incomplete"),
]


def test_a_run_by_hand() -> None:
    run = summarize(RUN, Bounds(ttft_s=0.4, tpot_s=0.06))
    assert (run.num_sent, run.num_ok, run.num_failed, run.num_incomplete) == (4, 2, 1, 1)
    assert run.error_rate == 0.25
    assert run.duration_s == 10.0
    assert run.output_tokens == 40
    assert run.output_tokens_sources == ("server",)
    assert run.throughput.output_tok_s == 4.0
    assert run.throughput.requests_s == 0.2
    assert run.throughput.peak_output_tok_s == pytest.approx(29)  # the second second
    assert run.throughput.peak_requests_s == pytest.approx(1)
    assert run.num_good == 2
    assert run.throughput.goodput_requests_s == 0.2
    assert run.mean_request_tpot_s == pytest.approx((1 / 29 + 0.5 / 9) / 2)
    assert run.mean_token_tpot_s == pytest.approx(1.5 / 38)
    assert run.in_flight == InFlight((1.1 + 1.0 + 1.0 + 7.0) / 10, 2)
    assert (run.lag.p50_s, run.lag.max_s) == (0.0, 0.01)


def test_latencies_are_those_of_successes_and_failures_stand_beside() -> None:
    ttft = summarize(RUN).latencies.ttft_s
    assert ttft is not None
    assert (ttft.n, ttft.failures, ttft.minimum, ttft.maximum) == (2, 1, 0.1, 0.4)
    assert ttft.at(50).value == 0.25
    assert ttft.at(50).error_adjusted == 0.4
    assert ttft.at(99).error_adjusted == math.inf
    assert ttft.tail(99) == Tail("max", 0.4, 2, 100)
    from_schedule = summarize(RUN).latencies.ttft_from_schedule_s
    assert from_schedule is not None
    assert from_schedule.maximum == 0.41
    gaps = summarize(RUN).latencies.chunk_gap_s
    assert gaps is not None
    assert (gaps.n, gaps.failures, gaps.maximum) == (2, 0, 1.0)
    itl = summarize(RUN).latencies.itl_s
    assert itl is not None
    assert (itl.n, itl.minimum, itl.maximum) == (29 + 9, 0.0, 1.0)


def test_an_empty_run_is_undefined_not_zero() -> None:
    run = summarize([], Bounds(ttft_s=1))
    assert (run.num_sent, run.num_good) == (0, 0)
    assert run.error_rate is None
    assert run.duration_s is None
    assert run.output_tokens is None
    assert run.throughput.requests_s is None
    assert run.throughput.goodput_requests_s is None
    assert run.latencies.ttft_s is None
    assert run.in_flight == InFlight(None, 0)
    assert run.lag.max_s is None
    assert not run.client_limited


def test_without_a_success_rates_are_undefined_and_the_error_rate_is_one() -> None:
    run = summarize([trace(end=50, status="failed"), trace(end=70, status="failed")], Bounds())
    assert run.error_rate == 1.0
    assert run.duration_s == 0.07
    assert run.throughput.output_tok_s is None
    assert run.throughput.peak_output_tok_s is None
    assert run.throughput.requests_s is None
    assert run.throughput.peak_requests_s is None
    assert run.throughput.goodput_requests_s == 0.0
    assert run.mean_request_tpot_s is None


def test_one_unknown_count_leaves_the_token_rate_unknown() -> None:
    run = summarize([trace([(10,)], n=1, end=20), trace([(10,)], end=20)])
    assert run.output_tokens is None
    assert run.throughput.output_tok_s is None
    assert run.throughput.peak_output_tok_s is None
    assert run.throughput.requests_s == 100.0
    assert run.output_tokens_sources == ("server", "unknown")


def test_a_run_that_took_no_time_has_no_rates() -> None:
    run = summarize([trace([(0,)], n=1)])
    assert run.duration_s is None
    assert run.throughput.requests_s is None
    assert run.in_flight == InFlight(None, 1)


@pytest.mark.parametrize(
    ("bounds", "good"),
    [
        (Bounds(), True),
        (Bounds(ttft_s=0.3), True),  # met at equality, though 0.3 is not a binary number
        (Bounds(ttft_s=0.299_999_999), False),
        (Bounds(ttft_from_schedule_s=0.4), True),
        (Bounds(ttft_from_schedule_s=0.399), False),
        (Bounds(ttfo_s=0.6), True),
        (Bounds(ttfo_s=0.59), False),
        (Bounds(e2e_s=0.6), True),
        (Bounds(e2e_s=0.59), False),
        (Bounds(tpot_s=0.1), True),
        (Bounds(tpot_s=0.099_999_999), False),
        (Bounds(max_chunk_gap_s=0.2), True),
        (Bounds(max_chunk_gap_s=0.19), False),
        (Bounds(ttft_s=0.3, e2e_s=0.1), False),  # every bound, not any
    ],
)
def test_goodput_bounds_are_met_at_equality(bounds: Bounds, good: bool) -> None:
    request = trace(
        [(400, 1, "reasoning"), (500, 1, "reasoning"), (700, 2)], n=4, sent=100, scheduled=0
    )
    assert is_good(request, bounds) is good


def test_an_undefined_latency_meets_no_bound_but_no_decode_meets_any_tpot() -> None:
    silent, uncounted, single = trace(n=3), trace([(10,), (20,)]), trace([(10,)], n=1)
    assert not is_good(silent, Bounds(ttft_s=1))
    assert not is_good(silent, Bounds(max_chunk_gap_s=1))
    assert not is_good(silent, Bounds(tpot_s=1))
    assert not is_good(uncounted, Bounds(tpot_s=1))
    assert is_good(single, Bounds(tpot_s=0, max_chunk_gap_s=0))
    assert not is_good(trace([(10,)], n=1, status="failed"), Bounds())


@pytest.mark.parametrize("bound", [-0.1, math.nan, math.inf])
def test_a_bound_that_means_nothing_is_refused(bound: float) -> None:
    with pytest.raises(InferlabError, match="ttft_s"):
        Bounds(ttft_s=bound)


@pytest.mark.parametrize(("lag", "limited"), [(0, False), (10, False), (10.001, True), (50, True)])
def test_a_lag_over_a_tenth_of_the_median_ttft_marks_the_client(lag: float, limited: bool) -> None:
    run = summarize(
        [trace([(100 + i,)], sent=i, scheduled=i - lag, n=1, end=200 + i) for i in range(5)]
    )
    assert run.client_limited is limited
    if limited:
        assert run.client_limits[0].startswith("schedule lag p99 of ")


@pytest.mark.parametrize(("lag_s", "limited"), [(None, False), (0.01, False), (0.011, True)])
def test_a_lagging_event_loop_marks_the_client(lag_s: float | None, limited: bool) -> None:
    run = summarize([trace([(100,)], n=1, end=110)], event_loop_lag_s=lag_s)
    assert run.client_limited is limited
    assert run.to_dict()["client_limited"] is limited
    if limited:
        assert run.client_limits == (
            "event loop lag of 11.0 ms passes 10 % of the median TTFT of 100.0 ms",
        )


def test_no_ttft_leaves_nothing_to_hold_a_lag_against() -> None:
    assert not summarize([trace(sent=500, scheduled=0, end=600)]).client_limited


def test_schedule_lag_by_hand() -> None:
    lag = schedule_lag([trace(sent=10 + i, scheduled=10) for i in range(101)])
    assert (lag.p50_s, lag.p99_s, lag.max_s) == (0.050, 0.099, 0.100)


def test_a_closed_loop_that_replaces_at_once_never_counts_double() -> None:
    run = [trace(sent=10 * i, end=10 * i + 10) for i in range(6)]
    assert in_flight(run) == InFlight(1.0, 1)
    assert in_flight([*run, *run]) == InFlight(2.0, 2)


def test_the_last_sign_of_life_ends_a_request_without_an_end() -> None:
    assert duration_ns([trace([(70,)], sent=10)]) == 60 * MS
    assert duration_ns([trace(sent=10)]) is None
    assert duration_ns([]) is None


def test_peak_rate_by_hand() -> None:
    assert peak_rate_s([(0, 1), (S - 1, 1), (S, 5), (2 * S, 2)], 0, 2 * S) == 7.0
    assert peak_rate_s([(0, 3)], 0, S // 2) == 6.0  # a run shorter than the window
    assert peak_rate_s([], 0, S) == 0.0
    assert peak_rate_s([(0, 3)], 0, 0) is None


def test_tokens_are_placed_where_they_arrived() -> None:
    assert token_events(trace([(10, 1), (20, 3)], n=4)) == [(10 * MS, 1.0), (20 * MS, 3.0)]
    assert token_events(trace([(10, 1), (20, 3)], n=8)) == [(10 * MS, 2.0), (20 * MS, 6.0)]
    assert token_events(trace([(10,), (20, 3)], n=4)) == [(10 * MS, 2.0), (20 * MS, 2.0)]
    assert token_events(trace([(10, 0), (20, 0)], n=4)) == [(10 * MS, 2.0), (20 * MS, 2.0)]
    assert token_events(trace(n=4, end=30)) == [(30 * MS, 4.0)]
    assert token_events(trace([(10,)])) == []


@settings(deadline=None, max_examples=60)
@given(RUNS)
def test_identities_hold_for_any_run(traces: list[Trace]) -> None:
    run = summarize(traces, Bounds(ttft_s=2.0, tpot_s=1.0))
    assert run.num_ok + run.num_failed + run.num_incomplete == run.num_sent == len(traces)
    assert 0 <= (run.num_good or 0) <= run.num_ok
    assert run.error_rate is None or 0 <= run.error_rate <= 1
    rates = run.throughput
    for peak, mean in (
        (rates.peak_output_tok_s, rates.output_tok_s),
        (rates.peak_requests_s, rates.requests_s),
    ):
        assert mean is None or (peak is not None and peak >= mean * (1 - 1e-9))
    if rates.goodput_requests_s and rates.requests_s:
        assert rates.goodput_requests_s <= rates.requests_s
    flight = run.in_flight
    assert flight.maximum <= len(traces)
    assert flight.mean is None or 0 <= flight.mean <= flight.maximum


@settings(deadline=None, max_examples=40)
@given(RUNS)
def test_a_summary_is_plain_json(traces: list[Trace]) -> None:
    plain = summarize(traces, Bounds(e2e_s=1.0)).to_dict()
    text = json.dumps(plain, allow_nan=False)
    assert json.loads(text) == plain


def test_an_infinite_percentile_is_spelled_in_json() -> None:
    plain = summarize([RUN[0], RUN[2]]).to_dict()
    p99 = plain["latencies"]["ttft_s"]["percentiles"][3]
    assert (p99["p"], p99["value"], p99["error_adjusted"]) == (99.0, 0.1, "inf")
    assert plain["num_good"] is None
    assert plain["bounds"] is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=10))
def test_in_flight_is_what_counting_at_every_moment_gives(spans: list[tuple[int, int]]) -> None:
    run = [Trace(s, s, end_ns=s + length) for s, length in spans]
    start, end = min(s for s, _ in spans), max(s + length for s, length in spans)
    counts = [sum(s <= t < s + length for s, length in spans) for t in range(start, end)]
    observed = in_flight(run)
    if counts:
        assert observed.maximum == max(1, *counts)  # one that took no time was in flight too
        assert observed.mean == pytest.approx(sum(counts) / len(counts))
    else:
        assert observed == InFlight(None, 1)


def test_a_trace_that_contradicts_itself_stops_the_summary() -> None:
    with pytest.raises(InferlabError, match="trace 1 contradicts itself: chunk 1 came at 5000000"):
        summarize([trace(), trace([(10,), (5,)])])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (trace([(5,)], sent=10), "chunk 0 came at 5000000 ns, before the request was sent"),
        (trace([(20,)], end=10), "the stream ended at 10000000 ns, before the last thing"),
        (trace(sent=20, end=10), "the stream ended"),
        (trace([(10, -1)]), "chunk 0's num_tokens is -1, under 0"),
        (trace(n=-2), "usage.output_tokens is -2"),
        (Trace(0, 0, usage=Usage(cached_tokens=-1)), "usage.cached_tokens is -1"),
    ],
)
def test_every_contradiction_is_named(broken: Trace, message: str) -> None:
    with pytest.raises(InferlabError, match="contradicts itself") as error:
        summarize([broken])
    assert message in str(error.value)


def test_counts_and_rates_that_do_not_add_up_are_refused() -> None:
    check_counts(3, 1, 1, 1)
    with pytest.raises(InferlabError, match="2 successes"):
        check_counts(2, 2, 1, 0)
    with pytest.raises(InferlabError, match="exactly one status"):
        check_counts(0, 1, -1, 0)
    check_rates(None, 3.0)
    check_rates(3.0, 3.0)
    with pytest.raises(InferlabError, match="peak rate of 2/s is under the mean of 3/s"):
        check_rates(2.0, 3.0)


@pytest.mark.parametrize(
    ("gaps", "message"),
    [
        ([40 * MS], "1 gaps between 3 chunks"),
        ([40 * MS, 41 * MS], "E2E - TTFT is 80000000 ns, but the chunk gaps sum to 81000000"),
    ],
)
def test_a_metric_that_drifts_from_the_others_is_noticed(
    gaps: list[int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferlab.trace.identities.chunk_gaps_ns", lambda trace: gaps)
    assert message in broken_identities(trace([(100,), (140,), (180,)]))
