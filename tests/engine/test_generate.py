"""Every fast path gives what the plain one gives."""

from contextlib import nullcontext
from itertools import islice
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from inferlab import LLM, InferlabError
from inferlab.engine.cuda_graph import BUCKET, FixedShapeDecode, GraphedDecode
from inferlab.engine.generate import (
    decode_one,
    generate_with_cache,
    generate_without_cache,
    prefill,
)
from inferlab.kv_cache.contiguous import ContiguousCache
from inferlab.model.config import SHAPES

PROMPT = [5, 7, 200, 31, 90, 12, 255, 3, 77, 130, 9, 64]
CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def greedy(logits: torch.Tensor) -> int:
    return int(logits.argmax())


def test_cached_equals_uncached(any_llm: LLM) -> None:
    plain = list(islice(generate_without_cache(any_llm.model, PROMPT, greedy), 30))
    cache = any_llm.new_cache(len(PROMPT) + 30)
    cached = list(islice(generate_with_cache(any_llm.model, PROMPT, greedy, cache), 30))
    assert cached == plain
    assert len(set(plain)) > 1, "a model that repeats one token proves nothing"


@pytest.mark.parametrize("split", [1, 5, 11])
def test_chunked_prefill_equals_whole(any_llm: LLM, split: int) -> None:
    whole = prefill(any_llm.model, PROMPT, any_llm.new_cache(20))
    cache = any_llm.new_cache(20)
    prefill(any_llm.model, PROMPT[:split], cache)
    torch.testing.assert_close(prefill(any_llm.model, PROMPT[split:], cache), whole, **CLOSE)


def test_long_prompt_spans_several_blocks_of_queries(any_llm: LLM) -> None:
    prompt = any_llm.random_prompt(300)
    whole = prefill(any_llm.model, prompt, any_llm.new_cache(300))
    cache = any_llm.new_cache(300)
    for token in prompt:
        logits = decode_one(any_llm.model, token, cache)
    torch.testing.assert_close(logits, whole, **CLOSE)


def test_fixed_shape_decode_equals_plain_decode(any_llm: LLM) -> None:
    """What a CUDA graph replays, run without the graph."""
    plain, fixed = any_llm.new_cache(40), any_llm.new_cache(40)
    prefill(any_llm.model, PROMPT, plain)
    prefill(any_llm.model, PROMPT, fixed)
    step = FixedShapeDecode(any_llm.model, fixed)
    for token in (3, 250, 17, 17, 90):
        expected = decode_one(any_llm.model, token, plain)
        torch.testing.assert_close(step(any_llm.model, token, fixed), expected, **CLOSE)
    assert fixed.num_tokens == plain.num_tokens == len(PROMPT) + 5


def test_fixed_shape_decode_crosses_a_bucket(llm: LLM) -> None:
    length = BUCKET - 2
    big = LLM.random("smollm2-135m", num_layers=1, dtype="float32", device="cpu")
    prompt = big.random_prompt(length)
    plain, fixed = big.new_cache(BUCKET + 8), big.new_cache(BUCKET + 8)
    prefill(big.model, prompt, plain)
    prefill(big.model, prompt, fixed)
    step = FixedShapeDecode(big.model, fixed)
    for token in prompt[:5]:
        expected = decode_one(big.model, token, plain)
        torch.testing.assert_close(step(big.model, token, fixed), expected, **CLOSE)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_graph_on_cuda_equals_plain_decode(dtype: str) -> None:
    llm = LLM.random("smollm2-135m", num_layers=4, dtype=dtype, device="cuda")
    prompt = llm.random_prompt(BUCKET - 3)
    plain, graphed = llm.new_cache(BUCKET + 20), llm.new_cache(BUCKET + 20)
    prefill(llm.model, prompt, plain)
    prefill(llm.model, prompt, graphed)
    step = GraphedDecode(llm.model, graphed)
    for token in prompt[:10]:
        expected = decode_one(llm.model, token, plain)
        torch.testing.assert_close(step(llm.model, token, graphed), expected, atol=5e-2, rtol=5e-2)


@pytest.mark.gpu
def test_cuda_logits_are_close_to_those_of_the_cpu() -> None:
    ids = LLM.random("tiny", device="cpu").random_prompt(50)
    on_cpu = LLM("smollm2-135m", dtype="float32", device="cpu")
    on_gpu = LLM("smollm2-135m", dtype="bfloat16", device="cuda")
    exact = on_cpu.forward(ids, on_cpu.new_cache(50)).softmax(-1)
    found = on_gpu.forward(ids, on_gpu.new_cache(50)).softmax(-1).cpu()
    assert float((exact - found).abs().sum()) < 0.1


def test_bfloat16_runs_the_same_paths() -> None:
    llm = LLM.random("tiny", dtype="bfloat16", device="cpu")
    cache = llm.new_cache(40)
    assert cache.nbytes == 2 * 2 * 2 * 40 * 16 * 2  # layers, k and v, heads, tokens, dim, bytes
    logits = llm.forward(PROMPT, cache)
    assert logits.dtype == torch.float32
    assert logits.shape == (SHAPES["tiny"].vocab_size,)


def test_a_full_cache_says_so_and_stays_usable(llm: LLM) -> None:
    cache = llm.new_cache(14)
    llm.forward(PROMPT, cache)
    with pytest.raises(InferlabError, match=r"holds 14 tokens; 12 are present and 3 more"):
        llm.forward([1, 2, 3], cache)
    assert cache.num_tokens == 12
    llm.forward([1, 2], cache)
    cache.reset()
    assert cache.num_tokens == 0
    fresh = llm.forward(PROMPT, llm.new_cache(14))
    torch.testing.assert_close(llm.forward(PROMPT, cache), fresh)


def test_a_cache_needs_room(llm: LLM) -> None:
    with pytest.raises(InferlabError, match="at least 1 token"):
        ContiguousCache(llm.config, 0, torch.float32, torch.device("cpu"))


class FakeGraph:
    """Stands for a CUDA graph: replaying it runs the captured step again, into the same output."""

    captured: ClassVar[list["FakeGraph"]] = []

    def __init__(self) -> None:
        self.replays = 0
        FakeGraph.captured.append(self)

    def replay(self) -> None:
        self.replays += 1
        self.output.copy_(self.step(self.context))


def test_each_bucket_is_captured_once_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bookkeeping around the capture; the capture itself needs a GPU."""
    big = LLM.random("smollm2-135m", num_layers=1, dtype="float32", device="cpu")
    stream = SimpleNamespace(wait_stream=lambda _: None)
    for name, fake in {
        "Stream": lambda: stream, "current_stream": lambda: stream, "CUDAGraph": FakeGraph,
        "stream": lambda _: nullcontext(), "graph": lambda _: nullcontext(),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, fake)
    step_of = GraphedDecode.step

    def step(self: GraphedDecode, context: Any) -> torch.Tensor:
        output = step_of(self, context)
        for graph in FakeGraph.captured[-1:]:
            if not hasattr(graph, "output"):
                graph.output, graph.context = output, context
                graph.step = lambda c: step_of(self, c)
        return output

    monkeypatch.setattr(GraphedDecode, "step", step)
    prompt = big.random_prompt(BUCKET - 2)
    plain, graphed = big.new_cache(BUCKET + 8), big.new_cache(BUCKET + 8)
    prefill(big.model, prompt, plain)
    prefill(big.model, prompt, graphed)
    decode = GraphedDecode(big.model, graphed)
    for token in prompt[:6]:
        expected = decode_one(big.model, token, plain)
        torch.testing.assert_close(decode(big.model, token, graphed), expected, **CLOSE)
    assert [graph.replays for graph in FakeGraph.captured] == [2, 4]
