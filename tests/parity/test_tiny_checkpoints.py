"""Logits equal those of `transformers` on tiny random checkpoints of every family."""

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch

from inferlab import LLM
from inferlab.engine.generate import WholeText

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 300, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "initializer_range": 0.3, "bos_token_id": 1, "eos_token_id": 2, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False, "attn_implementation": "eager",
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LAYERS = ["full_attention", "sliding_attention", "full_attention"]
# Name -> configuration class, and what it changes. Texts are 40 tokens long.
CHECKPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "llama, tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "llama, biases": ("LlamaConfig", {"attention_bias": True}),
    "llama, wide heads": ("LlamaConfig", {"head_dim": 32}),
    "llama, one KV head": ("LlamaConfig", {"num_key_value_heads": 1}),
    "llama, no grouping": ("LlamaConfig", {"num_key_value_heads": 4}),
    "llama, linear": ("LlamaConfig", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "llama, dynamic": (
        "LlamaConfig",
        {
            "rope_scaling": {"rope_type": "dynamic", "factor": 2.0},
            "max_position_embeddings": 24,
        },
    ),
    "llama, llama3": ("LlamaConfig", {"rope_scaling": LLAMA3}),
    "llama, yarn": ("LlamaConfig", {"rope_scaling": YARN}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral, sliding": ("MistralConfig", {"sliding_window": 8}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2, sliding": (
        "Qwen2Config",
        {"use_sliding_window": True, "sliding_window": 8, "layer_types": LAYERS},
    ),
    "qwen3": ("Qwen3Config", {"head_dim": 16}),
}


def byte_tokenizer(folder: Path) -> None:
    """A tokenizer of 256 bytes and a few added tokens fills the vocabulary of 300."""
    symbols = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {symbol: number for number, symbol in enumerate(sorted(symbols))}
    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_tokens([f"<extra{number}>" for number in range(44)])
    backend.save(str(folder / "tokenizer.json"))


@pytest.fixture(params=CHECKPOINTS)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    """A transformers model, and the folder it was saved to."""
    name, changes = CHECKPOINTS[request.param]
    torch.manual_seed(0)
    config = getattr(transformers, name)(**(SIZES | changes))
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name or "bias" in parameter_name:  # which start as ones and zeros
            torch.nn.init.normal_(parameter, 1.0, 0.3)
    model.save_pretrained(tmp_path)
    byte_tokenizer(tmp_path)
    return model, tmp_path


@torch.inference_mode()
def test_all_logits_equal_those_of_transformers(checkpoint: tuple[Any, Path]) -> None:
    model, folder = checkpoint
    ids = torch.randint(256, (40,), generator=torch.Generator().manual_seed(3))
    expected = model(ids[None]).logits[0]
    llm = LLM(folder, dtype="float32", device="cpu")
    hidden = llm.model.forward(ids, torch.arange(40), WholeText(llm.model, 40))
    found = llm.model.logits(hidden)
    assert expected.abs().max() > 1, "logits near zero would be equal by chance"
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=2e-4)


@torch.inference_mode()
def test_decoding_with_a_cache_equals_transformers(checkpoint: tuple[Any, Path]) -> None:
    model, folder = checkpoint
    llm = LLM(folder, dtype="float32", device="cpu")
    ids = torch.randint(256, (20,), generator=torch.Generator().manual_seed(4)).tolist()
    cache = llm.new_cache(24)
    found = [llm.forward(ids[:12], cache), *(llm.forward([i], cache) for i in ids[12:])]
    expected = model(torch.tensor([ids])).logits[0, 11:]
    torch.testing.assert_close(torch.stack(found), expected, atol=2e-4, rtol=2e-4)
