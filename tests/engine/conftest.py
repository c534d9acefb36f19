"""Tiny models with random weights, as fixtures."""

import pytest
from tiny_llm import CONFIGS, build

from inferlab import LLM


@pytest.fixture(params=CONFIGS)
def any_llm(request: pytest.FixtureRequest) -> LLM:
    """One tiny model of each kind."""
    return build(CONFIGS[request.param])


@pytest.fixture(scope="session")
def llm() -> LLM:
    """The plain tiny model."""
    return build()
