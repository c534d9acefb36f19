"""The fast forms of attention equal the readable one."""

import pytest
import torch

from inferlab.model import attention
from inferlab.model.attention import (
    QUERY_BLOCK,
    attend,
    attend_blocks,
    attend_reference,
    attend_sdpa,
    visible,
)

FORMS = {"attend": attend, "blocks": attend_blocks, "sdpa": attend_sdpa}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("window", [None, 1, 5, 200, 10_000])
@pytest.mark.parametrize(
    ("num_queries", "num_keys"),
    [(1, 1), (1, 37), (12, 12), (5, 30), (QUERY_BLOCK * 2 + 3, QUERY_BLOCK * 2 + 3), (150, 290)],
)
@pytest.mark.parametrize("heads", [(4, 2), (3, 1), (2, 2)])
def test_equal_to_the_reference(
    form: str, window: int | None, num_queries: int, num_keys: int, heads: tuple[int, int]
) -> None:
    torch.manual_seed(num_keys)
    q = torch.randn(num_queries, heads[0], 16)
    # As a cache holds them: part of a longer buffer.
    buffer = torch.randn(2, heads[1], num_keys + 7, 16)
    k, v = buffer[:, :, :num_keys]
    expected = attend_reference(q, k, v, window)
    torch.testing.assert_close(FORMS[form](q, k, v, window), expected, atol=1e-5, rtol=1e-4)


def test_a_query_sees_itself_and_what_came_before() -> None:
    seen = visible(2, 4, None, torch.device("cpu"))
    assert seen.tolist() == [[True, True, True, False], [True, True, True, True]]
    seen = visible(2, 4, 2, torch.device("cpu"))
    assert seen.tolist() == [[False, True, True, False], [False, False, True, True]]


def test_bfloat16_is_the_reference_within_its_rounding() -> None:
    q, k, v = (torch.randn(140, 2, 32).bfloat16() for _ in range(3))
    k, v = k.transpose(0, 1), v.transpose(0, 1)
    found = attend(q, k, v)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, attend_reference(q, k, v), atol=3e-2, rtol=3e-2)


def test_gpus_get_the_library_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for name in ("attend_blocks", "attend_sdpa"):
        monkeypatch.setattr(attention, name, lambda *_, name=name: called.append(name))
    kv = torch.empty(1, 3, 8)
    attend(torch.empty(3, 1, 8, device="meta"), kv, kv)
    attend(torch.empty(3, 1, 8), kv, kv)
    attend(torch.empty(1, 1, 8), kv, kv)  # a single query: the kernel is as fast
    assert called == ["attend_sdpa", "attend_blocks", "attend_sdpa"]
