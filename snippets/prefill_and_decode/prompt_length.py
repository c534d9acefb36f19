"""How does the wait for the first token grow with the prompt?

Prefill passes the whole prompt through the model at once. The cache is emptied before each run, so
nothing is remembered from the run before.
"""

from statistics import median

from inferlab import LLM, lab
from inferlab.cost import prefill_work

quick = [64, 256, 512, 1024, 2048]
lengths = lab.pick(quick=quick, full=[*quick, 4096], smoke=[8, 24])
llm = LLM()
limits = lab.ceilings()
peak, bandwidth = limits.best_flop_s(llm.dtype), limits.best_read_bytes_s
cache = llm.new_cache(max(lengths))
prompts = {n: llm.random_prompt(n, seed=n) for n in lengths}


def prefill(prompt):
    cache.reset()
    llm.forward(prompt, cache)  # (V,) logits, from which the first token is chosen


seconds = lab.interleave(
    {n: lambda prompt=prompt: prefill(prompt) for n, prompt in prompts.items()},
    repeats=lab.repeats(quick=3),
    synchronize=llm.synchronize,
)

rows = []
for n in lengths:
    work = prefill_work(llm.config, n, dtype=llm.dtype, weight_num_bytes=llm.model.step_bytes)
    row = {"prompt_tokens": n, "time_ms": [s * 1e3 for s in seconds[n]]}
    row["bound_ms"] = work.lower_bound_s(peak, bandwidth) * 1e3
    row["prefill_tok_s"] = [n / s for s in seconds[n]]
    row["share"] = 100 * row["bound_ms"] / median(row["time_ms"])
    rows.append(row)

first, last = rows[0], rows[-1]
before, after = median(first["time_ms"]), median(last["time_ms"])
longer = last["prompt_tokens"] / first["prompt_tokens"]
lab.record(
    rows=rows,
    columns=[
        lab.Column("prompt_tokens", "prompt", "tokens", 0),
        lab.Column("time_ms", "prefill", "ms", 1, at_least="bound_ms"),
        lab.Column("bound_ms", "least possible here", "ms", 1),
        lab.Column("share", "of what is possible", "%", 0),
        lab.Column("prefill_tok_s", "speed", "tok/s", 0),
    ],
    finding=f"Prefill takes {before:,.0f} ms for {first['prompt_tokens']} tokens and "
    f"{after:,.0f} ms for {last['prompt_tokens']:,}: {after / before:.1f} times as long for "
    f"{longer:.0f} times the tokens.",
    chart=lab.Chart(
        "line", "prompt_tokens", "time_ms", bound="bound_ms", roles={"time_ms": "prefill"}
    ),
    model=llm,
)
