"""Whole models: the same state from GGUF and from a folder, and what is refused before loading."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import random_state, tiny, write_folder, write_gguf

from inferlab.errors import InferlabError
from inferlab.model.config import ModelConfig, RopeScaling
from inferlab.model.describe import describe, read_config
from inferlab.model.gguf_config import llama3_divisors
from inferlab.model.weights import load_weights, rotate_half_order

Edit = Callable[..., None]


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_gguf_and_folder_give_the_same_state(tmp_path: Path, family: str, tied: bool) -> None:
    config = tiny(family, tie_embeddings=tied)
    state = random_state(config)
    source = write_gguf(tmp_path / "model.gguf", config, state)
    gguf_config, gguf_state, gguf_tokenizer = load_weights(source, torch.float32)
    folder = write_folder(tmp_path / "model", config, state, shards=3)
    hf_config, hf_state, hf_tokenizer = load_weights(folder, torch.float32)
    assert_same(gguf_state, state)
    assert_same(hf_state, state)
    assert gguf_config.tensor_shapes() == hf_config.tensor_shapes() == config.tensor_shapes()
    text = "hello wörld 123\n"
    assert gguf_tokenizer.encode(text) == hf_tokenizer.encode(text)
    assert (
        hf_config.eos_token_ids == hf_tokenizer.eos_token_ids == gguf_config.eos_token_ids == (2,)
    )


def test_biases_of_a_llama_gguf_are_reordered_too(tmp_path: Path) -> None:
    config = tiny(qkv_bias=True, o_bias=True)
    state = random_state(config)
    found, loaded, _ = load_weights(write_gguf(tmp_path / "m.gguf", config, state), torch.float32)
    assert found.qkv_bias
    assert found.o_bias
    assert_same(loaded, state)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_come_in_the_wanted_dtype(
    folder: Path, gguf_path: Path, dtype: torch.dtype
) -> None:
    expected = {k: v.to(dtype) for k, v in random_state(tiny()).items()}
    assert_same(load_weights(folder, dtype)[1], expected)
    assert_same(load_weights(gguf_path, dtype)[1], expected)


def test_rotate_half_order_moves_pairs_apart() -> None:
    # Two heads of four dimensions; pairs (0, 1) and (2, 3) turn together in GGUF.
    assert rotate_half_order(torch.arange(8), 2).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_unneeded_tensors_are_skipped(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state["lm_head.weight"] = torch.zeros(3)
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(8)
    save_file(state, folder / "model.safetensors")
    assert_same(load_weights(folder, torch.float32)[1], random_state(tiny()))


def test_generation_config_adds_end_ids(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 4]}')
    config, _, tokenizer = load_weights(folder, torch.float32)
    assert config.eos_token_ids == tokenizer.eos_token_ids == (2, 4)


def test_ids_missing_from_config_come_from_the_tokenizer(folder: Path, edit_json: Edit) -> None:
    edit_json(folder / "config.json", bos_token_id=None, eos_token_id=None)
    config, _, tokenizer = load_weights(folder, torch.float32)
    assert (config.bos_token_id, config.eos_token_ids) == (1, (2,))
    assert tokenizer.bos_token_id == 1


def write_scaled(path: Path, divisors: list[float]) -> Path:
    config = tiny(head_dim=128, rope_theta=5e5)
    extra = {"rope_freqs.weight": np.array(divisors, dtype=np.float32)}
    return write_gguf(path, config, random_state(config), extra=extra)


def test_llama3_scaling_is_found_in_a_gguf(tmp_path: Path) -> None:
    scaling = RopeScaling("llama3", 32.0, 1.0, 4.0, 8192)
    path = write_scaled(tmp_path / "m.gguf", llama3_divisors(scaling, 5e5, 128))
    assert load_weights(path, torch.float32)[0].rope_scaling == scaling


@pytest.mark.parametrize("divisors", [[1.0] * 32 + [3.0] * 32, [1.0, 8.0]])
def test_other_frequency_factors_are_refused(tmp_path: Path, divisors: list[float]) -> None:
    path = write_scaled(tmp_path / "m.gguf", divisors)
    with pytest.raises(InferlabError, match="not Llama 3's"):
        load_weights(path, torch.float32)


def test_describe_reads_headers_alone(folder: Path, gguf_path: Path) -> None:
    values = tiny().num_parameters
    for path, name in ((folder, "model.safetensors"), (gguf_path, "model.gguf")):
        found = describe(path)
        assert found.mix == {"F32": (len(tiny().tensor_shapes()), 4 * values)}
        assert found.stored_bytes == 4 * values
        assert list(found.sha256) == [name]
        assert found.config == read_config(path)
        assert found.config.num_parameters == values


# -------------------------------------------------------------------------------------- refused


def refused(path: Path, message: str) -> None:
    with pytest.raises(InferlabError, match=message):
        load_weights(path, torch.float32)


def test_folder_without_config(folder: Path) -> None:
    (folder / "config.json").unlink()
    refused(folder, r"has no config\.json")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_bad_json(folder: Path, name: str) -> None:
    (folder / name).write_text('{"model_type": ')
    refused(folder, f"{name} is not valid JSON")
    (folder / name).write_text("[1, 2]")
    refused(folder, f"{name} should hold a JSON object, not list")


def test_binary_json(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"\xff\xfe\x00")
    refused(folder, "is not valid JSON")


def test_unknown_architecture(folder: Path, edit_json: Edit) -> None:
    edit_json(folder / "config.json", model_type="mamba")
    refused(folder, "'mamba' is not supported")


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refused(folder, r"has no \*\.safetensors")


def sharded(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "sharded", tiny(), random_state(tiny()), shards=3)


def test_missing_shard(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    (folder / "model-00002-of-00003.safetensors").unlink()
    refused(folder, "lacks the shard model-00002-of-00003.safetensors")


@pytest.mark.parametrize("content", ["{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}'])
def test_index_without_a_map(tmp_path: Path, content: str) -> None:
    folder = sharded(tmp_path)
    (folder / "model.safetensors.index.json").write_text(content)
    refused(folder, "has no weight_map")


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_truncated_shard(tmp_path: Path, kept: int) -> None:
    folder = sharded(tmp_path)
    shard = folder / "model-00002-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:kept])
    refused(folder, "model-00002-of-00003.safetensors is damaged or cut off")


def test_shard_with_a_broken_header(folder: Path) -> None:
    header = b'{"model.norm.weight": 5}'
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    refused(folder, "is damaged or cut off")


def change(folder: Path, name: str, tensor: torch.Tensor | None) -> None:
    state = load_file(folder / "model.safetensors")
    state.pop(name, None)
    save_file(state if tensor is None else state | {name: tensor}, folder / "model.safetensors")


def test_missing_tensors(folder: Path) -> None:
    change(folder, "model.norm.weight", None)
    refused(folder, r"lacks norm\.weight\.")


def test_many_missing_tensors_are_counted(folder: Path, edit_json: Edit) -> None:
    edit_json(folder / "config.json", num_hidden_layers=3)
    refused(folder, r"lacks layers\.2\.input_layernorm.* and 6 more tensors")


def test_tensors_of_another_architecture(folder: Path) -> None:
    change(folder, "model.layers.0.mlp.experts.0.up_proj.weight", torch.zeros(2))
    refused(folder, r"holds layers\.0\.mlp\.experts.*not supported")


def test_shape_mismatch(folder: Path, edit_json: Edit) -> None:
    edit_json(folder / "config.json", intermediate_size=96)
    refused(
        folder, r"gate_proj\.weight has shape \(64, 32\), but the configuration says \(96, 32\)"
    )


def test_integer_weights(folder: Path) -> None:
    change(folder, "model.norm.weight", torch.zeros(32, dtype=torch.int8))
    refused(folder, r"model\.norm\.weight is stored as I8")


def test_tokenizer_of_another_model(folder: Path, edit_json: Edit) -> None:
    edit_json(folder / "config.json", vocab_size=200)
    change(folder, "model.embed_tokens.weight", torch.zeros(200, 32))
    refused(folder, "the tokenizer knows 264 tokens, the model 200")
    edit_json(folder / "config.json", vocab_size=2000)
    change(folder, "model.embed_tokens.weight", torch.zeros(2000, 32))
    refused(folder, "the tokenizer knows 264 tokens, the model 2,000")


def test_padded_embeddings_are_fine(folder: Path, edit_json: Edit) -> None:
    edit_json(folder / "config.json", vocab_size=512)
    change(folder, "model.embed_tokens.weight", torch.zeros(512, 32))
    config, _, tokenizer = load_weights(folder, torch.float32)
    assert (config.vocab_size, tokenizer.vocab_size) == (512, 264)
    assert tokenizer.decode([511]) == ""


def test_gguf_lacking_a_tensor(tmp_path: Path) -> None:
    state = random_state(tiny())
    del state["layers.1.mlp.up_proj.weight"]
    refused(write_gguf(tmp_path / "m.gguf", tiny(), state), r"lacks layers\.1\.mlp\.up_proj")


def test_gguf_of_a_mixture_of_experts(tmp_path: Path) -> None:
    extra = {"blk.0.ffn_gate_inp.weight": np.zeros((4, 32), dtype=np.float32)}
    path = write_gguf(tmp_path / "m.gguf", tiny(), random_state(tiny()), extra=extra)
    refused(path, "holds blk.0.ffn_gate_inp.weight, which a llama model does not have")


def test_gguf_with_other_shapes(tmp_path: Path) -> None:
    meta = {"feed_forward_length": 96}
    refused(write_gguf(tmp_path / "m.gguf", tiny(), random_state(tiny()), meta), "has shape")


@pytest.mark.parametrize("vocab_size", [200, 2000])
def test_gguf_tokenizer_of_another_model(tmp_path: Path, vocab_size: int) -> None:
    config = tiny(vocab_size=vocab_size)
    path = write_gguf(tmp_path / "m.gguf", config, random_state(config))
    refused(path, f"knows 264 tokens, the model {vocab_size:,}")


def test_cut_gguf(gguf_path: Path) -> None:
    gguf_path.write_bytes(gguf_path.read_bytes()[:-100])
    refused(gguf_path, "is cut off: it has")


# --------------------------------------------------------------------------- the embedded model


@pytest.mark.weights
def test_the_embedded_model_equals_the_gguf_package(tmp_path: Path) -> None:
    import gguf

    from inferlab.model.hub import resolve

    path = resolve("smollm2-135m")
    config, state, tokenizer = load_weights(path, torch.float32)
    assert config.num_parameters == 134_515_008
    assert tokenizer.vocab_size == config.vocab_size == 49_152
    assert (config.bos_token_id, config.eos_token_ids) == (1, (2,))
    assert isinstance(config, ModelConfig)
    stored = {t.name: t for t in gguf.GGUFReader(path).tensors}
    pairs = {
        "embed_tokens.weight": "token_embd.weight",
        "layers.7.mlp.down_proj.weight": "blk.7.ffn_down.weight",
        "layers.29.self_attn.v_proj.weight": "blk.29.attn_v.weight",
        "layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
    }
    for key, name in pairs.items():
        values = gguf.quants.dequantize(stored[name].data, stored[name].tensor_type)
        if "q_proj" in key:
            values = values.reshape(9, 32, 2, 576).swapaxes(1, 2).reshape(576, 576)
        assert np.array_equal(state[key].numpy(), values), key


def test_config_json_survives_json(folder: Path) -> None:
    values: dict[str, Any] = json.loads((folder / "config.json").read_text())
    assert read_config(folder) == ModelConfig.from_hf(values, "model")
