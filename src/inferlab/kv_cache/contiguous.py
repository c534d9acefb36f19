"""The simplest KV cache: one sequence, one block of memory, as long as it may ever get."""

import torch

from inferlab.errors import InferlabError
from inferlab.model.attention import attend
from inferlab.model.config import ModelConfig


class ContiguousCache:
    """Keys and values of one sequence, (num_layers, 2, Hkv, max_len, D), allocated at once.

    It is the `Context` of a forward pass: new keys and values go behind those present, and new
    queries see all of them up to their own position.
    """

    def __init__(
        self, config: ModelConfig, max_len: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        if max_len < 1:
            raise InferlabError(f"a cache holds at least 1 token, not {max_len}.")
        self.config, self.max_len, self.num_tokens = config, max_len, 0
        shape = (config.num_layers, 2, config.num_kv_heads, max_len, config.head_dim)
        self.buffer = torch.empty(shape, dtype=dtype, device=device)
        self._layers = [(pair[0], pair[1]) for pair in self.buffer.unbind(0)]
        self._windows = [config.window_of(layer) for layer in range(config.num_layers)]
        self._num_new = 0

    @property
    def nbytes(self) -> int:
        """Bytes allocated, used or not."""
        return self.buffer.nbytes

    @property
    def num_tokens_after(self) -> int:
        """Tokens present once the step at hand is done."""
        return self.num_tokens + self._num_new

    def begin(self, num_new_tokens: int) -> None:
        """Open a step that adds `num_new_tokens`; raises InferlabError when they do not fit."""
        if self.num_tokens + num_new_tokens > self.max_len:
            raise InferlabError(
                f"the KV cache holds {self.max_len} tokens; {self.num_tokens} are present and "
                f"{num_new_tokens} more do not fit. Make it longer: new_cache(max_len)."
            )
        self._num_new = num_new_tokens

    def end(self) -> None:
        """Close the step: its tokens now count as present."""
        self.num_tokens, self._num_new = self.num_tokens_after, 0

    def reset(self) -> None:
        """Forget every token; the memory stays."""
        self.num_tokens = self._num_new = 0

    def layer(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one layer, present or not: (Hkv, max_len, D) twice."""
        return self._layers[layer]

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Store k and v (T, Hkv, D), then attend over all that is stored: (T, Hq, D)."""
        keys, values = self._layers[layer]  # (Hkv, max_len, D)
        start, end = self.num_tokens, self.num_tokens_after
        keys[:, start:end] = k.transpose(0, 1)
        values[:, start:end] = v.transpose(0, 1)
        return attend(q, keys[:, :end], values[:, :end], self._windows[layer])
