"""What does a longer prompt cost, in time before the first token and in cache?"""

from statistics import median

from inferlab import LLM, cost, lab

llm = LLM()
ceilings = lab.ceilings()
flop_s, bytes_s = ceilings.best_flop_s(llm.dtype), ceilings.best_read_bytes_s
lengths = lab.pick(quick=[128, 512, 1024, 2048], full=[128, 512, 2048, 4096, 8000], smoke=[16, 32])
times = {length: [] for length in lengths}
cache_bytes = {}
for repeat in range(lab.repeats(quick=3, full=5) + 1):
    for length in lengths:
        prompt, cache = llm.random_prompt(length, seed=repeat), llm.new_cache(length)
        cache_bytes[length] = cache.nbytes
        [seconds] = lab.timed(
            lambda prompt=prompt, cache=cache: llm.forward(prompt, cache),
            repeats=1,
            warmup=0,
            synchronize=llm.synchronize,
        )
        if repeat > 0:  # the first round warms up
            times[length].append(seconds)

rows = []
for length in lengths:
    work = cost.prefill_work(llm.config, length, dtype=llm.dtype)
    rows.append(
        {
            "prompt_tokens": length,
            "prefill_ms": [s * 1e3 for s in times[length]],
            "least_ms": work.lower_bound_s(flop_s, bytes_s) * 1e3,
            "per_token_us": median(times[length]) / length * 1e6,
            "attention": 100 * cost.attention_flops(llm.config, length) / work.flops,
            "cache_mib": cache_bytes[length] / 2**20,
        }
    )

first, last = rows[0], rows[-1]
columns = [
    lab.Column("prompt_tokens", "prompt", "tokens", digits=0),
    lab.Column("prefill_ms", "prefill", "ms", digits=1, at_least="least_ms"),
    lab.Column("least_ms", "least possible", "ms", digits=1),
    lab.Column("per_token_us", "per prompt token", "µs", digits=0),
    lab.Column("attention", "attention's share of the operations", "%", digits=1),
    lab.Column("cache_mib", "KV cache", "MiB", digits=1),
]
growth = median(last["prefill_ms"]) / median(first["prefill_ms"])
finding = (
    f"A prompt {last['prompt_tokens'] / first['prompt_tokens']:.0f} times as long takes "
    f"{growth:.1f} times as long to prefill, and {last['cache_mib'] / first['cache_mib']:.0f} "
    "times the cache."
)
chart = lab.Chart("line", "prompt_tokens", "prefill_ms", title=finding, bound="least_ms",
                  roles={"prefill_ms": "prefill"})  # fmt: skip
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=llm)
