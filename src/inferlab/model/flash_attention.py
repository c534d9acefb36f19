"""FlashAttention, to be read: exact attention tile by tile, with a running softmax.

Standard attention writes all T x S scores to memory and reads them back. Here a block of queries
meets one block of keys at a time, and of what it has seen keeps three things only: the largest
score m, the sum l of exp(score - m), and the sum O of exp(score - m) times the values. A larger
score in a later tile makes m grow; then l and O are scaled down by exp(m_old - m_new), and are what
they would have been had m been known from the start. So the result is exact: O / l.

Forward only. The running softmax is algorithm 1 of arXiv 2205.14135; the order, queries outside and
keys inside with one division at the end, that of FlashAttention-2 (arXiv 2307.08691, algorithm 1).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from inferlab.errors import InferlabError

QUERY_BLOCK, KEY_BLOCK = 128, 128

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # m, l: (Hkv, G, B, 1), O: (Hkv, G, B, D)


@dataclass(frozen=True)
class Tile:
    """One block of queries against one block of keys, both as ranges of positions in the text."""

    queries: range
    keys: range
    kind: str  # "whole": every pair is seen; "masked": some are; "skipped": none, so never computed

    @property
    def pairs(self) -> int:
        """Scores that one head holds at once for this tile."""
        return len(self.queries) * len(self.keys)


@dataclass(frozen=True)
class Step:
    """A computed tile, and what the last query of its block, in head 0, then keeps."""

    tile: Tile
    largest: float  # m
    total: float  # l
    output: torch.Tensor  # O / l: (D,), the answer so far


@dataclass
class TileTrace:
    """What one call did: every tile in order, each step's state, and the bytes that moved.

    Bytes are those between the large memory and the tile: Q is read once, K and V once for each
    block of queries that sees them, the output is written once. Scores never move.
    """

    tiles: list[Tile] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    read_bytes: int = 0
    written_bytes: int = 0
    score_bytes: int = 0  # of the largest tile, all heads, float32: what standard attention's T x S
    # scores shrink to

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return self.read_bytes + self.written_bytes

    @property
    def num_computed(self) -> int:
        """Tiles that were computed, so not skipped by causality."""
        return sum(tile.kind != "skipped" for tile in self.tiles)


def attend_tiled(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    window: int | None = None,
    *,
    query_block: int = QUERY_BLOCK,
    key_block: int = KEY_BLOCK,
    trace: TileTrace | None = None,
) -> torch.Tensor:
    """Causal attention that never holds more scores than one tile's; equals `attend_reference`.

    (T, Hq, D), (Hkv, S, D) twice -> (T, Hq, D). The queries are the last T of the S positions.
    window: tokens that a query looks back on, itself included; None means all. trace: filled with
    what was done. Raises InferlabError for a block size below 1.
    """
    num_queries, num_heads, dim = q.shape
    num_kv_heads, num_keys, _ = k.shape
    grouped = q.view(num_queries, num_kv_heads, -1, dim).permute(1, 2, 0, 3)  # (Hkv, G, T, D)
    out = torch.empty_like(grouped)
    for row in tile_rows(num_queries, num_keys, window, query_block, key_block):
        first = row[0].queries.start - (num_keys - num_queries)
        block = slice(first, first + len(row[0].queries))
        rows = grouped[:, :, block].float() / math.sqrt(dim)  # (Hkv, G, B, D)
        state = _empty_state(rows)
        for tile in row:
            if tile.kind != "skipped":
                keys = slice(tile.keys.start, tile.keys.stop)
                state = _step(state, rows, k[:, keys].float(), v[:, keys].float(), tile, window)
            if trace is not None:
                _note(trace, tile, state, k)
        _, sums, weighted = state
        out[:, :, block] = (weighted / sums).to(q.dtype)
    if trace is not None:
        trace.read_bytes += q.nbytes
        trace.written_bytes += out.nbytes
    return out.permute(2, 0, 1, 3).reshape(num_queries, num_heads, dim)


def _empty_state(rows: torch.Tensor) -> State:
    largest = torch.full_like(rows[..., :1], float("-inf"))
    return largest, torch.zeros_like(largest), torch.zeros_like(rows)


def _step(
    state: State,
    rows: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    tile: Tile,
    window: int | None,
) -> State:
    """The running softmax: let rows (Hkv, G, B, D) see keys and values (Hkv, C, D) as well."""
    num_kv_heads, group, size, dim = rows.shape
    flat = rows.reshape(num_kv_heads, group * size, dim)  # a group's heads share one read of K
    scores = torch.bmm(flat, keys.transpose(1, 2)).view(num_kv_heads, group, size, -1)
    if tile.kind == "masked":
        scores.masked_fill_(~_seen(tile, window, rows.device), float("-inf"))
    largest, sums, weighted = state
    new = torch.maximum(largest, scores.amax(-1, keepdim=True))  # (Hkv, G, B, 1)
    # A query whose window has not begun has seen nothing: -inf - (-inf) would be NaN.
    new_or_lowest = new.clamp(min=torch.finfo(new.dtype).min)
    shrink = (largest - new_or_lowest).exp_()  # by how much what was summed up was too large
    weights = (scores - new_or_lowest).exp_()  # (Hkv, G, B, C)
    sums = shrink * sums + weights.sum(-1, keepdim=True)
    seen = torch.bmm(weights.view(num_kv_heads, group * size, -1), values).view_as(rows)
    return new, sums, shrink * weighted + seen


def _seen(tile: Tile, window: int | None, device: torch.device) -> torch.Tensor:
    """Which key of the tile each of its queries sees: (B, C) bool."""
    query_at = torch.arange(tile.queries.start, tile.queries.stop, device=device).unsqueeze(1)
    key_at = torch.arange(tile.keys.start, tile.keys.stop, device=device)
    seen = key_at <= query_at
    return seen if window is None else seen & (key_at > query_at - window)


def tile_rows(
    num_queries: int,
    num_keys: int,
    window: int | None = None,
    query_block: int = QUERY_BLOCK,
    key_block: int = KEY_BLOCK,
) -> Iterator[list[Tile]]:
    """For each block of queries, its tiles in the order of keys; what it never sees is skipped.

    Raises InferlabError for a block size below 1.
    """
    if query_block < 1 or key_block < 1:
        raise InferlabError(
            f"a tile has at least 1 query and 1 key, not {query_block} and {key_block}."
        )
    for start in range(num_keys - num_queries, num_keys, query_block):
        queries = range(start, min(start + query_block, num_keys))
        blocks = [
            range(first, min(first + key_block, num_keys))
            for first in range(0, num_keys, key_block)
        ]
        yield [Tile(queries, keys, _kind(queries, keys, window)) for keys in blocks]


def _kind(queries: range, keys: range, window: int | None) -> str:
    """Whether the queries see all of the keys, some or none."""
    back = window or math.inf  # a query at p sees keys from p - back + 1 to p
    if keys.start > queries[-1] or keys[-1] <= queries.start - back:
        return "skipped"
    whole = keys[-1] <= queries.start and keys.start > queries[-1] - back
    return "whole" if whole else "masked"


def _note(trace: TileTrace, tile: Tile, state: State, k: torch.Tensor) -> None:
    trace.tiles.append(tile)
    if tile.kind == "skipped":
        return
    num_kv_heads, _, dim = k.shape
    largest, sums, weighted = (part[0, 0, -1] for part in state)  # head 0, the block's last query
    trace.steps.append(Step(tile, float(largest), float(sums), weighted / sums))
    trace.read_bytes += 2 * num_kv_heads * len(tile.keys) * dim * k.element_size()
    heads = state[0].shape[0] * state[0].shape[1]
    trace.score_bytes = max(trace.score_bytes, heads * tile.pairs * 4)
