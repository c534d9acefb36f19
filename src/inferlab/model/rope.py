"""Rotary position embeddings: how fast each pair of dimensions turns, for every kind of scaling.

A query or key is seen as head_dim / 2 complex numbers; at position p, number i is multiplied by
exp(1j * p * frequency[i]) (RoFormer, arXiv 2104.09864). The dot product of a query with a key then
depends on their distance alone.
"""

import math

import torch

from inferlab.model.config import ModelConfig, RopeScaling


def frequencies(config: ModelConfig, num_tokens: int = 0) -> torch.Tensor:
    """Radians per position of each pair of dimensions: (D / 2,) float32.

    num_tokens: length of the text, which only `dynamic` scaling looks at.
    """
    scaling, theta = config.rope_scaling, config.rope_theta
    if scaling is None:
        return _plain(config, theta)
    if scaling.kind == "linear":
        return _plain(config, theta) / scaling.factor
    if scaling.kind == "dynamic":
        return _plain(config, _raised_base(config, scaling, num_tokens))
    if scaling.kind == "llama3":
        return _llama3(_plain(config, theta), scaling)
    return _yarn(config, scaling)


def _plain(config: ModelConfig, theta: float) -> torch.Tensor:
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    return 1.0 / theta**exponents


def _raised_base(config: ModelConfig, scaling: RopeScaling, num_tokens: int) -> float:
    """NTK-aware base: no change up to the trained length, then growing with the text."""
    trained, factor = scaling.original_max_position_embeddings, scaling.factor
    length = max(num_tokens, trained)
    growth = factor * length / trained - (factor - 1)
    return float(config.rope_theta * growth ** (config.head_dim / (config.head_dim - 2)))


def _llama3(plain: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Low frequencies divided by `factor`, high ones kept, a smooth blend between."""
    trained = scaling.original_max_position_embeddings
    turns = trained * plain / (2 * math.pi)  # full turns within the trained context
    span = scaling.high_freq_factor - scaling.low_freq_factor
    keep = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return plain * keep + plain / scaling.factor * (1 - keep)


def _yarn(config: ModelConfig, scaling: RopeScaling) -> torch.Tensor:
    """The blend of arXiv 2309.00071, section 3.2, over dimensions instead of turns."""
    plain, trained = _plain(config, config.rope_theta), scaling.original_max_position_embeddings

    def dimension(turns: float) -> float:
        """Dimension pair that makes `turns` turns within the trained context."""
        ratio = math.log(trained / (turns * 2 * math.pi))
        return config.head_dim * ratio / (2 * math.log(config.rope_theta))

    low, high = dimension(scaling.beta_fast), dimension(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.head_dim - 1)
    ramp = (torch.arange(config.head_dim // 2).float() - low) / max(high - low, 0.001)
    keep = 1 - ramp.clamp(0, 1)
    return plain * keep + plain / scaling.factor * (1 - keep)


class Rotary:
    """Tables of the rotation at each position, made once and grown when a longer text comes."""

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._config, self._device = config, device
        scaling = config.rope_scaling
        self._trained: int | None = None  # the length up to which dynamic scaling changes nothing
        if scaling is not None and scaling.kind == "dynamic":
            self._trained = scaling.original_max_position_embeddings
        self._amplitude = scaling.attention_factor if scaling is not None else 1.0
        self._table, self._made_for = torch.empty(0, 0), 0

    def at(self, positions: torch.Tensor, num_tokens: int) -> torch.Tensor:
        """Rotations of a text that is `num_tokens` long: (N,) -> (N, 1, D / 2) complex64.

        With dynamic scaling a longer text turns more slowly; keys that were cached before keep
        their rotation, as in other engines.
        """
        return self.table(num_tokens)[positions].unsqueeze(1)

    def table(self, num_tokens: int) -> torch.Tensor:
        """Rotations of positions 0, 1, ... : (at least num_tokens, D / 2) complex64."""
        # One table serves every length, except where dynamic scaling makes it depend on the length.
        depends_on = 0 if self._trained is None else max(num_tokens, self._trained)
        if num_tokens > len(self._table) or depends_on != self._made_for:
            self._make(num_tokens, depends_on)
        return self._table

    def _make(self, num_tokens: int, depends_on: int) -> None:
        length = max(256, 1 << (num_tokens - 1).bit_length())
        angles = torch.outer(torch.arange(length).float(), frequencies(self._config, depends_on))
        table = torch.polar(torch.full_like(angles, self._amplitude), angles)
        self._table, self._made_for = table.to(self._device), depends_on


def rotate(heads: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Turn neighbouring pairs of dimensions: (N, H, D) float32, (N, 1, D / 2) -> (N, H, D).

    Works in place where the device multiplies complex numbers.
    """
    pairs = heads.view(*heads.shape[:-1], -1, 2)  # (N, H, D / 2, 2)
    if not multiplies_complex(heads.device):
        real, imaginary = pairs.unbind(-1)
        cos, sin = rotation.real, rotation.imag
        turned = torch.stack((real * cos - imaginary * sin, real * sin + imaginary * cos), -1)
        return turned.view_as(heads)
    torch.view_as_complex(pairs).mul_(rotation)
    return heads


def multiplies_complex(device: torch.device) -> bool:
    """Whether the device multiplies complex numbers fast; Apple's GPUs do not."""
    return device.type != "mps"


def interleaved_order(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Rows of q or k from rotate-half order (i turns with i + D / 2) to neighbouring pairs.

    weight: (H * D[, hidden]).
    """
    halves = weight.view(num_heads, 2, weight.shape[0] // num_heads // 2, -1)  # (H, 2, D/2, hidden)
    return halves.transpose(1, 2).reshape(weight.shape)
