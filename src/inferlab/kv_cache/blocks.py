"""Who owns which block of the KV cache: plain bookkeeping, without a tensor.

The cache is cut into `num_blocks` blocks of `block_size` tokens. A request's `block_table` lists
its blocks in the order of its text; they may lie anywhere. A block that several requests have in
common is counted, not copied.

A free block keeps its content, and can be found again by it, until it is handed out: `free` is a
queue, longest unused first, so what was used last survives longest.
"""

from collections.abc import Sequence

from inferlab.errors import InferlabError
from inferlab.kv_cache.prefix import PrefixIndex, block_hash


class BlockManager:
    """Hands out blocks and takes them back. Every block is either free or held, never both."""

    def __init__(self, num_blocks: int, block_size: int, *, prefix_cache: bool = True) -> None:
        if num_blocks < 1 or block_size < 1:
            raise InferlabError(
                f"a cache needs at least 1 block of 1 token, not {num_blocks} of {block_size}."
            )
        self.num_blocks, self.block_size = num_blocks, block_size
        self.prefix = PrefixIndex(block_size) if prefix_cache else None
        self.ref_count = [0] * num_blocks
        self.block_tables: dict[str, list[int]] = {}
        self._free = dict.fromkeys(range(num_blocks))  # a queue that also removes from its middle
        self._names: dict[str, list[bytes]] = {}  # of each request's full blocks

    @property
    def free(self) -> list[int]:
        """Free blocks, in the order in which they will be handed out."""
        return list(self._free)

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_blocks - len(self._free)

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that a text of this length fills, the last one perhaps in part."""
        return -(-num_tokens // self.block_size)

    def allocate(self, request_id: str, token_ids: Sequence[int], keep_free: int = 0) -> int | None:
        """Give a new request blocks for its whole text; the number of tokens found in the cache.

        None, and nothing has changed, when fewer than `keep_free` blocks would stay free.
        """
        if request_id in self.block_tables:
            raise InferlabError(f"request {request_id!r} has its blocks already.")
        hits = self.prefix.find(token_ids) if self.prefix else []
        num_new = self.blocks_for(len(token_ids)) - len(hits)
        num_idle_hits = sum(self.ref_count[block] == 0 for block in hits)
        if self.num_free - num_idle_hits - num_new < keep_free:
            return None
        for block in hits:  # before any block is handed out, lest a hit be the one
            self._hold(block)
        self.block_tables[request_id] = hits + [self._take() for _ in range(num_new)]
        self._names[request_id] = []
        return len(hits) * self.block_size

    def extend(self, request_id: str, num_tokens: int) -> bool:
        """Make the request's table reach `num_tokens`; False, and no change, when it cannot."""
        table = self.block_tables[request_id]
        num_new = self.blocks_for(num_tokens) - len(table)
        if num_new > self.num_free:
            return False
        table += [self._take() for _ in range(num_new)]
        return True

    def publish(self, request_id: str, token_ids: Sequence[int], num_computed_tokens: int) -> None:
        """Let others find the request's blocks that are full of computed tokens by now."""
        if self.prefix is None:
            return
        names, table, size = self._names[request_id], self.block_tables[request_id], self.block_size
        for i in range(len(names), num_computed_tokens // size):
            parent = names[-1] if names else b""
            names.append(block_hash(parent, token_ids[i * size : (i + 1) * size]))
            self.prefix.add(table[i], names[-1])

    def release(self, request_id: str) -> None:
        """Take the request's blocks back, the last first: a text's beginning is worth more."""
        for block in reversed(self.block_tables.pop(request_id)):
            self.ref_count[block] -= 1
            if self.ref_count[block] == 0:
                self._free[block] = None
        del self._names[request_id]

    def _hold(self, block: int) -> None:
        if self.ref_count[block] == 0:
            del self._free[block]
        self.ref_count[block] += 1

    def _take(self) -> int:
        """The block that has been free for longest; what it held is forgotten."""
        block: int = next(iter(self._free))
        if self.prefix is not None:
            self.prefix.forget(block)
        self._hold(block)
        return block
