"""Traces written in milliseconds, and hypothesis strategies for random ones."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from inferlab.trace import Chunk, Trace, Usage

MS = 1_000_000
S = 1_000_000_000


def trace(
    chunks: Sequence[tuple[Any, ...]] = (),
    *,
    sent: float = 0,
    scheduled: float | None = None,
    end: float | None = None,
    n: int | None = None,
    status: str = "ok",
) -> Trace:
    """Times in ms. A chunk is (t,), (t, tokens), (t, tokens, channel) or with has_choices last."""
    return Trace(
        scheduled_ns=round((sent if scheduled is None else scheduled) * MS),
        sent_ns=round(sent * MS),
        chunks=[Chunk(round(t * MS), *rest) for t, *rest in chunks],
        end_ns=None if end is None else round(end * MS),
        usage=Usage(output_tokens=n, source="unknown" if n is None else "server"),
        status=status,  # type: ignore[arg-type]
    )


CHANNELS = st.sampled_from(["content", "reasoning", "tool", "none"])
STATUSES = st.sampled_from(["ok", "failed", "cancelled", "timeout", "incomplete"])
GAPS = st.integers(0, 10**10)


@st.composite
def random_traces(draw: st.DrawFn) -> Trace:
    """Any sound trace: late or early, empty, silent, with unknown counts, of any status."""
    scheduled = draw(st.integers(0, 10**12))
    sent = t = scheduled + draw(GAPS)
    chunks = []
    for _ in range(draw(st.integers(0, 8))):
        t += draw(GAPS)
        count = draw(st.none() | st.integers(0, 5))
        chunks.append(Chunk(t, count, draw(CHANNELS), draw(st.booleans())))
    return Trace(
        scheduled_ns=scheduled,
        sent_ns=sent,
        chunks=chunks,
        end_ns=draw(st.none() | st.integers(0, 10**9).map(lambda more: t + more)),
        usage=Usage(output_tokens=draw(st.none() | st.integers(0, 50)), source="server"),
        status=draw(STATUSES),
        error=draw(st.none() | st.text(max_size=5)),
    )
