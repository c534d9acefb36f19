"""One request's life as timestamps: what every metric is derived from.

All times are nanoseconds of one monotonic clock (`time.perf_counter_ns`).
"""

from dataclasses import dataclass, field
from typing import Literal

Channel = Literal["content", "reasoning", "tool", "none"]
Status = Literal["ok", "failed", "cancelled", "timeout", "incomplete"]
CountSource = Literal["server", "tokenizer", "engine", "unknown"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One arrival. `channel` is "none" for a chunk without text (role only, empty, usage).

    `has_choices` is False for what carries no `choices` entry (a usage-only chunk, a comment): some
    tools start their clock at the first chunk that has one, text or not.
    """

    t_ns: int  # stamped at the socket read, before parsing
    num_tokens: int | None = None  # None where the server does not say
    channel: Channel = "content"
    has_choices: bool = True

    @property
    def has_text(self) -> bool:
        """Whether a reader saw something: only such a chunk can be a first or last token."""
        return self.channel != "none"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, and who counted them."""

    prompt_tokens: int | None = None  # cached ones included
    output_tokens: int | None = None  # reasoning included
    cached_tokens: int | None = None  # of the prompt, found in a prefix cache
    source: CountSource = "unknown"


@dataclass(slots=True)
class Trace:
    """What was observed of one request, in the order it happened."""

    scheduled_ns: int  # when the load plan wanted it sent
    sent_ns: int  # just before it was written
    chunks: list[Chunk] = field(default_factory=list)
    end_ns: int | None = None  # the stream's end; None when it was never seen
    usage: Usage = field(default_factory=Usage)
    status: Status = "incomplete"
    error: str | None = None  # what went wrong, in the words of whoever noticed
    finish_reason: str | None = None  # as the server says: "stop", "length", ...

    @property
    def text_chunks(self) -> list[Chunk]:
        """The chunks that carry text, on any channel: t1 is the first of them, tN the last."""
        return [chunk for chunk in self.chunks if chunk.channel != "none"]

    @property
    def succeeded(self) -> bool:
        return self.status == "ok"

    @property
    def failed(self) -> bool:
        """Whether the request failed; one that was cut off or cancelled is neither good nor bad."""
        return self.status in ("failed", "timeout")

    @property
    def last_seen_ns(self) -> int:
        """The latest known moment of the request: the stream's end, else the last arrival."""
        if self.end_ns is not None:
            return self.end_ns
        return self.chunks[-1].t_ns if self.chunks else self.sent_ns
