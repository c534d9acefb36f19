"""Percentiles that say their method, their sample size and how sure they are."""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from inferlab.errors import InferlabError

Method = Literal["linear", "nearest-rank", "mlperf"]
METHODS: tuple[Method, ...] = ("linear", "nearest-rank", "mlperf")
SHOWN_PERCENTILES = (50.0, 90.0, 95.0, 99.0)


def percentile(values: Iterable[float | None], p: float, method: Method = "linear") -> float | None:
    """The p-th percentile (p from 0 to 100); undefined values (None) are kept out.

    linear: numpy's default, between neighbours at (n - 1) p. nearest-rank: the smallest value that
    at least p % of the values do not pass. mlperf: `sorted[int(n * p)]`, as MLPerf's loadgen takes.
    None when no value is left. Raises InferlabError for a NaN, an unknown method or p out of range.
    """
    return _at(_sorted(values), p, method)


def percentile_interval(
    values: Iterable[float | None],
    p: float,
    method: Method = "linear",
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Bootstrap interval of a percentile: how far it moves when the same values are redrawn.

    The same seed gives the same interval. None with fewer than two values, which say nothing about
    spread. It takes the values as independent, which pooled gaps of one request are not quite.
    Raises InferlabError for a confidence outside (0, 1), and as `percentile` does.
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise InferlabError(
            f"no interval has confidence {confidence} from {resamples} resamples. "
            "Give a confidence between 0 and 1 and at least one resample."
        )
    return _interval(_sorted(values), p, method, confidence, resamples, seed)


def error_adjusted_percentile(
    values: Iterable[float | None], p: float, failures: int, method: Method = "linear"
) -> float | None:
    """The percentile in which each of `failures` counts as infinitely late.

    Without it, a server that drops its slowest requests looks faster. `math.inf` when the
    percentile falls among the failures.
    """
    return percentile([*values, *[math.inf] * failures], p, method)


def samples_needed(p: float) -> int:
    """How many samples a percentile needs to differ from the maximum: 20 for p95, 100 for p99."""
    share = _share(p)
    # p99 of 99 values is the largest but for interpolation: one value must lie above it.
    if share < Fraction(95, 100) or share == 1:
        return 1
    return math.ceil(1 / (1 - share))


@dataclass(frozen=True, slots=True)
class Tail:
    """What to show of a tail: `label` is "p99" when there are enough samples, else "max"."""

    label: str
    value: float
    n: int
    needed: int


def tail(values: Iterable[float | None], p: float = 99.0, method: Method = "linear") -> Tail | None:
    """The percentile if the samples carry it, else the maximum under its own name."""
    ordered = _sorted(values)
    needed = samples_needed(p)
    if not ordered:
        return None
    if len(ordered) < needed:
        return Tail("max", float(ordered[-1]), len(ordered), needed)
    value = _at(ordered, p, method)
    assert value is not None
    return Tail(f"p{p:g}", value, len(ordered), needed)


@dataclass(frozen=True, slots=True)
class Percentile:
    """One percentile with what it takes to trust it. `low`, `high`: bootstrap 95 % interval."""

    p: float
    value: float
    low: float | None  # None for a single value
    high: float | None
    n: int  # of defined values
    method: Method
    error_adjusted: float  # math.inf where it falls among the failures

    @property
    def has_enough_samples(self) -> bool:
        """False when the maximum is what to show instead."""
        return self.n >= samples_needed(self.p)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One metric over many requests."""

    n: int
    mean: float
    minimum: float
    maximum: float
    percentiles: tuple[Percentile, ...]
    failures: int  # requests that gave no value, not counted in n

    def at(self, p: float) -> Percentile:
        """The percentile `p` that was described. Raises InferlabError when it was not."""
        for entry in self.percentiles:
            if entry.p == p:
                return entry
        known = ", ".join(f"p{entry.p:g}" for entry in self.percentiles)
        raise InferlabError(f"no p{p:g} in this distribution. It holds {known}.")

    def tail(self, p: float = 99.0) -> Tail:
        """The percentile if the samples carry it, else the maximum under its own name."""
        entry = self.at(p)
        needed = samples_needed(p)
        if entry.has_enough_samples:
            return Tail(f"p{p:g}", entry.value, self.n, needed)
        return Tail("max", self.maximum, self.n, needed)


def describe(
    values: Iterable[float | None],
    *,
    failures: int = 0,
    percentiles: Sequence[float] = SHOWN_PERCENTILES,
    method: Method = "linear",
    seed: int = 0,
) -> Distribution | None:
    """Mean, extremes and percentiles of the defined values; None when there are none.

    `failures` requests that gave no value count as infinitely late in `error_adjusted`.
    """
    ordered = _sorted(values)
    if not ordered:
        return None
    return Distribution(
        n=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        minimum=float(ordered[0]),
        maximum=float(ordered[-1]),
        percentiles=tuple(_describe_one(ordered, p, failures, method, seed) for p in percentiles),
        failures=failures,
    )


def _describe_one(
    ordered: list[float], p: float, failures: int, method: Method, seed: int
) -> Percentile:
    value = _at(ordered, p, method)
    adjusted = _at([*ordered, *[math.inf] * failures], p, method)
    assert value is not None
    assert adjusted is not None
    low, high = _interval(ordered, p, method, 0.95, 1000, seed) or (None, None)
    return Percentile(p, value, low, high, len(ordered), method, adjusted)


def _share(p: float) -> Fraction:
    # Through the decimal text: 99.9 means 999/1000, not the nearest binary number, whose n * p may
    # fall just past a rank.
    if not 0 <= p <= 100:
        raise InferlabError(f"a percentile lies between 0 and 100, not {p}.")
    return Fraction(str(p)) / 100


def _sorted(values: Iterable[float | None]) -> list[float]:
    defined = sorted(value for value in values if value is not None)
    if any(math.isnan(value) for value in defined):
        raise InferlabError("a NaN is among the values. Leave an undefined value out, as None.")
    return defined


def _rank(n: int, p: float, method: Method) -> tuple[int, float]:
    """Index into n sorted values, and how far to go from there to the next one."""
    share = _share(p)
    if method == "linear":
        position = (n - 1) * share
        return math.floor(position), float(position - math.floor(position))
    if method == "nearest-rank":
        return max(math.ceil(n * share), 1) - 1, 0.0
    if method == "mlperf":
        return min(math.floor(n * share), n - 1), 0.0
    raise InferlabError(f"unknown percentile method {method!r}. Use one of {', '.join(METHODS)}.")


def _at(ordered: Sequence[float], p: float, method: Method) -> float | None:
    index, fraction = _rank(max(len(ordered), 1), p, method)
    if not ordered:
        return None
    return _between(ordered[index], ordered[min(index + 1, len(ordered) - 1)], fraction)


def _between(low: float, high: float, fraction: float) -> float:
    # The guard also keeps inf - inf, which is NaN, out.
    if fraction == 0 or low == high:
        return float(low)
    # From the nearer end, and never past it: rounding must not break the order of percentiles.
    if fraction < 0.5 or math.isinf(high):
        return min(low + (high - low) * fraction, high)
    return max(high - (high - low) * (1 - fraction), low)


def _interval(
    ordered: list[float], p: float, method: Method, confidence: float, resamples: int, seed: int
) -> tuple[float, float] | None:
    if len(ordered) < 2:
        return None
    index, fraction = _rank(len(ordered), p, method)
    rng = random.Random(seed)  # its own generator: nothing else moves the draw
    drawn = sorted(_resampled(ordered, index, fraction, rng) for _ in range(resamples))
    tail_percent = (1 - confidence) * 50
    low, high = _at(drawn, tail_percent, "linear"), _at(drawn, 100 - tail_percent, "linear")
    assert low is not None
    assert high is not None
    return low, high


def _resampled(ordered: list[float], index: int, fraction: float, rng: random.Random) -> float:
    """The value at a rank of one bootstrap resample, without drawing all of it.

    A resample is `ordered[floor(n u)]` for n uniform u. Its r-th smallest value belongs to the
    r-th smallest u, which is Beta(r, n + 1 - r); the next u is the least of n - r uniforms above.
    """
    n, rank = len(ordered), index + 1
    u = rng.betavariate(rank, n + 1 - rank)
    low = ordered[min(int(n * u), n - 1)]
    if fraction == 0:
        return float(low)
    u_next = 1 - (1 - u) * (1 - rng.random()) ** (1 / (n - rank))
    return _between(low, ordered[min(int(n * u_next), n - 1)], fraction)
