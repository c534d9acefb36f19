"""The shape of a model: one frozen description, whatever file it came from."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inferlab.errors import InferlabError

Family = Literal["llama", "mistral", "qwen2", "qwen3"]
RopeKind = Literal["linear", "dynamic", "llama3", "yarn"]


@dataclass(frozen=True)
class RopeScaling:
    """How rotary frequencies are stretched beyond the context that the model was trained on.

    `linear` divides positions by `factor`; `dynamic` raises the base with the sequence (NTK-aware);
    `llama3` and `yarn` (arXiv 2309.00071) blend scaled low with unscaled high frequencies.
    """

    kind: RopeKind
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0  # multiplies cos and sin (yarn); already resolved, never None
    truncate: bool = True  # yarn: round the bounds of the blend to whole dimensions


@dataclass(frozen=True)
class ModelConfig:
    """Shapes and constants of one decoder-only transformer, in the project's own names."""

    name: str
    family: Family
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    max_model_len: int = 4096
    tie_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_scaling: RopeScaling | None = None
    sliding_window: int | None = None
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    o_bias: bool = False
    full_attention_layers: tuple[int, ...] = ()  # layers that ignore `sliding_window`

    def __post_init__(self) -> None:
        """Refuse shapes that no model can have."""
        for field in ("num_layers", "hidden_size", "intermediate_size", "num_heads", "vocab_size"):
            self._require(getattr(self, field) > 0, f"{field} must be positive")
        self._require(
            self.num_kv_heads > 0 and self.num_heads % self.num_kv_heads == 0,
            f"num_heads ({self.num_heads}) must be a multiple of num_kv_heads "
            f"({self.num_kv_heads})",
        )
        self._require(
            self.head_dim > 0 and self.head_dim % 2 == 0,
            f"head_dim ({self.head_dim}) must be even and positive",
        )
        self._require(
            self.max_model_len > 0
            and (self.sliding_window is None or self.sliding_window > 0)
            and all(math.isfinite(x) and x > 0 for x in (self.rope_theta, self.rms_norm_eps)),
            "rope_theta, rms_norm_eps, max_model_len and sliding_window must be positive",
        )

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise InferlabError(f"{self.name}: {problem}. Check the model's configuration.")

    def window_of(self, layer: int) -> int | None:
        """Tokens that `layer` looks back on (itself included), or None when it sees them all."""
        return None if layer in self.full_attention_layers else self.sliding_window

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of each weight that this model consists of."""
        shapes: dict[str, tuple[int, ...]] = {
            "embed_tokens.weight": (self.vocab_size, self.hidden_size),
            "norm.weight": (self.hidden_size,),
        }
        if not self.tie_embeddings:
            shapes["lm_head.weight"] = (self.vocab_size, self.hidden_size)
        for name, shape in self._layer_shapes().items():
            for layer in range(self.num_layers):
                shapes[f"layers.{layer}.{name}"] = shape
        return shapes

    def _layer_shapes(self) -> dict[str, tuple[int, ...]]:
        hidden, inner = self.hidden_size, self.intermediate_size
        q, kv = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (hidden,),
            "self_attn.q_proj.weight": (q, hidden),
            "self_attn.k_proj.weight": (kv, hidden),
            "self_attn.v_proj.weight": (kv, hidden),
            "self_attn.o_proj.weight": (hidden, q),
            "post_attention_layernorm.weight": (hidden,),
            "mlp.gate_proj.weight": (inner, hidden),
            "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
        }
        if self.qkv_bias:
            shapes |= {
                f"self_attn.{p}_proj.bias": (n,) for p, n in zip("qkv", (q, kv, kv), strict=True)
            }
        if self.o_bias:
            shapes["self_attn.o_proj.bias"] = (hidden,)
        if self.qk_norm:
            shapes |= {f"self_attn.{p}_norm.weight": (self.head_dim,) for p in "qk"}
        return shapes

    @property
    def num_parameters(self) -> int:
        """Number of distinct weights; a tied output matrix counts once."""
        return sum(math.prod(shape) for shape in self.tensor_shapes().values())

    @classmethod
    def from_hf(
        cls, config: Mapping[str, Any], name: str, generation: Mapping[str, Any] | None = None
    ) -> "ModelConfig":
        """Read a parsed config.json; `generation` (generation_config.json) overrides the eos ids.

        Raises InferlabError for an architecture or a setting that this engine does not run.
        """
        from inferlab.model.read_config import config_from_hf

        return config_from_hf(config, name, generation or {})

    @classmethod
    def from_gguf(
        cls, meta: Mapping[str, Any], name: str, tensors: Collection[str] = ()
    ) -> "ModelConfig":
        """Read GGUF metadata; the tensors' names say whether embeddings are tied and biases exist.

        Raises InferlabError for an architecture or a setting that this engine does not run.
        """
        from inferlab.model.gguf_config import config_from_gguf

        return config_from_gguf(meta, name, tensors)


def _row(
    name: str,
    family: Family,
    sizes: tuple[int, int, int, int, int, int, int],
    theta: float,
    max_model_len: int,
    **rest: Any,
) -> ModelConfig:
    """Sizes: num_layers, hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim, V."""
    eps = {"rms_norm_eps": 1e-6 if family in ("qwen2", "qwen3") else 1e-5}
    kind = {"qkv_bias": family == "qwen2", "qk_norm": family == "qwen3"}
    return ModelConfig(
        name, family, *sizes, rope_theta=theta, max_model_len=max_model_len, **(eps | kind | rest)
    )


def _llama3(factor: float) -> RopeScaling:
    return RopeScaling("llama3", factor, 1.0, 4.0, original_max_position_embeddings=8192)


_SMOLLM = {"tie_embeddings": True, "bos_token_id": 1, "eos_token_ids": (2,)}
_LLAMA2 = {"bos_token_id": 1, "eos_token_ids": (2,)}
_LLAMA3 = {"bos_token_id": 128000, "eos_token_ids": (128001, 128008, 128009)}
_QWEN = {"eos_token_ids": (151645, 151643)}
_L32 = {"rope_scaling": _llama3(32.0), "tie_embeddings": True, **_LLAMA3}
_L31 = {"rope_scaling": _llama3(8.0), **_LLAMA3}
_TIED = {"tie_embeddings": True}

# The published shapes of well-known models, as their config.json files give them. Mistral 7B is the
# first release, whose attention window of 4,096 tokens slides.
SHAPES: dict[str, ModelConfig] = {
    shape.name: shape
    for shape in (
        _row("tiny", "llama", (2, 64, 128, 4, 2, 16, 512), 1e4, 512, **_TIED),
        _row("smollm2-135m", "llama", (30, 576, 1536, 9, 3, 64, 49152), 1e5, 8192, **_SMOLLM),
        _row("smollm2-360m", "llama", (32, 960, 2560, 15, 5, 64, 49152), 1e5, 8192, **_SMOLLM),
        _row("smollm2-1.7b", "llama", (24, 2048, 8192, 32, 32, 64, 49152), 1.3e5, 8192, **_SMOLLM),
        _row("llama-3.2-1b", "llama", (16, 2048, 8192, 32, 8, 64, 128256), 5e5, 131072, **_L32),
        _row("llama-3.2-3b", "llama", (28, 3072, 8192, 24, 8, 128, 128256), 5e5, 131072, **_L32),
        _row("llama-3.1-8b", "llama", (32, 4096, 14336, 32, 8, 128, 128256), 5e5, 131072, **_L31),
        _row("llama-3.1-70b", "llama", (80, 8192, 28672, 64, 8, 128, 128256), 5e5, 131072, **_L31),
        _row("llama-2-7b", "llama", (32, 4096, 11008, 32, 32, 128, 32000), 1e4, 4096, **_LLAMA2),
        _row("llama-2-13b", "llama", (40, 5120, 13824, 40, 40, 128, 32000), 1e4, 4096, **_LLAMA2),
        _row(
            "mistral-7b", "mistral", (32, 4096, 14336, 32, 8, 128, 32000), 1e4, 32768,
            sliding_window=4096, **_LLAMA2,
        ),
        _row(
            "qwen2.5-0.5b", "qwen2", (24, 896, 4864, 14, 2, 64, 151936), 1e6, 32768,
            **_TIED, **_QWEN,
        ),
        _row("qwen2.5-7b", "qwen2", (28, 3584, 18944, 28, 4, 128, 152064), 1e6, 32768, **_QWEN),
        _row(
            "qwen3-0.6b", "qwen3", (28, 1024, 3072, 16, 8, 128, 151936), 1e6, 40960,
            **_TIED, **_QWEN,
        ),
        _row("qwen3-8b", "qwen3", (36, 4096, 12288, 32, 8, 128, 151936), 1e6, 40960, **_QWEN),
    )
}  # fmt: skip
