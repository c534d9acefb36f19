"""How long does the last of several requests wait when they are served one after another?"""

from inferlab import LLM, lab

llm = LLM()
num_requests, prompt_tokens, output_tokens = lab.pick(
    quick=(6, 128, 24), full=(8, 256, 64), smoke=(2, 16, 4)
)
llm.generate(llm.random_prompt(prompt_tokens, seed=99), max_tokens=4, ignore_eos=True)  # warms up

requests = [llm.random_prompt(prompt_tokens, seed=number) for number in range(num_requests)]
traces = [
    llm.generate(prompt, max_tokens=output_tokens, ignore_eos=True).trace for prompt in requests
]
arrived_ns = traces[0].sent_ns  # all of them, at this moment
rows, first_token_s = [], []
for number, trace in enumerate(traces, 1):
    sent, first, last = (
        (t_ns - arrived_ns) / 1e9 for t_ns in (trace.sent_ns, trace.chunks[0].t_ns, trace.end_ns)
    )
    first_token_s.append(first)
    phases = [("waiting", "idle", 0.0, sent), ("prefill", "prefill", sent, first)]
    for what, role, start, end in [*phases, ("decode", "decode", first, last)]:
        if end > start:
            row = {"lane": f"request {number}", "what": what, "role": role}
            rows.append(row | {"start": start, "end": end, "lasts_ms": (end - start) * 1e3})

columns = [
    lab.Column("lane", "request"),
    lab.Column("what", "what happens"),
    lab.Column("start", "from", "s", digits=2, instant=True),
    lab.Column("end", "to", "s", digits=2, instant=True),
    lab.Column("lasts_ms", "lasts", "ms", digits=0),
]
times_as_long = first_token_s[-1] / first_token_s[0]
finding = (
    f"Of {num_requests} requests that arrive together, the first has its first token after "
    f"{first_token_s[0] * 1e3:,.0f} ms, the last after {first_token_s[-1] * 1e3:,.0f} ms: "
    f"{times_as_long:.0f} times as long."
)
chart = lab.Chart("timeline", title=finding, x_label="time since all arrived",
                  options={"names": {"idle": "waiting"}})  # fmt: skip
lab.record(
    rows=rows,
    columns=columns,
    finding=finding,
    chart=chart,
    model=llm,
    parameters={"prompt_tokens": prompt_tokens, "output_tokens": output_tokens},
)
