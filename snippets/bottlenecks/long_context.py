"""Does a token take longer to generate when a long context stands before it?"""

from statistics import median

from inferlab import LLM, cost, lab

llm = LLM()
bandwidth = lab.ceilings().best_read_bytes_s
contexts = lab.pick(quick=[16, 512, 1024, 2048], full=[16, 1024, 2048, 4096, 7900], smoke=[16, 32])
steps = lab.pick(quick=16, full=32, smoke=4)
times = {context: [] for context in contexts}
llm.generate(llm.random_prompt(64, seed=99), max_tokens=steps, ignore_eos=True)  # warms up
for repeat in range(lab.repeats(quick=3, full=5)):
    for context in contexts:
        prompt = llm.random_prompt(context, seed=repeat)
        chunks = llm.generate(prompt, max_tokens=steps + 1, ignore_eos=True).trace.chunks
        times[context].append((chunks[-1].t_ns - chunks[0].t_ns) / steps / 1e6)

rows = []
for context in contexts:
    work = cost.decode_work(llm.config, context + steps // 2, dtype=llm.dtype)
    cache_bytes = work.num_bytes - cost.decode_work(llm.config, 0, dtype=llm.dtype).num_bytes
    rows.append(
        {
            "context": context,
            "per_token_ms": times[context],
            "least_ms": work.num_bytes / bandwidth * 1e3,
            "cache_mb": cache_bytes / 1e6,
            "cache_share": 100 * cache_bytes / work.num_bytes,
        }
    )

first, last = rows[0], rows[-1]
columns = [
    lab.Column("context", "context", "tokens", digits=0),
    lab.Column("per_token_ms", "time per token", "ms", digits=2, at_least="least_ms"),
    lab.Column("least_ms", "least possible", "ms", digits=2),
    lab.Column("cache_mb", "cache read per token", "MB", digits=1),
    lab.Column("cache_share", "cache's share of all bytes read", "%", digits=1),
]
finding = (
    f"Behind {last['context']:,} tokens of context a token takes "
    f"{median(last['per_token_ms']) / median(first['per_token_ms']):.2f} times as long as behind "
    f"{first['context']}; the cache is {last['cache_share']:.0f} % of the bytes that it reads."
)
chart = lab.Chart("line", "context", "per_token_ms", title=finding, bound="least_ms",
                  roles={"per_token_ms": "decode"})  # fmt: skip
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=llm,
           parameters={"steps": steps})  # fmt: skip
