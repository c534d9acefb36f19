"""Many at once gives what one alone gives: over any mix, chunk, prefix, preemption and abort."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_llm import BASE, CONFIGS, build

from inferlab import LLM, InferlabError, SamplingParams
from inferlab.engine.engine import Engine
from inferlab.engine.request import Request
from inferlab.engine.scheduler import Batch, Scheduled
from inferlab.kv_cache.paged import Span, similar
from inferlab.model.config import RopeScaling

LOGITS = {"rtol": 1e-4, "atol": 1e-4}
SMALL = {"max_num_seqs": 4, "max_num_batched_tokens": 16, "block_size": 4, "num_blocks": 40}
MODELS: dict[str, LLM] = {}


def model(kind: str = "llama") -> LLM:
    return MODELS.setdefault(kind, build(CONFIGS[kind]))


def prompts(lengths: list[int], seed: int = 0) -> list[list[int]]:
    return [model().random_prompt(n, seed=seed + i) for i, n in enumerate(lengths)]


def all_free(engine: Engine) -> bool:
    held = set(engine.blocks.ref_count) | {len(engine.blocks.block_tables)}
    return held == {0} and engine.blocks.num_free == engine.blocks.num_blocks


def logits_of(engine: Engine, ids: list[int], chunks: list[int]) -> torch.Tensor:
    """The last logits of a text that is computed in chunks of these sizes."""
    request = Request("one", ids, SamplingParams())
    engine.blocks.allocate("one", ids)
    for size in chunks:
        batch = Batch([Scheduled(request, size)])
        done, logits = engine.runner.run(batch, engine.blocks.block_tables)
        request.num_computed_tokens += size
    engine.blocks.release("one")
    assert done == [request]
    assert logits is not None
    return logits[0]


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("chunks", [[23], [1] * 23, [5, 1, 9, 8], [22, 1], [1, 22]])
def test_paged_and_chunked_logits_are_those_of_one_contiguous_pass(
    kind: str, chunks: list[int]
) -> None:
    llm = model(kind)
    ids = llm.random_prompt(23, seed=5)
    plain = llm.forward(ids, llm.new_cache(23))
    engine = llm.new_engine(**SMALL)
    engine.blocks.allocate("in the way", [1] * 6)
    engine.blocks.release("in the way")  # so that the table is not 0, 1, 2, ...
    torch.testing.assert_close(logits_of(engine, ids, chunks), plain, **LOGITS)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(["llama", "some layers slide", "one KV head"]),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=7),
    outputs=st.integers(1, 12), budget=st.integers(4, 50), num_blocks=st.integers(14, 40),
    scheduling=st.sampled_from(["continuous", "static"]), prefix_cache=st.booleans(),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_together_is_as_alone_for_every_mix(
    kind: str, lengths: list[int], outputs: int, seed: int, budget: int, **options: Any
) -> None:
    llm, asked = model(kind), prompts(lengths, seed)
    params = SamplingParams(max_tokens=outputs, ignore_eos=True)
    alone = [llm.generate(ids, params).token_ids for ids in asked]
    engine = llm.new_engine(max_num_seqs=4, max_num_batched_tokens=budget, block_size=4, **options)
    together = engine.generate(asked, params)
    assert [done.token_ids for done in together] == alone
    assert all_free(engine)


def test_sampled_and_penalized_requests_keep_their_own_draws() -> None:
    llm, asked = model(), prompts([5, 9, 13])
    params = SamplingParams(12, temperature=1.0, top_p=0.9, seed=3, repetition_penalty=1.3)
    alone = [llm.generate(ids, params) for ids in asked]
    together = llm.new_engine(**SMALL).generate(asked, params)
    assert [done.token_ids for done in together] == [done.token_ids for done in alone]
    assert [done.text for done in together] == [done.text for done in alone]


def test_preempted_and_resumed_is_as_never_preempted() -> None:
    llm, asked = model(), prompts([9, 11, 10])
    params = SamplingParams(max_tokens=20, ignore_eos=True)
    roomy = llm.new_engine(**SMALL)
    tight = llm.new_engine(**SMALL | {"num_blocks": 12})
    answers = [engine.generate(asked, params) for engine in (roomy, tight)]
    assert [done.token_ids for done in answers[0]] == [done.token_ids for done in answers[1]]
    assert not any(step.preempted for step in roomy.steps)
    assert any(step.preempted for step in tight.steps)
    assert all_free(tight)


def test_a_prefix_hit_answers_as_a_cold_start() -> None:
    llm, (shared, tail) = model(), prompts([24, 5])
    engine = llm.new_engine(**SMALL)
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    engine.generate([shared], params)
    (warm,) = engine.generate([shared + tail], params)
    (cold,) = llm.new_engine(**SMALL, prefix_cache=False).generate([shared + tail], params)
    assert warm.token_ids == cold.token_ids
    assert warm.trace.usage.cached_tokens == 24
    assert cold.trace.usage.cached_tokens == 0


def test_every_step_says_who_ran_and_what_it_held() -> None:
    engine = model().new_engine(**SMALL)
    first, second = (engine.add_request(ids, SamplingParams(2)) for ids in prompts([12, 9]))
    assert engine.step().ran == ((first, 12, "prefill"), (second, 4, "prefill"))
    step = engine.step()
    assert step.ran == ((first, 1, "decode"), (second, 5, "prefill"))
    assert (step.num_blocks_used, step.num_waiting, step.preempted) == (3, 0, ())
    assert 0 < step.forward_ns < step.duration_ns
    assert engine.step().ran == ((second, 1, "decode"),)
    assert not engine.has_work
    assert engine.step().ran == ()
    assert len(engine.steps) == 4


def test_a_stream_runs_beside_others_and_is_aborted_when_left() -> None:
    llm, (one, other) = model(), prompts([6, 7])
    engine, params = llm.new_engine(**SMALL), SamplingParams(max_tokens=9, ignore_eos=True)
    name = engine.add_request(other, params)
    pieces = list(engine.stream(one, params))
    assert [piece.token_id for piece in pieces] == llm.generate(one, params).token_ids
    left = engine.stream(one, params)
    next(left)
    left.close()  # type: ignore[attr-defined]
    engine.abort(name)
    engine.abort("nobody")
    assert not engine.has_work
    assert all_free(engine)


def test_the_public_list_is_served_together(llm: LLM) -> None:
    texts = ["a", "bcd", "efghij"]
    alone = [llm.generate(text, max_tokens=6).token_ids for text in texts]
    together = llm.generate(texts, max_tokens=6)
    assert [done.token_ids for done in together] == alone
    assert any(len(step.ran) == 3 for step in llm.engine.steps)
    ids = [llm.tokenizer.encode(text) for text in texts]
    assert [done.token_ids for done in llm.generate(ids, max_tokens=6)] == alone


BAD: dict[str, tuple[list[int], dict[str, Any], str]] = {
    "no tokens": ([], {}, "no tokens"),
    "not in the vocabulary": ([1, 512], {}, "512 is not a token id"),
    "longer than the model's context": ([1] * 512, {}, "512 tokens; tiny takes 512 in all"),
    "longer than the cache can hold": ([1] * 150, {"max_tokens": 20}, "the KV cache has 40 of 4"),
    "no token to make": ([1], {"max_tokens": 0}, "max_tokens must be at least 1"),
    "NaN temperature": ([1], {"temperature": float("nan")}, "temperature must be 0 or above"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_the_engine_stays_usable(name: str) -> None:
    ids, options, message = BAD[name]
    engine = model().new_engine(**SMALL)
    good = prompts([5])[0]
    with pytest.raises(InferlabError, match=message):
        engine.generate([good, ids], SamplingParams.of(None, options))
    assert all_free(engine)
    assert len(engine.generate([good], SamplingParams(3))) == 1
    assert all_free(engine)


def test_a_full_line_and_a_pool_too_small_are_refused() -> None:
    engine = model().new_engine(**SMALL, max_num_waiting=2)
    with pytest.raises(InferlabError, match="2 requests are waiting, and no more may"):
        engine.generate(prompts([5, 5, 5]))
    assert all_free(engine)
    assert not engine.has_work
    tiny = model().new_engine(**SMALL | {"num_blocks": 2})
    with pytest.raises(InferlabError, match=r"need 3 blocks; the KV cache has 2 of 4 tokens"):
        tiny.add_request([1] * 5, SamplingParams(5))
    assert tiny.add_request([1] * 5, SamplingParams(4))


def test_a_stop_string_that_never_comes_ends_at_the_limit() -> None:
    engine = model().new_engine(**SMALL)
    (done,) = engine.generate(prompts([5]), SamplingParams(7, stop=("nevermore",), ignore_eos=True))
    assert (len(done.token_ids), done.finish_reason) == (7, "length")


def test_a_step_that_breaks_ends_its_requests_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = model().new_engine(**SMALL)
    one = engine.add_request(prompts([16])[0], SamplingParams(3))
    later = engine.add_request(prompts([5])[0], SamplingParams(3))
    with monkeypatch.context() as patch:
        patch.setattr(engine.runner, "run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.step()
    assert engine.scheduler.waiting[0].request_id == later
    while engine.has_work:
        engine.step()
    engine.abort(one)
    assert all_free(engine)


def test_what_cannot_be_served_is_said() -> None:
    with pytest.raises(InferlabError, match="no scheduling 'eager'"):
        model().new_engine(scheduling="eager")
    with pytest.raises(InferlabError, match="no engine option 'max_seqs'"):
        model().new_engine(max_seqs=3)
    scaled = replace(BASE, rope_scaling=RopeScaling("dynamic", 2.0,
                     original_max_position_embeddings=256))  # fmt: skip
    llm = build(scaled)
    with pytest.raises(InferlabError, match="dynamic rope scaling"):
        llm.new_engine()
    assert len(llm.generate(["a", "b"], max_tokens=2)) == 2


def test_the_default_pool_holds_the_context_or_all_that_may_run() -> None:
    assert model().new_engine().blocks.num_blocks == 64 * 256 // 16
    assert model().new_engine(max_num_seqs=1).blocks.num_blocks == 512 // 16
    engine = model().new_engine(num_blocks=8)
    cache = engine.runner.cache
    assert cache.nbytes == 2 * 8 * 16 * 2 * 2 * 16 * 4  # layers, blocks, size, 2 Hkv, D, bytes


def test_decodes_are_grouped_by_similar_length() -> None:
    spans = [Span([0] * n, n, 1) for n in (1, 2, 3, 6, 7)]
    assert [[span.num_blocks for span in group] for group in similar(spans)] == [
        [1, 2],
        [3, 6],
        [7],
    ]
    assert list(similar([])) == []
