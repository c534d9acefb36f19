"""Which requests were good enough: bounds on their latencies, held exactly."""

from dataclasses import dataclass, fields

from inferlab.errors import InferlabError
from inferlab.trace.events import Trace
from inferlab.trace.metrics import (
    chunk_gaps_ns,
    decode_ns,
    decode_tokens,
    e2e_ns,
    output_tokens,
    ttfo_ns,
    ttft_from_schedule_ns,
    ttft_ns,
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds in seconds, each met at equality; None bounds nothing.

    Raises InferlabError for a bound that is negative or not a number.
    """

    ttft_s: float | None = None  # from sent
    ttft_from_schedule_s: float | None = None
    ttfo_s: float | None = None
    e2e_s: float | None = None  # to the last text, not to the stream's end
    tpot_s: float | None = None
    max_chunk_gap_s: float | None = None  # the longest stall a reader sees

    def __post_init__(self) -> None:
        for entry in fields(self):
            bound = getattr(self, entry.name)
            if bound is not None and not 0 <= bound < float("inf"):
                raise InferlabError(
                    f"the bound {entry.name}={bound} means nothing. Give seconds, 0 or more."
                )


def is_good(trace: Trace, bounds: Bounds) -> bool:
    """Whether a request succeeded and met every bound (`<=`); a failure never does.

    A latency that is undefined has not met its bound. One exception: a reply whose tokens all came
    in the first chunk has no decode to be slow, and so meets any TPOT.
    """
    if not trace.succeeded:
        return False
    checks = (
        (ttft_ns(trace), bounds.ttft_s),
        (ttft_from_schedule_ns(trace), bounds.ttft_from_schedule_s),
        (ttfo_ns(trace), bounds.ttfo_s),
        (e2e_ns(trace), bounds.e2e_s),
        (_largest_gap_ns(trace), bounds.max_chunk_gap_s),
    )
    return all(_within(value, bound) for value, bound in checks) and _meets_tpot(trace, bounds)


def _within(value_ns: int | None, bound_s: float | None) -> bool:
    # The bound is rounded to a nanosecond, as 0.3 s in binary is a little under 0.3 s.
    return bound_s is None or (value_ns is not None and value_ns <= round(bound_s * 1e9))


def _largest_gap_ns(trace: Trace) -> int | None:
    gaps = chunk_gaps_ns(trace)
    if gaps is None:  # one chunk can't stall
        return 0 if trace.text_chunks else None
    return max(gaps)


def _meets_tpot(trace: Trace, bounds: Bounds) -> bool:
    if bounds.tpot_s is None:
        return True
    elapsed, n, tokens = decode_ns(trace), output_tokens(trace), decode_tokens(trace)
    if elapsed is None or n is None:
        return False
    # Multiplied out: a division could round a TPOT onto the wrong side of its bound.
    return tokens is None or elapsed <= round(bounds.tpot_s * tokens * 1e9)
