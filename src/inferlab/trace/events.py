"""One request's life as timestamps: what every metric is derived from.

All times are nanoseconds of one monotonic clock (`time.perf_counter_ns`).
"""

from dataclasses import dataclass, field
from typing import Literal

Channel = Literal["content", "reasoning", "tool", "none"]
Status = Literal["ok", "failed", "cancelled", "timeout", "incomplete"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One arrival. `channel` is "none" for a chunk without text (role only, empty, usage)."""

    t_ns: int
    num_tokens: int | None = None  # None where the server does not say
    channel: Channel = "content"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, and who counted them."""

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    source: Literal["server", "tokenizer", "engine", "unknown"] = "unknown"


@dataclass(slots=True)
class Trace:
    """What was observed of one request, in the order it happened."""

    scheduled_ns: int  # when the load plan wanted it sent
    sent_ns: int  # just before it was written
    chunks: list[Chunk] = field(default_factory=list)
    end_ns: int | None = None  # the stream's end
    usage: Usage = field(default_factory=Usage)
    status: Status = "incomplete"
    error: str | None = None
    finish_reason: str | None = None
