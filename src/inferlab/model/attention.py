"""Scaled dot-product attention with grouped heads, causal, three times: readable, fast, SDPA.

Query head h reads the key and value head h // G, where G = Hq / Hkv (grouped-query attention,
arXiv 2305.13245). The T queries are the last T of the S positions that keys are given for.
"""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F

QUERY_BLOCK = 128  # queries per block: its scores stay in the processor's cache


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None = None
) -> torch.Tensor:
    """The fast form for the device at hand: (T, Hq, D), (Hkv, S, D) twice -> (T, Hq, D).

    window: tokens that a query looks back on, itself included; None means all.
    """
    if q.device.type == "cpu" and len(q) > 1:
        return attend_blocks(q, k, v, window)
    return attend_sdpa(q, k, v, window)


def attend_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None = None
) -> torch.Tensor:
    """softmax(Q K^T / sqrt(D)) V, as the formula says it, in float32; the fast forms equal it."""
    group = q.shape[1] // k.shape[0]
    keys = k.float().repeat_interleave(group, dim=0)  # (Hq, S, D)
    values = v.float().repeat_interleave(group, dim=0)  # (Hq, S, D)
    scores = q.float().transpose(0, 1) @ keys.transpose(1, 2) / math.sqrt(q.shape[-1])  # (Hq, T, S)
    scores.masked_fill_(~visible(q.shape[0], k.shape[1], window, q.device), float("-inf"))
    return (scores.softmax(-1) @ values).transpose(0, 1).to(q.dtype)  # (T, Hq, D)


def visible(
    num_queries: int, num_keys: int, window: int | None, device: torch.device
) -> torch.Tensor:
    """Which key each query sees: (T, S) bool. A query sees its own position and those before."""
    query_at = torch.arange(num_keys - num_queries, num_keys, device=device).unsqueeze(1)
    key_at = torch.arange(num_keys, device=device)
    seen = key_at <= query_at
    return seen if window is None else seen & (key_at > query_at - window)


def attend_blocks(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None = None
) -> torch.Tensor:
    """Blocks of queries against the keys that they can see, so half of the scores are never made.

    The G query heads of one key head become rows of one matrix: keys are read once, not G times.
    """
    num_queries, _, dim = q.shape
    num_kv_heads, num_keys, _ = k.shape
    grouped = q.view(num_queries, num_kv_heads, -1, dim)  # (T, Hkv, G, D)
    out = torch.empty_like(q)
    for start in range(0, num_queries, QUERY_BLOCK):
        block = grouped[start : start + QUERY_BLOCK]  # (B, Hkv, G, D)
        last = num_keys - num_queries + start + len(block)  # keys that the block may see
        first = 0 if window is None else max(0, last - len(block) + 1 - window)
        seen = _attend_block(block, k[:, first:last], v[:, first:last], window)
        out[start : start + len(block)] = seen.permute(2, 0, 1, 3).reshape(len(block), -1, dim)
    return out


def _attend_block(
    block: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None
) -> torch.Tensor:
    """(B, Hkv, G, D), (Hkv, S, D) twice -> (Hkv, G, B, D); the queries stand at the end of S."""
    size, num_kv_heads, group, dim = block.shape
    num_keys = k.shape[1]
    rows = block.permute(1, 2, 0, 3) * (1 / math.sqrt(dim))  # (Hkv, G, B, D)
    rows = rows.reshape(num_kv_heads, group * size, dim)
    scores = torch.bmm(rows, k.transpose(1, 2)).view(num_kv_heads, group, size, num_keys)
    if window is None:
        scores[..., num_keys - size :] += _triangle(size, block.dtype, block.device)
    else:
        hidden = ~visible(size, num_keys, window, block.device)
        scores.masked_fill_(hidden, float("-inf"))
    weights = scores.softmax(-1).view(num_kv_heads, group * size, num_keys)
    return torch.bmm(weights, v).view(num_kv_heads, group, size, dim)


@lru_cache(maxsize=QUERY_BLOCK + 8)
def _triangle(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zero where a query sees a key of its own block, -inf above: (B, B)."""
    return torch.full((size, size), float("-inf"), dtype=dtype, device=device).triu(1)


def attend_sdpa(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None = None
) -> torch.Tensor:
    """PyTorch's own kernel, which on a GPU is FlashAttention where it can be."""
    num_queries, num_heads, dim = q.shape
    num_kv_heads, num_keys, _ = k.shape
    if num_queries == 1:
        first = 0 if window is None else max(0, num_keys - window)
        rows = q.view(1, num_kv_heads, -1, dim)  # (1, Hkv, G, D): the group's heads as queries
        k, v = (k, v) if first == 0 else (k[:, first:], v[:, first:])
        seen = F.scaled_dot_product_attention(rows, k.unsqueeze(0), v.unsqueeze(0))
        return seen.reshape(1, num_heads, dim)
    whole = num_queries == num_keys and (window is None or window >= num_keys)
    mask = None if whole else visible(num_queries, num_keys, window, q.device)
    seen = F.scaled_dot_product_attention(
        q.transpose(0, 1)[None], k[None], v[None],
        attn_mask=mask, is_causal=whole, enable_gqa=num_heads != num_kv_heads,
    )  # fmt: skip
    return seen[0].transpose(0, 1)  # (T, Hq, D)
