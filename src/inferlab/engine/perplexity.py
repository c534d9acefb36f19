"""How surprised a model is by a text: what quantization costs, in one number.

Perplexity is exp of the mean negative log-likelihood of each token given those before it: a model
that hesitated evenly between n tokens each time has perplexity n.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from inferlab.engine.generate import WholeText
from inferlab.engine.llm import LLM
from inferlab.errors import InferlabError

TEXT = Path(__file__).with_name("declaration.txt")
ROWS = 128  # positions whose logits are held at once: the vocabulary makes each of them long


@dataclass(frozen=True)
class Perplexity:
    """`nll`: mean negative log-likelihood in nats, over `num_tokens` tokens that were predicted."""

    nll: float
    num_tokens: int

    @property
    def value(self) -> float:
        """The perplexity itself."""
        return math.exp(self.nll)


def shipped_text() -> str:
    """The Declaration of Independence of the United States (1776), in the public domain."""
    return TEXT.read_text(encoding="utf-8")


def perplexity(
    llm: LLM, text: str | Sequence[int], *, window: int = 512, stride: int = 256
) -> Perplexity:
    """Score every token of `text` but the first, each from up to `window` - 1 tokens before it.

    The window slides by `stride`: a token beyond the first window is scored with at least
    `window` - `stride` tokens of context. Log-softmax and mean are computed in float32 and float64.

    Raises InferlabError for a text of fewer than 2 tokens, or a window that the model cannot take.
    """
    ids = llm.tokenizer.encode(text) if isinstance(text, str) else list(text)
    if len(ids) < 2:
        raise InferlabError("perplexity needs a text of at least 2 tokens.")
    if not 1 <= stride < window <= llm.config.max_model_len:
        raise InferlabError(
            f"a window of {window} tokens moved by {stride} cannot be scored: the stride must be "
            f"at least 1 and below the window, the window at most {llm.config.max_model_len}."
        )
    total, scored = 0.0, 1  # the first token has nothing before it
    for start in range(0, len(ids), stride):
        part = ids[start : start + window]
        total += _surprise(llm, part, scored - start)
        scored = start + len(part)
        if scored == len(ids):
            break
    return Perplexity(total / (len(ids) - 1), len(ids) - 1)


@torch.inference_mode()
def _surprise(llm: LLM, ids: list[int], first: int) -> float:
    """Sum of the negative log-likelihoods of tokens `first` and later, all of `ids` in view."""
    model = llm.model
    tokens = torch.tensor(ids, device=llm.device)  # (T,)
    positions = torch.arange(len(ids), device=llm.device)
    hidden = model.forward(tokens, positions, WholeText(model, len(ids)))  # (T, H)
    total = 0.0
    for at in range(first, len(ids), ROWS):
        targets = tokens[at : at + ROWS]
        logits = model.logits(hidden[at - 1 : at - 1 + len(targets)])  # (N, V) float32
        picked = logits.log_softmax(-1).gather(1, targets.unsqueeze(1))
        total -= float(picked.double().sum())
    return total
