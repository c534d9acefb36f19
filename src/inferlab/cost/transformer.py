"""Bytes, operations and lower bounds of a transformer of a given shape."""

import math
from dataclasses import dataclass
from typing import Protocol

from inferlab.errors import InferlabError

BITS = {
    "float32": 32,
    "bfloat16": 16,
    "float16": 16,
    "float8": 8,
    "int8": 8,
    "int4": 4,
}


class Shape(Protocol):
    """The sizes of a decoder-only transformer; `inferlab.model.config.ModelConfig` is one."""

    @property
    def num_layers(self) -> int: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def tie_embeddings(self) -> bool: ...
    @property
    def num_parameters(self) -> int: ...
    def window_of(self, layer: int, /) -> int | None: ...


@dataclass(frozen=True)
class Work:
    """What a computation must do at least: operations, and bytes moved from and to memory."""

    flops: float
    num_bytes: float

    @property
    def intensity_flop_per_byte(self) -> float:
        """Operations for each byte moved: the x of a roofline."""
        return self.flops / self.num_bytes

    def lower_bound_s(self, flop_s: float, bytes_s: float) -> float:
        """The time that the slower of the two, computing and moving, takes at full speed."""
        return max(self.flops / flop_s, self.num_bytes / bytes_s)

    def limited_by(self, flop_s: float, bytes_s: float) -> str:
        """Which of the two it is: "compute" or "memory"."""
        return "compute" if self.flops / flop_s > self.num_bytes / bytes_s else "memory"


def bits_of(dtype: object) -> int:
    """Bits of one number of a dtype, by name ("int4") or as a torch dtype."""
    name = str(dtype).removeprefix("torch.")
    name = "float8" if name.startswith("float8") else name
    if name not in BITS:
        raise InferlabError(f"unknown dtype {name!r}: expected one of {', '.join(BITS)}")
    return BITS[name]


# Weights


def weight_bytes(num_parameters: float, dtype: object, *, group_size: int | None = None) -> int:
    """Bytes of that many weights; with `group_size`, plus a 16-bit scale for each such group."""
    raw = math.ceil(num_parameters * bits_of(dtype) / 8)
    return raw + (2 * math.ceil(num_parameters / group_size) if group_size else 0)


def raw_weight_table(num_parameters: float = 8e9) -> dict[str, int]:
    """Bytes of the weights alone by dtype; metadata, cache and overhead are excluded."""
    dtypes = ("float32", "float16", "bfloat16", "int8", "int4")
    return {dtype: weight_bytes(num_parameters, dtype) for dtype in dtypes}


def layer_parameters(shape: Shape) -> int:
    """Weights of all layers' matrices: what each token is multiplied with, the output aside."""
    q, kv = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    attention = shape.hidden_size * (2 * q + 2 * kv)
    return shape.num_layers * (attention + 3 * shape.hidden_size * shape.intermediate_size)


def streamed_parameters(shape: Shape) -> int:
    """Weights that a forward pass reads in full: all but an embedding table used as a table only.

    A tied table is the output matrix too, so it is read.
    """
    table = 0 if shape.tie_embeddings else shape.vocab_size * shape.hidden_size
    return shape.num_parameters - table


# KV cache


def kv_bytes_per_token(shape: Shape, dtype: object = "bfloat16") -> int:
    """2 x layers x KV heads x head_dim x bytes: keys and values of one token in every layer."""
    numbers = 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim
    return math.ceil(numbers * bits_of(dtype) / 8)


def kv_cache_bytes(
    shape: Shape, num_tokens: int, *, num_sequences: int = 1, dtype: object = "bfloat16"
) -> int:
    """Bytes of a cache for that many sequences of that many tokens each."""
    return num_sequences * num_tokens * kv_bytes_per_token(shape, dtype)


def sequences_that_fit(
    shape: Shape,
    memory_bytes: float,
    num_tokens: int,
    *,
    weight_dtype: object = "bfloat16",
    kv_dtype: object = "bfloat16",
    usable: float = 0.9,
) -> int:
    """Sequences of `num_tokens` that fit beside the weights; `usable` leaves room for the rest."""
    left = memory_bytes * usable - weight_bytes(shape.num_parameters, weight_dtype)
    return max(0, int(left // kv_cache_bytes(shape, num_tokens, dtype=kv_dtype)))


def paged_waste_slots(num_tokens: int, block_size: int) -> int:
    """Slots left empty in a sequence's last block: from 0 to block_size - 1."""
    return -num_tokens % block_size


def mean_paged_waste_slots(block_size: int) -> float:
    """(block_size - 1) / 2: the waste of a sequence when every length is equally likely."""
    return (block_size - 1) / 2


def contiguous_waste_share(num_tokens: int, reserved_tokens: int) -> float:
    """The share of a contiguous reservation that a sequence of `num_tokens` leaves empty."""
    if not 0 <= num_tokens <= reserved_tokens or reserved_tokens < 1:
        raise InferlabError(f"{num_tokens} tokens do not fit a reservation of {reserved_tokens}")
    return 1 - num_tokens / reserved_tokens


# Operations and time


def rule_of_thumb_flops(num_parameters: float, num_tokens: int) -> float:
    """2 x parameters x tokens: the estimate that ignores attention and counts the embeddings."""
    return 2.0 * num_parameters * num_tokens


def attention_flops(
    shape: Shape, num_tokens: int, *, context: int = 0, causal: bool = True
) -> float:
    """Scores and weighted values: 4 x layers x tokens x keys seen x heads x head_dim.

    context: tokens that are in the cache already. Where causal, each token sees the `context`,
    itself and those before it: about half of tokens^2 when `context` is 0. Windows are respected.
    """
    width = shape.num_heads * shape.head_dim
    pairs = sum(
        _pairs_seen(num_tokens, context, causal, shape.window_of(layer))
        for layer in range(shape.num_layers)
    )
    return 4.0 * width * pairs


def _pairs_seen(num_tokens: int, context: int, causal: bool, window: int | None) -> int:
    """Pairs of a query and a key that it sees, in one layer."""
    if not causal:
        return num_tokens * (context + num_tokens)
    if window is None:
        return num_tokens * context + num_tokens * (num_tokens + 1) // 2
    short = min(max(window - context, 0), num_tokens)  # tokens that see less than a full window
    return short * context + short * (short + 1) // 2 + (num_tokens - short) * window


def forward_flops(
    shape: Shape, num_tokens: int, *, context: int = 0, num_logits: int = 1, causal: bool = True
) -> float:
    """Operations of a forward pass: the layers' matrices, attention, and `num_logits` outputs."""
    matrices = 2.0 * layer_parameters(shape) * num_tokens
    output = 2.0 * shape.vocab_size * shape.hidden_size * num_logits
    return matrices + output + attention_flops(shape, num_tokens, context=context, causal=causal)


def prefill_work(
    shape: Shape,
    num_tokens: int,
    *,
    context: int = 0,
    dtype: object = "bfloat16",
    weight_num_bytes: float | None = None,
) -> Work:
    """One sequence's prefill: weights read once, the cache before it read, its own part written.

    Logits of the last token alone. `weight_num_bytes` replaces the weights' size in `dtype`.
    """
    cache = (context + num_tokens) * kv_bytes_per_token(shape, dtype)
    weights = _streamed_bytes(shape, dtype, weight_num_bytes)
    return Work(forward_flops(shape, num_tokens, context=context), weights + cache)


def decode_work(
    shape: Shape,
    context: int,
    *,
    batch: int = 1,
    dtype: object = "bfloat16",
    weight_num_bytes: float | None = None,
) -> Work:
    """One step that adds a token to `batch` sequences, each with `context` tokens in its cache."""
    seen = sum(
        _pairs_seen(1, context, True, shape.window_of(layer)) for layer in range(shape.num_layers)
    )
    cache = seen / shape.num_layers * kv_bytes_per_token(shape, dtype)
    weights = _streamed_bytes(shape, dtype, weight_num_bytes)
    return Work(batch * forward_flops(shape, 1, context=context), weights + batch * cache)


def _streamed_bytes(shape: Shape, dtype: object, given: float | None) -> float:
    return weight_bytes(streamed_parameters(shape), dtype) if given is None else given


def decode_step_lower_bound_s(
    num_parameters: float,
    weight_num_bytes: float,
    kv_num_bytes: float,
    *,
    flop_s: float,
    bytes_s: float,
    batch: int = 1,
) -> float:
    """max((batch x KV bytes + weight bytes) / bandwidth, 2 x batch x parameters / FLOP/s)."""
    flops = rule_of_thumb_flops(num_parameters, batch)
    return Work(flops, batch * kv_num_bytes + weight_num_bytes).lower_bound_s(flop_s, bytes_s)


def prefill_lower_bound_s(shape: Shape, num_tokens: int, *, flop_s: float) -> float:
    """The layers' and attention's operations over FLOP/s, with logits of the last token alone."""
    return forward_flops(shape, num_tokens) / flop_s


def ridge_flop_per_byte(flop_s: float, bytes_s: float) -> float:
    """The intensity above which computing, and below which memory, sets the time."""
    return flop_s / bytes_s


def critical_batch(flop_s: float, bytes_s: float, bytes_per_weight: float = 2.0) -> float:
    """The batch from which a decode step's matrices are bound by computing: ridge x bytes / 2."""
    return ridge_flop_per_byte(flop_s, bytes_s) * bytes_per_weight / 2
