"""Which tokens the filters leave, and how often each is drawn."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inferlab.engine.request import SamplingParams
from inferlab.engine.sampler import Sampler, distribution

CPU = torch.device("cpu")
LOGITS = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625]).log()


def kept(**params: float) -> list[int]:
    probabilities = distribution(LOGITS, SamplingParams(**{"temperature": 1.0, **params}))
    assert math.isclose(float(probabilities.sum()), 1.0, rel_tol=1e-5)
    return probabilities.nonzero().flatten().tolist()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"temperature": 0.0}, [0]),
        ({"top_k": 1}, [0]),
        ({"top_k": 3}, [0, 1, 2]),
        ({"top_k": 99}, [0, 1, 2, 3, 4]),
        ({"top_p": 0.4}, [0]),
        ({"top_p": 0.6}, [0, 1]),
        ({"top_p": 0.76}, [0, 1, 2]),
        ({"top_p": 1e-9}, [0]),
        ({"min_p": 0.3}, [0, 1]),
        ({"min_p": 1.0}, [0]),
        ({"top_k": 3, "top_p": 0.8}, [0, 1]),  # top_p counts within what top_k left
    ],
)
def test_filters_keep(params: dict[str, float], expected: list[int]) -> None:
    assert kept(**params) == expected


def test_temperature_sharpens_and_flattens() -> None:
    def top(temperature: float) -> float:
        return float(distribution(LOGITS, SamplingParams(temperature=temperature))[0])

    assert top(1.0) == pytest.approx(0.5)
    assert top(0.5) > top(1.0) > top(2.0)


def test_draws_follow_the_distribution_and_the_seed() -> None:
    params = SamplingParams(temperature=1.0, seed=5)
    one, again = Sampler(params, [], CPU), Sampler(params, [], CPU)
    first = [one(LOGITS) for _ in range(4000)]
    assert first == [again(LOGITS) for _ in range(4000)]
    assert first.count(0) / 4000 == pytest.approx(0.5, abs=0.03)
    assert first.count(4) / 4000 == pytest.approx(0.0625, abs=0.015)


def test_without_a_seed_two_samplers_differ() -> None:
    params = SamplingParams(temperature=1.0)
    one, two = Sampler(params, [], CPU), Sampler(params, [], CPU)
    assert [one(LOGITS) for _ in range(200)] != [two(LOGITS) for _ in range(200)]


def test_repetition_penalty_counts_prompt_and_output() -> None:
    logits = torch.tensor([4.0, 3.9, 3.8, -1.0])
    sampler = Sampler(SamplingParams(repetition_penalty=1.1), [0], CPU)
    assert [sampler(logits) for _ in range(3)] == [1, 2, 0]  # 4.0 / 1.1 = 3.64 wins at last
    assert logits.tolist() == pytest.approx([4.0, 3.9, 3.8, -1.0])  # the caller's stay as they were


def test_repetition_penalty_lowers_negative_logits() -> None:
    sampler = Sampler(SamplingParams(repetition_penalty=2.0), [0], CPU)
    assert sampler(torch.tensor([-1.0, -1.5])) == 1


@given(
    st.lists(st.floats(-20, 20), min_size=1, max_size=30),
    st.floats(0.05, 5),
    st.integers(0, 40),
    st.floats(0.01, 1),
    st.floats(0, 1),
)
def test_any_filters_leave_a_distribution_with_the_top_token(
    values: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    logits = torch.tensor(values)
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    probabilities = distribution(logits, params)
    assert float(probabilities.sum()) == pytest.approx(1.0, abs=1e-4)
    likeliest = logits[probabilities > 0]
    assert float(likeliest.max()) == float(logits.max())
