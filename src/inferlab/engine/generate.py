"""The two loops that every chapter refers to: generation without a KV cache, and with one.

Both yield the same token ids. Without a cache each new token costs a pass over the whole text so
far; with one, the prompt is processed once (prefill) and each further token costs a pass over
itself alone (decode).
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch

from inferlab.kv_cache.contiguous import ContiguousCache
from inferlab.model.attention import attend
from inferlab.model.llama import Context, Llama

Sample = Callable[[torch.Tensor], int]  # (V,) float32 logits -> token id


class DecodeOne(Protocol):
    """One decode step: the last token in, the logits of the next one (V,) out."""

    def __call__(self, model: Llama, token_id: int, cache: ContiguousCache) -> torch.Tensor: ...


class WholeText:
    """A `Context` that keeps nothing: the queries attend to the keys of their own pass."""

    def __init__(self, model: Llama, num_tokens: int) -> None:
        self._config, self.num_tokens_after = model.config, num_tokens

    def attend(self, layer: int, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """(T, Hq, D), (T, 2 Hkv, D) -> (T, Hq, D)."""
        keys, values = kv.transpose(0, 1).chunk(2)  # (Hkv, T, D)
        return attend(q, keys, values, self._config.window_of(layer))


def generate_without_cache(model: Llama, prompt_ids: list[int], sample: Sample) -> Iterator[int]:
    """Yield token after token, each from a pass over the whole text so far."""
    token_ids = list(prompt_ids)
    while True:
        context = WholeText(model, len(token_ids))
        logits = forward(model, token_ids, 0, context)
        token = sample(logits)
        yield token
        token_ids.append(token)


def generate_with_cache(
    model: Llama,
    prompt_ids: list[int],
    sample: Sample,
    cache: ContiguousCache,
    decode: DecodeOne | None = None,
) -> Iterator[int]:
    """Yield token after token: one prefill, then decode steps that process one token each."""
    decode = decode or decode_one
    token = sample(prefill(model, prompt_ids, cache))
    yield token
    while True:
        token = sample(decode(model, token, cache))
        yield token


def prefill(model: Llama, token_ids: list[int], cache: ContiguousCache) -> torch.Tensor:
    """Process tokens at once and put their keys and values into the cache.

    Returns the logits after the last of them: (V,) float32.
    """
    cache.begin(len(token_ids))
    logits = forward(model, token_ids, cache.num_tokens, cache)
    cache.end()
    return logits


def decode_one(model: Llama, token_id: int, cache: ContiguousCache) -> torch.Tensor:
    """Process one token; what came before it is in the cache. Returns (V,) float32 logits."""
    return prefill(model, [token_id], cache)


@torch.inference_mode()
def forward(model: Llama, token_ids: list[int], start: int, context: Context) -> torch.Tensor:
    """One pass over tokens at positions start, start + 1, ...: the last one's (V,) logits."""
    ids = torch.tensor(token_ids, device=model.device)  # (T,)
    positions = torch.arange(start, start + len(token_ids), device=model.device)
    hidden = model.forward(ids, positions, context)  # (T, H)
    return model.logits(hidden[-1:])[0]
