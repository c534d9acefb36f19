"""How much memory an operation needs while it runs, beside what it was given."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def peak_bytes(fn: Callable[[], Any]) -> int:
    """The most bytes of tensors that `fn` held at one moment, its result included.

    It watches PyTorch's allocator, not the process. Scratch memory that a library takes past the
    allocator is not in it. Call `fn` once before, so that nothing is loaded.
    """
    import torch

    if torch.cuda.is_available():
        on_gpu = _gpu_peak(fn)
        if on_gpu > 0:  # else all of it ran on the CPU
            return on_gpu
    return _host_peak(fn)


def _gpu_peak(fn: Callable[[], Any]) -> int:
    import torch

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    fn()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _host_peak(fn: Callable[[], Any]) -> int:
    from torch.profiler import ProfilerActivity, profile

    seen = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
    with _quiet():
        seen.start()
    try:
        fn()
    finally:
        with _quiet():
            seen.stop()
    held = peak = 0
    events: Any = seen.profiler.kineto_results.events()  # type: ignore[union-attr]
    for event in events:
        if event.name() == "[memory]":
            held += event.nbytes()  # negative where memory is given back
            peak = max(peak, held)
    return peak


@contextmanager
def _quiet() -> Iterator[None]:
    """The profiler announces itself on the error output of the process, past Python's."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
