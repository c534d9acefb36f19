"""Greedy text of the embedded model equals that of `transformers` on an independent export."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from inferlab import LLM
from inferlab.model import hub

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.weights

PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n    ",
    "Water boils at a temperature of",
    "Q: What is the largest planet?\nA:",
    "1, 1, 2, 3, 5, 8,",
    "The three primary colors are",
    "Dear Sir or Madam,\n\nI am writing to",
    "中国的首都是",
    "In machine learning, attention is a mechanism that",
)
ENDS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
PARTS = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip


def export(path: Path) -> Any:
    """The GGUF as a transformers model in float32, read with `gguf` alone."""
    state: dict[str, torch.Tensor] = {}
    for tensor in gguf.GGUFReader(path).tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        stem, _, suffix = tensor.name.rpartition(".")
        if stem in ENDS:
            state[f"{ENDS[stem]}.{suffix}"] = torch.from_numpy(values.copy())
            continue
        _, layer, part = stem.split(".")
        if part in ("attn_q", "attn_k"):  # ggml interleaves the pairs that rotary turns
            heads, inputs = (9 if part == "attn_q" else 3), values.shape[1]
            values = values.reshape(heads, 32, 2, inputs).swapaxes(1, 2).reshape(values.shape)
        state[f"model.layers.{layer}.{PARTS[part]}.{suffix}"] = torch.from_numpy(values.copy())
    config = transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, head_dim=64, rope_theta=100000.0,
        rms_norm_eps=1e-5, max_position_embeddings=8192, tie_word_embeddings=True,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


@pytest.fixture(scope="module")
def reference() -> Any:
    return export(hub.resolve(hub.EMBEDDED))


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("smollm2-135m", dtype="float32", device="cpu")


@pytest.mark.parametrize("prompt", PROMPTS)
def test_64_greedy_tokens_are_identical(prompt: str, reference: Any, llm: LLM) -> None:
    ids = llm.tokenizer.encode(prompt)
    tokens = torch.tensor([ids])
    with torch.inference_mode():
        expected = reference.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=64,
            do_sample=False, eos_token_id=None, pad_token_id=0,
        )[0, len(ids) :].tolist()  # fmt: skip
    found = llm.generate(ids, max_tokens=64, ignore_eos=True)
    assert found.token_ids == expected
    assert found.text == llm.tokenizer.decode(expected)


def test_logits_are_equal_to_rounding(reference: Any, llm: LLM) -> None:
    ids = llm.random_prompt(200, seed=1)
    with torch.inference_mode():
        expected = reference(torch.tensor([ids])).logits[0, -1]
    found = llm.forward(ids, llm.new_cache(200))
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


def test_bfloat16_stays_close_to_float32(llm: LLM) -> None:
    """The dtype that speed is measured in keeps the distribution: small divergence, same top."""
    fast = LLM("smollm2-135m", dtype="bfloat16", device="cpu")
    ids = llm.tokenizer.encode("The history of the Roman empire begins with " * 20)
    exact = llm.forward(ids, llm.new_cache(len(ids))).log_softmax(-1)
    found = fast.forward(ids, fast.new_cache(len(ids))).log_softmax(-1)
    divergence = torch.nn.functional.kl_div(found, exact, reduction="sum", log_target=True)
    assert float(divergence) < 0.02
    assert int(found.argmax()) == int(exact.argmax())
