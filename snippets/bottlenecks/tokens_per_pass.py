"""How much longer does a pass over the weights take when it carries more tokens?"""

from statistics import median

from inferlab import LLM, cost, lab

llm = LLM()
ceilings = lab.ceilings()
flop_s, bytes_s = ceilings.best_flop_s(llm.dtype), ceilings.best_read_bytes_s
counts = [2**power for power in range(lab.pick(quick=9, full=12, smoke=2))]


def one_pass(num_tokens):
    prompt, cache = llm.random_prompt(num_tokens, seed=num_tokens), llm.new_cache(num_tokens)

    def run():
        cache.reset()
        llm.forward(prompt, cache)

    return run


times = lab.interleave(
    {n: one_pass(n) for n in counts},
    repeats=lab.repeats(),
    warmup=2,
    synchronize=llm.synchronize,
)
rows = []
for n, seconds in times.items():
    work = cost.prefill_work(llm.config, n, dtype=llm.dtype)
    rows.append(
        {
            "tokens": n,
            "pass_ms": [s * 1e3 for s in seconds],
            "least_ms": work.lower_bound_s(flop_s, bytes_s) * 1e3,
            "tok_s": n / median(seconds),
            "limit": work.limited_by(flop_s, bytes_s),
        }
    )

first, last = rows[0], rows[-1]
columns = [
    lab.Column("tokens", "tokens in the pass", digits=0),
    lab.Column("pass_ms", "time of the pass", "ms", digits=1, at_least="least_ms"),
    lab.Column("least_ms", "least possible", "ms", digits=1),
    lab.Column("tok_s", "tokens per second", digits=0),
    lab.Column("limit", "what sets the least"),
]
finding = (
    f"A pass with {last['tokens']} tokens takes "
    f"{median(last['pass_ms']) / median(first['pass_ms']):.1f} times as long as one with "
    f"{first['tokens']}."
)
chart = lab.Chart("line", "tokens", "pass_ms", title=finding, bound="least_ms",
                  log_x=True, log_y=True)  # fmt: skip
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=llm)
