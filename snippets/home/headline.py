"""How fast does this machine read a prompt, and how fast does it write an answer?"""

from inferlab import LLM, cost, lab
from inferlab.trace import tpot_s, ttft_ns

PROMPT_TOKENS = lab.pick(quick=512, full=1024, smoke=64)
OUTPUT_TOKENS = lab.pick(quick=48, full=128, smoke=8)

llm = LLM()
traces = [
    llm.generate(
        llm.random_prompt(PROMPT_TOKENS, seed=number),  # never seen before, so nothing is reused
        max_tokens=OUTPUT_TOKENS,
        ignore_eos=True,
    ).trace
    for number in range(lab.repeats() + 1)
][1:]  # the first one warmed up
ttft_s = [(ttft_ns(trace) or 0) / 1e9 for trace in traces]
tpot = [tpot_s(trace) or 0.0 for trace in traces]

# What the measured ceilings of this machine allow: no computation passes these.
ceilings = lab.ceilings()
flop_s = ceilings.best_flop_s(llm.dtype)
prefill_s = cost.prefill_lower_bound_s(llm.config, PROMPT_TOKENS, flop_s=flop_s)
context = PROMPT_TOKENS + OUTPUT_TOKENS // 2
step = cost.decode_work(llm.config, context, dtype=llm.dtype)
decode_s = step.lower_bound_s(flop_s, ceilings.best_read_bytes_s)

rows = [
    {"phase": "prefill", "speed": [PROMPT_TOKENS / s for s in ttft_s],
     "bound": PROMPT_TOKENS / prefill_s, "time": [s * 1e3 for s in ttft_s]},
    {"phase": "decode", "speed": [1 / s for s in tpot],
     "bound": 1 / decode_s, "time": [s * 1e3 for s in tpot]},
]  # fmt: skip
medians = [sorted(row["speed"])[len(row["speed"]) // 2] for row in rows]
for row, median in zip(rows, medians, strict=True):
    row["share"] = 100 * median / row["bound"]
reads, writes = medians
lab.record(
    rows=rows,
    columns=[
        lab.Column("phase", "phase"),
        lab.Column("speed", "speed", "tok/s", digits=0, at_most="bound"),
        lab.Column("bound", "bound", "tok/s", digits=0),
        lab.Column("share", "of the bound", "%", digits=0),
        lab.Column("time", "time to a token", "ms", digits=1),
    ],
    finding=f"This machine reads {reads:,.0f} prompt tokens and writes {writes:,.0f} answer "
    f"tokens a second: a factor of {reads / writes:.1f} between two uses of the same weights.",
    parameters={"prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    model=llm,
)  # fmt: skip
