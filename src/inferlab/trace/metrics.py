"""What one request's trace says: TTFT, TTFO, E2E, TPOT, ITL, chunk gaps.

Times stay integer nanoseconds, so that E2E - TTFT equals the sum of the chunk gaps exactly.
Undefined is None: never 0, never -1, never NaN. With s = sent, t1 and tN = the first and the last
chunk that carries text, n = output tokens, k = tokens in the first chunk:

    TTFT = t1 - s      E2E = tN - s      TPOT = (tN - t1) / (n - k)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from inferlab.trace.events import Trace


def ttft_ns(trace: Trace) -> int | None:
    """Time to first token: from sending to the first chunk with text, whatever its channel."""
    text = trace.text_chunks
    return text[0].t_ns - trace.sent_ns if text else None


def ttft_from_schedule_ns(trace: Trace) -> int | None:
    """TTFT counted from when the load plan wanted the request sent.

    A client that falls behind can't hide its queue in this one (no coordinated omission).
    """
    text = trace.text_chunks
    return text[0].t_ns - trace.scheduled_ns if text else None


def ttfo_ns(trace: Trace) -> int | None:
    """Time to first output: to the first `content` chunk, past any reasoning or tool call."""
    for chunk in trace.chunks:
        if chunk.channel == "content":
            return chunk.t_ns - trace.sent_ns
    return None


def e2e_ns(trace: Trace) -> int | None:
    """From sending to the last chunk with text."""
    text = trace.text_chunks
    return text[-1].t_ns - trace.sent_ns if text else None


def decode_ns(trace: Trace) -> int | None:
    """From the first to the last chunk with text: the time TPOT shares out."""
    text = trace.text_chunks
    return text[-1].t_ns - text[0].t_ns if text else None


def output_tokens(trace: Trace) -> int | None:
    """How many tokens came back, or None when nobody counted them.

    The usage (server, else tokenizer) decides; without one, the sum of what the chunks say they
    hold, if each says so. Chunks themselves are never counted as tokens.
    """
    if trace.usage.output_tokens is not None:
        return trace.usage.output_tokens
    counts = [chunk.num_tokens for chunk in trace.text_chunks]
    if not counts or None in counts:
        return None
    return sum(chunk.num_tokens or 0 for chunk in trace.chunks)


def output_tokens_source(trace: Trace) -> str:
    """Who counted `output_tokens`: server, tokenizer, engine, chunks, or unknown."""
    if trace.usage.output_tokens is not None:
        return trace.usage.source
    return "unknown" if output_tokens(trace) is None else "chunks"


def decode_tokens(trace: Trace) -> int | None:
    """n - k: the tokens after the first chunk, which holds k (1 unless known).

    None when n is unknown, nothing arrived, or no token is left after the first chunk.
    """
    text, n = trace.text_chunks, output_tokens(trace)
    if not text or n is None:
        return None
    # A first chunk of several tokens took no decode time for any of them.
    first = 1 if text[0].num_tokens is None else text[0].num_tokens
    return n - first if n > first else None


def tpot_s(trace: Trace) -> float | None:
    """Time per output token after the first chunk: (tN - t1) / (n - k)."""
    tokens, elapsed = decode_tokens(trace), decode_ns(trace)
    if tokens is None or elapsed is None:
        return None
    return elapsed / tokens / 1e9


def token_times_ns(trace: Trace) -> list[int] | None:
    """When each token became visible, from t1 to tN; tokens that share a chunk share its time.

    None when a text chunk doesn't say how many tokens it holds. A token without text (half a
    character, say) counts if its chunk says so and it lies between the first and the last text.
    """
    text = trace.text_chunks
    if not text or any(chunk.num_tokens is None for chunk in text):
        return None
    # Silent tokens before t1 or after tN (an end-of-text token) lie outside TTFT and E2E too.
    first, last = trace.chunks.index(text[0]), len(trace.chunks)
    while not trace.chunks[last - 1].has_text:
        last -= 1
    return [c.t_ns for c in trace.chunks[first:last] for _ in range(c.num_tokens or 0)]


def itl_ns(trace: Trace) -> list[int] | None:
    """Inter-token latencies: each gap between consecutive tokens, 0 inside a chunk.

    None where a chunk's token count is unknown, or with fewer than two tokens.
    """
    times = token_times_ns(trace)
    return gaps(times) if times is not None else None


def chunk_gaps_ns(trace: Trace) -> list[int] | None:
    """Each gap between consecutive text chunks; None with fewer than two. Not an ITL."""
    return gaps([chunk.t_ns for chunk in trace.text_chunks])


def gaps(times: Sequence[int]) -> list[int] | None:
    """Differences between neighbours; None when there is no pair."""
    return [b - a for a, b in pairwise(times)] if len(times) > 1 else None


def seconds(value_ns: int | None) -> float | None:
    """Nanoseconds as seconds; None stays None."""
    return None if value_ns is None else value_ns / 1e9


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """All metrics of one request, in seconds. None is undefined, shown as a dash."""

    ttft_s: float | None  # from sent
    ttft_from_schedule_s: float | None
    ttfo_s: float | None  # None for a reply without content
    e2e_s: float | None
    tpot_s: float | None
    itl_s: tuple[float, ...] | None  # None unless every chunk's count is known
    chunk_gaps_s: tuple[float, ...] | None  # one fewer than the text chunks
    output_tokens: int | None
    output_tokens_source: str  # server, tokenizer, engine, chunks or unknown


def request_metrics(trace: Trace) -> RequestMetrics:
    """Everything that one trace says, ready to show."""
    return RequestMetrics(
        ttft_s=seconds(ttft_ns(trace)),
        ttft_from_schedule_s=seconds(ttft_from_schedule_ns(trace)),
        ttfo_s=seconds(ttfo_ns(trace)),
        e2e_s=seconds(e2e_ns(trace)),
        tpot_s=tpot_s(trace),
        itl_s=_all_seconds(itl_ns(trace)),
        chunk_gaps_s=_all_seconds(chunk_gaps_ns(trace)),
        output_tokens=output_tokens(trace),
        output_tokens_source=output_tokens_source(trace),
    )


def _all_seconds(values_ns: list[int] | None) -> tuple[float, ...] | None:
    return None if values_ns is None else tuple(value / 1e9 for value in values_ns)


def mean_request_tpot_s(traces: Iterable[Trace]) -> float | None:
    """The mean of per-request TPOT: each request counts once, however short."""
    values = [value for trace in traces if (value := tpot_s(trace)) is not None]
    return sum(values) / len(values) if values else None


def mean_token_tpot_s(traces: Iterable[Trace]) -> float | None:
    """Sum of decode time / sum of decode tokens: each token counts once, so long requests weigh.

    The denominator is n - k of each request, which is n - 1 where the first chunk holds one token.
    """
    elapsed, tokens = 0, 0
    for trace in traces:
        if (count := decode_tokens(trace)) is not None:
            elapsed += decode_ns(trace) or 0
            tokens += count
    return elapsed / tokens / 1e9 if tokens else None
