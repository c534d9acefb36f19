"""Kernels that come as close to a device's limits as anything the engine can run, and their speed.

No single kernel is the fastest everywhere, so several compete; the winner's samples are the result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypedDict

from inferlab.errors import InferlabError

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "float16")  # the last on GPUs only: CPUs emulate it
SAMPLE_S = 0.04  # one sample lasts at least this long: a burst is no sustained speed
ROUNDS, MIN_ROUNDS = 9, 5
BUDGET_S = 2.0  # for each figure
# After each round, only those of the fastest kernels go on that come close to the best of them.
CONTENDERS, CONTENDER = 4, 0.8
# Tokens, inputs, outputs: squares, then what a small and a large model's prefill does.
SHAPES = (
    (512, 576, 3072),
    (1024, 1024, 1024),
    (512, 2048, 8192),
    (2048, 2048, 2048),
    (512, 4096, 4096),
    (4096, 4096, 4096),
)
GPU_SHAPES = (*SHAPES[1:], (8192, 8192, 8192), (16384, 4096, 14336))
SLOWEST_RUN_S = 0.15


class Sampled(TypedDict):
    """Repeated samples of a rate: per second, in FLOP or bytes; `kernel` names what reached it."""

    median: float
    low: float
    high: float
    samples: list[float]
    kernel: str


@dataclass(frozen=True)
class Kernel:
    """Something to time: `work` is the FLOP or bytes of one run."""

    name: str
    work: float
    run: Callable[[], object]


def reached_twice(samples: Sequence[float]) -> float:
    """The best rate that two samples reached: a burst that came once cannot be sustained.

    Of a single sample, that sample.
    """
    return sorted(samples)[-2:][0]


def compete(
    kernels: Sequence[Kernel], wait: Callable[[], None], budget_s: float = BUDGET_S
) -> Sampled:
    """The fastest kernel's rate: rounds over all kernels, then over those close to the best.

    wait: blocks until the device is idle. Taking turns lets a noisy moment hit all alike.
    """
    started = perf_counter()
    counts = [_count(kernel, wait) for kernel in kernels]
    samples: list[list[float]] = [[] for _ in kernels]
    running = list(range(len(kernels)))
    for number in range(ROUNDS):
        if number >= MIN_ROUNDS and perf_counter() - started > budget_s:
            break
        for i in running:
            samples[i].append(_rate(kernels[i], counts[i], wait))
        running.sort(key=lambda i: -reached_twice(samples[i]))
        enough = CONTENDER * reached_twice(samples[running[0]])
        running = [i for i in running[:CONTENDERS] if reached_twice(samples[i]) >= enough]
    winner = running[0]
    rates = samples[winner]
    return {
        "median": median(rates),
        "low": min(rates),
        "high": max(rates),
        "samples": rates,
        "kernel": kernels[winner].name,
    }


def _count(kernel: Kernel, wait: Callable[[], None]) -> int:
    """How many runs make one sample; the first run, which compiles and allocates, is not timed."""
    kernel.run()
    wait()
    return max(1, int(SAMPLE_S * _rate(kernel, 1, wait) / kernel.work))


def _rate(kernel: Kernel, count: int, wait: Callable[[], None]) -> float:
    start = perf_counter()
    for _ in range(count):
        kernel.run()
    wait()
    return kernel.work * count / (perf_counter() - start)


def measure(device: str, buffer_bytes: int, num_threads: int) -> dict[str, Any]:
    """All ceilings of a device: matmul_flop_s by dtype, read_bytes_s and copy_bytes_s.

    buffer_bytes: how much memory reading and copying go through, several times the last cache.
    num_threads: for the CPU; the process gets its own number back. Takes 5 to 15 seconds.
    """
    import torch

    before = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(num_threads)
    wait = waiter(device)
    try:
        with torch.inference_mode():
            dtypes = [dtype for dtype in DTYPES if device != "cpu" or dtype != "float16"]
            flop_s = {dtype: _matmul(device, dtype, wait) for dtype in dtypes}
            return {
                "matmul_flop_s": {dtype: rate for dtype, rate in flop_s.items() if rate},
                "read_bytes_s": compete(readers(device, buffer_bytes), wait),
                "copy_bytes_s": compete([copier(device, buffer_bytes)], wait),
            }
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise InferlabError(
            f"could not measure the ceilings of {device}: {reason}. Free memory on the device, or "
            "choose another with --device."
        ) from error
    finally:
        torch.set_num_threads(before)


def waiter(device: str) -> Callable[[], None]:
    """A function that blocks until the device has done its work."""
    import torch

    if device == "cuda":
        return torch.cuda.synchronize
    return torch.mps.synchronize if device == "mps" else _nothing


def _nothing() -> None:
    pass


def _matmul(device: str, dtype: str, wait: Callable[[], None]) -> Sampled | None:
    """The fastest matrix product; None for a dtype that the device cannot multiply."""
    try:
        return compete(multipliers(device, dtype, wait), wait)
    except (RuntimeError, TypeError) as error:
        if dtype == "float32" or "memory" in str(error):
            raise
        return None


def multipliers(device: str, dtype: str, wait: Callable[[], None]) -> list[Kernel]:
    """Matrix products as the engine does them, up to the size that takes a sixth of a second.

    Without instructions for a dtype, PyTorch multiplies many times slower: large sizes are then
    left out.
    """
    import torch

    kernels: list[Kernel] = []
    slowest = 0.0  # FLOP/s of the last size, to foresee how long the next will take
    for tokens, inputs, outputs in SHAPES if device == "cpu" else GPU_SHAPES:
        work = 2.0 * tokens * inputs * outputs
        if slowest and work / slowest > SLOWEST_RUN_S:
            continue
        kind = getattr(torch, dtype)
        x = torch.randn(tokens, inputs, device=device).to(kind)
        w = torch.randn(outputs, inputs, device=device).to(kind)
        out = torch.empty(tokens, outputs, device=device, dtype=kind)
        size = f"{tokens}x{inputs} by {inputs}x{outputs}"
        linear = Kernel(f"linear {size}", work, _linear(x, w))
        into = Kernel(f"mm {size}", work, _mm(x, w, out))
        linear.run()
        slowest = _rate(linear, 1, wait)
        kernels += [linear, into, *_packed(size, work, x, w)]
    return kernels


def _linear(x: "torch.Tensor", w: "torch.Tensor") -> Callable[[], object]:
    import torch.nn.functional as F

    return lambda: F.linear(x, w)


def _mm(x: "torch.Tensor", w: "torch.Tensor", out: "torch.Tensor") -> Callable[[], object]:
    import torch

    transposed = w.t()
    return lambda: torch.mm(x, transposed, out=out)


def _packed(size: str, work: float, x: "torch.Tensor", w: "torch.Tensor") -> list[Kernel]:
    """The product with weights in oneDNN's own layout, where this build of PyTorch has it."""
    import torch

    if x.device.type != "cpu" or not torch._C._has_mkldnn:
        return []
    try:
        ops = torch.ops.mkldnn
        packed = ops._reorder_linear_weight(w, x.shape[0])
        linear = ops._linear_pointwise
        linear(x, packed, None, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):
        return []
    run: Callable[[], object] = lambda: linear(x, packed, None, "none", [], "")  # noqa: E731
    return [Kernel(f"packed linear {size}", work, run)]


def readers(device: str, num_bytes: int) -> list[Kernel]:
    """Ways to read a buffer once: reductions, and a single token's product with large weights.

    num_bytes: a multiple of 1 MiB.
    """
    import torch

    base = torch.ones(num_bytes // 4, device=device)
    first, second = base.chunk(2)
    kernels = [
        Kernel("sum of float32", num_bytes, base.sum),
        Kernel("largest of float32", num_bytes, base.amax),
        Kernel("dot product of float32", num_bytes, lambda: torch.dot(first, second)),
    ]
    if device != "mps":
        kernels.append(Kernel("sum of int64", num_bytes, base.view(torch.int64).sum))
    for dtype in ("float32", "bfloat16"):
        # 1.0 in float32 reads as 0 and 1.0 in bfloat16: neither NaN nor slow denormal numbers.
        flat = base.view(getattr(torch, dtype))
        for inputs in (2048, 16384):
            w = flat.view(-1, inputs)  # (outputs, inputs)
            x = torch.ones(1, inputs, device=device, dtype=w.dtype)
            size = f"{dtype}, one token, {inputs} inputs"
            kernels.append(Kernel(f"linear {size}", num_bytes, _linear(x, w)))
            if inputs == 2048:  # each copy of the weights takes memory
                kernels += _packed(size, num_bytes, x, w)
    return kernels


def copier(device: str, num_bytes: int) -> Kernel:
    """A copy between two halves of a buffer; each byte counts twice, as read and as written."""
    import torch

    source = torch.ones(num_bytes // 8, device=device)
    target = torch.zeros_like(source)
    return Kernel("copy of float32", 2.0 * source.numel() * 4, lambda: target.copy_(source))
