"""Time things so that the numbers can be trusted: warm up, repeat, take turns, wait for the GPU."""

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any


def timed(
    fn: Callable[[], Any],
    repeats: int,
    warmup: int = 1,
    synchronize: Callable[[], Any] | None = None,
) -> list[float]:
    """Seconds of each of `repeats` calls of `fn`, after `warmup` calls that do not count.

    `synchronize` (for instance `llm.synchronize`) waits until the device has done its work; without
    it a GPU would only be timed accepting the work.
    """
    return interleave({"": fn}, repeats=repeats, warmup=warmup, synchronize=synchronize)[""]


def interleave(
    fns: Mapping[str, Callable[[], Any]],
    repeats: int,
    warmup: int = 1,
    synchronize: Callable[[], Any] | None = None,
) -> dict[str, list[float]]:
    """Seconds of each function, called in turn (A B A B) so that a noisy moment hits all of them.

    Returns one list of `repeats` samples for each name, in the order of the calls.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    wait = synchronize or _nothing
    for _ in range(warmup):
        for fn in fns.values():
            fn()
    seconds: dict[str, list[float]] = {name: [] for name in fns}
    for _ in range(repeats):
        for name, fn in fns.items():
            wait()
            start = perf_counter_ns()
            fn()
            wait()
            seconds[name].append((perf_counter_ns() - start) / 1e9)
    return seconds


def _nothing() -> None:
    pass
