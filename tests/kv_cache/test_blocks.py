"""Which block goes to whom: exact ids, reference counts and order of reuse."""

import pytest

from inferlab import InferlabError
from inferlab.kv_cache.blocks import BlockManager
from inferlab.kv_cache.prefix import PrefixIndex, block_hash

TEXT = list(range(100, 110))  # 10 tokens: with blocks of 4, two full and a part


def computed(blocks: BlockManager, name: str, token_ids: list[int]) -> int | None:
    """Allocate and compute a whole text at once."""
    cached = blocks.allocate(name, token_ids)
    if cached is not None:
        blocks.publish(name, token_ids, len(token_ids))
    return cached


def test_blocks_are_handed_out_in_order_and_come_back_last_first() -> None:
    blocks = BlockManager(5, 4)
    assert blocks.allocate("a", TEXT) == 0
    assert blocks.block_tables == {"a": [0, 1, 2]}
    assert (blocks.ref_count, blocks.free) == ([1, 1, 1, 0, 0], [3, 4])
    blocks.release("a")
    assert (blocks.ref_count, blocks.free) == ([0] * 5, [3, 4, 2, 1, 0])
    assert blocks.block_tables == {}


def test_a_table_grows_only_when_a_block_is_full() -> None:
    blocks = BlockManager(4, 4)
    blocks.allocate("a", TEXT)
    assert blocks.extend("a", 12)
    assert blocks.block_tables["a"] == [0, 1, 2]
    assert blocks.extend("a", 13)
    assert blocks.block_tables["a"] == [0, 1, 2, 3]
    assert not blocks.extend("a", 17)
    assert (blocks.block_tables["a"], blocks.num_used) == ([0, 1, 2, 3], 4)


def test_what_does_not_fit_changes_nothing() -> None:
    blocks = BlockManager(4, 4)
    computed(blocks, "a", TEXT)
    before = (list(blocks.ref_count), blocks.free)
    assert blocks.allocate("b", list(range(8))) is None
    assert blocks.allocate("b", [1, 2, 3], keep_free=1) is None
    assert (list(blocks.ref_count), blocks.free, list(blocks.block_tables)) == (*before, ["a"])


def test_a_shared_beginning_is_counted_not_copied() -> None:
    blocks = BlockManager(6, 4)
    computed(blocks, "a", TEXT)
    assert computed(blocks, "b", [*TEXT[:8], 7, 7]) == 8
    assert blocks.block_tables == {"a": [0, 1, 2], "b": [0, 1, 3]}
    assert blocks.ref_count == [2, 2, 1, 1, 0, 0]
    blocks.release("a")
    assert (blocks.ref_count, blocks.free) == ([1, 1, 0, 1, 0, 0], [4, 5, 2])
    blocks.release("b")
    assert blocks.free == [4, 5, 2, 3, 1, 0]


def test_a_free_block_is_found_again_until_it_is_handed_out() -> None:
    blocks = BlockManager(3, 4)
    computed(blocks, "a", TEXT[:9])
    blocks.release("a")
    assert blocks.free == [2, 1, 0]
    assert computed(blocks, "b", TEXT[:9]) == 8
    assert blocks.block_tables["b"] == [0, 1, 2]
    blocks.release("b")
    assert computed(blocks, "c", [5] * 8) == 0  # takes 2 and 1, the longest unused
    assert blocks.block_tables["c"] == [2, 1]
    blocks.release("c")
    assert computed(blocks, "d", TEXT[:9]) == 4  # block 0 still holds the first four
    assert blocks.block_tables["d"] == [0, 1, 2]


def test_hits_are_held_before_new_blocks_are_taken() -> None:
    blocks = BlockManager(3, 4)
    computed(blocks, "a", TEXT[:9])
    blocks.release("a")
    assert blocks.allocate("b", [*TEXT[:8], 1, 2, 3, 4, 5]) is None  # needs four
    assert blocks.allocate("c", [*TEXT[:8], 1, 2]) == 8
    assert blocks.block_tables["c"] == [0, 1, 2]


@pytest.mark.parametrize(("length", "cached"), [(4, 0), (5, 4), (8, 4), (9, 8), (10, 8)])
def test_one_token_at_least_is_computed(length: int, cached: int) -> None:
    blocks = BlockManager(8, 4)
    computed(blocks, "a", TEXT)
    assert blocks.allocate("b", TEXT[:length]) == cached


def test_only_computed_blocks_are_found() -> None:
    blocks = BlockManager(8, 4)
    blocks.allocate("a", TEXT)
    assert blocks.allocate("b", TEXT) == 0
    blocks.publish("a", TEXT, 7)
    assert blocks.allocate("c", TEXT) == 4


def test_twins_computed_side_by_side_keep_their_own_blocks() -> None:
    blocks = BlockManager(8, 4)
    for name in ("a", "b"):
        blocks.allocate(name, TEXT)
    for name in ("a", "b"):
        blocks.publish(name, TEXT, 10)
    assert blocks.block_tables == {"a": [0, 1, 2], "b": [3, 4, 5]}
    assert blocks.prefix is not None
    assert len(blocks.prefix) == 2
    assert 0 in blocks.prefix
    assert 3 not in blocks.prefix
    assert blocks.prefix.find(TEXT) == [0, 1]


def test_without_a_prefix_cache_nothing_is_found() -> None:
    blocks = BlockManager(8, 4, prefix_cache=False)
    computed(blocks, "a", TEXT)
    assert computed(blocks, "b", TEXT) == 0


def test_a_name_depends_on_all_that_came_before() -> None:
    assert block_hash(b"", [1, 2]) != block_hash(block_hash(b"", [1]), [2])
    index = PrefixIndex(2)
    index.add(0, block_hash(b"", [1, 2]))
    index.add(1, block_hash(block_hash(b"", [1, 2]), [3, 4]))
    assert index.find([1, 2, 3, 4, 9]) == [0, 1]
    assert index.find([3, 4, 9]) == []
    index.forget(0)
    index.forget(5)
    assert index.find([1, 2, 3, 4, 9]) == []


@pytest.mark.parametrize(("num_blocks", "size"), [(0, 4), (4, 0)])
def test_a_cache_has_blocks(num_blocks: int, size: int) -> None:
    with pytest.raises(InferlabError, match="at least 1 block"):
        BlockManager(num_blocks, size)


def test_a_request_is_allocated_once() -> None:
    blocks = BlockManager(4, 4)
    blocks.allocate("a", [1])
    with pytest.raises(InferlabError, match="'a' has its blocks already"):
        blocks.allocate("a", [1])
