"""Who computes when, if requests of different lengths share three seats?

The same requests are served twice: by static batching, where a batch stays until all of it is done,
and by continuous batching. The bars are the engine's own record of its steps.
"""

from inferlab import LLM, SamplingParams, lab

SEATS = 3
output_tokens = lab.pick(quick=[6, 30, 14, 24, 8, 18], full=[12, 60, 28, 48, 16, 36], smoke=[2, 6])
llm = LLM()
num_prompt_tokens = lab.pick(quick=96, full=96, smoke=12)


def served(scheduling):
    """The steps of one run, and the requests' names in order."""
    engine = llm.new_engine(max_num_seqs=SEATS, num_blocks=64, scheduling=scheduling)
    names = []
    for i, count in enumerate(output_tokens):
        prompt = llm.random_prompt(num_prompt_tokens, seed=i)
        names.append(engine.add_request(prompt, SamplingParams(count, ignore_eos=True)))
    while engine.has_work:
        engine.step()
    return list(engine.steps), names


def bars(scheduling):
    """One bar for each request and phase, in the seat that the request had."""
    steps, names = served(scheduling)
    begin, spans = steps[0].start_ns, {}
    for step in steps:
        start, end = (step.start_ns - begin) / 1e6, (step.start_ns + step.duration_ns - begin) / 1e6
        for name, _, phase in step.ran:
            spans.setdefault((name, phase), [start, end])[1] = end
    free_at, rows, seat_of = [0.0] * SEATS, [], {}
    for (name, phase), (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        seat = seat_of.setdefault(name, min(range(SEATS), key=free_at.__getitem__))
        free_at[seat] = end
        rows.append({"lane": f"{scheduling}, seat {seat + 1}", "role": phase, "start": start,
                     "end": end, "label": "ABCDEF"[names.index(name)]})  # fmt: skip
    return sorted(rows, key=lambda row: (row["lane"], row["start"]))


served("continuous")  # warm up
rows = bars("static") + bars("continuous")
last = {kind: max(r["end"] for r in rows if kind in r["lane"]) for kind in ("static", "continuous")}
lab.record(
    rows=rows,
    columns=[
        lab.Column("lane", "seat"),
        lab.Column("label", "request"),
        lab.Column("role", "phase"),
        lab.Column("start", "start", "ms", 0),
        lab.Column("end", "end", "ms", 0),
    ],
    finding=f"{len(output_tokens)} requests in {SEATS} seats are done after {last['static']:,.0f} "
    f"ms with static batching, after {last['continuous']:,.0f} ms with continuous batching.",
    chart=lab.Chart("timeline", x_label="time"),
    model=llm,
)
