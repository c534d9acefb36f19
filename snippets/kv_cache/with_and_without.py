"""What does the KV cache save for each new token, as the text grows?

Both loops add two tokens to the same text. The second is timed: without a cache it needs a pass
over the whole text, with one a pass over a single token.
"""

from statistics import median

from inferlab import LLM, lab
from inferlab.trace import tpot_s

TEXT = "The telegraph carried one message at a time, until engineers learned to send several. "
lengths = lab.pick(quick=[64, 256, 512, 1024], full=[64, 256, 512, 1024, 2048], smoke=[16, 48])
llm = LLM()
text = llm.tokenizer.encode(TEXT * 80)  # token ids


def second_token_ms(n, use_cache):
    answer = llm.generate(text[:n], max_tokens=2, ignore_eos=True, use_cache=use_cache)
    return tpot_s(answer.trace) * 1e3


rows = []
second_token_ms(lengths[0], True), second_token_ms(lengths[0], False)  # warm up
for n in lengths:
    times = {"without_ms": [], "with_ms": []}
    for _ in range(lab.repeats(quick=3)):  # in turn, so that a noisy moment hits both
        times["without_ms"].append(second_token_ms(n, use_cache=False))
        times["with_ms"].append(second_token_ms(n, use_cache=True))
    ratio = median(times["without_ms"]) / median(times["with_ms"])
    rows.append({"text_tokens": n, **times, "ratio": ratio})

num_tokens = lab.pick(quick=32, full=128, smoke=4)
both = [
    llm.generate(TEXT, max_tokens=num_tokens, ignore_eos=True, use_cache=use_cache).token_ids
    for use_cache in (True, False)
]
equal = next((i for i in range(num_tokens) if both[0][i] != both[1][i]), num_tokens)

last, slow, fast = rows[-1], median(rows[-1]["without_ms"]), median(rows[-1]["with_ms"])
lab.record(
    rows=rows,
    columns=[
        lab.Column("text_tokens", "text so far", "tokens", 0),
        lab.Column("without_ms", "no cache", "ms", 1),
        lab.Column("with_ms", "with the cache", "ms", 1),
        lab.Column("ratio", "ratio", digits=1),
    ],
    finding=f"One more token after {last['text_tokens']:,} takes {slow:,.0f} ms without a cache, "
    f"{fast:,.1f} ms with it; of {num_tokens} tokens made both ways the first {equal} agree.",
    chart=lab.Chart(
        "line",
        "text_tokens",
        ("without_ms", "with_ms"),
        roles={"with_ms": "cache"},
        y_label="time for one more token",
    ),
    model=llm,
)
