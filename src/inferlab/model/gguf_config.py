"""Reads a ModelConfig from the metadata of a GGUF file."""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferlab.errors import InferlabError
from inferlab.model.config import ModelConfig, RopeScaling
from inferlab.model.gguf_file import GGUFFile
from inferlab.model.read_config import ROPE_KINDS, Fields, known_family

ROPE_FREQS = "rope_freqs.weight"


def config_of_gguf(file: GGUFFile) -> ModelConfig:
    """Return the configuration of an open file, Llama 3's rotary scaling included."""
    config = ModelConfig.from_gguf(file.meta, file.path.name, file.tensors)
    if ROPE_FREQS not in file.tensors:
        return config
    divisors = file.floats(ROPE_FREQS)
    return replace(config, rope_scaling=_llama3_scaling(divisors, config, file.path))


def _llama3_scaling(divisors: list[float], config: ModelConfig, path: Path) -> RopeScaling:
    """GGUF keeps Llama 3's scaling as one divisor per frequency; find the rule that made them.

    Each published Llama 3.x has low factor 1, high factor 4 and 8,192 original positions, so that
    the factor alone is unknown, and is the largest divisor. Divisors made otherwise are refused.
    """
    scaling = RopeScaling("llama3", round(max(divisors), 4), 1.0, 4.0, 8192)
    expected = llama3_divisors(scaling, config.rope_theta, config.head_dim)
    if len(divisors) == len(expected) and all(
        math.isclose(a, b, rel_tol=1e-3) for a, b in zip(divisors, expected, strict=True)
    ):
        return scaling
    raise InferlabError(
        f"{path}: {ROPE_FREQS} holds frequency factors that are not Llama 3's. "
        "Use the model's Hugging Face folder, whose config.json names the rule."
    )


def llama3_divisors(scaling: RopeScaling, theta: float, head_dim: int) -> list[float]:
    """What Llama 3 divides each of head_dim / 2 rotary frequencies by: from 1 to the factor."""
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    divisors = []
    for dimension in range(0, head_dim, 2):
        wavelength = 2 * math.pi * theta ** (dimension / head_dim)
        turns = scaling.original_max_position_embeddings / wavelength
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        divisors.append(1 / ((1 - smooth) / scaling.factor + smooth))
    return divisors


def config_from_gguf(meta: Mapping[str, Any], name: str, tensors: Collection[str]) -> ModelConfig:
    """Read GGUF metadata. Architecture "llama" also holds Mistral, whose shape is the same."""
    architecture = meta.get("general.architecture")
    family = known_family(architecture, name)
    fields = Fields(meta, f"{name}: GGUF metadata", f"{architecture}.")
    heads, hidden = fields.integer("attention.head_count"), fields.integer("embedding_length")
    head_dim = fields.integer("attention.key_length", hidden // max(heads, 1))
    if (rotary := fields.integer("rope.dimension_count", head_dim)) != head_dim:
        raise InferlabError(
            f"{fields.where}: rotary embeddings over {rotary} of {head_dim} dimensions are not "
            "supported; use a model that rotates whole heads."
        )
    context = fields.integer("context_length")
    ids = Fields(meta, fields.where, "tokenizer.ggml.")
    ends = {
        ids.integer(k): None for k in ("eos_token_id", "eot_token_id") if ids.get(k) is not None
    }
    window = fields.integer("attention.sliding_window", 0)
    bos = ids.integer("bos_token_id", -1)
    return ModelConfig(
        name=name,
        family=family,
        num_layers=fields.integer("block_count"),
        hidden_size=hidden,
        intermediate_size=fields.integer("feed_forward_length"),
        num_heads=heads,
        num_kv_heads=fields.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab_size=fields.integer("vocab_size", len(meta.get("tokenizer.ggml.tokens") or ())),
        rope_theta=fields.number("rope.freq_base", 10000.0),
        rms_norm_eps=float(f"{fields.number('attention.layer_norm_rms_epsilon', 1e-5):.6g}"),
        max_model_len=context,
        tie_embeddings="output.weight" not in tensors,
        qkv_bias="blk.0.attn_q.bias" in tensors or (family == "qwen2" and not tensors),
        o_bias="blk.0.attn_output.bias" in tensors,
        qk_norm=family == "qwen3",
        rope_scaling=_rope_from_gguf(fields, context),
        sliding_window=window or None,
        bos_token_id=bos if bos >= 0 else None,
        eos_token_ids=tuple(dict.fromkeys(end for end in ends if end >= 0)),
    )


def _rope_from_gguf(fields: Fields, context: int) -> RopeScaling | None:
    kind = fields.get("rope.scaling.type") or "none"
    if kind == "none":
        return None
    if kind not in ("linear", "yarn"):
        raise InferlabError(f"{fields.where}: rope scaling {kind!r} is not supported.")
    factor = fields.number("rope.scaling.factor")
    inferred = 0.1 * math.log(factor) + 1.0 if kind == "yarn" and factor > 1 else 1.0
    return RopeScaling(
        kind=ROPE_KINDS[kind],
        factor=factor,
        original_max_position_embeddings=fields.integer(
            "rope.scaling.original_context_length", context
        ),
        beta_fast=fields.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.number("rope.scaling.yarn_beta_slow", 1.0),
        attention_factor=inferred * fields.number("rope.scaling.attn_factor", 1.0),
    )
