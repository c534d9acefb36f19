"""Tiny models with random weights: the engine's logic needs no real ones."""

from dataclasses import replace
from typing import Any

import pytest

from inferlab import LLM
from inferlab.engine import placement
from inferlab.model.config import SHAPES, ModelConfig

BASE = SHAPES["tiny"]
CONFIGS: dict[str, ModelConfig] = {
    "llama": BASE,
    "no grouping": replace(BASE, num_kv_heads=4),
    "one KV head": replace(BASE, num_kv_heads=1),
    "sliding window": replace(BASE, family="mistral", sliding_window=7),
    "some layers slide": replace(
        BASE, family="qwen2", qkv_bias=True, sliding_window=7, full_attention_layers=(0,)
    ),
    "qk norm": replace(BASE, family="qwen3", qk_norm=True),
    "untied": replace(BASE, tie_embeddings=False),
}


def build(config: ModelConfig = BASE, **options: Any) -> LLM:
    """A tiny model on the CPU, in float32 unless said otherwise.

    Its weights are large, so that its layers matter: small ones only repeat the last token.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "SPREAD", 0.3)
        return LLM.random(config, **({"dtype": "float32", "device": "cpu"} | options))
