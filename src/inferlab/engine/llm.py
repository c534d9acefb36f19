"""The public face of the engine: load a model, generate, stream, chat, look at probabilities."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import torch

from inferlab.engine import placement
from inferlab.engine.answer import Answer
from inferlab.engine.cache_pool import CachePool
from inferlab.engine.engine import Engine, EngineOptions
from inferlab.engine.generate import prefill
from inferlab.engine.request import Completion, Piece, SamplingParams, TokenProbability
from inferlab.engine.sampler import distribution
from inferlab.errors import InferlabError
from inferlab.kv_cache.contiguous import ContiguousCache
from inferlab.model import hub
from inferlab.model.config import ModelConfig
from inferlab.model.describe import read_config
from inferlab.model.llama import Llama
from inferlab.model.quantize import Scheme, check
from inferlab.model.tokenizer import Tokenizer
from inferlab.model.weights import load_weights

Prompt = str | Sequence[int]


class LLM:
    """A model that is ready to answer.

    model: "smollm2-135m", the path of a .gguf file, or a folder with config.json and safetensors;
        None means `$INFERLAB_MODEL`, else the embedded model.
    dtype: "float32", "bfloat16", "float16" or "auto" (what the device computes fastest).
    device: "cpu", "cuda", "mps" or "auto" (a GPU when there is one).
    num_threads: threads of the CPU; None leaves PyTorch's choice.
    quantize: "none", "int8", "int4" (groups of 32), "int4-64" or "int4-128": weights alone.

    Raises InferlabError for an unknown model, device or dtype, for a damaged file, and for a
    quantization that the device has no kernel for.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        dtype: str = "auto",
        device: str = "auto",
        num_threads: int | None = None,
        quantize: str = "none",
    ) -> None:
        place = placement.choose(device, dtype, num_threads)
        scheme = Scheme.named(quantize)
        path = hub.resolve(model)
        if quantize != "none":  # refused from the headers, before any weight is read
            check(scheme, read_config(path), place.device, place.dtype)
        config, state, tokenizer = load_weights(
            path, place.dtype, lambda config: placement.require_memory(config, place)
        )
        if (name := str(model or hub.default_model())) in hub.PACKAGES:
            config = replace(config, name=name)
        source = {"file": path.name, "sha256": placement.checksums(path)}
        self._set_up(config, state, tokenizer, place, source, scheme)

    @classmethod
    def random(
        cls,
        shape: str | ModelConfig,
        *,
        num_layers: int | None = None,
        dtype: str = "auto",
        device: str = "auto",
        num_threads: int | None = None,
        seed: int = 0,
        quantize: str = "none",
    ) -> "LLM":
        """A model of a named shape with random weights: for measuring speed, never quality.

        num_layers: build fewer layers than the shape has. Raises InferlabError for no such shape.
        """
        place = placement.choose(device, dtype, num_threads)
        config, scheme = placement.shape_named(shape, num_layers), Scheme.named(quantize)
        check(scheme, config, place.device, place.dtype)
        placement.require_memory(config, place)
        state = placement.random_state(config, place, seed)
        llm = cls.__new__(cls)
        source = {"weights": "random weights, speed only", "seed": seed}
        llm._set_up(config, state, Tokenizer.of_bytes(), place, source, scheme)
        return llm

    def _set_up(
        self,
        config: ModelConfig,
        state: dict[str, torch.Tensor],
        tokenizer: Tokenizer,
        place: placement.Placement,
        source: Mapping[str, Any],
        scheme: Scheme,
    ) -> None:
        self.config, self.tokenizer = config, tokenizer
        self.device, self.dtype = place.device, place.dtype
        moved = {name: state.pop(name).to(place.device) for name in list(state)}
        self.model = Llama(config, moved, place.dtype, place.device, scheme)
        self._pool = CachePool(self.model)
        self._engine: Engine | None = None
        self._source = dict(source)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights as they are held; a tied output matrix counts once."""
        return self.model.weight_bytes

    @property
    def quantize(self) -> str:
        """How the projections are stored: "none", "int8", "int4", ..."""
        return self.model.scheme.label

    def describe(self) -> dict[str, Any]:
        """What a record says about the model: name, shape, dtype, device, checksum."""
        return {
            "name": self.config.name,
            **self._source,
            "family": self.config.family,
            "num_layers": self.config.num_layers,
            "num_parameters": self.config.num_parameters,
            "weight_bytes": self.weight_bytes,
            "dtype": str(self.dtype).removeprefix("torch."),
            "quantize": self.quantize,
            "device": self.device.type,
        }

    def synchronize(self) -> None:
        """Wait until the device has done all that it was given; returns at once on a CPU."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()

    @overload
    def generate(
        self, prompt: Prompt, params: SamplingParams | None = None, *,
        use_cache: bool = True, **overrides: Any,
    ) -> Completion: ...  # fmt: skip
    @overload
    def generate(
        self, prompt: list[str], params: SamplingParams | None = None, *,
        use_cache: bool = True, **overrides: Any,
    ) -> list[Completion]: ...  # fmt: skip
    def generate(
        self, prompt: Prompt | list[str], params: SamplingParams | None = None, *,
        use_cache: bool = True, **overrides: Any,
    ) -> Completion | list[Completion]:  # fmt: skip
        """Complete a text, or token ids; a list of texts is served with continuous batching.

        use_cache: False recomputes the whole text for every token, one text after another; it
            gives the same tokens.
        overrides: fields of `SamplingParams`, for instance max_tokens=8.
        """
        chosen = SamplingParams.of(params, overrides)
        if isinstance(prompt, list) and any(isinstance(item, str | list) for item in prompt):
            ids = [self._ids(text) for text in prompt]
            if use_cache and self._batches:
                return self.engine.generate(ids, chosen)
            return [self._complete(each, chosen, use_cache) for each in ids]
        return self._complete(self._ids(prompt), chosen, use_cache)  # type: ignore[arg-type]

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        params: SamplingParams | None = None,
        **overrides: Any,
    ) -> Completion:
        """Answer a conversation of {role, content} messages, in the model's own chat form."""
        chosen = SamplingParams.of(params, overrides)
        return self._complete(self.tokenizer.encode_chat(messages), chosen, use_cache=True)

    def stream(
        self,
        prompt: Prompt | Sequence[Mapping[str, str]],
        params: SamplingParams | None = None,
        *,
        use_cache: bool = True,
        **overrides: Any,
    ) -> Iterator[Piece]:
        """Yield the answer token by token; the texts joined are `generate`'s text.

        A list of {role, content} messages is answered as `chat` does.
        """
        chosen = SamplingParams.of(params, overrides)
        return self.start(prompt, chosen, use_cache=use_cache).pieces()

    def start(
        self,
        prompt: Prompt | Sequence[Mapping[str, str]],
        params: SamplingParams,
        *,
        use_cache: bool = True,
    ) -> Answer:
        """An answer that has not begun: iterate over its `pieces()`, then read its trace."""
        return self._answer(self._ids(prompt), params, use_cache)

    def next_token_distribution(
        self, prompt: Prompt, top: int = 10, temperature: float = 1.0
    ) -> list[TokenProbability]:
        """The `top` most likely next tokens, most likely first."""
        if top < 1 or temperature <= 0:
            raise InferlabError("top must be at least 1, and temperature above 0.")
        ids = self._ids(prompt)
        logits = self.forward(ids, self.new_cache(len(ids)))
        probabilities = distribution(logits, SamplingParams(temperature=temperature))
        values, chosen = probabilities.topk(min(top, len(probabilities)))
        return [
            TokenProbability(token, self.tokenizer.piece(token), value, float(logits[token]))
            for token, value in zip(chosen.tolist(), values.tolist(), strict=True)
        ]

    @property
    def engine(self) -> Engine:
        """The engine that lists of prompts are served by; made when it is first used."""
        if self._engine is None:
            self._engine = self.new_engine()
        return self._engine

    def new_engine(self, **options: Any) -> Engine:
        """An engine with a cache of its own; options: fields of `EngineOptions`."""
        unknown = sorted(options.keys() - EngineOptions.__dataclass_fields__.keys())
        if unknown:
            known = ", ".join(EngineOptions.__dataclass_fields__)
            raise InferlabError(f"no engine option {unknown[0]!r}. There are: {known}.")
        return Engine(self.model, self.tokenizer, EngineOptions(**options))

    @property
    def _batches(self) -> bool:
        """Dynamic scaling turns every text by its own length, which one batch cannot."""
        scaling = self.config.rope_scaling
        return scaling is None or scaling.kind != "dynamic"

    def new_cache(self, max_len: int) -> ContiguousCache:
        """An empty KV cache for `max_len` tokens."""
        return ContiguousCache(self.config, max_len, self.dtype, self.device)

    def forward(self, token_ids: Sequence[int], cache: ContiguousCache) -> torch.Tensor:
        """Process tokens behind those in the cache; the last one's logits: (V,) float32."""
        return prefill(self.model, list(token_ids), cache)

    def random_prompt(self, num_tokens: int, seed: int = 0) -> list[int]:
        """Ordinary token ids, no control tokens, for measuring with a prompt never seen before."""
        return placement.random_prompt(self.config, self.tokenizer, num_tokens, seed)

    def _ids(self, prompt: Prompt | Sequence[Mapping[str, str]]) -> list[int]:
        if isinstance(prompt, str):
            ids = self.tokenizer.encode(prompt)
            # An empty text still needs one token to start from.
            return ids or placement.start_ids(self.tokenizer)
        if isinstance(prompt, list | tuple) and prompt and isinstance(prompt[0], Mapping):
            return self.tokenizer.encode_chat(prompt)
        return placement.checked_ids(prompt, self.config.vocab_size)

    def _answer(self, ids: list[int], params: SamplingParams, use_cache: bool) -> Answer:
        return Answer(self.model, self.tokenizer, ids, params, self._pool if use_cache else None)

    def _complete(self, ids: list[int], params: SamplingParams, use_cache: bool) -> Completion:
        answer = self._answer(ids, params, use_cache)
        text = "".join(piece.text for piece in answer.pieces())
        return Completion(text, answer.token_ids, ids, answer.finish_reason, answer.trace)
