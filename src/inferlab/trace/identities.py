"""What must hold for every trace and every run, checked before a number is shown."""

from collections.abc import Sequence
from itertools import pairwise

from inferlab.errors import InferlabError
from inferlab.trace.events import Trace
from inferlab.trace.metrics import chunk_gaps_ns, e2e_ns, ttft_ns


def broken_identities(trace: Trace) -> list[str]:
    """What contradicts itself in a trace, one sentence each; empty for a sound one."""
    return _broken_times(trace) + _broken_counts(trace) + _broken_gaps(trace)


def check_trace(trace: Trace, name: str = "the trace") -> None:
    """Raise InferlabError when a trace contradicts itself; `name` says which one it is."""
    if broken := broken_identities(trace):
        raise InferlabError(
            f"{name} contradicts itself: {'; '.join(broken)}. "
            "Stamp all its times with one monotonic clock, in the order things happen."
        )


def check_counts(num_sent: int, num_ok: int, num_failed: int, num_incomplete: int) -> None:
    """Raise InferlabError unless successes + failures + incomplete = sent, all of them >= 0."""
    counts = (num_sent, num_ok, num_failed, num_incomplete)
    if min(counts) < 0 or num_ok + num_failed + num_incomplete != num_sent:
        raise InferlabError(
            f"{num_ok} successes + {num_failed} failures + {num_incomplete} incomplete "
            f"are not the {num_sent} requests sent. Give each request exactly one status."
        )


def check_rates(peak: float | None, mean: float | None) -> None:
    """Raise InferlabError when a run's mean rate passes its peak (but for the last bits)."""
    # The peak adds up fractions of tokens where a chunk's count is unknown, hence the tolerance.
    if peak is not None and mean is not None and peak < mean * (1 - 1e-9):
        raise InferlabError(
            f"the peak rate of {peak:g}/s is under the mean of {mean:g}/s. "
            "Some tokens lie outside the run: check that all traces use one clock."
        )


def _broken_times(trace: Trace) -> list[str]:
    times = [chunk.t_ns for chunk in trace.chunks]
    broken = []
    if times and times[0] < trace.sent_ns:
        broken.append(f"chunk 0 came at {times[0]} ns, before the request was sent")
    broken += [
        f"chunk {index} came at {later} ns, before chunk {index - 1}"
        for index, (earlier, later) in enumerate(pairwise(times), start=1)
        if later < earlier
    ]
    if trace.end_ns is not None and trace.end_ns < max(times, default=trace.sent_ns):
        broken.append(f"the stream ended at {trace.end_ns} ns, before the last thing it carried")
    return broken


def _broken_counts(trace: Trace) -> list[str]:
    counts: Sequence[tuple[str, int | None]] = [
        ("usage.prompt_tokens", trace.usage.prompt_tokens),
        ("usage.output_tokens", trace.usage.output_tokens),
        ("usage.cached_tokens", trace.usage.cached_tokens),
        *((f"chunk {i}'s num_tokens", c.num_tokens) for i, c in enumerate(trace.chunks)),
    ]
    return [f"{name} is {count}, under 0" for name, count in counts if (count or 0) < 0]


def _broken_gaps(trace: Trace) -> list[str]:
    ttft, e2e = ttft_ns(trace), e2e_ns(trace)
    if ttft is None or e2e is None:
        return []
    gaps = chunk_gaps_ns(trace) or []
    # In whole nanoseconds this holds to the last digit; in floats it would not.
    broken = []
    if len(gaps) != len(trace.text_chunks) - 1:
        broken.append(f"{len(gaps)} gaps between {len(trace.text_chunks)} chunks")
    if e2e - ttft != sum(gaps):
        broken.append(f"E2E - TTFT is {e2e - ttft} ns, but the chunk gaps sum to {sum(gaps)}")
    return broken
