"""Decode on a GPU as one captured graph: the hundreds of kernels of a step start with one call.

A graph replays fixed shapes. So the step attends over a whole bucket of cache slots and masks what
lies behind the current position; each bucket is captured once, when the text first reaches it.
"""

import torch
import torch.nn.functional as F

from inferlab.kv_cache.contiguous import ContiguousCache
from inferlab.model.llama import Llama

BUCKET = 512  # cache slots by which the attended length grows
WARMUP_RUNS = 3


class FixedShapeContext:
    """A `Context` for one token at a position that is data, not shape: it can be captured."""

    def __init__(self, cache: ContiguousCache, num_slots: int, position: torch.Tensor) -> None:
        self.num_tokens_after = num_slots
        self._cache, self._num_slots, self._position = cache, num_slots, position
        self._slots = torch.arange(num_slots, device=position.device)
        self._masks: dict[int | None, torch.Tensor] = {}

    def begin(self) -> None:
        """Compute the masks for the current position; part of the captured step."""
        self._masks.clear()

    def attend(self, layer: int, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Store kv (1, 2 Hkv, D) at the position, attend over the slots up to it: (1, Hq, D)."""
        slots = self._cache.buffer[layer]  # (2 Hkv, max_len, D)
        slots.index_copy_(1, self._position, kv.transpose(0, 1))
        keys, values = slots[:, : self._num_slots].chunk(2)
        rows = q.reshape(1, keys.shape[0], -1, q.shape[-1])  # (1, Hkv, G, D)
        mask = self._mask(self._cache.config.window_of(layer), q.dtype)
        seen = F.scaled_dot_product_attention(rows, keys[None], values[None], attn_mask=mask)
        return seen.reshape(1, -1, q.shape[-1])

    def _mask(self, window: int | None, dtype: torch.dtype) -> torch.Tensor:
        """0 for the slots in sight, -inf for the others: (1, 1, 1, num_slots)."""
        if window not in self._masks:
            hidden = self._slots > self._position
            if window is not None:
                hidden |= self._slots <= self._position - window
            mask = torch.zeros(self._num_slots, dtype=dtype, device=hidden.device)
            self._masks[window] = mask.masked_fill_(hidden, float("-inf")).view(1, 1, 1, -1)
        return self._masks[window]


class FixedShapeDecode:
    """Decode steps with fixed shapes per bucket; run as they are, or captured on CUDA."""

    def __init__(self, model: Llama, cache: ContiguousCache) -> None:
        self._model, self._cache = model, cache
        self._token = torch.zeros(1, dtype=torch.int64, device=model.device)
        self._position = torch.zeros(1, dtype=torch.int64, device=model.device)
        # Slots that were never written must not hold NaN: 0 * NaN would pass through the mask.
        cache.buffer[..., cache.num_tokens :, :].zero_()

    @torch.inference_mode()
    def __call__(self, model: Llama, token_id: int, cache: ContiguousCache) -> torch.Tensor:
        """One decode step: the logits after `token_id`, (V,) float32."""
        assert model is self._model, "a decode step belongs to one model"
        assert cache is self._cache, "a decode step belongs to one cache"
        cache.begin(1)
        self._token.fill_(token_id)
        self._position.fill_(cache.num_tokens)
        needed = cache.num_tokens_after
        num_slots = min(-(-needed // BUCKET) * BUCKET, cache.max_len)
        logits = self.run(num_slots)
        cache.end()
        return logits

    def run(self, num_slots: int) -> torch.Tensor:
        """Run the step over the first `num_slots` slots of the cache: (V,) logits."""
        return self.step(FixedShapeContext(self._cache, num_slots, self._position))

    def step(self, context: FixedShapeContext) -> torch.Tensor:
        """The step itself, all of it on the device: (V,) logits."""
        context.begin()
        hidden = self._model.forward(self._token, self._position, context)
        return self._model.logits(hidden)[0]


class GraphedDecode(FixedShapeDecode):
    """The same step, captured once per bucket and replayed."""

    def __init__(self, model: Llama, cache: ContiguousCache) -> None:
        super().__init__(model, cache)
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

    def run(self, num_slots: int) -> torch.Tensor:
        """Replay the bucket's graph; capture it first when there is none. (V,) logits."""
        if num_slots not in self._graphs:
            self._graphs[num_slots] = self._capture(num_slots)
        graph, logits = self._graphs[num_slots]
        graph.replay()
        return logits

    def _capture(self, num_slots: int) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        context = FixedShapeContext(self._cache, num_slots, self._position)
        self._model.rotary.table(num_slots)  # grown now: a graph must not replace it
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARMUP_RUNS):  # kernels choose their algorithms before the capture
                self.step(context)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self.step(context)
        return graph, logits
