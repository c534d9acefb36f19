"""Tiled attention equals the reference, and its trace counts what really moved."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inferlab.cost import flash_attention_accesses, standard_attention_accesses
from inferlab.errors import InferlabError
from inferlab.model.attention import attend_reference, visible
from inferlab.model.flash_attention import TileTrace, attend_tiled, tile_rows


def qkv(
    num_queries: int, num_keys: int, heads: tuple[int, int] = (4, 2), dim: int = 16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(num_keys)
    # As a cache holds them: part of a longer buffer.
    k, v = torch.randn(2, heads[1], num_keys + 7, dim)[:, :, :num_keys]
    return torch.randn(num_queries, heads[0], dim), k, v


@settings(max_examples=100, deadline=None)
@given(
    num_queries=st.integers(1, 70),
    cached=st.integers(0, 60),
    heads=st.sampled_from([(1, 1), (4, 2), (3, 1), (9, 3)]),
    dim=st.sampled_from([1, 8, 16]),
    window=st.one_of(st.none(), st.integers(1, 140)),
    query_block=st.integers(1, 80),
    key_block=st.integers(1, 80),
)
def test_equal_to_the_reference(
    num_queries: int, cached: int, heads: tuple[int, int], dim: int, window: int | None,
    query_block: int, key_block: int,
) -> None:  # fmt: skip
    """Whole prompts, chunks behind a cache and single queries; blocks that do not divide."""
    q, k, v = qkv(num_queries, num_queries + cached, heads, dim)
    found = attend_tiled(q, k, v, window, query_block=query_block, key_block=key_block)
    torch.testing.assert_close(found, attend_reference(q, k, v, window), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [1e2, 1e4, 1e18])
def test_scores_far_beyond_what_exp_can_take(size: float) -> None:
    """exp(89) overflows in float32; a running maximum never takes exp of a positive number."""
    q, k, v = qkv(50, 60)
    found = attend_tiled(q * size, k, v, query_block=16, key_block=8)
    assert found.isfinite().all()
    torch.testing.assert_close(found, attend_reference(q * size, k, v), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("rising", [True, False])
def test_a_maximum_that_every_tile_raises_or_only_the_first(rising: bool) -> None:
    q = torch.ones(1, 1, 4)
    rise = 5 * torch.arange(40.0).view(1, 40, 1).repeat(1, 1, 4)
    k, v = rise if rising else rise.flip(1), torch.randn(1, 40, 4)
    trace = TileTrace()
    found = attend_tiled(q, k, v, key_block=8, trace=trace)
    torch.testing.assert_close(found, attend_reference(q, k, v))
    largest = [step.largest for step in trace.steps]
    assert largest == sorted(largest)
    assert (len(set(largest)) == 5) is rising


def test_bfloat16_is_the_reference_within_its_rounding() -> None:
    q, k, v = (one.bfloat16() for one in qkv(140, 200, dim=32))
    found = attend_tiled(q, k, v, query_block=32, key_block=48)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, attend_reference(q, k, v), atol=1e-2, rtol=1e-2)


@given(
    num_queries=st.integers(1, 30), cached=st.integers(0, 30),
    window=st.one_of(st.none(), st.integers(1, 70)),
    query_block=st.integers(1, 40), key_block=st.integers(1, 40),
)  # fmt: skip
def test_tiles_say_what_is_seen(
    num_queries: int, cached: int, window: int | None, query_block: int, key_block: int
) -> None:
    """Together they are the whole plane, once; skipped ones hide all pairs, whole ones none."""
    num_keys = num_queries + cached
    seen = visible(num_queries, num_keys, window, torch.device("cpu"))
    met = torch.zeros_like(seen, dtype=torch.int)
    for row in tile_rows(num_queries, num_keys, window, query_block, key_block):
        for tile in row:
            rows = slice(tile.queries.start - cached, tile.queries.stop - cached)
            part = seen[rows, tile.keys.start : tile.keys.stop]
            met[rows, tile.keys.start : tile.keys.stop] += 1
            assert part.numel() == tile.pairs
            expected = "whole" if part.all() else "masked" if part.any() else "skipped"
            assert tile.kind == expected
    assert met.eq(1).all()


def traced(num_tokens: int, query_block: int, key_block: int) -> TileTrace:
    trace = TileTrace()
    q, k, v = qkv(num_tokens, num_tokens, (1, 1), 16)
    attend_tiled(q, k, v, query_block=query_block, key_block=key_block, trace=trace)
    return trace


def test_half_of_the_tiles_are_skipped_and_the_diagonal_is_masked() -> None:
    trace = traced(256, 32, 32)
    kinds = [tile.kind for tile in trace.tiles]
    assert (kinds.count("whole"), kinds.count("masked"), kinds.count("skipped")) == (28, 8, 28)
    assert trace.num_computed == len(trace.steps) == 36


def test_bytes_are_counted_tile_by_tile() -> None:
    """Q and the output once; keys and values of every tile computed; scores never."""
    trace = TileTrace()
    q, k, v = (one.bfloat16() for one in qkv(30, 100, (4, 2), 16))  # positions 70 to 99
    attend_tiled(q, k, v, query_block=20, key_block=40, trace=trace)
    # Queries 70-89 meet keys 0-39, 40-79, 80-99 (to 89), queries 90-99 the same: 100 keys each.
    assert trace.read_bytes == 30 * 4 * 16 * 2 + 2 * (2 * 2 * 100 * 16 * 2)
    assert trace.written_bytes == 30 * 4 * 16 * 2
    assert trace.score_bytes == 4 * 20 * 40 * 4


@pytest.mark.parametrize("block", [16, 32, 64])
def test_counted_bytes_follow_the_formula(block: int) -> None:
    """N^2 d^2 / M up to a constant: four times with N doubled, half with M doubled.

    M is what a tile holds: its queries, keys, values and output, 4 B d numbers. Each computed tile
    reads 2 B d numbers and half of the (N / B)^2 tiles are computed, so the constant is 4.
    """
    dim, num_tokens = 16, 1024
    moved = traced(num_tokens, block, block).moved_bytes / 4  # numbers
    ends = 2 * num_tokens * dim + num_tokens * dim  # Q, O, and the diagonal's other half
    predicted = 4 * flash_attention_accesses(num_tokens, dim, 4 * block * dim)
    assert moved == predicted + ends
    assert moved - ends == 4 * (traced(512, block, block).moved_bytes / 4 - ends / 2)
    # Standard attention writes scores, reads them, writes weights, reads them: 4 N^2, and 4 N d.
    assert moved < 4 * standard_attention_accesses(num_tokens, dim)


def test_the_trace_keeps_the_running_softmax() -> None:
    """Behind the last tile it is the softmax of all scores, and O / l is the answer."""
    q, k, v = qkv(1, 50, (2, 1), 8)
    trace = TileTrace()
    attend_tiled(q, k, v, key_block=16, trace=trace)
    scores = q[0, 0] @ k[0].T / 8**0.5
    for step in trace.steps:
        so_far = scores[: step.tile.keys.stop]
        assert step.largest == pytest.approx(float(so_far.max()), rel=1e-5)
        assert step.total == pytest.approx(float((so_far - so_far.max()).exp().sum()), rel=1e-5)
        expected = so_far.softmax(0) @ v[0, : step.tile.keys.stop]
        torch.testing.assert_close(step.output, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("blocks", [(0, 8), (8, 0), (-1, 8)])
def test_a_block_of_nothing_is_refused(blocks: tuple[int, int]) -> None:
    with pytest.raises(InferlabError, match="at least 1 query and 1 key"):
        attend_tiled(*qkv(4, 4), query_block=blocks[0], key_block=blocks[1])
