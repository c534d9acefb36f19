"""Where does the time of an answer go, token by token?

Token 1 needs the whole prompt processed; each later one needs a pass over a single token, which
reads every weight and all of the cache.
"""

from statistics import median

from inferlab import LLM, lab
from inferlab.cost import prefill_work

prompt_tokens = lab.pick(quick=512, full=1024, smoke=32)
group, num_groups = lab.pick(quick=(16, 5), full=(32, 8), smoke=(2, 2))
llm = LLM()
limits = lab.ceilings()
peak, bandwidth = limits.best_flop_s(llm.dtype), limits.best_read_bytes_s
sizes = {"dtype": llm.dtype, "weight_num_bytes": llm.model.step_bytes}


def arrivals(seed):
    """When the request was sent, then when each token was known, in ns."""
    prompt = llm.random_prompt(prompt_tokens, seed)
    answer = llm.generate(prompt, max_tokens=1 + num_groups * group, ignore_eos=True)
    return [answer.trace.sent_ns, *(chunk.t_ns for chunk in answer.trace.chunks)]


repeats = [arrivals(seed) for seed in range(1 + lab.repeats())][1:]  # the first warms up

rows = []
for start, end in [(0, 1), *((i, i + group) for i in range(1, 1 + num_groups * group, group))]:
    # A step of decode is a pass over one token, with all before it in the cache.
    new, context = (1, prompt_tokens + start - 1) if start else (prompt_tokens, 0)
    work = prefill_work(llm.config, new, context=context, **sizes)
    row = {"tokens": f"{start + 1} to {end}" if start else "1", "last": end}
    row["phase"] = "decode" if start else "prefill"
    row["time_ms"] = [(t[end] - t[start]) / (end - start) / 1e6 for t in repeats]
    row["bound_ms"] = work.lower_bound_s(peak, bandwidth) * 1e3 if start else None
    row["read_mb"] = work.num_bytes / 1e6
    rows.append(row)

first = median(rows[0]["time_ms"])
later = median(sample for row in rows[1:] for sample in row["time_ms"])
lab.record(
    rows=rows,
    columns=[
        lab.Column("tokens", "output tokens"),
        lab.Column("phase", "phase"),
        lab.Column("time_ms", "time for each", "ms", 1, at_least="bound_ms"),
        lab.Column("bound_ms", "least possible here", "ms", 1),
        lab.Column("read_mb", "must be read", "MB", 0),
    ],
    finding=f"Token 1 comes after {first:,.0f} ms, each later one {later:,.1f} ms after the one "
    f"before: {prompt_tokens} tokens of prompt cost as much as {first / later:.1f} of the answer.",
    chart=lab.Chart(
        "line", "last", "time_ms", series="phase", bound="bound_ms", log_y=True, x_label="token"
    ),
    model=llm,
)
