"""How fast prefill and decode are here, and how much of what this machine can do that is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import Any

from inferlab import cost
from inferlab.engine.llm import LLM
from inferlab.errors import InferlabError
from inferlab.hardware import Ceilings

NOISY = 0.15  # spread over median from which a figure is not to be compared with another


@dataclass(frozen=True)
class Sample:
    """One request with a prompt never seen before. Seconds; None with a single output token.

    Here each token counts, also one that adds no text; a client sees only those that do.
    """

    ttft_s: float
    tpot_s: float | None

    def output_tok_s(self, output_tokens: int) -> float:
        """Output tokens over the whole request's time, prefill included."""
        return output_tokens / (self.ttft_s + (output_tokens - 1) * (self.tpot_s or 0.0))


def samples(llm: LLM, prompt_tokens: int, output_tokens: int, repeats: int) -> Iterator[Sample]:
    """Yield one sample after another, after one request that does not count.

    Raises InferlabError for numbers below 1 and for what exceeds the model's context.
    """
    check(llm, prompt_tokens, output_tokens, repeats)
    for number in range(repeats + 1):
        prompt = llm.random_prompt(prompt_tokens, seed=number)
        llm.synchronize()
        start_ns = perf_counter_ns()
        pieces = list(llm.stream(prompt, max_tokens=output_tokens, ignore_eos=True))
        if number:
            first, last = pieces[0].t_ns, pieces[-1].t_ns
            tpot_s = (last - first) / 1e9 / (len(pieces) - 1) if len(pieces) > 1 else None
            yield Sample((first - start_ns) / 1e9, tpot_s)


def check(llm: LLM, prompt_tokens: int, output_tokens: int, repeats: int, batch: int = 1) -> None:
    """Raise InferlabError for numbers below 1 and for what exceeds the model's context."""
    asked = {
        "prompt tokens": prompt_tokens,
        "output tokens": output_tokens,
        "repeats": repeats,
        "requests in a batch": batch,
    }
    for name, number in asked.items():
        if number < 1:
            raise InferlabError(f"the number of {name} must be at least 1, not {number}.")
    if prompt_tokens + output_tokens > llm.config.max_model_len:
        raise InferlabError(
            f"{prompt_tokens} + {output_tokens} tokens are more than {llm.config.name} takes: "
            f"{llm.config.max_model_len}. Measure fewer."
        )


def summarize(
    llm: LLM,
    taken: Sequence[Sample],
    prompt_tokens: int,
    output_tokens: int,
    ceilings: Ceilings | None = None,
) -> dict[str, Any]:
    """Rates, TTFT and TPOT as {median, low, high, samples}, and shares of the measured roofline.

    Prefill's rate is prompt tokens over TTFT, decode's one over TPOT. A share is the time that the
    slower of computing and reading memory takes at the measured ceilings, over the median time.
    """
    ttft = [sample.ttft_s for sample in taken]
    tpot = [sample.tpot_s for sample in taken if sample.tpot_s is not None]
    return {
        "prefill_tok_s": spread([prompt_tokens / t for t in ttft]),
        "decode_tok_s": spread([1 / t for t in tpot]),
        "output_tok_s": spread([s.output_tok_s(output_tokens) for s in taken]),
        "ttft_s": spread(ttft),
        "tpot_s": spread(tpot),
        "roofline": _shares(llm, ttft, tpot, (prompt_tokens, output_tokens), ceilings),
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "repeats": len(taken),
        "noisy": [name for name, t in (("prefill", ttft), ("decode", tpot)) if is_noisy(t)],
        "model": llm.describe(),
    }


def measure(
    llm: LLM,
    prompt_tokens: int,
    output_tokens: int,
    repeats: int = 5,
    ceilings: Ceilings | None = None,
) -> dict[str, Any]:
    """Measure one request at a time, `repeats` times, and summarize. No ceilings, no shares."""
    taken = list(samples(llm, prompt_tokens, output_tokens, repeats))
    return summarize(llm, taken, prompt_tokens, output_tokens, ceilings)


def spread(values: Sequence[float]) -> dict[str, Any] | None:
    """{median, low, high, samples} of what was seen, None when nothing was."""
    if not values:
        return None
    low, high = min(values), max(values)
    return {"median": median(values), "low": low, "high": high, "samples": list(values)}


def is_noisy(values: Sequence[float]) -> bool:
    """Whether the spread is too wide for comparisons: something else used the machine."""
    return len(values) > 1 and (max(values) - min(values)) / median(values) > NOISY


def _shares(
    llm: LLM,
    ttft: Sequence[float],
    tpot: Sequence[float],
    tokens: tuple[int, int],
    ceilings: Ceilings | None,
) -> dict[str, float | None]:
    """Bound over measured time, for both phases; None where nothing was measured."""
    prompt_tokens, output_tokens = tokens
    if ceilings is None:
        return {"prefill_share": None, "decode_share": None}
    flop_s, bytes_s = ceilings.best_flop_s(llm.dtype), ceilings.best_read_bytes_s
    stored = None if llm.quantize == "none" else llm.model.step_bytes
    prefill = cost.prefill_work(llm.config, prompt_tokens, dtype=llm.dtype, weight_num_bytes=stored)
    # The text grows by one token a step; its middle stands for all steps, since cost is linear.
    context = prompt_tokens + output_tokens // 2
    decode = cost.decode_work(llm.config, context, dtype=llm.dtype, weight_num_bytes=stored)
    return {
        "prefill_share": prefill.lower_bound_s(flop_s, bytes_s) / median(ttft),
        "decode_share": decode.lower_bound_s(flop_s, bytes_s) / median(tpot) if tpot else None,
        "matmul_ceiling_flop_s": flop_s,
        "read_ceiling_bytes_s": bytes_s,
    }
