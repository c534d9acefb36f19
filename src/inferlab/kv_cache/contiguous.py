"""The simplest KV cache: one sequence, one block of memory, as long as it may ever get."""

import torch

from inferlab.errors import InferlabError
from inferlab.model.attention import attend
from inferlab.model.config import ModelConfig


class ContiguousCache:
    """Keys, then values, of one sequence: (num_layers, 2 Hkv, max_len, D), allocated at once.

    It is the `Context` of a forward pass: new keys and values go behind those present, and new
    queries see all of them up to their own position.
    """

    def __init__(
        self, config: ModelConfig, max_len: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        if max_len < 1:
            raise InferlabError(f"a cache holds at least 1 token, not {max_len}.")
        self.config, self.max_len, self.num_tokens = config, max_len, 0
        shape = (config.num_layers, 2 * config.num_kv_heads, max_len, config.head_dim)
        self.buffer = torch.empty(shape, dtype=dtype, device=device)
        self._windows = [config.window_of(layer) for layer in range(config.num_layers)]
        self._num_new = 0
        self._new: tuple[torch.Tensor, ...] = ()  # by layer: slots of this step's tokens
        self._present: tuple[torch.Tensor, ...] = ()  # by layer: slots up to its end

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
        self._present = self.buffer[:, :, : self.num_tokens_after].unbind()  # (2 Hkv, S, D)
        self._new = self.buffer[:, :, self.num_tokens : self.num_tokens_after].unbind()

    def end(self) -> None:
        """Close the step: its tokens now count as present."""
        self.num_tokens, self._num_new = self.num_tokens_after, 0

    def reset(self) -> None:
        """Forget every token; the memory stays."""
        self.num_tokens = self._num_new = 0

    def attend(self, layer: int, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Store kv (T, 2 Hkv, D), then attend over all that is stored: (T, Hq, D)."""
        self._new[layer].copy_(kv.transpose(0, 1))
        keys, values = self._present[layer].chunk(2)  # (Hkv, S, D)
        return attend(q, keys, values, self._windows[layer])
