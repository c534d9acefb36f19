"""What does continuous batching gain when answers differ in length?

The same requests, with the same limits, are served by both schedulers in turn.
"""

from statistics import median

from inferlab import LLM, SamplingParams, lab

SEATS = 8
llm = LLM()
lengths = lab.pick(quick=[4, 64, 8, 48, 16, 32, 8, 24] * 2, full=[8, 128, 16, 96, 32] * 8,
                   smoke=[2, 6, 3, 4] * 3)  # fmt: skip
num_prompt_tokens = lab.pick(quick=64, full=128, smoke=8)
rows = {kind: {"scheduling": kind, "output_tok_s": [], "first_token_ms": [], "idle_seats": []}
        for kind in ("static", "continuous")}  # fmt: skip


def serve(kind, seed):
    engine = llm.new_engine(max_num_seqs=SEATS, num_blocks=256, scheduling=kind)
    for i, count in enumerate(lengths):
        prompt = llm.random_prompt(num_prompt_tokens, seed=seed * 100 + i)
        engine.add_request(prompt, SamplingParams(count, ignore_eos=True))
    firsts, seen = [], set()
    while engine.has_work:
        step = engine.step()
        end_ns = step.start_ns + step.duration_ns
        for name, _, phase in step.ran:
            if phase == "decode" and name not in seen:  # its first token came a step earlier
                seen.add(name)
                firsts.append((step.start_ns - engine.steps[0].start_ns) / 1e6)
    total_s = (end_ns - engine.steps[0].start_ns) / 1e9
    idle = 1 - sum(len(step.ran) for step in engine.steps) / (SEATS * len(engine.steps))
    return {"output_tok_s": sum(lengths) / total_s, "first_token_ms": median(firsts),
            "idle_seats": 100 * idle}  # fmt: skip


serve("continuous", 0)  # warm up
for repeat in range(lab.repeats(quick=3)):  # in turn, so that a noisy moment hits both
    for kind, row in rows.items():
        for key, value in serve(kind, 1 + repeat).items():
            row[key].append(value)

static, continuous = (median(rows[kind]["output_tok_s"]) for kind in rows)
lab.record(
    rows=list(rows.values()),
    columns=[
        lab.Column("scheduling", "scheduling"),
        lab.Column("output_tok_s", "output", "tok/s", 0),
        lab.Column("first_token_ms", "wait for the first token", "ms", 0),
        lab.Column("idle_seats", "idle seats", "%", 0),
    ],
    finding=f"With answers of {min(lengths)} to {max(lengths)} tokens, continuous batching gives "
    f"{continuous:,.0f} output tokens/s and static batching {static:,.0f}: "
    f"{continuous / static:.2f} times as many.",
    chart=lab.Chart("bar", "scheduling", "output_tok_s", roles={"output_tok_s": "decode"}),
    model=llm,
)
