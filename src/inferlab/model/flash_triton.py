"""The tiles of `flash_attention` as one GPU kernel, written in Triton.

One program runs for each block of queries of each head, all of them at the same time. Its queries,
running maximum, sum and output stay in the registers of one multiprocessor; keys and values pass by
in blocks. No score ever reaches the GPU's memory.

Importing this module needs Triton, which comes with PyTorch's CUDA builds; elsewhere it raises
InferlabError.
"""

import math
import os

import torch

from inferlab.errors import InferlabError

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise InferlabError(
        "inferlab.model.flash_triton needs the package triton, which comes with PyTorch's CUDA "
        "builds; without it use attend_tiled or attend_sdpa, which give the same result"
    ) from error

BLOCK = {torch.float32: 32, torch.bfloat16: 64, torch.float16: 64}  # queries, and keys, of a tile
MAX_HEAD_DIM = 128  # a larger head's tiles would not fit into the fast memory


def attend_triton(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int | None = None
) -> torch.Tensor:
    """Causal attention by the kernel: (T, Hq, D), (Hkv, S, D) twice -> (T, Hq, D) on CUDA.

    Raises InferlabError for tensors elsewhere, a sliding window or heads above 128 numbers.
    """
    if window is not None:
        raise InferlabError("the Triton kernel has no sliding window; use attend_tiled")
    num_queries, num_heads, dim = q.shape
    num_kv_heads, num_keys, _ = k.shape
    if dim > MAX_HEAD_DIM:
        raise InferlabError(f"the Triton kernel takes heads of up to {MAX_HEAD_DIM}, not {dim}")
    if q.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise InferlabError(
            f"the Triton kernel needs tensors on a CUDA GPU, not on {q.device.type}; use "
            "attend_tiled there, or TRITON_INTERPRET=1 to interpret the kernel slowly"
        )
    out, block = torch.empty_like(q), BLOCK[q.dtype]
    grid = (triton.cdiv(num_queries, block), num_heads)
    _attend_block[grid](
        q, k, v, out,
        *q.stride(), *k.stride(), *v.stride(), *out.stride(),
        num_queries, num_keys, num_heads // num_kv_heads, math.log2(math.e) / math.sqrt(dim),
        dim=dim, dim_block=max(16, triton.next_power_of_2(dim)),
        query_block=block, key_block=block, exact=q.dtype == torch.float32,
    )  # fmt: skip
    return out


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _attend_block(  # type: ignore[no-untyped-def]
    q, k, v, out,
    q_token, q_head, q_dim, k_head, k_token, k_dim, v_head, v_token, v_dim,
    out_token, out_head, out_dim,
    num_queries, num_keys, group, scale,
    dim: tl.constexpr, dim_block: tl.constexpr,
    query_block: tl.constexpr, key_block: tl.constexpr, exact: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head meets all keys up to its last query.

    Scores are in powers of two, which GPUs have an instruction for: scale holds log2(e).
    """
    head = tl.program_id(1)
    rows = tl.program_id(0) * query_block + tl.arange(0, query_block)  # of q
    dims = tl.arange(0, dim_block)
    inside = (rows[:, None] < num_queries) & (dims[None, :] < dim)
    precision: tl.constexpr = "ieee" if exact else "tf32"

    queries = tl.load(
        q + rows[:, None] * q_token + head * q_head + dims[None, :] * q_dim, mask=inside, other=0.0
    )  # (B, D)
    k += (head // group) * k_head
    v += (head // group) * v_head
    at = rows + (num_keys - num_queries)  # positions in the text

    largest = tl.full([query_block], float("-inf"), tl.float32)
    total = tl.zeros([query_block], tl.float32)
    weighted = tl.zeros([query_block, dim_block], tl.float32)
    end = tl.minimum(num_keys, (tl.program_id(0) + 1) * query_block + num_keys - num_queries)
    for first in range(0, end, key_block):  # tiles beyond the diagonal are skipped
        keys_at = first + tl.arange(0, key_block)
        present = (keys_at[:, None] < num_keys) & (dims[None, :] < dim)
        keys = tl.load(
            k + keys_at[:, None] * k_token + dims[None, :] * k_dim, mask=present, other=0.0
        )  # (C, D)
        scores = tl.dot(queries, tl.trans(keys), input_precision=precision) * scale  # (B, C)
        seen = (keys_at[None, :] <= at[:, None]) & (keys_at[None, :] < num_keys)
        scores = tl.where(seen, scores, float("-inf"))
        # The first tile holds key 0, which every query sees: `new` is finite from then on.
        new = tl.maximum(largest, tl.max(scores, 1))
        shrink = tl.exp2(largest - new)
        weights = tl.exp2(scores - new[:, None])
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(
            v + keys_at[:, None] * v_token + dims[None, :] * v_dim, mask=present, other=0.0
        )  # (C, D)
        weighted = weighted * shrink[:, None] + tl.dot(
            weights.to(values.dtype), values, input_precision=precision
        )
        largest = new

    result = weighted / total[:, None]
    place = out + rows[:, None] * out_token + head * out_head + dims[None, :] * out_dim
    tl.store(place, result.to(out.dtype.element_ty), mask=inside)
