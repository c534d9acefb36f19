"""Percentiles against the pinned table and numpy; intervals, failures and small samples."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferlab.errors import InferlabError
from inferlab.trace import (
    Tail,
    describe,
    error_adjusted_percentile,
    percentile,
    percentile_interval,
    samples_needed,
    tail,
)
from inferlab.trace.percentiles import METHODS, Method

VALUES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60)
PERCENTS = st.floats(0, 100) | st.sampled_from([0, 50, 90, 95, 99, 99.9, 100])


@pytest.mark.parametrize(
    ("n", "p", "linear", "nearest", "mlperf"),
    [
        (4, 99, 3.97, 4, 4),
        (10, 50, 5.5, 5, 6),
        (10, 90, 9.1, 9, 10),
        (10, 95, 9.55, 10, 10),
        (20, 95, 19.05, 19, 20),
        (20, 99, 19.81, 20, 20),
        (100, 99, 99.01, 99, 100),
    ],
)
def test_the_pinned_table(n: int, p: float, linear: float, nearest: int, mlperf: int) -> None:
    values = list(range(n, 0, -1))
    assert percentile(values, p) == pytest.approx(linear, rel=1e-12)
    assert percentile(values, p, "nearest-rank") == nearest
    assert percentile(values, p, "mlperf") == mlperf


@given(VALUES, PERCENTS)
def test_linear_is_numpys_default(values: list[float], p: float) -> None:
    assert percentile(values, p) == pytest.approx(float(np.percentile(values, p)), abs=1e-5)


@given(VALUES, st.integers(0, 100))
def test_nearest_rank_is_numpys_inverted_cdf(values: list[float], p: int) -> None:
    ordered = sorted(values)
    reached = next(v for i, v in enumerate(ordered, start=1) if 100 * i >= p * len(ordered))
    assert percentile(values, p, "nearest-rank") == reached


@given(VALUES, st.integers(0, 100))
def test_mlperf_takes_sorted_int_of_n_p(values: list[float], p: int) -> None:
    index = min(len(values) * p // 100, len(values) - 1)
    assert percentile(values, p, "mlperf") == sorted(values)[index]


@given(VALUES, PERCENTS, PERCENTS, st.sampled_from(METHODS))
def test_a_higher_percentile_is_never_lower(
    values: list[float], p: float, q: float, method: Method
) -> None:
    low, high = percentile(values, min(p, q), method), percentile(values, max(p, q), method)
    assert low is not None
    assert high is not None
    assert min(values) <= low <= high <= max(values)


@given(VALUES, PERCENTS, st.integers(0, 20), st.sampled_from(METHODS))
def test_failures_never_make_a_run_look_faster(
    values: list[float], p: float, failures: int, method: Method
) -> None:
    plain = percentile(values, p, method)
    adjusted = error_adjusted_percentile(values, p, failures, method)
    assert plain is not None
    assert adjusted is not None
    assert adjusted >= plain
    if failures == 0:
        assert adjusted == plain


def test_a_percentile_among_failures_is_infinite() -> None:
    assert error_adjusted_percentile([1.0] * 98, 99, failures=2) == math.inf
    assert error_adjusted_percentile([1.0] * 98, 50, failures=2) == 1.0
    assert error_adjusted_percentile([1.0, 2.0], 50, failures=4) == math.inf
    assert error_adjusted_percentile([1.0, 2.0, 3.0], 50, failures=2) == 3.0  # the 3rd of 5
    assert error_adjusted_percentile([], 50, failures=1) == math.inf


def test_undefined_values_are_kept_out() -> None:
    assert percentile([None, 3.0, None, 1.0], 50) == 2.0
    assert percentile([None], 50) is None
    assert percentile([], 99, "mlperf") is None
    assert describe([None]) is None
    assert tail([None]) is None


@pytest.mark.parametrize("p", [-1, 100.5, math.nan])
def test_a_percentile_out_of_range_is_refused(p: float) -> None:
    with pytest.raises(InferlabError, match="between 0 and 100"):
        percentile([1.0], p)


def test_nan_and_unknown_methods_are_refused() -> None:
    with pytest.raises(InferlabError, match="NaN"):
        percentile([1.0, math.nan], 50)
    with pytest.raises(InferlabError, match="unknown percentile method 'median'"):
        percentile([1.0], 50, "median")  # type: ignore[arg-type]


def test_ranks_take_p_as_it_is_written() -> None:
    # 1000 * 0.999 and 100 * 0.29 in binary fall to the wrong side of a whole rank.
    assert percentile(range(1, 1001), 99.9, "nearest-rank") == 999
    assert percentile(range(1, 101), 29, "mlperf") == 30
    assert percentile(range(1, 101), 7, "nearest-rank") == 7


@pytest.mark.parametrize(
    ("p", "needed"), [(50, 1), (90, 1), (95, 20), (99, 100), (99.9, 1000), (100, 1)]
)
def test_how_many_samples_a_percentile_needs(p: float, needed: int) -> None:
    assert samples_needed(p) == needed


def test_the_maximum_stands_in_for_a_percentile_that_lacks_samples() -> None:
    assert tail(range(1, 100), 99) == Tail("max", 99.0, 99, 100)
    assert tail(range(1, 101), 99) == Tail("p99", pytest.approx(99.01), 100, 100)
    assert tail(range(1, 20), 95) == Tail("max", 19.0, 19, 20)
    assert tail(range(1, 21), 95, "nearest-rank") == Tail("p95", 19.0, 20, 20)
    assert tail([5.0], 50) == Tail("p50", 5.0, 1, 1)


def test_an_interval_repeats_with_its_seed() -> None:
    values = [float(i * i % 97) for i in range(80)]
    assert percentile_interval(values, 95, seed=3) == percentile_interval(values, 95, seed=3)
    assert percentile_interval(values, 95, seed=3) != percentile_interval(values, 95, seed=4)
    assert percentile_interval([1.0], 50) is None
    assert percentile_interval([7.0] * 30, 99) == (7.0, 7.0)
    narrow, wide = (percentile_interval(values, 50, confidence=c) for c in (0.5, 0.99))
    assert narrow is not None
    assert wide is not None
    assert wide[0] < narrow[0] <= narrow[1] < wide[1]


@pytest.mark.parametrize(("confidence", "resamples"), [(0, 9), (1, 9), (95, 9), (0.95, 0)])
def test_an_impossible_interval_is_refused(confidence: float, resamples: int) -> None:
    with pytest.raises(InferlabError, match="between 0 and 1 and at least one resample"):
        percentile_interval([1.0, 2.0], 50, confidence=confidence, resamples=resamples)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("p", [50, 90, 99])
def test_the_interval_is_that_of_a_plain_bootstrap(p: float, method: Method) -> None:
    rng = np.random.default_rng(7)
    values = rng.exponential(1.0, 150)
    redrawn = rng.choice(values, (4000, 150))
    ordered = np.sort(redrawn, axis=1)
    if method == "linear":
        drawn = np.percentile(ordered, p, axis=1)
    else:
        index = math.ceil(1.5 * p) - 1 if method == "nearest-rank" else int(1.5 * p)
        drawn = ordered[:, index]
    low, high = np.percentile(drawn, [2.5, 97.5])
    ours = percentile_interval(values.tolist(), p, method, resamples=4000)
    assert ours is not None
    # Both estimate the same limits; what is left is their own noise, small against the width.
    assert ours[0] == pytest.approx(low, abs=0.12 * (high - low))
    assert ours[1] == pytest.approx(high, abs=0.12 * (high - low))


@given(VALUES, st.sampled_from([50, 95, 99]), st.sampled_from(METHODS))
def test_an_interval_stays_within_the_values(values: list[float], p: float, method: Method) -> None:
    interval = percentile_interval(values, p, method, resamples=50)
    if len(values) < 2:
        assert interval is None
    else:
        assert interval is not None
        assert min(values) <= interval[0] <= interval[1] <= max(values)


def test_a_distribution_says_what_it_is_made_of() -> None:
    result = describe([*range(1, 101), None], failures=10, method="nearest-rank")
    assert result is not None
    assert (result.n, result.failures) == (100, 10)
    assert (result.mean, result.minimum, result.maximum) == (50.5, 1.0, 100.0)
    assert [entry.p for entry in result.percentiles] == [50, 90, 95, 99]
    p50, p99 = result.at(50), result.at(99)
    assert (p50.value, p50.error_adjusted, p50.n, p50.method) == (50, 55, 100, "nearest-rank")
    assert (p99.value, p99.error_adjusted, p99.has_enough_samples) == (99, math.inf, True)
    assert p50.low is not None
    assert p50.high is not None
    assert p50.low < 50 < p50.high
    assert result.tail() == Tail("p99", 99, 100, 100)


def test_a_small_distribution_shows_its_maximum() -> None:
    result = describe([3.0])
    assert result is not None
    assert result.tail(95) == Tail("max", 3.0, 1, 20)
    assert (result.at(50).low, result.at(50).high) == (None, None)
    with pytest.raises(InferlabError, match=r"no p42 .* p50, p90, p95, p99"):
        result.at(42)
