"""Is tokenization the pause before the first word?"""

from inferlab import LLM, lab

PROMPT_TOKENS = lab.pick(quick=512, full=2048, smoke=64)

llm = LLM()
prompt_ids = llm.random_prompt(PROMPT_TOKENS)
text = llm.tokenizer.decode(prompt_ids)
ids = llm.tokenizer.encode(text)  # not always prompt_ids: random neighbours may merge
cache = llm.new_cache(len(ids))


def prefill() -> None:
    cache.reset()
    llm.forward(ids, cache)


seconds = lab.interleave(
    {"encode the text": lambda: llm.tokenizer.encode(text),
     "decode the ids": lambda: llm.tokenizer.decode(ids),
     "prefill the model": prefill},
    repeats=lab.repeats(),
    synchronize=llm.synchronize,
)  # fmt: skip

rows = [
    {"job": job, "time": [s * 1e3 for s in samples], "rate": [len(ids) / s for s in samples]}
    for job, samples in seconds.items()
]
middle = {job: sorted(samples)[len(samples) // 2] for job, samples in seconds.items()}
encode_s, prefill_s = middle["encode the text"], middle["prefill the model"]
lab.record(
    rows=rows,
    columns=[
        lab.Column("job", "job"),
        lab.Column("time", "time", "ms", digits=2),
        lab.Column("rate", "speed", "tok/s", digits=0),
    ],
    finding=f"Encoding {len(ids):,} tokens takes {encode_s * 1e3:.2f} ms, "
    f"{100 * encode_s / prefill_s:.2g} % of the {prefill_s * 1e3:,.0f} ms that their prefill "
    "takes.",
    chart=lab.Chart("hbar", "job", "time"),
    parameters={"prompt_tokens": len(ids), "characters": len(text)},
    model=llm,
)
