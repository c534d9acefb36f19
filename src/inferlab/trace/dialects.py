"""The same trace in the terms of seven other tools, so that their numbers can be read side by side.

Tools agree on names and differ on what they mean: which chunk ends TTFT, whether TTFT is inside the
per-token figure, what is divided by what, and how a percentile is taken. A dialect holds those
choices; everything is computed from one trace. Where a formula says E2E, it runs from sending to
the last chunk of the kind that the tool looks at, as its TTFT runs to the first.

Sources: each tool's own client and report code, as of 2025 and 2026.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from inferlab.errors import InferlabError
from inferlab.trace.events import Chunk, Trace
from inferlab.trace.metrics import gaps, output_tokens
from inferlab.trace.percentiles import Method, percentile


@dataclass(frozen=True, slots=True)
class Seen:
    """What a tool sees of a trace, in ns from sending: the arrivals it counts, and n."""

    arrivals: tuple[int, ...]  # never empty
    n: int | None
    num_data_chunks: int  # every chunk with `choices`, text or not

    @property
    def ttft(self) -> int:
        return self.arrivals[0]

    @property
    def e2e(self) -> int:
        return self.arrivals[-1]


# Samples in ns that one request gives: one, or a gap each, or none where the tool defines none.
Samples = Callable[[Seen], Sequence[int | float | Fraction]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number a tool reports: its name there, its formula in metrics' letters, its samples."""

    label: str
    formula: str
    samples: Samples  # of one request


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one tool reads a trace."""

    tool: str
    ttft_ends_at: str  # in words, for a table
    counts: Callable[[Chunk], bool]  # the chunks that this tool takes for an arrival
    figures: tuple[Figure, ...]
    percentile_rule: str
    percentile_method: Method

    def seen(self, trace: Trace) -> Seen | None:
        """The trace as this tool sees it; None when nothing arrived that it counts."""
        arrivals = [c.t_ns - trace.sent_ns for c in trace.chunks if self.counts(c)]
        if not arrivals:
            return None
        return Seen(
            arrivals=tuple(arrivals),
            n=output_tokens(trace),
            num_data_chunks=sum(chunk.has_choices for chunk in trace.chunks),
        )

    def ttft_s(self, trace: Trace) -> float | None:
        """This tool's TTFT of one request; None when it saw no first token."""
        seen = self.seen(trace)
        return None if seen is None else seen.ttft / 1e9

    def samples_s(self, label: str, trace: Trace) -> list[float]:
        """What one request adds to this tool's figure `label`; empty where it is undefined.

        Raises InferlabError when the tool has no figure of that name.
        """
        seen = self.seen(trace)
        figure = self.figure(label)
        return [] if seen is None else [float(value) / 1e9 for value in figure.samples(seen)]

    def figure(self, label: str) -> Figure:
        """The figure that this tool calls `label`."""
        for figure in self.figures:
            if figure.label == label:
                return figure
        known = ", ".join(figure.label for figure in self.figures)
        raise InferlabError(f"{self.tool} reports no {label!r}. It reports {known}.")

    def percentile(self, values: Iterable[float | None], p: float) -> float | None:
        """The p-th percentile as this tool takes it."""
        return percentile(values, p, self.percentile_method)


@dataclass(frozen=True, slots=True)
class Reading:
    """One or more requests in a tool's terms, in seconds; samples are pooled as the tool does."""

    tool: str
    ttft_s: tuple[float, ...]
    figures_s: dict[str, tuple[float, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "tool": self.tool,
            "ttft_s": list(self.ttft_s),
            "figures_s": {label: list(values) for label, values in self.figures_s.items()},
        }


def read(traces: Iterable[Trace], dialect: Dialect) -> Reading:
    """What a tool would have measured of the successes among `traces`."""
    run = [trace for trace in traces if trace.succeeded]
    return Reading(
        tool=dialect.tool,
        ttft_s=tuple(value for trace in run if (value := dialect.ttft_s(trace)) is not None),
        figures_s={
            figure.label: tuple(v for trace in run for v in dialect.samples_s(figure.label, trace))
            for figure in dialect.figures
        },
    )


def dialect(tool: str) -> Dialect:
    """The dialect of a tool by its name in `DIALECTS`. Raises InferlabError for any other."""
    for entry in DIALECTS:
        if entry.tool == tool:
            return entry
    known = ", ".join(entry.tool for entry in DIALECTS)
    raise InferlabError(f"no dialect of {tool!r}. Known tools: {known}.")


# What each tool takes for an arrival.


def _has_choices(chunk: Chunk) -> bool:
    return chunk.has_choices


def _has_text(chunk: Chunk) -> bool:
    return chunk.has_text


def _has_content(chunk: Chunk) -> bool:
    return chunk.channel == "content"


def _has_content_or_reasoning(chunk: Chunk) -> bool:
    return chunk.channel in ("content", "reasoning")


# What each tool makes of the arrivals, in ns.


def _decode_per_token(seen: Seen, min_arrivals: int = 1) -> list[Fraction]:
    """(E2E - TTFT) / (n - 1), for n > 1."""
    if seen.n is None or seen.n <= 1 or len(seen.arrivals) < min_arrivals:
        return []
    return [Fraction(seen.e2e - seen.ttft, seen.n - 1)]


def _rounded(seen: Seen) -> list[int]:
    return [round(value) for value in _decode_per_token(seen, min_arrivals=2)]


def _whole_ns(seen: Seen) -> list[int]:
    # Integer division in C++ drops the rest; no time here is negative.
    return [int(value) for value in _decode_per_token(seen)]


def _total_per_token(seen: Seen) -> list[Fraction]:
    return [Fraction(seen.e2e, seen.n)] if seen.n else []


def _total_per_chunk(seen: Seen) -> list[Fraction]:
    # TTFT plus the gaps is just the time to the last arrival.
    return [Fraction(seen.e2e, seen.num_data_chunks)] if seen.num_data_chunks else []


def _gaps(seen: Seen) -> list[int]:
    return gaps(seen.arrivals) or []


def _first_gap(seen: Seen) -> list[int]:
    return _gaps(seen)[:1]


_LINEAR = partial(Dialect, percentile_rule="linear interpolation", percentile_method="linear")

DIALECTS: tuple[Dialect, ...] = (
    _LINEAR(
        tool="vLLM bench serve",
        ttft_ends_at="first chunk with a choices array, role-only included",
        counts=_has_choices,
        figures=(
            Figure("TPOT", "(E2E - TTFT) / (n - 1), n > 1", _decode_per_token),
            Figure("ITL", "chunk gaps, pooled", _gaps),
        ),
    ),
    Dialect(
        tool="GuideLLM",
        ttft_ends_at="first reasoning, content or tool delta",
        counts=_has_text,
        figures=(
            Figure("TPOT", "(tN - s) / n, TTFT included", _total_per_token),
            Figure("ITL", "(tN - t1) / (n - 1), one per request", _decode_per_token),
        ),
        # The smallest value whose cumulative share reaches p: nearest rank under another name.
        percentile_rule="step function, no interpolation",
        percentile_method="nearest-rank",
    ),
    _LINEAR(
        tool="AIPerf",
        ttft_ends_at="first non-empty content or reasoning",
        counts=_has_content_or_reasoning,
        figures=(
            Figure("ITL", "(E2E - TTFT) / (n - 1)", _decode_per_token),
            Figure("ICL", "chunk gaps", _gaps),
            Figure("TTST", "t2 - t1", _first_gap),
        ),
    ),
    _LINEAR(
        tool="GenAI-Perf",
        ttft_ends_at="first non-empty chunk",
        counts=_has_text,
        figures=(Figure("ITL", "round((E2E - TTFT) / (n - 1)) ns, more than one chunk", _rounded),),
    ),
    _LINEAR(
        tool="llmperf",
        ttft_ends_at="first non-empty content",
        counts=_has_content,
        # It divides by every data chunk it read, role-only ones too.
        figures=(Figure("ITL", "(TTFT + sum of gaps) / chunks, TTFT included", _total_per_chunk),),
    ),
    _LINEAR(
        tool="inference-perf",
        ttft_ends_at="first content chunk",
        counts=_has_content,
        figures=(
            Figure("TPOT", "(tN - t1) / (n - 1)", _decode_per_token),
            Figure("NTPOT", "E2E / n", _total_per_token),
        ),
    ),
    Dialect(
        tool="MLPerf loadgen",
        ttft_ends_at="first-token callback",
        counts=_has_text,
        figures=(Figure("TPOT", "(E2E - TTFT) / (n - 1), integer ns", _whole_ns),),
        percentile_rule="sorted[int(n * p)]",
        percentile_method="mlperf",
    ),
)
