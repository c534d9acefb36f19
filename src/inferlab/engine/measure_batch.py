"""How many tokens a second come out when many requests are served together, prefill included."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import Any

from inferlab.engine.llm import LLM
from inferlab.engine.measure import check, is_noisy, spread
from inferlab.engine.request import Completion, SamplingParams

BUDGET = 1024  # tokens of one step


@dataclass(frozen=True)
class BatchSample:
    """One round: all requests come at once, and each gets all its tokens. Seconds.

    TTFT and TPOT are the median request's; TPOT is None with a single output token.
    """

    output_tok_s: float
    ttft_s: float
    tpot_s: float | None
    outside_share: float  # of the time, spent outside the model's forward pass


def batch_samples(
    llm: LLM,
    batch: int,
    prompt_tokens: int,
    output_tokens: int,
    repeats: int,
    *,
    scheduling: str = "continuous",
    prefix_cache: bool = True,
) -> Iterator[BatchSample]:
    """Yield one round after another, after one that does not count; no prompt comes twice.

    Raises InferlabError for numbers below 1 and for what exceeds the model's context.
    """
    check(llm, prompt_tokens, output_tokens, repeats, batch)
    size = 16
    engine = llm.new_engine(
        max_num_seqs=batch,
        max_num_batched_tokens=max(BUDGET, batch),
        max_num_waiting=batch,
        num_blocks=batch * -(-(prompt_tokens + output_tokens) // size),
        block_size=size,
        scheduling=scheduling,
        prefix_cache=prefix_cache,
    )
    params = SamplingParams(max_tokens=output_tokens, ignore_eos=True)
    for number in range(repeats + 1):
        seeds = range(number * batch, (number + 1) * batch)
        prompts = [llm.random_prompt(prompt_tokens, seed=seed) for seed in seeds]
        engine.steps.clear()
        llm.synchronize()
        start_ns = perf_counter_ns()
        done = engine.generate(prompts, params)
        total_ns = perf_counter_ns() - start_ns
        if number:
            forward_ns = sum(step.forward_ns for step in engine.steps)
            yield _sample(done, total_ns, forward_ns)


def _sample(done: Sequence[Completion], total_ns: int, forward_ns: int) -> BatchSample:
    stamps = [[chunk.t_ns for chunk in each.trace.chunks] for each in done]
    ttft = [t[0] - each.trace.sent_ns for t, each in zip(stamps, done, strict=True)]
    tpot = [(t[-1] - t[0]) / (len(t) - 1) for t in stamps if len(t) > 1]
    return BatchSample(
        output_tok_s=sum(map(len, stamps)) / total_ns * 1e9,
        ttft_s=median(ttft) / 1e9,
        tpot_s=median(tpot) / 1e9 if tpot else None,
        outside_share=1 - forward_ns / total_ns,
    )


def summarize_batch(
    llm: LLM, taken: Sequence[BatchSample], batch: int, prompt_tokens: int, output_tokens: int
) -> dict[str, Any]:
    """Each figure as {median, low, high, samples}, as `measure.summarize` gives them."""
    rates = [sample.output_tok_s for sample in taken]
    return {
        "batch": batch,
        "output_tok_s": spread(rates),
        "ttft_s": spread([sample.ttft_s for sample in taken]),
        "tpot_s": spread([sample.tpot_s for sample in taken if sample.tpot_s is not None]),
        "outside_share": spread([sample.outside_share for sample in taken]),
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "repeats": len(taken),
        "noisy": ["output"] if is_noisy(rates) else [],
        "model": llm.describe(),
    }
