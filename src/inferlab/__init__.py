"""Understand and measure LLM inference, with code that runs on your own machine.

Importing this package imports neither torch nor matplotlib: names load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferlab import lab
    from inferlab.engine.llm import LLM
    from inferlab.engine.request import SamplingParams
    from inferlab.errors import InferlabError
    from inferlab.trace.events import Trace

__all__ = ["LLM", "InferlabError", "SamplingParams", "Trace", "lab"]

_HOME_OF = {
    "LLM": "inferlab.engine.llm",
    "InferlabError": "inferlab.errors",
    "SamplingParams": "inferlab.engine.request",
    "Trace": "inferlab.trace.events",
}


def __getattr__(name: str) -> Any:
    if name == "lab":
        return import_module("inferlab.lab")
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'inferlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
