"""From a step's plan to its logits: packs the tokens, runs the model once."""

from collections.abc import Mapping, Sequence

import torch

from inferlab.engine.request import Request
from inferlab.engine.scheduler import Batch, Scheduled
from inferlab.kv_cache.paged import PagedCache, PagedStep, Span
from inferlab.model.llama import Llama


class Runner:
    """Owns the tensors: the model and the pool of blocks."""

    def __init__(self, model: Llama, cache: PagedCache) -> None:
        self.model, self.cache = model, cache

    @torch.inference_mode()
    def run(
        self, batch: Batch, block_tables: Mapping[str, Sequence[int]]
    ) -> tuple[list[Request], torch.Tensor | None]:
        """One forward pass over all that is scheduled.

        Returns the requests whose text is computed to its end, with the logits of their next
        tokens: (that many, V) float32, or None when there are none.
        """
        parts = self._packed(batch, block_tables)
        input_ids: list[int] = []
        positions: list[int] = []
        slot_mapping: list[int] = []
        ends: list[int] = []
        for part in parts:
            request, size = part.request, self.cache.block_size
            new = range(
                request.num_computed_tokens, request.num_computed_tokens + part.num_new_tokens
            )
            table = block_tables[request.request_id]
            input_ids += request.token_ids[new.start : new.stop]
            positions += new
            slot_mapping += [table[p // size] * size + p % size for p in new]
            if part.is_last_chunk:
                ends.append(len(positions) - 1)
        spans = [self._span(part, block_tables) for part in parts]
        context = PagedStep(self.cache, spans, self._tensor(slot_mapping))
        hidden = self.model.forward(self._tensor(input_ids), self._tensor(positions), context)
        done = [part.request for part in parts if part.is_last_chunk]
        if not done:
            return [], None
        if len(ends) < len(hidden):
            hidden = hidden[self._tensor(ends)]
        return done, self.model.logits(hidden)

    def _packed(self, batch: Batch, block_tables: Mapping[str, Sequence[int]]) -> list[Scheduled]:
        """Single tokens first, short texts before long ones: the order that attention wants."""

        def order(part: Scheduled) -> tuple[bool, int]:
            if part.num_new_tokens > 1:
                return (True, 0)
            return (False, len(block_tables[part.request.request_id]))

        return sorted(batch.scheduled, key=order)

    def _span(self, part: Scheduled, block_tables: Mapping[str, Sequence[int]]) -> Span:
        num_tokens = part.request.num_computed_tokens + part.num_new_tokens
        table = block_tables[part.request.request_id]
        return Span(table[: -(-num_tokens // self.cache.block_size)], num_tokens,
                    part.num_new_tokens)  # fmt: skip

    def _tensor(self, numbers: list[int]) -> torch.Tensor:
        return torch.tensor(numbers, device=self.model.device)
