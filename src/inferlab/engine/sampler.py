"""From logits to one token id: greedy, or a draw from what temperature and filters leave."""

import torch

from inferlab.engine.request import SamplingParams


class Sampler:
    """Chooses tokens for one request; holds its random generator and the tokens it has seen."""

    def __init__(self, params: SamplingParams, prompt_ids: list[int], device: torch.device) -> None:
        self.params = params
        self._seen: torch.Tensor | None = None
        self._prompt, self._device = prompt_ids, device
        # Draws come from the CPU's generator: one seed then means one answer on every device.
        self._generator = torch.Generator()
        if params.seed is not None:
            self._generator.manual_seed(params.seed)
        elif params.temperature > 0:
            self._generator.seed()

    def __call__(self, logits: torch.Tensor) -> int:
        """Choose from (V,) float32 logits."""
        params = self.params
        if params.repetition_penalty != 1.0:
            logits = self._penalize(logits)
        if params.temperature == 0:
            token = int(logits.argmax())
        else:
            probabilities = distribution(logits, params).cpu()
            token = int(torch.multinomial(probabilities, 1, generator=self._generator))
        if self._seen is not None:
            self._seen[token] = True
        return token

    def _penalize(self, logits: torch.Tensor) -> torch.Tensor:
        if self._seen is None:
            self._seen = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
            self._seen[torch.tensor(self._prompt, device=logits.device)] = True
        penalty = self.params.repetition_penalty
        penalized = torch.where(logits > 0, logits / penalty, logits * penalty)
        return torch.where(self._seen, penalized, logits)


def distribution(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Probabilities that sampling draws from: (V,) float32 logits -> (V,) float32, sum 1.

    The order is that of vLLM and `transformers`: temperature, then top-k, top-p, min-p, each on
    what the one before left. Temperature 0 puts everything on the most likely token.
    """
    if params.temperature == 0:
        return torch.zeros_like(logits).scatter_(0, logits.argmax(keepdim=True), 1.0)
    logits = logits / params.temperature
    if 0 < params.top_k < len(logits):
        least = logits.topk(params.top_k).values[-1]
        logits = logits.masked_fill(logits < least, float("-inf"))
    if params.top_p < 1:
        logits = _keep_top_p(logits, params.top_p)
    if params.min_p > 0:
        probabilities = logits.softmax(-1)
        logits = logits.masked_fill(probabilities < params.min_p * probabilities.max(), -torch.inf)
    return logits.softmax(-1)


def _keep_top_p(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Drop the least likely tokens whose sum stays within 1 - top_p (arXiv 1904.09751)."""
    ascending, order = logits.sort()
    before = ascending.softmax(-1).cumsum(-1)  # probability of a token and all less likely ones
    drop = before <= 1 - top_p
    drop[-1] = False  # the most likely token always stays
    return logits.masked_fill(drop.scatter(0, order, drop), float("-inf"))
