"""Caches that finished requests leave to the next: warm memory, and on CUDA a captured graph."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from inferlab.engine.cuda_graph import GraphedDecode
from inferlab.engine.generate import DecodeOne, decode_one
from inferlab.kv_cache.contiguous import ContiguousCache
from inferlab.model.llama import Llama

KEPT = 2  # idle caches that stay allocated
STEP = 512  # tokens by which lengths are rounded up, so that requests of similar length share


@dataclass
class Slot:
    """A cache, and the decode step that goes with it."""

    cache: ContiguousCache
    decode: DecodeOne


class CachePool:
    """Lends one cache to each request at a time."""

    def __init__(self, model: Llama) -> None:
        self._model = model
        self._idle: list[Slot] = []

    @contextmanager
    def lent(self, num_tokens: int) -> Iterator[Slot]:
        """An empty cache for at least `num_tokens`, until the block ends."""
        slot = self._take(num_tokens)
        try:
            yield slot
        finally:
            slot.cache.reset()
            self._idle = [slot, *self._idle][:KEPT]

    def _take(self, num_tokens: int) -> Slot:
        fitting = [slot for slot in self._idle if slot.cache.max_len >= num_tokens]
        if fitting:
            slot = min(fitting, key=lambda slot: slot.cache.max_len)
            self._idle.remove(slot)
            return slot
        model = self._model
        size = -(-num_tokens // STEP) * STEP
        cache = ContiguousCache(model.config, size, model.dtype, model.device)
        on_cuda = model.device.type == "cuda"
        return Slot(cache, GraphedDecode(model, cache) if on_cuda else decode_one)
