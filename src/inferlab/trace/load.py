"""What a run's traces say about the load itself: time span, rates, in-flight, schedule lag."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inferlab.trace.events import Trace
from inferlab.trace.metrics import output_tokens, ttft_ns
from inferlab.trace.percentiles import percentile

# A lag above this share of the median TTFT is no longer small beside what is measured.
CLIENT_LIMIT = 0.1
SECOND_NS = 1_000_000_000


def span_ns(traces: Sequence[Trace]) -> tuple[int, int] | None:
    """First sent and last end of a run; None when nothing was sent."""
    if not traces:
        return None
    return min(trace.sent_ns for trace in traces), max(trace.last_seen_ns for trace in traces)


def duration_ns(traces: Sequence[Trace]) -> int | None:
    """From the first sent to the last end; None when nothing was sent or no time passed."""
    span = span_ns(traces)
    return span[1] - span[0] if span and span[1] > span[0] else None


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests in the air, as observed: averaged over the run's duration, and at most."""

    mean: float | None
    maximum: int


def in_flight(traces: Sequence[Trace]) -> InFlight:
    """How many requests were really in flight, whatever the load plan asked for."""
    # An end sorts before a start at the same moment: a closed loop replaces, it does not add.
    events = sorted(
        [(trace.sent_ns, 1) for trace in traces] + [(trace.last_seen_ns, -1) for trace in traces]
    )
    current = maximum = 0
    for _, change in events:
        current += change
        maximum = max(maximum, current)
    duration = duration_ns(traces)
    busy = sum(trace.last_seen_ns - trace.sent_ns for trace in traces)
    # A request that took no time at all was in flight too.
    return InFlight(busy / duration if duration else None, max(maximum, min(len(traces), 1)))


def peak_rate_s(
    events: Iterable[tuple[int, float]], start_ns: int, end_ns: int, window_ns: int = SECOND_NS
) -> float | None:
    """The busiest part of a run, in events per second; each event is (time, how many it counts).

    The run is cut into equal parts, as many as windows fit whole, so that no rate over the whole
    run can be higher than the busiest part's. None when no time passed.
    """
    if end_ns <= start_ns:
        return None
    # Equal parts that cover the run: the busiest holds at least the average number of events.
    parts = max((end_ns - start_ns) // window_ns, 1)
    totals = [0.0] * parts  # the last part includes the run's very end
    for t_ns, weight in events:
        totals[min((t_ns - start_ns) * parts // (end_ns - start_ns), parts - 1)] += weight
    return max(totals) * parts / ((end_ns - start_ns) / 1e9)


def token_events(trace: Trace) -> list[tuple[int, float]]:
    """When a request's tokens arrived, with their number; an unknown split is taken as even.

    The numbers add up to `output_tokens`; empty when that is unknown. Tokens that left no text
    count at the request's end.
    """
    text, n = trace.text_chunks, output_tokens(trace)
    if n is None:
        return []
    if not text:
        return [(trace.last_seen_ns, float(n))]
    known = [chunk.num_tokens or 0 for chunk in text]
    # Chunks weigh equally here only to place tokens in time; how many there are is n, always.
    if any(chunk.num_tokens is None for chunk in text) or not sum(known):
        known = [1] * len(text)
    scale = n / sum(known)
    return [(chunk.t_ns, count * scale) for chunk, count in zip(text, known, strict=True)]


@dataclass(frozen=True, slots=True)
class ScheduleLag:
    """How late the client sent, in seconds: sent - scheduled. None when nothing was sent."""

    p50_s: float | None
    p99_s: float | None
    max_s: float | None


def schedule_lag(traces: Sequence[Trace]) -> ScheduleLag:
    """The client's own lateness, which is no fault of the server."""
    lags = _lags_ns(traces)
    return ScheduleLag(
        p50_s=_seconds(percentile(lags, 50)),
        p99_s=_seconds(percentile(lags, 99)),
        max_s=_seconds(max(lags, default=None)),
    )


def client_limits(traces: Sequence[Trace], event_loop_lag_s: float | None = None) -> list[str]:
    """Why the client, not the server, may have set this run's numbers; empty when it did not.

    A run is client-limited when its schedule lag p99, or the lag its event loop showed, passes 10 %
    of the median TTFT of its successes. Without a TTFT there is nothing to hold a lag against.
    """
    median = percentile([ttft_ns(trace) for trace in traces if trace.succeeded], 50)
    if median is None:
        return []
    lags = {
        "schedule lag p99": percentile(_lags_ns(traces), 99),
        "event loop lag": None if event_loop_lag_s is None else event_loop_lag_s * 1e9,
    }
    return [
        f"{name} of {lag / 1e6:.1f} ms passes 10 % of the median TTFT of {median / 1e6:.1f} ms"
        for name, lag in lags.items()
        if lag is not None and lag > CLIENT_LIMIT * median
    ]


def _lags_ns(traces: Sequence[Trace]) -> list[int]:
    return [trace.sent_ns - trace.scheduled_ns for trace in traces]


def _seconds(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1e9
