"""Quantized weights: how far off they are, that kernels compute what they stand for, refusals."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from inferlab import InferlabError
from inferlab.model import quantize
from inferlab.model.config import SHAPES
from inferlab.model.quantize import (
    Int4Linear,
    Int8Linear,
    Scheme,
    check,
    dequantize_int4,
    dequantize_int8,
    quantize_int4,
    quantize_int8,
)

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.bfloat16]
SLACK = {torch.float32: 1e-5, torch.bfloat16: 2**-8}  # rounding of scale and offset to the dtype


def weight(rows: int, columns: int, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    made = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows + columns))
    return made.to(device, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_int8_is_off_by_at_most_half_a_step(dtype: torch.dtype) -> None:
    w = weight(48, 64, dtype)
    steps, scale = quantize_int8(w)
    error = (dequantize_int8(steps, scale) - w.float()).abs()
    largest = w.float().abs().amax(1, keepdim=True)
    assert steps.dtype == torch.int8
    assert bool((error <= largest / 254 + largest * SLACK[dtype]).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", quantize.GROUPS)
def test_int4_is_off_by_at_most_half_a_step(group: int, dtype: torch.dtype) -> None:
    w = weight(48, 256, dtype)
    steps, scales = quantize_int4(w, group)
    assert scales.shape == (256 // group, 48, 2)
    assert 0 <= int(steps.min()) <= int(steps.max()) <= 15
    groups = w.float().view(48, -1, group)
    spread = groups.amax(2) - groups.amin(2)
    bound = spread / 30 + groups.abs().amax(2) * 2 * SLACK[dtype]
    error = (dequantize_int4(steps, scales) - w.float()).abs().view(48, -1, group)
    assert bool((error <= bound.unsqueeze(2)).all())


@pytest.mark.parametrize("value", [0.0, 0.75])
def test_weights_that_are_all_alike_survive(value: float) -> None:
    w = torch.full((16, 64), value)
    torch.testing.assert_close(dequantize_int8(*quantize_int8(w)), w)
    torch.testing.assert_close(dequantize_int4(*quantize_int4(w, 32)), w)


def test_weights_that_have_16_levels_per_group_lose_nothing_in_int4() -> None:
    """As those of a GGUF file in Q4_1: the page says so."""
    levels = torch.stack([torch.randperm(32) % 16 for _ in range(16)])  # each level is there
    w = levels.float() * 0.037 - 0.21
    torch.testing.assert_close(dequantize_int4(*quantize_int4(w, 32)), w, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(192, 128), (48, 96)])  # with the two-halves layout, without
@pytest.mark.parametrize("kind", ["int8", "int4", "int4-64"])
def test_products_equal_those_of_the_dequantized_weight(
    kind: str, shape: tuple[int, int], bias: bool, dtype: torch.dtype
) -> None:
    w, b = weight(*shape, dtype), weight(1, shape[0], dtype)[0] if bias else None
    linear = Scheme.named(kind).makers[0](w, b)
    if isinstance(linear, Int4Linear):
        full = dequantize_int4(*quantize_int4(w, linear.group_size))
    else:
        full = dequantize_int8(*quantize_int8(w))
    close = {"atol": 1e-4, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 0.25, "rtol": 2e-2}
    for rows in (1, 5, *quantize.ROWS_TO_EXPAND.values(), 600):
        x = weight(rows, shape[1], dtype)
        expected = F.linear(x.float(), full, b.float() if b is not None else None)
        torch.testing.assert_close(linear(x).float(), expected, **close)


def test_without_the_known_layout_the_kernel_serves_every_number_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w, x = weight(64, 64, torch.float32), weight(600, 64, torch.float32)
    expected = Int4Linear(w)(x)
    monkeypatch.setattr(quantize, "_has_halves", lambda: False)
    torch.testing.assert_close(Int4Linear(w)(x), expected, atol=1e-4, rtol=1e-4)


def test_a_group_that_does_not_divide_the_row_gets_smaller() -> None:
    sizes = {n: Int4Linear(weight(16, n, torch.float32), None, 128).group_size
             for n in (576, 1536, 96)}  # fmt: skip
    assert sizes == {576: 64, 1536: 128, 96: 32}


def test_bytes_are_those_of_steps_and_scales() -> None:
    w = weight(64, 128, torch.bfloat16)
    assert Int8Linear(w).nbytes == 64 * 128 + 64 * 2
    assert Int4Linear(w).nbytes == 64 * 128 // 2 + 64 * 4 * 2 * 2
    assert Int4Linear(w, w[:, 0].contiguous(), 128).nbytes == 64 * 64 + 64 * 2 * 2 + 64 * 2


@pytest.mark.parametrize("name", quantize.SCHEMES)
def test_names_make_schemes_and_schemes_names(name: str) -> None:
    assert Scheme.named(name).label == name


@pytest.mark.parametrize("name", ["int3", "int4-32", "int8-64", "", "INT8"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InferlabError, match="no quantization"):
        Scheme.named(name)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("int8", {"hidden_size": 72}, r"qkv_proj is .* x 72, and the int8 kernel takes inputs in"),
        ("int4", {"hidden_size": 80}, r"x 80, and the int4 kernel .* inputs of 32"),
        ("int4", {"intermediate_size": 100}, r"gate_up_proj is 200 x .* multiples of 16"),
    ],
)
def test_shapes_without_a_kernel_are_refused(
    name: str, change: dict[str, int], message: str
) -> None:
    config = replace(SHAPES["tiny"], **change)
    check(Scheme.named("none"), config, CPU, torch.float32)
    with pytest.raises(InferlabError, match=message):
        check(Scheme.named(name), config, CPU, torch.float32)


def test_devices_without_a_kernel_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(name: str, device: str, dtype: torch.dtype) -> str:
        with pytest.raises(InferlabError) as caught:
            check(Scheme.named(name), SHAPES["tiny"], torch.device(device), dtype)
        return str(caught.value)

    assert "not on mps" in refusal("int8", "mps", torch.float16)
    there: list[str] = []
    monkeypatch.setattr(
        torch._C, "_dispatch_has_kernel_for_dispatch_key", lambda name, _key: name in there
    )
    assert "no int8 kernel for CUDA" in refusal("int8", "cuda", torch.bfloat16)
    there += quantize.KERNELS.values()
    assert "dtype='bfloat16'" in refusal("int4", "cuda", torch.float16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: (7, 5))
    assert "compute capability 8.0" in refusal("int4", "cuda", torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["int8", "int4", "int4-64", "int4-128"])
def test_cuda_products_equal_those_of_the_dequantized_weight(kind: str) -> None:
    w = weight(192, 256, torch.bfloat16, "cuda")
    linear = Scheme.named(kind).makers[0](w, None)
    if isinstance(linear, Int4Linear):
        full = dequantize_int4(*quantize_int4(w, linear.group_size))
    else:
        full = dequantize_int8(*quantize_int8(w))
    for rows in (1, 5, 150):
        x = weight(rows, 256, torch.bfloat16, "cuda")
        torch.testing.assert_close(
            linear(x).float(), F.linear(x.float(), full), atol=0.5, rtol=2e-2
        )
