"""Writes tiny models to disk, as GGUF and as Hugging Face folders, from one random state."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

from inferlab.model.config import ModelConfig
from inferlab.model.gguf_tokenizer import build_backend, byte_symbols

GGUF_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "q_norm": "attn_q_norm", "k_norm": "attn_k_norm",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip
TOKENS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", *byte_symbols(), "he", "hel", "Ġw"]
TYPES = [2] + [3] * 4 + [1] * (len(TOKENS) - 5)
MERGES = ["h e", "he l", "Ġ w"]


def tiny(family: str = "llama", **changes: Any) -> ModelConfig:
    """A two-layer model of `family`; its head_dim is not hidden_size / num_heads."""
    values: dict[str, Any] = {
        "num_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4,
        "num_kv_heads": 2, "head_dim": 16, "vocab_size": len(TOKENS), "max_model_len": 128,
        "tie_embeddings": True, "qkv_bias": family == "qwen2", "qk_norm": family == "qwen3",
        "bos_token_id": 1, "eos_token_ids": (2,),
    }  # fmt: skip
    return ModelConfig("tiny", family, **(values | changes))


def random_state(config: ModelConfig) -> dict[str, torch.Tensor]:
    """Random float32 weights, in the project's names and order."""
    torch.manual_seed(7)
    return {name: torch.randn(shape) for name, shape in config.tensor_shapes().items()}


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to q and k of the llama architecture."""
    half = weight.shape[0] // heads // 2
    split = weight.reshape(heads, 2, half, *weight.shape[1:])
    return split.swapaxes(1, 2).reshape(weight.shape)


def gguf_name(key: str) -> str:
    """The GGUF name of a state key."""
    parts = key.split(".")
    if parts[0] != "layers":
        ends = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
        return f"{ends[parts[0]]}.{parts[1]}"
    return f"blk.{parts[1]}.{GGUF_NAMES[parts[-2]]}.{parts[-1]}"


def gguf_meta(config: ModelConfig) -> dict[str, Any]:
    """Metadata as llama.cpp writes it; the architecture's own keys without their prefix."""
    return {
        "block_count": config.num_layers,
        "context_length": config.max_model_len,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_heads,
        "attention.head_count_kv": config.num_kv_heads,
        "attention.key_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": config.rope_theta,
        "vocab_size": config.vocab_size,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": TYPES,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def add_value(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Write one metadata value with the type that its Python type suggests."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def write_gguf(
    path: Path,
    config: ModelConfig,
    state: dict[str, torch.Tensor],
    meta: dict[str, Any] | None = None,
    extra: dict[str, np.ndarray] | None = None,
) -> Path:
    """Write a GGUF file in float32. `meta` changes keys or (None) removes them."""
    architecture = "llama" if config.family == "mistral" else config.family
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (gguf_meta(config) | (meta or {})).items():
        if value is not None:
            named = key if key.startswith("tokenizer.") else f"{architecture}.{key}"
            add_value(writer, named, value)
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}
    for key, tensor in state.items():
        array, part = tensor.numpy(), key.split(".")[-2]
        if architecture == "llama" and part in heads:
            array = interleaved(array, heads[part])
        writer.add_tensor(gguf_name(key), np.ascontiguousarray(array))
    for name, array in (extra or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def hf_config(config: ModelConfig) -> dict[str, Any]:
    """The config.json of a model."""
    return {
        "model_type": config.family, "hidden_act": "silu", "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size, "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads, "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim, "vocab_size": config.vocab_size,
        "rms_norm_eps": config.rms_norm_eps, "rope_theta": config.rope_theta,
        "max_position_embeddings": config.max_model_len, "sliding_window": config.sliding_window,
        "tie_word_embeddings": config.tie_embeddings, "attention_bias": config.o_bias,
        "bos_token_id": config.bos_token_id, "eos_token_id": list(config.eos_token_ids),
    }  # fmt: skip


def write_folder(
    folder: Path, config: ModelConfig, state: dict[str, torch.Tensor], shards: int = 1
) -> Path:
    """Write a Hugging Face folder, with the tokenizer of the GGUF file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(hf_config(config)))
    backend, _ = build_backend(gguf_meta(config), "test")
    backend.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    named = {k if k.startswith("lm_head") else f"model.{k}": v for k, v in state.items()}
    if shards == 1:
        save_file(named, folder / "model.safetensors")
        return folder
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(named.items())[shard::shards])
        save_file(part, folder / name)
        weight_map |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder
