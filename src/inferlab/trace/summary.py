"""One run in one object: every metric over its requests, and whether to trust it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inferlab.trace.events import Trace
from inferlab.trace.goodput import Bounds, is_good
from inferlab.trace.identities import check_counts, check_rates, check_trace
from inferlab.trace.load import (
    InFlight,
    ScheduleLag,
    client_limits,
    duration_ns,
    in_flight,
    peak_rate_s,
    schedule_lag,
    span_ns,
    token_events,
)
from inferlab.trace.metrics import (
    chunk_gaps_ns,
    e2e_ns,
    itl_ns,
    mean_request_tpot_s,
    mean_token_tpot_s,
    output_tokens,
    output_tokens_source,
    seconds,
    tpot_s,
    ttfo_ns,
    ttft_from_schedule_ns,
    ttft_ns,
)
from inferlab.trace.percentiles import SHOWN_PERCENTILES, Distribution, Method, describe


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rates over the duration, which runs from the first sent to the last end.

    None where undefined: no success, an unknown token count among the successes, no time passed.
    """

    output_tok_s: float | None
    peak_output_tok_s: float | None
    requests_s: float | None
    peak_requests_s: float | None
    goodput_requests_s: float | None  # None too when no bounds were given


@dataclass(frozen=True, slots=True)
class Latencies:
    """Distributions over the successes. `itl_s` and `chunk_gap_s` pool the gaps of all requests."""

    ttft_s: Distribution | None
    ttft_from_schedule_s: Distribution | None
    ttfo_s: Distribution | None
    e2e_s: Distribution | None
    tpot_s: Distribution | None
    itl_s: Distribution | None
    chunk_gap_s: Distribution | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run of requests measured. Times in seconds; None is undefined, shown as a dash."""

    num_sent: int
    num_ok: int
    num_failed: int  # failed or timed out
    num_incomplete: int  # cut off by the run's end, or cancelled
    num_good: int | None  # None when no bounds were given
    error_rate: float | None  # failures / sent
    duration_s: float | None  # first sent to last end
    output_tokens: int | None  # of the successes
    output_tokens_sources: tuple[str, ...]
    throughput: Throughput
    latencies: Latencies
    mean_request_tpot_s: float | None  # each request counts once
    mean_token_tpot_s: float | None  # each token counts once
    in_flight: InFlight
    lag: ScheduleLag
    client_limits: tuple[str, ...]  # empty unless the client may have set the numbers
    bounds: Bounds | None

    @property
    def client_limited(self) -> bool:
        """Whether the client may have set these numbers; `client_limits` says why."""
        return bool(self.client_limits)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: None stays null, and an infinite error-adjusted percentile is "inf"."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain | {"client_limited": self.client_limited}


def summarize(
    traces: Iterable[Trace],
    bounds: Bounds | None = None,
    *,
    event_loop_lag_s: float | None = None,
    percentiles: Sequence[float] = SHOWN_PERCENTILES,
    method: Method = "linear",
    seed: int = 0,
) -> RunSummary:
    """Everything a run measured, after checking each trace and the run against the identities.

    `bounds` define goodput; `event_loop_lag_s` is how far the client's event loop fell behind, if
    it watched. Latencies are those of successes; failures stand in the error rate and in the
    error-adjusted percentiles. Raises InferlabError for a trace that contradicts itself.
    """
    run = list(traces)
    for index, trace in enumerate(run):
        check_trace(trace, f"trace {index}")
    successes = [trace for trace in run if trace.succeeded]
    failures = sum(trace.failed for trace in run)
    incomplete = sum(not trace.succeeded and not trace.failed for trace in run)
    check_counts(len(run), len(successes), failures, incomplete)
    num_good = None if bounds is None else sum(is_good(trace, bounds) for trace in run)
    tokens = total_output_tokens(successes)
    return RunSummary(
        num_sent=len(run),
        num_ok=len(successes),
        num_failed=failures,
        num_incomplete=incomplete,
        num_good=num_good,
        error_rate=failures / len(run) if run else None,
        duration_s=seconds(duration_ns(run)),
        output_tokens=tokens,
        output_tokens_sources=tuple(sorted({output_tokens_source(trace) for trace in successes})),
        throughput=_throughput(run, successes, tokens, num_good),
        latencies=_latencies(successes, failures, percentiles, method, seed),
        mean_request_tpot_s=mean_request_tpot_s(successes),
        mean_token_tpot_s=mean_token_tpot_s(successes),
        in_flight=in_flight(run),
        lag=schedule_lag(run),
        client_limits=tuple(client_limits(run, event_loop_lag_s)),
        bounds=bounds,
    )


def total_output_tokens(traces: Sequence[Trace]) -> int | None:
    """Output tokens of all traces; None when there are no traces or one's count is unknown."""
    counts = [output_tokens(trace) for trace in traces]
    if not counts or None in counts:
        return None
    return sum(count or 0 for count in counts)


def _throughput(
    run: Sequence[Trace], successes: Sequence[Trace], tokens: int | None, num_good: int | None
) -> Throughput:
    span, duration_s = span_ns(run), seconds(duration_ns(run))
    if span is None or duration_s is None:
        return Throughput(None, None, None, None, None)
    arrivals = [event for trace in successes for event in token_events(trace)]
    ends = [(trace.last_seen_ns, 1.0) for trace in successes]
    result = Throughput(
        output_tok_s=None if tokens is None else tokens / duration_s,
        peak_output_tok_s=None if tokens is None else peak_rate_s(arrivals, *span),
        requests_s=len(successes) / duration_s if successes else None,
        peak_requests_s=peak_rate_s(ends, *span) if successes else None,
        goodput_requests_s=None if num_good is None else num_good / duration_s,
    )
    check_rates(result.peak_output_tok_s, result.output_tok_s)
    check_rates(result.peak_requests_s, result.requests_s)
    return result


def _latencies(
    successes: Sequence[Trace],
    failures: int,
    percentiles: Sequence[float],
    method: Method,
    seed: int,
) -> Latencies:
    def over(values: Iterable[float | None], failures: int = failures) -> Distribution | None:
        return describe(
            values, failures=failures, percentiles=percentiles, method=method, seed=seed
        )

    itl = [gap / 1e9 for trace in successes for gap in itl_ns(trace) or ()]
    gaps = [gap / 1e9 for trace in successes for gap in chunk_gaps_ns(trace) or ()]
    return Latencies(
        ttft_s=over(seconds(ttft_ns(trace)) for trace in successes),
        ttft_from_schedule_s=over(seconds(ttft_from_schedule_ns(trace)) for trace in successes),
        ttfo_s=over(seconds(ttfo_ns(trace)) for trace in successes),
        e2e_s=over(seconds(e2e_ns(trace)) for trace in successes),
        tpot_s=over(tpot_s(trace) for trace in successes),
        # A failed request is one request, not a number of gaps, so nothing is adjusted here.
        itl_s=over(itl, 0),
        chunk_gap_s=over(gaps, 0),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
