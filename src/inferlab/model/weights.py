"""The one door to a model on disk: configuration, weights and tokenizer, checked to fit together.

State keys are the Hugging Face names without "model."; whatever the file, q and k rows stand in
rotate-half order (dimension i turns with i + head_dim / 2).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from inferlab.errors import InferlabError
from inferlab.model.config import ModelConfig
from inferlab.model.gguf_config import config_of_gguf
from inferlab.model.gguf_file import GGUFFile
from inferlab.model.hf_folder import SafetensorsFolder, config_of_folder
from inferlab.model.tokenizer import Tokenizer

GGUF_NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
GGUF_ENDS = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}
DERIVED = re.compile(r"rotary_emb\.inv_freq$|rope_freqs\.weight$|attn_rot_embd")  # not weights
PADDING = 256  # rows of the embedding are padded to multiples of at most this


Check = Callable[[ModelConfig], None]


def load_weights(
    path: Path, dtype: torch.dtype, check: Check | None = None
) -> tuple[ModelConfig, dict[str, torch.Tensor], Tokenizer]:
    """Load a .gguf file or a Hugging Face folder, each weight straight into `dtype`.

    check: called with the configuration before any weight is read; what it raises ends the load.

    Raises InferlabError when the model is damaged, incomplete, inconsistent, or not of a family
    that inferlab runs. All is checked from the headers before any weight is read.
    """
    if path.is_dir():
        return _load_folder(path, dtype, check or _no_check)
    return _load_gguf(path, dtype, check or _no_check)


def _no_check(config: ModelConfig) -> None:
    pass


def _load_gguf(
    path: Path, dtype: torch.dtype, check: Check
) -> tuple[ModelConfig, dict[str, torch.Tensor], Tokenizer]:
    file = GGUFFile(path)
    config = config_of_gguf(file)
    check(config)
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


def _load_folder(
    folder: Path, dtype: torch.dtype, check: Check
) -> tuple[ModelConfig, dict[str, torch.Tensor], Tokenizer]:
    config = config_of_folder(folder)
    check(config)
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
