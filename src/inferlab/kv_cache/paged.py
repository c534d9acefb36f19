"""A KV cache in blocks: many texts in one pool of memory, and attention that reads through tables.

A step's tokens are packed behind each other, whoever they belong to. Their keys and values are
written to the slots in `slot_mapping`; each request's past is read through its `block_table`.
Single tokens (decodes) of many requests are attended together, without a loop over requests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from inferlab.model.attention import attend
from inferlab.model.config import ModelConfig

SIMILAR = 2  # decodes are padded to a common length while the longest has at most this times more


@dataclass(frozen=True)
class Span:
    """One request's part of a step: `num_new_tokens` tokens that end a text of `num_tokens`."""

    block_table: Sequence[int]
    num_tokens: int
    num_new_tokens: int

    @property
    def num_blocks(self) -> int:
        """Blocks that hold the text; a table may have more."""
        return len(self.block_table)


class PagedCache:
    """The pool: (num_layers, num_blocks, block_size, 2 Hkv, D), keys before values."""

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.config, self.num_blocks, self.block_size = config, num_blocks, block_size
        shape = (config.num_layers, num_blocks, block_size, 2 * config.num_kv_heads)
        # Zeros: padding is read with weight 0, and 0 times a stray NaN would be NaN.
        self.pool = torch.zeros(*shape, config.head_dim, dtype=dtype, device=device)
        self.blocks = self.pool.flatten(2).unbind()  # by layer: (num_blocks, block_size 2 Hkv D)
        self.slots = self.pool.flatten(1, 2).unbind()  # by layer: (num_slots, 2 Hkv, D)
        self.windows = [config.window_of(layer) for layer in range(config.num_layers)]

    @property
    def nbytes(self) -> int:
        """Bytes allocated, used or not."""
        return self.pool.nbytes

    def room_for(self, block_tables: torch.Tensor) -> torch.Tensor:
        """Memory for one layer of these blocks, which `read` fills layer after layer."""
        return self.pool.new_empty(block_tables.numel(), self.blocks[0].shape[1])

    def read(self, layer: int, block_tables: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
        """Texts copied out of their blocks: tables (B, M) -> (B, 2 Hkv, M block_size, D)."""
        # One piece of memory for all layers: it stays in the processor's cache.
        torch.index_select(self.blocks[layer], 0, block_tables.flatten(), out=room)
        shape = (len(block_tables), -1, 2 * self.config.num_kv_heads, self.config.head_dim)
        return room.view(shape).transpose(1, 2)


class Decodes:
    """Requests of similar length with one new token each: (B, Hq, D) in one call."""

    def __init__(self, cache: PagedCache, spans: Sequence[Span], device: torch.device) -> None:
        width = max(span.num_blocks for span in spans)
        padded = [[*span.block_table, *[0] * (width - span.num_blocks)] for span in spans]
        self._cache, self.size = cache, len(spans)
        self._tables = torch.tensor(padded, device=device)  # (B, M)
        self._room = cache.room_for(self._tables)
        lengths = torch.tensor([span.num_tokens for span in spans], device=device).unsqueeze(1)
        at = torch.arange(width * cache.block_size, device=device)
        dtype = cache.pool.dtype
        self._masks: dict[int | None, torch.Tensor] = {}
        for window in set(cache.windows):
            seen = at < lengths  # (B, S)
            if window is not None:
                seen &= at >= lengths - window
            mask = torch.zeros(seen.shape, dtype=dtype, device=device)
            self._masks[window] = mask.masked_fill_(~seen, float("-inf"))[:, None, None]

    def attend(self, layer: int, q: torch.Tensor) -> torch.Tensor:
        """The group's G query heads are rows of one key head, so that keys are read once."""
        keys, values = self._cache.read(layer, self._tables, self._room).chunk(
            2, 1
        )  # (B, Hkv, S, D)
        rows = q.view(self.size, keys.shape[1], -1, q.shape[-1])  # (B, Hkv, G, D)
        mask = self._masks[self._cache.windows[layer]]
        return F.scaled_dot_product_attention(rows, keys, values, attn_mask=mask).view(q.shape)


class Chunk:
    """Consecutive tokens of one prompt: (T, Hq, D)."""

    def __init__(self, cache: PagedCache, span: Span, device: torch.device) -> None:
        self._cache, self._span, self.size = cache, span, span.num_new_tokens
        self._table = torch.tensor([span.block_table], device=device)  # (1, M)
        self._room = cache.room_for(self._table)

    def attend(self, layer: int, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """kv: its own new keys and values (T, 2 Hkv, D); older ones come from the blocks."""
        if self._span.num_tokens == self.size:
            text = kv.transpose(0, 1)
        else:
            text = self._cache.read(layer, self._table, self._room)[0]
            text = text[:, : self._span.num_tokens]
        keys, values = text.contiguous().chunk(2)  # (Hkv, S, D)
        return attend(q, keys, values, self._cache.windows[layer])


class PagedStep:
    """The `Context` of one forward pass over a mixed batch: decodes first, then chunks."""

    def __init__(
        self, cache: PagedCache, spans: Sequence[Span], slot_mapping: torch.Tensor
    ) -> None:
        """spans: in the order of the packed tokens, those of one token first, by length."""
        device = cache.pool.device
        self._cache, self._slots = cache, slot_mapping
        self.num_tokens_after = max(span.num_tokens for span in spans)
        singles = [span for span in spans if span.num_new_tokens == 1]
        self._decodes = [Decodes(cache, group, device) for group in similar(singles)]
        self._chunks = [Chunk(cache, span, device) for span in spans[len(singles) :]]

    def attend(self, layer: int, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Store kv (N, 2 Hkv, D) in its slots, then attend: (N, Hq, D) -> (N, Hq, D)."""
        self._cache.slots[layer].index_copy_(0, self._slots, kv)
        seen, start = [], 0
        for group in self._decodes:
            seen.append(group.attend(layer, q[start : start + group.size]))
            start += group.size
        for chunk in self._chunks:
            end = start + chunk.size
            seen.append(chunk.attend(layer, q[start:end], kv[start:end]))
            start = end
        return seen[0] if len(seen) == 1 else torch.cat(seen)


def similar(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Neighbours whose tables are of similar length; few groups, however many requests."""
    group: list[Span] = []
    for span in spans:
        if group and span.num_blocks > SIMILAR * group[0].num_blocks:
            yield group
            group = []
        group.append(span)
    if group:
        yield group
