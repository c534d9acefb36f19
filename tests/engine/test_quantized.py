"""A quantized model in the engine: bytes, bounds against float32, perplexity, commands."""

from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from inferlab import LLM, InferlabError
from inferlab.cli.main import app
from inferlab.engine import placement
from inferlab.engine.perplexity import Perplexity, perplexity, shipped_text
from inferlab.model.config import SHAPES


def build(**options: str) -> LLM:
    """The tiny model in float32, with weights large enough for its layers to matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "SPREAD", 0.3)
        return LLM.random("tiny", dtype="float32", device="cpu", **options)


@pytest.mark.parametrize(("quantize", "share"), [("int8", 0.35), ("int4", 0.35)])
def test_a_quantized_model_says_what_it_is_and_is_smaller(quantize: str, share: float) -> None:
    plain, small = build(), build(quantize=quantize)
    assert small.describe()["quantize"] == small.quantize == quantize
    assert plain.describe()["quantize"] == plain.quantize == "none"
    assert small.describe()["weight_bytes"] == small.weight_bytes
    assert small.model.step_bytes < share * plain.model.step_bytes
    # A tied matrix that is quantized for the output stands beside its table.
    assert small.weight_bytes == small.model.step_bytes + small.model.embedding.nbytes


@pytest.mark.parametrize("quantize", ["int8", "int4", "int4-64"])
@pytest.mark.parametrize("num_tokens", [5, 100])
def test_cached_equals_uncached(quantize: str, num_tokens: int) -> None:
    llm = build(quantize=quantize)
    ids = llm.random_prompt(num_tokens)
    cached = llm.generate(ids, max_tokens=8)
    assert cached.token_ids == llm.generate(ids, max_tokens=8, use_cache=False).token_ids


def test_unknown_quantization_and_unfit_shapes_are_refused() -> None:
    with pytest.raises(InferlabError, match="no quantization 'int3'"):
        LLM("no such model", quantize="int3")
    with pytest.raises(InferlabError, match="int8 weights do not fit tiny"):
        LLM.random(replace(SHAPES["tiny"], hidden_size=72), quantize="int8", device="cpu")


def test_perplexity_of_a_model_that_knows_nothing_is_its_vocabulary(llm: LLM) -> None:
    blind = build()
    blind.model.norm._weight.zero_()  # all logits are 0
    found = perplexity(blind, "any text at all", window=8, stride=4)
    assert found.value == pytest.approx(llm.config.vocab_size, rel=1e-5)
    assert found.num_tokens == len("any text at all") - 1


@pytest.mark.parametrize("stride", [1, 5, 11])
def test_windows_score_each_token_once_given_what_is_in_sight(llm: LLM, stride: int) -> None:
    ids = llm.random_prompt(40, seed=stride)
    window = 12
    expected = 0.0
    for at in range(1, len(ids)):
        starts = range(0, len(ids), stride)
        start = next(s for s in starts if at < s + window)  # the first window that holds it
        before = ids[start:at]
        logits = llm.forward(before, llm.new_cache(len(before)))
        expected -= float(logits.log_softmax(-1)[ids[at]])
    found = perplexity(llm, ids, window=window, stride=stride)
    assert found.nll == pytest.approx(expected / 39, rel=1e-5)
    assert perplexity(llm, ids, window=64, stride=32).num_tokens == 39
    assert Perplexity(0.0, 1).value == 1


@pytest.mark.parametrize(
    ("text", "window", "stride", "message"),
    [
        ("a", 8, 4, "at least 2 tokens"),
        ("some text", 8, 8, "window of 8 tokens moved by 8"),
        ("some text", 8, 0, "stride must be"),
        ("some text", 4096, 4, "at most 512"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    llm: LLM, text: str, window: int, stride: int, message: str
) -> None:
    with pytest.raises(InferlabError, match=message):
        perplexity(llm, text, window=window, stride=stride)


@pytest.mark.weights
def test_perplexity_grows_as_bits_and_scales_get_fewer() -> None:
    text = shipped_text()[:4000]

    def score(dtype: str, quantize: str = "none") -> float:
        llm = LLM("smollm2-135m", dtype=dtype, device="cpu", quantize=quantize)
        return perplexity(llm, text).nll

    exact, half = score("float32"), score("bfloat16")
    eight, four, coarse = (score("bfloat16", name) for name in ("int8", "int4", "int4-64"))
    assert half == pytest.approx(exact, abs=0.01)
    assert eight == pytest.approx(half, abs=0.03)
    # The file is in 4 bits with the same groups of 32, so this int4 finds its levels again.
    assert four == pytest.approx(half, abs=0.03)
    assert coarse > max(eight, four) + 0.1


@pytest.mark.weights
@pytest.mark.parametrize(("quantize", "bound"), [("int8", 0.05), ("int4", 0.05)])
def test_the_distribution_stays_within_a_bound_of_float32(quantize: str, bound: float) -> None:
    exact = LLM("smollm2-135m", dtype="float32", device="cpu")
    small = LLM("smollm2-135m", dtype="bfloat16", device="cpu", quantize=quantize)
    ids = exact.tokenizer.encode("The history of the Roman empire begins with " * 4)
    p, q = (m.forward(ids, m.new_cache(len(ids))).log_softmax(-1) for m in (exact, small))
    divergence = torch.nn.functional.kl_div(q, p, reduction="sum", log_target=True)
    assert float(divergence) < bound
    assert int(p.argmax()) == int(q.argmax())


@pytest.mark.weights
def test_the_commands_take_quantize() -> None:
    ask = ["generate", "The capital of France is", "--max-tokens", "4", "--stats"]
    done = CliRunner().invoke(app, [*ask, "--quantize", "int4"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(" Paris")
    assert "with int4 weights" in done.stderr
    refused = CliRunner().invoke(app, [*ask, "--quantize", "int3"])
    assert refused.exit_code == 1
    assert "no quantization 'int3'" in refused.stderr
