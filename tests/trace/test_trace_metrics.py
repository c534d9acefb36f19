"""TTFT, TTFO, E2E, TPOT, ITL and chunk gaps: the pinned vectors, the edges, the identities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_traces import MS, S, random_traces, trace

from inferlab.trace import (
    Chunk,
    Trace,
    Usage,
    broken_identities,
    chunk_gaps_ns,
    decode_ns,
    e2e_ns,
    itl_ns,
    mean_request_tpot_s,
    mean_token_tpot_s,
    output_tokens,
    request_metrics,
    tpot_s,
    ttfo_ns,
    ttft_from_schedule_ns,
    ttft_ns,
)
from inferlab.trace.metrics import decode_tokens, output_tokens_source, token_times_ns

VECTOR_1 = [(100, 1), (140, 3), (180, 1)]


@pytest.mark.parametrize("n", [5, None])
def test_vector_1_five_tokens_in_three_chunks(n: int | None) -> None:
    request = trace(VECTOR_1, n=n)
    assert ttft_ns(request) == 100 * MS
    assert chunk_gaps_ns(request) == [40 * MS, 40 * MS]
    assert tpot_s(request) == 0.020
    assert e2e_ns(request) == 180 * MS
    assert decode_ns(request) == 80 * MS
    assert itl_ns(request) == [40 * MS, 0, 0, 40 * MS]


def test_vector_2_equal_tpot_hides_a_stutter() -> None:
    smooth = trace([(1000 * i, 1) for i in range(1, 51)], n=50)
    bursts = trace([(10_000 * i, 10) for i in range(1, 6)], n=50)
    assert tpot_s(smooth) == tpot_s(bursts) == 1.0
    assert max(chunk_gaps_ns(smooth) or []) == S
    assert max(chunk_gaps_ns(bursts) or []) == 10 * S


def test_what_carries_no_text_is_no_token() -> None:
    request = trace(
        [(10, None, "none"), (50, None, "none"), (100,), (120,), (130, None, "none", False)], n=2
    )
    assert ttft_ns(request) == 100 * MS
    assert e2e_ns(request) == 120 * MS
    assert chunk_gaps_ns(request) == [20 * MS]
    assert tpot_s(request) == 0.020


def test_reasoning_ends_ttft_and_content_ends_ttfo() -> None:
    request = trace([(30, 1, "reasoning"), (60, 1, "tool"), (90, 1, "content"), (95, 1)])
    assert ttft_ns(request) == 30 * MS
    assert ttfo_ns(request) == 90 * MS
    assert chunk_gaps_ns(request) == [30 * MS, 30 * MS, 5 * MS]


def test_a_reply_of_reasoning_alone_has_no_ttfo() -> None:
    request = trace([(30, 1, "reasoning")])
    assert ttft_ns(request) == 30 * MS
    assert ttfo_ns(request) is None


def test_ttft_from_schedule_holds_the_clients_queue() -> None:
    request = trace([(250,)], scheduled=100, sent=200)
    assert ttft_ns(request) == 50 * MS
    assert ttft_from_schedule_ns(request) == 150 * MS


def test_nothing_arrived_is_undefined_everywhere() -> None:
    for request in (trace(), trace([(10, None, "none")], n=3)):
        assert ttft_ns(request) is None
        assert ttft_from_schedule_ns(request) is None
        assert ttfo_ns(request) is None
        assert e2e_ns(request) is None
        assert decode_ns(request) is None
        assert tpot_s(request) is None
        assert itl_ns(request) is None
        assert chunk_gaps_ns(request) is None


@pytest.mark.parametrize(
    ("chunks", "n", "expected"),
    [
        ([(100,)], 1, None),  # n = k
        ([(100, 5), (120, 0)], 5, None),  # all in the first chunk
        ([(100,), (140,)], None, None),  # nobody counted
        ([(100,), (140,)], 1, None),
        ([(100,), (140,)], 5, 0.010),  # k is 1 unless known
        ([(100, 2), (160,)], 5, 0.020),  # k = 2
        ([(100, None), (160, 2)], 4, 0.020),
        ([(100, 1), (100, 1)], 2, 0.0),  # no time at all is a value, not undefined
    ],
)
def test_tpot_divides_by_the_tokens_after_the_first_chunk(
    chunks: list[tuple[int, ...]], n: int | None, expected: float | None
) -> None:
    assert tpot_s(trace(chunks, n=n)) == expected


def test_itl_needs_every_chunks_count() -> None:
    assert itl_ns(trace([(100, 1), (140, None), (180, 1)], n=9)) is None
    assert itl_ns(trace([(100, 1)])) is None  # one token, no gap
    assert itl_ns(trace([(10, None, "none"), (100, 2), (130, 1)])) == [0, 30 * MS]


def test_a_token_without_text_counts_between_the_first_and_the_last_text() -> None:
    request = trace(
        [
            (50, 1, "none"),
            (100, 1),
            (120, 1, "none"),
            (130, None, "none"),
            (140, 1),
            (170, 1, "none"),
        ]
    )
    assert token_times_ns(request) == [100 * MS, 120 * MS, 140 * MS]
    assert itl_ns(request) == [20 * MS, 20 * MS]


def test_the_usage_counts_before_the_chunks_do() -> None:
    counted = trace([(100, 1), (120, 1)], n=7)
    assert (output_tokens(counted), output_tokens_source(counted)) == (7, "server")
    by_chunks = trace([(100, 1), (120, 3), (130, 1, "none")])
    assert (output_tokens(by_chunks), output_tokens_source(by_chunks)) == (5, "chunks")
    unknown = trace([(100, 1), (120, None)])
    assert (output_tokens(unknown), output_tokens_source(unknown)) == (None, "unknown")
    assert output_tokens(trace()) is None
    assert output_tokens(trace(n=0)) == 0


def test_the_two_averages_of_tpot_differ() -> None:
    short = trace([(100,), (200,)], n=2)  # 100 ms for one token
    long = trace([(100,), (1000,)], n=91)  # 10 ms for each of 90
    silent = trace()
    assert mean_request_tpot_s([short, long, silent]) == pytest.approx(0.055)
    assert mean_token_tpot_s([short, long, silent]) == pytest.approx(1.0 / 91)
    assert mean_request_tpot_s([silent]) is None
    assert mean_token_tpot_s([silent]) is None


def test_request_metrics_are_the_same_in_seconds() -> None:
    metrics = request_metrics(trace(VECTOR_1, n=5, scheduled=-100))
    assert metrics.ttft_s == 0.1
    assert metrics.ttft_from_schedule_s == 0.2
    assert metrics.ttfo_s == 0.1
    assert metrics.e2e_s == 0.18
    assert metrics.tpot_s == 0.02
    assert metrics.itl_s == (0.04, 0, 0, 0.04)
    assert metrics.chunk_gaps_s == (0.04, 0.04)
    assert (metrics.output_tokens, metrics.output_tokens_source) == (5, "server")
    assert request_metrics(trace()).chunk_gaps_s is None


@given(random_traces())
def test_identities_hold_exactly_for_any_trace(request: Trace) -> None:
    assert broken_identities(request) == []
    ttft, e2e, gaps = ttft_ns(request), e2e_ns(request), chunk_gaps_ns(request)
    if ttft is None or e2e is None:
        assert request.text_chunks == []
        return
    assert e2e - ttft == sum(gaps or [])
    assert len(gaps or []) == len(request.text_chunks) - 1
    assert 0 <= ttft <= e2e
    assert (ttft_from_schedule_ns(request) or 0) - ttft == request.sent_ns - request.scheduled_ns
    ttfo = ttfo_ns(request)
    assert ttfo is None or ttft <= ttfo <= e2e


@given(random_traces())
def test_token_gaps_fill_no_more_than_the_decode_time(request: Trace) -> None:
    gaps = itl_ns(request)
    if gaps is not None:
        times = token_times_ns(request) or []
        assert min(gaps) >= 0
        assert len(gaps) == len(times) - 1
        assert sum(gaps) <= (decode_ns(request) or 0)
        first, last = request.text_chunks[0], request.text_chunks[-1]
        if first.num_tokens and last.num_tokens:
            assert sum(gaps) == decode_ns(request)


@given(random_traces())
def test_tpot_times_tokens_is_the_decode_time(request: Trace) -> None:
    tpot, tokens = tpot_s(request), decode_tokens(request)
    assert (tpot is None) == (tokens is None)
    if tpot is not None and tokens is not None:
        assert tokens > 0
        assert tpot * tokens * 1e9 == pytest.approx(decode_ns(request), abs=1e-3)


@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=20))
def test_with_one_token_a_chunk_the_mean_itl_is_tpot(steps: list[int]) -> None:
    times = [sum(steps[: i + 1]) for i in range(len(steps))]
    request = Trace(0, 0, [Chunk(t, 1) for t in times], usage=Usage(output_tokens=len(times)))
    gaps = itl_ns(request)
    assert gaps == chunk_gaps_ns(request)
    assert tpot_s(request) == pytest.approx(sum(gaps or []) / len(gaps or []) / 1e9)


@given(random_traces(), st.integers(0, 10**9))
def test_a_later_first_token_never_lowers_ttft(request: Trace, delay: int) -> None:
    before = ttft_ns(request)
    moved = [Chunk(c.t_ns + delay, c.num_tokens, c.channel) for c in request.chunks]
    after = ttft_ns(Trace(request.scheduled_ns, request.sent_ns, moved))
    assert after == (None if before is None else before + delay)
