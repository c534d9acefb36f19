"""What the techniques of inference gain and cost, by their papers' formulas."""

from inferlab.cost.transformer import bits_of
from inferlab.errors import InferlabError


def speculative_expected_tokens(acceptance: float, num_draft_tokens: int) -> float:
    """(1 - a^(g+1)) / (1 - a): tokens that one step of the target yields on average.

    acceptance: the chance a, from 0 to 1, that the target keeps a drafted token, each independent
    of the others (arXiv 2211.17192, section 3.1).
    """
    if not 0 <= acceptance <= 1 or num_draft_tokens < 0:
        raise InferlabError(
            f"acceptance {acceptance:g} must be from 0 to 1, and the number of draft tokens "
            f"{num_draft_tokens} at least 0"
        )
    if acceptance == 1:
        return num_draft_tokens + 1.0
    return (1 - acceptance ** (num_draft_tokens + 1)) / (1 - acceptance)


def speculative_speedup(acceptance: float, num_draft_tokens: int, draft_cost: float) -> float:
    """Expected tokens / (g c + 1), c = time of a draft step over time of a target step.

    It takes for granted that the target checks g + 1 tokens in the time of one step (section 3.3).
    """
    expected = speculative_expected_tokens(acceptance, num_draft_tokens)
    return expected / (num_draft_tokens * draft_cost + 1)


def best_num_draft_tokens(acceptance: float, draft_cost: float, at_most: int = 32) -> int:
    """The number of draft tokens with the highest speed-up; 0 when drafting never pays."""
    return max(range(at_most + 1), key=lambda g: speculative_speedup(acceptance, g, draft_cost))


def all_reduce_count(num_layers: int) -> int:
    """Two per layer in a forward pass, after attention and after the MLP (arXiv 1909.08053)."""
    return 2 * num_layers


def all_reduce_bytes(
    batch: int, num_tokens: int, hidden_size: int, dtype: object = "bfloat16"
) -> int:
    """Bytes that one all-reduce sums up: batch x tokens x hidden x bytes."""
    return batch * num_tokens * hidden_size * bits_of(dtype) // 8


def all_reduce_lower_bound_s(num_bytes: float, num_ranks: int, link_bytes_s: float) -> float:
    """2 (n-1)/n x bytes / bandwidth: each rank sends that much in a ring, latency aside.

    link_bytes_s: what one rank can send in one direction.
    """
    return 2 * (num_ranks - 1) / num_ranks * num_bytes / link_bytes_s


def standard_attention_accesses(num_tokens: int, head_dim: int) -> int:
    """N d + N^2: memory accesses of attention that writes its N x N scores, up to a constant."""
    return num_tokens * head_dim + num_tokens**2


def flash_attention_accesses(num_tokens: int, head_dim: int, sram_numbers: int) -> float:
    """N^2 d^2 / M: memory accesses of tiled attention, up to a constant (arXiv 2205.14135).

    sram_numbers: M, how many numbers the fast memory holds; d <= M <= N d.
    """
    if not head_dim <= sram_numbers <= num_tokens * head_dim:
        raise InferlabError(
            f"the formula holds for d <= M <= N d; M = {sram_numbers}, d = {head_dim}, "
            f"N = {num_tokens}"
        )
    return num_tokens**2 * head_dim**2 / sram_numbers
