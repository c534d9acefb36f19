"""The one door to a model on disk: configuration, weights and tokenizer, checked to fit together.

State keys are the Hugging Face names without "model."; whatever the file, q and k rows stand in
rotate-half order (dimension i turns with i + head_dim / 2).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from inferlab.errors import InferlabError
from inferlab.model.config import ModelConfig, RopeScaling
from inferlab.model.gguf_file import GGUFFile
from inferlab.model.hf_folder import SafetensorsFolder, read_json
from inferlab.model.tokenizer import Tokenizer

GGUF_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
GGUF_ENDS = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}
ROPE_FREQS = "rope_freqs.weight"
DERIVED = re.compile(r"rotary_emb\.inv_freq$|rope_freqs\.weight$|attn_rot_embd")  # not weights
PADDING = 256  # rows of the embedding are padded to multiples of at most this


def load_weights(
    path: Path, dtype: torch.dtype
) -> tuple[ModelConfig, dict[str, torch.Tensor], Tokenizer]:
    """Load a .gguf file or a Hugging Face folder, each weight straight into `dtype`.

    Raises InferlabError when the model is damaged, incomplete, inconsistent, or not of a family
    that inferlab runs. All is checked from the headers before any weight is read.
    """
    if path.is_dir():
        return _load_folder(path, dtype)
    return _load_gguf(path, dtype)


def read_config(path: Path) -> ModelConfig:
    """Return the configuration alone of a .gguf file or a Hugging Face folder."""
    if path.is_dir():
        return _folder_config(path)
    return _gguf_config(GGUFFile(path))


def _load_gguf(
    path: Path, dtype: torch.dtype
) -> tuple[ModelConfig, dict[str, torch.Tensor], Tokenizer]:
    file = GGUFFile(path)
    config = _gguf_config(file)
    source = {_state_name(name): name for name in file.tensors if not DERIVED.search(name)}
    check_shapes(config, {key: file.tensors[name].shape for key, name in source.items()}, path)
    tokenizer = Tokenizer.from_gguf(file.meta, str(path))
    check_vocabulary(config, tokenizer, path)
    # Only llama's converter permutes q and k, for ggml's interleaved rotary embedding.
    permuted = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}
    state = {}
    for key in config.tensor_shapes():
        weight = file.load(source[key], dtype)
        heads = permuted.get(key.split(".")[-2]) if config.family == "llama" else None
        state[key] = rotate_half_order(weight, heads) if heads else weight
    return config, state, tokenizer


def _state_name(name: str) -> str:
    """From "blk.3.attn_q.weight" to "layers.3.self_attn.q_proj.weight"; unknown names stay."""
    stem, _, suffix = name.rpartition(".")
    if stem in GGUF_ENDS:
        return f"{GGUF_ENDS[stem]}.{suffix}"
    parts = stem.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[2] in GGUF_NAMES:
        return f"layers.{parts[1]}.{GGUF_NAMES[parts[2]]}.{suffix}"
    return name


def rotate_half_order(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Undo ggml's interleaving of rotary pairs. weight: (heads * head_dim[, hidden])."""
    pairs = weight.view(num_heads, weight.shape[0] // num_heads // 2, 2, -1)  # (H, D/2, 2, hidden)
    return pairs.transpose(1, 2).reshape(weight.shape)


def _gguf_config(file: GGUFFile) -> ModelConfig:
    config = ModelConfig.from_gguf(file.meta, file.path.name, file.tensors)
    if ROPE_FREQS not in file.tensors:
        return config
    factors = file.load(ROPE_FREQS, torch.float32)
    return replace(config, rope_scaling=_llama3_scaling(factors, config, file.path))


def _llama3_scaling(factors: torch.Tensor, config: ModelConfig, path: Path) -> RopeScaling:
    """GGUF keeps Llama 3's scaling as one divisor per frequency; find the rule that made them.

    Each published Llama 3.x has low factor 1, high factor 4 and 8,192 original positions, so that
    the factor alone is unknown, and is the largest divisor. Divisors made otherwise are refused.
    """
    scaling = RopeScaling("llama3", round(float(factors.max()), 4), 1.0, 4.0, 8192)
    if factors.shape == (config.head_dim // 2,) and torch.allclose(
        factors, llama3_divisors(scaling, config.rope_theta, config.head_dim), rtol=1e-3
    ):
        return scaling
    raise InferlabError(
        f"{path}: {ROPE_FREQS} holds frequency factors that are not Llama 3's. "
        "Use the model's Hugging Face folder, whose config.json names the rule."
    )


def llama3_divisors(scaling: RopeScaling, theta: float, head_dim: int) -> torch.Tensor:
    """What Llama 3 divides each rotary frequency by: (head_dim / 2,), between 1 and the factor."""
    wavelength = 2 * torch.pi * theta ** (torch.arange(0, head_dim, 2) / head_dim)
    turns = scaling.original_max_position_embeddings / wavelength
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return 1 / ((1 - smooth) / scaling.factor + smooth)


def _folder_config(folder: Path) -> ModelConfig:
    generation = read_json(folder / "generation_config.json", required=False)
    return ModelConfig.from_hf(read_json(folder / "config.json"), folder.name, generation)


def _load_folder(
    folder: Path, dtype: torch.dtype
) -> tuple[ModelConfig, dict[str, torch.Tensor], Tokenizer]:
    config = _folder_config(folder)
    weights = SafetensorsFolder(folder)
    source = {name.removeprefix("model."): name for name in weights.shapes}
    source = {key: name for key, name in source.items() if not DERIVED.search(key)}
    if config.tie_embeddings:
        source.pop("lm_head.weight", None)
    check_shapes(config, {key: weights.shapes[name] for key, name in source.items()}, folder)
    tokenizer = Tokenizer.from_folder(folder, config.bos_token_id, config.eos_token_ids)
    check_vocabulary(config, tokenizer, folder)
    state = {key: weights.load(name, dtype) for key, name in source.items()}
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_ids
    return replace(config, bos_token_id=bos, eos_token_ids=eos), state, tokenizer


def check_shapes(config: ModelConfig, found: Mapping[str, tuple[int, ...]], path: Path) -> None:
    """Raise InferlabError unless the weights found are exactly those that `config` describes."""
    expected = config.tensor_shapes()
    if missing := sorted(expected.keys() - found.keys()):
        raise InferlabError(f"{path} lacks {_some(missing)}. Download the model again.")
    if extra := sorted(found.keys() - expected.keys()):
        raise InferlabError(
            f"{path} holds {_some(extra)}, which a {config.family} model does not have; "
            "this architecture is not supported."
        )
    for name, shape in expected.items():
        if found[name] != shape:
            raise InferlabError(
                f"{path}: {name} has shape {found[name]}, but the configuration says {shape}. "
                "Weights and configuration belong to different models."
            )


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more tensors"


def check_vocabulary(config: ModelConfig, tokenizer: Tokenizer, path: Path) -> None:
    """Raise InferlabError unless every token has a row, and the rows beyond them are padding."""
    tokens, rows = tokenizer.vocab_size, config.vocab_size
    padded = max(-(-tokens // PADDING) * PADDING, int(tokens * 1.01))
    if not tokens <= rows <= padded:
        raise InferlabError(
            f"{path}: the tokenizer knows {tokens:,} tokens, the model {rows:,}. "
            "Tokenizer and weights belong to different models."
        )
