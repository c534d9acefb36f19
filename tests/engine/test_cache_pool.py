"""A cache serves one request at a time, and the next one finds nothing of the last."""

import pytest
import torch

from inferlab import LLM
from inferlab.engine import cache_pool
from inferlab.engine.cache_pool import KEPT, STEP, CachePool


def test_the_next_request_gets_the_same_cache_emptied(llm: LLM) -> None:
    pool = CachePool(llm.model)
    with pool.lent(10) as first:
        llm.forward([1, 2, 3], first.cache)
    with pool.lent(STEP) as second:
        assert second is first
        assert second.cache.num_tokens == 0
    with pool.lent(STEP + 1) as longer:
        assert longer is not first
        assert longer.cache.max_len == 2 * STEP


def test_requests_at_the_same_time_have_caches_of_their_own(llm: LLM) -> None:
    pool = CachePool(llm.model)
    with pool.lent(5) as one, pool.lent(5) as two, pool.lent(5) as three:
        assert len({id(one), id(two), id(three)}) == 3
    assert len(pool._idle) == KEPT


def test_interleaved_streams_do_not_disturb_each_other(llm: LLM) -> None:
    prompts = ("one text", "another text")
    alone = [llm.generate(prompt, max_tokens=10).token_ids for prompt in prompts]
    streams = [llm.stream(prompt, max_tokens=10) for prompt in prompts]
    together = [list(pair) for pair in zip(*streams, strict=True)]
    assert [[pieces[i].token_id for pieces in together] for i in (0, 1)] == alone


def test_an_answer_left_early_gives_its_cache_back(llm: LLM) -> None:
    fresh = CachePool(llm.model)
    llm._pool, before = fresh, llm._pool
    try:
        stream = llm.stream("some text", max_tokens=10)
        next(stream)
        assert fresh._idle == []
        stream.close()  # type: ignore[attr-defined]
        assert len(fresh._idle) == 1
        list(llm.stream("some text", max_tokens=3))
        assert len(fresh._idle) == 1
    finally:
        llm._pool = before


def test_on_cuda_a_cache_brings_its_captured_graph(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm.model, "device", torch.device("cuda"))
    monkeypatch.setattr(cache_pool, "ContiguousCache", lambda *_: "cache")
    monkeypatch.setattr(cache_pool, "GraphedDecode", lambda _, cache: f"graph of {cache}")
    assert CachePool(llm.model)._take(5).decode == "graph of cache"
