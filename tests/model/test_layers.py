"""Packed products, the four-operator norm and the rotation equal their plain forms."""

import pytest
import torch
import torch.nn.functional as F
from tiny_models import tiny

from inferlab.model import layers
from inferlab.model.config import RopeScaling
from inferlab.model.layers import Linear, RMSNorm, swiglu
from inferlab.model.rope import Rotary, frequencies, interleaved_order, rotate


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear(
    packed: bool, bias: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packed:
        monkeypatch.setattr(layers, "can_pack", lambda *_: False)
    weight, b = torch.randn(24, 40).to(dtype), torch.randn(24).to(dtype) if bias else None
    linear = Linear(weight, b)
    for rows in (1, 3, 70):
        x = torch.randn(rows, 40).to(dtype)
        torch.testing.assert_close(linear(x), F.linear(x, weight, b), atol=0.1, rtol=2e-2)
    size = weight.element_size()
    assert linear.nbytes == 24 * 40 * size + (24 * size if bias else 0)


def test_packing_is_for_cpus_that_have_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    layers.can_pack.cache_clear()
    assert not layers.can_pack("cuda", torch.bfloat16)
    assert not layers.can_pack("cpu", torch.float16)
    layers.can_pack.cache_clear()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not layers.can_pack("cpu", torch.float32)
    layers.can_pack.cache_clear()


@pytest.mark.parametrize("scale", [1e-4, 1.0, 300.0])
def test_rms_norm_also_where_eps_matters(scale: float) -> None:
    x, weight = torch.randn(5, 64) * scale, torch.randn(64)
    expected = F.rms_norm(x, (64,), weight, 1e-5)
    found = RMSNorm(weight, 1e-5, torch.float32)(x)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert RMSNorm(weight, 1e-5, torch.bfloat16)(x).dtype == torch.bfloat16
    zeros = RMSNorm(weight, 1e-5, torch.float32)(torch.zeros(1, 64))
    assert not zeros.any()


def test_swiglu() -> None:
    gate, up = torch.randn(4, 6), torch.randn(4, 6)
    torch.testing.assert_close(swiglu(torch.cat([gate, up], 1)), F.silu(gate) * up)


def rotate_half_form(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """The form of the papers' code: dimension i turns with i + D / 2. x: (N, H, D)."""
    cos, sin = angles.cos().repeat(1, 2)[:, None], angles.sin().repeat(1, 2)[:, None]
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


@pytest.mark.parametrize("real_arithmetic", [True, False])
def test_rotation_equals_the_rotate_half_form(
    real_arithmetic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inferlab.model import rope

    config = tiny()
    positions = torch.tensor([0, 3, 17])
    x = torch.randn(3, 4, config.head_dim)
    expected = rotate_half_form(x, torch.outer(positions.float(), frequencies(config)))
    pairs = interleaved_order(x.transpose(0, 2).reshape(config.head_dim, -1), 1)
    turned = pairs.reshape(config.head_dim, 4, 3).transpose(0, 2).contiguous()
    rotation = Rotary(config, torch.device("cpu")).at(positions, 18)
    if real_arithmetic:
        monkeypatch.setattr(rope, "multiplies_complex", lambda _: False)
    found = rotate(turned, rotation)
    order = interleaved_order(torch.arange(config.head_dim)[:, None].float(), 1).flatten().long()
    torch.testing.assert_close(found, expected[..., order], atol=1e-5, rtol=1e-5)


def test_tables_grow_and_dynamic_ones_depend_on_the_length() -> None:
    plain = Rotary(tiny(), torch.device("cpu"))
    short = plain.table(10)
    assert plain.table(200) is short
    assert len(plain.table(1000)) >= 1000
    scaling = RopeScaling("dynamic", 2.0, original_max_position_embeddings=16)
    dynamic = Rotary(tiny(rope_scaling=scaling), torch.device("cpu"))
    first = dynamic.table(10)
    assert dynamic.table(16) is first
    longer = dynamic.table(32)
    assert not torch.equal(longer[:10], first[:10])
    assert torch.equal(dynamic.table(12)[:10], first[:10])
