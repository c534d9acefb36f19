"""The network of the Llama family: token ids in, hidden states and logits out.

It owns weights and no cache. Attention goes through a `Context`, which knows where keys and values
live: the same forward pass serves a whole text, one cached sequence, or a batch of many.
"""

from typing import Protocol

import torch
import torch.nn.functional as F

from inferlab.model.config import ModelConfig
from inferlab.model.layers import RMSNorm, swiglu
from inferlab.model.quantize import MakeProjection, Projection, Scheme
from inferlab.model.rope import Rotary, interleaved_order, rotate


class Context(Protocol):
    """Where the keys and values of the tokens at hand go, and what each of them attends to."""

    @property
    def num_tokens_after(self) -> int:
        """Length of the text once this step's tokens are in."""
        ...

    def attend(self, layer: int, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Rotated q (N, Hq, D), rotated keys before values (N, 2 Hkv, D) -> (N, Hq, D)."""
        ...


class Layer:
    """One transformer block: attention, then SwiGLU, each around a residual stream in float32."""

    def __init__(
        self,
        index: int,
        config: ModelConfig,
        state: dict[str, torch.Tensor],
        dtype: torch.dtype,
        project: MakeProjection,
    ) -> None:
        self.index, self.config, self.dtype = index, config, dtype
        self._state = state
        eps = config.rms_norm_eps
        self.attention_norm = RMSNorm(self._take("input_layernorm.weight"), eps, dtype)
        self.qkv = self._fused_qkv(project)
        self.output = project(
            self._take("self_attn.o_proj.weight"),
            self._take("self_attn.o_proj.bias") if config.o_bias else None,
        )
        self.mlp_norm = RMSNorm(self._take("post_attention_layernorm.weight"), eps, dtype)
        gate_up = [self._take("mlp.gate_proj.weight"), self._take("mlp.up_proj.weight")]
        self.gate_up = project(torch.cat(gate_up), None)
        self.down = project(self._take("mlp.down_proj.weight"), None)
        self.qk_norms = None
        if config.qk_norm:
            weights = (self._take(f"self_attn.{p}_norm.weight") for p in "qk")
            self.qk_norms = [RMSNorm(interleaved_order(w, 1), eps, torch.float32) for w in weights]

    def _take(self, name: str) -> torch.Tensor:
        return self._state.pop(f"layers.{self.index}.{name}")

    def _fused_qkv(self, project: MakeProjection) -> Projection:
        """q, k and v as one matrix, so that one product reads the input once."""
        config = self.config
        heads = {"q": config.num_heads, "k": config.num_kv_heads}

        def stacked(kind: str) -> torch.Tensor:
            parts = {p: self._take(f"self_attn.{p}_proj.{kind}") for p in "qkv"}
            turned = [interleaved_order(parts[p], n) for p, n in heads.items()]
            return torch.cat([*turned, parts["v"]])

        return project(stacked("weight"), stacked("bias") if config.qkv_bias else None)

    def __call__(self, x: torch.Tensor, rotation: torch.Tensor, context: Context) -> torch.Tensor:
        """(N, H) float32 residual stream, in and out."""
        q, kv = self._project(self.attention_norm(x), rotation)
        seen = context.attend(self.index, q, kv)  # (N, Hq, D)
        x += self.output(seen.reshape(len(x), -1))
        x += self.down(swiglu(self.gate_up(self.mlp_norm(x))))
        return x

    def _project(
        self, x: torch.Tensor, rotation: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(N, H) -> rotated q (N, Hq, D), and rotated keys before values (N, 2 Hkv, D)."""
        num_q, num_kv, dim = self.config.num_heads, self.config.num_kv_heads, self.config.head_dim
        qkv = self.qkv(x).view(len(x), -1, dim)  # (N, Hq + 2 Hkv, D)
        qk = qkv[:, : num_q + num_kv]
        turned = qk.float()  # a copy, unless the model is in float32
        if self.qk_norms is not None:
            q_norm, k_norm = self.qk_norms
            turned = torch.cat([q_norm(turned[:, :num_q]), k_norm(turned[:, num_q:])], dim=1)
        qk.copy_(rotate(turned, rotation))
        return qkv[:, :num_q], qkv[:, num_q:]


class Llama:
    """The whole network. Takes over the tensors of `state`, which is empty afterwards.

    scheme: how the projections are stored; the embedding and the norms stay in `dtype`.
    """

    def __init__(
        self,
        config: ModelConfig,
        state: dict[str, torch.Tensor],
        dtype: torch.dtype,
        device: torch.device,
        scheme: Scheme | None = None,
    ) -> None:
        self.config, self.dtype, self.device = config, dtype, device
        self.scheme = scheme or Scheme("none")
        project, project_out = self.scheme.makers
        self.embedding = state.pop("embed_tokens.weight")
        self.layers = [Layer(i, config, state, dtype, project) for i in range(config.num_layers)]
        self.norm = RMSNorm(state.pop("norm.weight"), config.rms_norm_eps, dtype)
        tied = config.tie_embeddings
        self.head = project_out(self.embedding if tied else state.pop("lm_head.weight"), None)
        self.rotary = Rotary(config, device)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the distinct weights; a tied output matrix counts once, unless quantized."""
        shared = self.config.tie_embeddings and self.scheme.name == "none"
        own = 0 if shared else self.embedding.nbytes
        return own + self.step_bytes

    @property
    def step_bytes(self) -> int:
        """Bytes of weights that one forward pass reads, whatever the number of tokens."""
        blocks: int = sum(
            part.nbytes
            for layer in self.layers
            for part in (layer.qkv, layer.output, layer.gate_up, layer.down,
                         layer.attention_norm, layer.mlp_norm, *(layer.qk_norms or ()))
        )  # fmt: skip
        return blocks + self.norm.nbytes + self.head.nbytes

    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, context: Context
    ) -> torch.Tensor:
        """The hidden states after the last layer: (N,) ids and positions -> (N, H) float32."""
        x = F.embedding(token_ids, self.embedding).float()
        rotation = self.rotary.at(positions, context.num_tokens_after)
        for layer in self.layers:
            x = layer(x, rotation, context)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The score of each token of the vocabulary: (N, H) -> (N, V) float32."""
        return self.head(self.norm(hidden)).float()
