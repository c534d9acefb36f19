"""Configurations: what config.json and GGUF metadata say, and what is refused."""

import math
from typing import Any

import pytest
from tiny_models import gguf_meta, hf_config, tiny

from inferlab.errors import InferlabError
from inferlab.model.config import SHAPES, ModelConfig, RopeScaling
from inferlab.model.gguf_config import llama3_divisors

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def from_hf(family: str = "llama", **changes: Any) -> ModelConfig:
    values = hf_config(tiny(family)) | changes
    values = {k: v for k, v in values.items() if v != "absent"}
    return ModelConfig.from_hf(values, "tiny")


def from_gguf(family: str = "llama", **changes: Any) -> ModelConfig:
    meta = {k if k.startswith("tok") else f"{family}.{k}": v for k, v in gguf_meta(tiny()).items()}
    meta |= {"general.architecture": family}
    meta |= {k.replace("__", "."): v for k, v in changes.items()}
    return ModelConfig.from_gguf(meta, "tiny", ["token_embd.weight"])


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_config_json_gives_the_shape_back(family: str) -> None:
    window = 64 if family == "mistral" else None
    config = tiny(family, sliding_window=window)
    assert ModelConfig.from_hf(hf_config(config), "tiny") == config


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_gguf_metadata_gives_the_shape_back(family: str) -> None:
    tensors = ["blk.0.attn_q.bias"] if family == "qwen2" else []
    meta = {k if k.startswith("tok") else f"{family}.{k}": v for k, v in gguf_meta(tiny()).items()}
    meta["general.architecture"] = family
    assert ModelConfig.from_gguf(meta, "tiny", tensors) == tiny(family)


# Parameters as the models' own cards and papers give them.
PARAMETERS = {
    "smollm2-135m": 134_515_008,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
}


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_named_shapes_have_the_published_number_of_parameters(name: str, parameters: int) -> None:
    assert SHAPES[name].num_parameters == parameters


def test_named_shapes_carry_their_names() -> None:
    assert all(name == config.name for name, config in SHAPES.items())
    assert SHAPES["tiny"].num_layers == 2
    assert SHAPES["qwen2.5-7b"].qkv_bias
    assert SHAPES["qwen3-8b"].qk_norm


# ------------------------------------------------------------------------------ rotary scaling


@pytest.mark.parametrize("outer", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("inner", ["type", "rope_type"])
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"kind": "default"}, None),
        ({"kind": "linear", "factor": 4.0}, RopeScaling("linear", 4.0, 1.0, 4.0, 128)),
        ({"kind": "dynamic", "factor": 2.0}, RopeScaling("dynamic", 2.0, 1.0, 4.0, 128)),
        ({"kind": "llama3", **LLAMA3}, RopeScaling("llama3", 8.0, 1.0, 4.0, 8192)),
        (
            {"kind": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
            RopeScaling("yarn", 4.0, 1.0, 4.0, 32, attention_factor=0.1 * math.log(4) + 1),
        ),
    ],
)
def test_rope_scaling_of_every_kind_and_spelling(
    outer: str, inner: str, settings: dict[str, Any], expected: RopeScaling | None
) -> None:
    spelled = {inner if k == "kind" else k: v for k, v in settings.items()}
    assert from_hf(**{outer: spelled}).rope_scaling == expected


def test_rope_parameters_of_transformers_5_hold_the_base() -> None:
    parameters = {"rope_type": "default", "rope_theta": 5e5}
    assert from_hf(rope_theta="absent", rope_parameters=parameters).rope_theta == 5e5
    assert from_hf(rope_theta="absent").rope_theta == 1e4


@pytest.mark.parametrize(
    ("settings", "attention_factor"),
    [
        ({"attention_factor": 1.5}, 1.5),
        ({"factor": 1.0}, 1.0),
        (
            {"mscale": 1.0, "mscale_all_dim": 0.5},
            (0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1),
        ),
    ],
)
def test_yarn_attention_factor(settings: dict[str, Any], attention_factor: float) -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, **settings}
    found = from_hf(rope_scaling=scaling).rope_scaling
    assert found is not None
    assert found.attention_factor == pytest.approx(attention_factor)


def test_yarn_takes_its_factor_from_the_lengths() -> None:
    scaling = {"rope_type": "yarn", "original_max_position_embeddings": 32, "truncate": False}
    found = from_hf(rope_scaling=scaling).rope_scaling
    assert found is not None
    assert (found.factor, found.truncate) == (4.0, False)


@pytest.mark.parametrize(
    ("scaling", "length"),
    [
        ({"type": "linear", "factor": 2.0}, 256),
        ({"type": "dynamic", "factor": 2.0}, 256),
        ({"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 128}, 1024),
        ({"type": "llama3", **LLAMA3}, 128),
        (None, 128),
    ],
)
def test_context_grows_with_the_scaling(scaling: dict[str, Any] | None, length: int) -> None:
    assert from_hf(rope_scaling=scaling).max_model_len == length


def test_gguf_rope_scaling() -> None:
    yarn = {
        "llama__rope__scaling__type": "yarn",
        "llama__rope__scaling__factor": 4.0,
        "llama__rope__scaling__original_context_length": 32,
    }
    found = from_gguf(**yarn).rope_scaling
    assert found == RopeScaling(
        "yarn", 4.0, original_max_position_embeddings=32, attention_factor=0.1 * math.log(4) + 1
    )
    linear = from_gguf(llama__rope__scaling__type="linear", llama__rope__scaling__factor=2.0)
    assert linear.rope_scaling == RopeScaling("linear", 2.0, original_max_position_embeddings=128)
    assert from_gguf(llama__rope__scaling__type="none").rope_scaling is None
    with pytest.raises(InferlabError, match="longrope"):
        from_gguf(llama__rope__scaling__type="longrope")


def test_llama3_divisors_run_from_one_to_the_factor() -> None:
    divisors = llama3_divisors(RopeScaling("llama3", 8.0, 1.0, 4.0, 8192), 5e5, 128)
    assert divisors[0] == 1.0
    assert divisors[-1] == 8.0
    assert divisors == sorted(divisors)
    assert any(1.0 < d < 8.0 for d in divisors)


# ------------------------------------------------------------------------ windows, biases, ids


def test_sliding_window_of_each_family() -> None:
    assert from_hf("llama", sliding_window=64).sliding_window is None
    assert from_hf("mistral", sliding_window=None).sliding_window is None
    assert from_hf("mistral", sliding_window="absent").sliding_window == 4096
    assert from_hf("qwen2", sliding_window=64, use_sliding_window=False).sliding_window is None
    config = from_hf("qwen2", sliding_window=64, use_sliding_window=True, max_window_layers=1)
    assert (config.window_of(0), config.window_of(1)) == (None, 64)
    kinds = ["sliding_attention", "full_attention"]
    config = from_hf("qwen3", sliding_window=64, use_sliding_window=True, layer_types=kinds)
    assert (config.window_of(0), config.window_of(1)) == (64, None)


def test_biases_of_each_family() -> None:
    shapes = from_hf("llama", attention_bias=True).tensor_shapes()
    assert shapes["layers.1.self_attn.k_proj.bias"] == (32,)
    assert shapes["layers.1.self_attn.o_proj.bias"] == (32,)
    qwen = from_hf("qwen2", attention_bias=True).tensor_shapes()
    assert "layers.0.self_attn.q_proj.bias" in qwen
    assert "layers.0.self_attn.o_proj.bias" not in qwen


def test_head_dim_defaults_to_a_share_of_the_hidden_size() -> None:
    assert from_hf(head_dim=None).head_dim == 8
    assert from_hf("qwen3", head_dim=None).head_dim == 128
    with pytest.raises(InferlabError, match="not a multiple of 5 heads"):
        from_hf(head_dim=None, num_attention_heads=5)


def test_end_ids_come_from_the_generation_config_first() -> None:
    values = hf_config(tiny()) | {"eos_token_id": 7}
    assert ModelConfig.from_hf(values, "tiny").eos_token_ids == (7,)
    config = ModelConfig.from_hf(values, "tiny", {"eos_token_id": [3, 4]})
    assert config.eos_token_ids == (3, 4)
    with pytest.raises(InferlabError, match="token id"):
        from_hf(eos_token_id="</s>")


def test_gguf_end_ids_include_the_end_of_turn() -> None:
    assert from_gguf(tokenizer__ggml__eot_token_id=4).eos_token_ids == (2, 4)
    assert from_gguf(tokenizer__ggml__eot_token_id=2).eos_token_ids == (2,)


def test_gguf_window_and_untied_embeddings() -> None:
    assert from_gguf(llama__attention__sliding_window=64).sliding_window == 64
    meta = {"general.architecture": "llama"} | {
        f"llama.{k}": v for k, v in gguf_meta(tiny()).items()
    }
    assert not ModelConfig.from_gguf(meta, "tiny", ["output.weight"]).tie_embeddings


# -------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt_neox"}, "architecture 'gpt_neox' is not supported.*llama, mistral"),
        ({"model_type": None}, "architecture None"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "32"}, "hidden_size = '32' is not a number"),
        ({"hidden_size": 32.5}, "hidden_size = 32.5 is not whole"),
        ({"num_hidden_layers": 0}, "num_layers must be positive"),
        ({"num_attention_heads": 0}, "num_heads must be positive"),
        ({"num_key_value_heads": 3}, "multiple of num_kv_heads"),
        ({"head_dim": 7}, "must be even"),
        ({"rope_theta": -1.0}, "must be positive"),
        ({"rope_theta": math.nan}, "not a number"),
        ({"rope_scaling": {"type": "longrope", "factor": 2.0}}, "kind 'longrope'.*llama3"),
        ({"rope_scaling": {"type": "linear"}}, "factor is missing"),
        ({"rope_scaling": {"type": "llama3", "factor": 2.0}}, "low_freq_factor is missing"),
        ({"rope_scaling": [2.0]}, "not an object"),
    ],
)
def test_config_json_is_refused_with_the_reason(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InferlabError, match=message) as caught:
        from_hf(**changes)
    assert str(caught.value).startswith("tiny")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general__architecture": "mamba"}, "'mamba' is not supported"),
        ({"llama__rope__dimension_count": 8}, "over 8 of 16 dimensions"),
        ({"llama__block_count": None}, "llama.block_count is missing"),
        ({"llama__attention__head_count": [4, 4]}, "is not a number"),
    ],
)
def test_gguf_metadata_is_refused_with_the_reason(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InferlabError, match=message):
        from_gguf(**changes)
