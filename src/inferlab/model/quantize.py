"""Weights in 8 or 4 bits, multiplied by the kernels that PyTorch ships; activations stay whole.

int8: one scale per output row, w ~ q * scale, q in -127..127. int4: each row is cut into groups of
32, 64 or 128 weights with a scale and an offset, w ~ (q - 8) * scale + offset, q in 0..15 (the
scheme of gpt-fast and of GGUF's Q4_1). The kernels expand the weights in registers, so a decode
step streams fewer bytes. With many rows the product is limited by arithmetic: there it is faster to
expand the whole matrix once and multiply as usual.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

import torch
import torch.nn.functional as F

from inferlab.errors import InferlabError
from inferlab.model.config import ModelConfig
from inferlab.model.layers import Linear

GROUPS = (32, 64, 128)
SCHEMES = ("none", "int8", "int4", "int4-64", "int4-128")  # int4 alone: groups of 32
# Rows from which expanding on a CPU costs less than the kernels' slower product (measured).
ROWS_TO_EXPAND = {"int8": 96, "int4": 512}
LANES = 32  # outputs whose 4-bit weights share a byte with those of the 32 outputs behind them
KERNELS = {"int8": "aten::_weight_int8pack_mm", "int4": "aten::_weight_int4pack_mm"}


class Projection(Protocol):
    """A matrix product with a weight that stays as it is: (N, in) -> (N, out)."""

    @property
    def nbytes(self) -> int: ...
    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


MakeProjection = Callable[[torch.Tensor, torch.Tensor | None], Projection]


@dataclass(frozen=True)
class Scheme:
    """How weights are stored. `group_size`: weights per scale, None for a whole row."""

    name: str
    group_size: int | None = None

    @classmethod
    def named(cls, name: str) -> "Scheme":
        """The scheme of a name of SCHEMES; raises InferlabError for any other."""
        if name not in SCHEMES:
            raise InferlabError(f"no quantization {name!r}. There are: {', '.join(SCHEMES)}.")
        kind, _, group = name.partition("-")
        return cls(kind, int(group or GROUPS[0]) if kind == "int4" else None)

    @property
    def label(self) -> str:
        """The name that makes this scheme again."""
        plain = self.group_size in (None, GROUPS[0])
        return self.name if plain else f"{self.name}-{self.group_size}"

    @property
    def makers(self) -> tuple[MakeProjection, MakeProjection]:
        """What makes the projections of the layers, and what makes the output matrix.

        The output matrix stays in int8 under int4: see docs/faster/quantization.md.
        """
        if self.name == "none":
            return Linear, Linear
        if self.group_size is None:
            return Int8Linear, Int8Linear
        return partial(Int4Linear, group_size=self.group_size), Int8Linear


def check(scheme: Scheme, config: ModelConfig, device: torch.device, dtype: torch.dtype) -> None:
    """Raise InferlabError unless this device has a kernel for every projection of the model."""
    if scheme.name == "none":
        return
    if problem := _device_problem(scheme.name, device, dtype):
        raise InferlabError(f"{scheme.name} weights cannot run here: {problem}")
    for name, (rows, columns) in projections(config).items():
        kind = "int8" if name == "lm_head" else scheme.name
        if problem := _shape_problem(kind, rows, columns, device.type):
            raise InferlabError(
                f"{scheme.name} weights do not fit {config.name}: {name} is {rows} x {columns}, "
                f"and {problem}. Use quantize='none'."
            )


def projections(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """Outputs and inputs of each kind of projection, as the model fuses them."""
    hidden, inner = config.hidden_size, config.intermediate_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    return {
        "qkv_proj": (q + 2 * kv, hidden),
        "o_proj": (hidden, q),
        "gate_up_proj": (2 * inner, hidden),
        "down_proj": (hidden, inner),
        "lm_head": (config.vocab_size, hidden),
    }


def _device_problem(kind: str, device: torch.device, dtype: torch.dtype) -> str | None:
    if device.type not in ("cpu", "cuda"):
        return f"the kernels are used on cpu and cuda, not on {device.type}. Use device='cpu'."
    if device.type == "cpu":
        return None
    for name in {"int8", kind}:  # int4 keeps its output matrix in int8
        if not torch._C._dispatch_has_kernel_for_dispatch_key(KERNELS[name], "CUDA"):
            return f"this PyTorch has no {name} kernel for CUDA. Update it, or use device='cpu'."
    if kind == "int4" and dtype != torch.bfloat16:
        return f"the int4 kernel for CUDA multiplies bfloat16, not {dtype}. Use dtype='bfloat16'."
    if kind == "int4" and torch.cuda.get_device_capability(device) < (8, 0):
        return "the int4 kernel needs compute capability 8.0 or above. Use quantize='int8'."
    return None


def _shape_problem(kind: str, rows: int, columns: int, device_type: str) -> str | None:
    if kind == "int8":
        # The CPU's bfloat16 kernel reads 16 weights at once, without looking where a row ends.
        fits = device_type != "cpu" or columns % 16 == 0
        return None if fits else "the int8 kernel takes inputs in multiples of 16"
    step = 16 if device_type == "cpu" else 8
    if rows % step or columns % GROUPS[0]:
        return f"the int4 kernel takes outputs in multiples of {step} and inputs of {GROUPS[0]}"
    return None


# int8


def quantize_int8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, in) -> int8 weights (out, in), scales (out,) in the weight's dtype.

    The error of a weight is at most half a scale, which is the row's largest weight over 127.
    """
    largest = weight.float().abs().amax(1)
    scale = (largest / 127).clamp(min=1e-30).to(weight.dtype)
    steps = (weight.float() / scale.float().unsqueeze(1)).round_().clamp_(-127, 127)
    return steps.to(torch.int8), scale


def dequantize_int8(steps: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """What the int8 weights stand for: (out, in) float32."""
    return steps.float() * scale.float().unsqueeze(1)


class Int8Linear:
    """y = (x Q^T) * scale + b with Q in int8."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._steps, self._scale = quantize_int8(weight)
        self._bias = bias
        self.nbytes = self._steps.nbytes + self._scale.nbytes
        self.nbytes += bias.nbytes if bias is not None else 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(N, in) -> (N, out)."""
        if len(x) < ROWS_TO_EXPAND["int8"]:
            y = torch._weight_int8pack_mm(x, self._steps, self._scale)
        else:  # the steps up to 127 are exact in every dtype, so the scale can wait
            y = F.linear(x, self._steps.to(x.dtype)).mul_(self._scale)
        return y if self._bias is None else y.add_(self._bias)


# int4


def quantize_int4(weight: torch.Tensor, group_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, in) -> steps 0..15 (out, in) int32; scale and offset (in / group, out, 2).

    The error of a weight is at most about half a scale, which is the range of its group over 15.
    """
    groups = weight.float().view(len(weight), -1, group_size)  # (out, in / group, group)
    low, high = groups.amin(2, keepdim=True), groups.amax(2, keepdim=True)
    # Rounded to the dtype they are kept in first: the steps then make up for that rounding.
    scale = ((high - low) / 15).clamp(min=1e-30).to(weight.dtype).float()
    offset = ((high + low) / 2 + scale / 2).to(weight.dtype).float()
    steps = ((groups - offset) / scale).round_().add_(8).clamp_(0, 15)
    scales = torch.cat([scale, offset], dim=2).transpose(0, 1).to(weight.dtype)
    return steps.flatten(1).to(torch.int32), scales.contiguous()


def dequantize_int4(steps: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What the steps stand for: (out, in) float32."""
    groups = steps.float().view(len(steps), len(scales), -1)  # (out, in / group, group)
    scale, offset = scales.float().transpose(0, 1).unsqueeze(2).unbind(-1)
    weight: torch.Tensor = (groups - 8) * scale + offset
    return weight.flatten(1)


class Int4Linear:
    """y = x W^T + b with W in 4 bits and groups of at most `group_size` weights.

    A row that the group does not divide takes the next smaller group that does.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        group_size: int = GROUPS[0],
    ) -> None:
        self.group_size = group_that_divides(weight.shape[1], group_size)
        steps, self._scales = quantize_int4(weight, self.group_size)
        self._bias = bias
        on_cpu, ops = weight.device.type == "cpu", torch.ops.aten
        self._multiply = ops._weight_int4pack_mm_for_cpu if on_cpu else ops._weight_int4pack_mm
        self._packed = pack_int4(steps)
        self._expands = on_cpu and len(weight) % (2 * LANES) == 0 and _has_halves()
        kept = (self._packed, self._scales, bias)
        self.nbytes = sum(part.nbytes for part in kept if part is not None)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(N, in) -> (N, out)."""
        if self._expands and len(x) >= ROWS_TO_EXPAND["int4"]:
            y = x @ self.expanded()
        else:
            y = self._multiply(x.contiguous(), self._packed, self.group_size, self._scales)
        return y if self._bias is None else y.add_(self._bias)

    def expanded(self) -> torch.Tensor:
        """The transposed weight in full: (in, out)."""
        num_groups, rows, _ = self._scales.shape
        scale, offset = (
            part.reshape(num_groups, 1, -1, 2, LANES) for part in self._scales.unbind(-1)
        )
        out = self._scales.new_empty(num_groups, self.group_size, rows)
        blocks = out.view(num_groups, self.group_size, -1, 2, LANES)
        for half, steps in enumerate(_halves(self._packed)):
            steps = steps.view(torch.int8).sub_(8).transpose(0, 1).to(out.dtype)
            steps = steps.view(num_groups, self.group_size, -1, LANES)
            place = (..., half, slice(None))
            torch.addcmul(offset[place], steps, scale[place], out=blocks[place])
        return out.flatten(0, 1)


def group_that_divides(columns: int, at_most: int) -> int:
    """The largest group size that divides a row and is not above the one asked for."""
    return max(group for group in GROUPS if group <= at_most and columns % group == 0)


def pack_int4(steps: torch.Tensor) -> torch.Tensor:
    """Two steps per byte, in the order that the kernel of the weight's device reads."""
    packed: torch.Tensor
    if steps.device.type == "cpu":
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(steps, 2)
        return packed
    pairs = (steps[:, ::2] << 4 | steps[:, 1::2]).to(torch.uint8)
    inner_tiles = next(n for n in (8, 4, 2) if steps.shape[1] % (16 * n) == 0)
    packed = torch.ops.aten._convert_weight_to_int4pack(pairs.contiguous(), inner_tiles)
    return packed


def _halves(packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Steps of the first and of the last 32 of each 64 outputs: twice (out / 64, in, 32) uint8."""
    rows, half_columns = packed.shape
    blocks = packed.view(rows // (2 * LANES), 2 * half_columns, LANES)
    return blocks & 15, blocks >> 4


@cache
def _has_halves() -> bool:
    """Whether this CPU packs 64 outputs as two halves, as with AVX-512; found out, not assumed."""
    steps = torch.arange(64 * 32).mul(7).remainder(16).view(64, 32).to(torch.int32)
    low, high = _halves(torch.ops.aten._convert_weight_to_int4pack_for_cpu(steps, 2))
    return bool((steps == torch.cat([low[0], high[0]], 1).T).all())
