"""Reads a ModelConfig from a Hugging Face config.json, under the names used there."""

import math
from collections.abc import Mapping
from typing import Any

from inferlab.errors import InferlabError
from inferlab.model.config import Family, ModelConfig, RopeKind, RopeScaling

FAMILIES: dict[str, Family] = {
    "llama": "llama",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
}
ROPE_KINDS: dict[str, RopeKind] = {
    "linear": "linear",
    "dynamic": "dynamic",
    "llama3": "llama3",
    "yarn": "yarn",
}


class Fields:
    """Typed access to a mapping that someone else wrote; a bad value names the key and the file."""

    def __init__(self, values: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self.values, self.where, self.prefix = values, where, prefix

    def get(self, key: str) -> Any:
        """Return the value under `key`, or None."""
        return self.values.get(self.prefix + key)

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number; without a default the key is required."""
        return int(self._number(key, default, whole=True))

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number; without a default the key is required."""
        return float(self._number(key, default, whole=False))

    def _number(self, key: str, default: float | None, whole: bool) -> float:
        value = self.get(key)
        value = default if value is None else value
        if value is None:
            raise InferlabError(f"{self.where}: {self.prefix + key} is missing.")
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise InferlabError(f"{self.where}: {self.prefix + key} = {value!r} is not a number.")
        if whole and value != int(value):
            raise InferlabError(f"{self.where}: {self.prefix + key} = {value!r} is not whole.")
        return value


def known_family(architecture: Any, where: str) -> Family:
    """Return the family of an architecture's name, or raise InferlabError that lists the known."""
    if family := FAMILIES.get(str(architecture)):
        return family
    known = ", ".join(FAMILIES)
    raise InferlabError(
        f"{where}: architecture {architecture!r} is not supported. inferlab runs {known} "
        "(Llama 2 and 3, Mistral, SmolLM2, Qwen2, Qwen2.5, Qwen3); choose a model of these."
    )


def config_from_hf(
    config: Mapping[str, Any], name: str, generation: Mapping[str, Any]
) -> ModelConfig:
    """Read a parsed config.json; values that are missing get the defaults of `transformers`."""
    family = known_family(config.get("model_type"), name)
    fields = Fields(config, f"{name}: config.json")
    _refuse_unsupported(config, fields)
    heads, hidden = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    if config.get("head_dim") is None and family != "qwen3" and heads and hidden % heads:
        raise InferlabError(
            f"{fields.where}: hidden_size {hidden} is not a multiple of {heads} heads, and "
            "head_dim is missing."
        )
    layers = fields.integer("num_hidden_layers")
    window, full_layers = _sliding(fields, family, layers)
    bias = family in ("llama", "qwen3") and bool(config.get("attention_bias"))
    trained_len = fields.integer("max_position_embeddings", {"llama": 2048}.get(family, 32768))
    scaling = _rope_from_hf(config, fields.where, trained_len)
    return ModelConfig(
        name=name,
        family=family,
        num_layers=layers,
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_heads=heads,
        num_kv_heads=fields.integer("num_key_value_heads", 8 if family == "mistral" else heads),
        head_dim=fields.integer("head_dim", 128 if family == "qwen3" else hidden // max(heads, 1)),
        vocab_size=fields.integer("vocab_size"),
        rope_theta=_rope_fields(config, fields.where).number(
            "rope_theta", fields.number("rope_theta", 10000.0)
        ),
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
        max_model_len=_scaled_len(scaling, trained_len),
        tie_embeddings=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2" or bias,
        o_bias=bias,
        qk_norm=family == "qwen3",
        rope_scaling=scaling,
        sliding_window=window,
        full_attention_layers=full_layers,
        bos_token_id=_first(_ids(config.get("bos_token_id"), fields.where)),
        eos_token_ids=_ids(generation.get("eos_token_id"), fields.where)
        or _ids(config.get("eos_token_id"), fields.where),
    )


def _refuse_unsupported(config: Mapping[str, Any], fields: Fields) -> None:
    problems = {
        "hidden_act": config.get("hidden_act", "silu") not in ("silu", "swish"),
        "mlp_bias": bool(config.get("mlp_bias")),
        "quantization_config": config.get("quantization_config") is not None,
        "partial_rotary_factor": (config.get("partial_rotary_factor") or 1.0) != 1.0,
    }
    for key, unsupported in problems.items():
        if unsupported:
            raise InferlabError(
                f"{fields.where}: {key} = {config[key]!r} is not supported. inferlab runs "
                "SwiGLU models with full rotary embeddings and unquantized safetensors; "
                "use such a checkpoint, or a GGUF file."
            )


def _sliding(fields: Fields, family: Family, layers: int) -> tuple[int | None, tuple[int, ...]]:
    """Return the attention window, and the layers that do not use it."""
    if family == "llama":
        return None, ()
    if (
        family == "mistral"
        and "sliding_window" in fields.values
        and not fields.get("sliding_window")
    ):
        return None, ()
    if family != "mistral" and not fields.get("use_sliding_window"):
        return None, ()
    window = fields.integer("sliding_window", 4096)
    if family == "mistral":
        return window, ()
    kinds = fields.get("layer_types")
    if not isinstance(kinds, list):
        return window, tuple(range(min(fields.integer("max_window_layers", 28), layers)))
    return window, tuple(i for i, kind in enumerate(kinds[:layers]) if kind == "full_attention")


def _rope_fields(config: Mapping[str, Any], where: str) -> Fields:
    """Return the rotary settings: `rope_parameters` (transformers 5), else `rope_scaling`."""
    settings = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(settings, Mapping):
        raise InferlabError(f"{where}: rope_scaling = {settings!r} is not an object.")
    return Fields(settings, f"{where}: rope_scaling")


def _rope_from_hf(config: Mapping[str, Any], where: str, trained_len: int) -> RopeScaling | None:
    fields = _rope_fields(config, where)
    kind = fields.get("rope_type") or fields.get("type") or "default"
    if kind == "default":
        return None
    if kind not in ROPE_KINDS:
        raise InferlabError(
            f"{where}: rope_scaling kind {kind!r} is not supported; known are default, "
            f"{', '.join(ROPE_KINDS)}."
        )
    outer = Fields(config, where).integer("original_max_position_embeddings", trained_len)
    original = fields.integer("original_max_position_embeddings", outer)
    if kind == "dynamic":
        original = trained_len
    ratio = trained_len / original if kind == "yarn" else None
    factor = fields.number("factor", ratio)
    return RopeScaling(
        kind=ROPE_KINDS[kind],
        factor=factor,
        low_freq_factor=fields.number("low_freq_factor", None if kind == "llama3" else 1.0),
        high_freq_factor=fields.number("high_freq_factor", None if kind == "llama3" else 4.0),
        original_max_position_embeddings=original,
        beta_fast=fields.number("beta_fast", 32.0),
        beta_slow=fields.number("beta_slow", 1.0),
        attention_factor=_attention_factor(fields, kind, factor),
        truncate=fields.get("truncate") is not False,
    )


def _attention_factor(fields: Fields, kind: str, factor: float) -> float:
    """Yarn's correction of the softmax temperature (arXiv 2309.00071, section 3.4)."""
    if kind != "yarn":
        return 1.0

    def correction(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    own, every = fields.number("mscale", 0.0), fields.number("mscale_all_dim", 0.0)
    inferred = correction(own) / correction(every) if own and every else correction(1.0)
    return fields.number("attention_factor", inferred)


def _scaled_len(scaling: RopeScaling | None, trained_len: int) -> int:
    """Positions the model can address. Llama 3 already counts its stretched context."""
    if scaling is None or scaling.kind == "llama3":
        return trained_len
    if scaling.kind == "yarn":
        original = scaling.original_max_position_embeddings
        return max(trained_len, int(original * scaling.factor))
    return int(trained_len * scaling.factor)


def _ids(value: Any, where: str) -> tuple[int, ...]:
    """Token ids from null, one id or a list of them."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if any(isinstance(x, bool) or not isinstance(x, int) for x in listed):
        raise InferlabError(f"{where}: {value!r} is not a token id or a list of token ids.")
    return tuple(listed)


def _first(ids: tuple[int, ...]) -> int | None:
    return ids[0] if ids else None
