"""What happens on this machine between pressing Enter and the end of an answer?"""

from inferlab import LLM, lab
from inferlab.trace import e2e_ns

PROMPT = """
A lighthouse is a tower that shows ships where the coast is. The first ones were fires on hills.
The most famous stood at Alexandria in Egypt, more than a hundred metres high, and was seen from
fifty kilometres away. Later keepers burned oil in lamps, and had to trim the wicks every few hours
and clean the glass each morning, because soot dims the light. In 1823 Augustin Fresnel built a
lens of many rings of glass. It bends the rays of one small flame into a single flat beam, so that
the same oil reaches four times as far. Soon each light on a coast had its own rhythm of flashes,
and sailors carried lists of them: three short and a pause meant one rock, two long meant another.
In fog no light helps, so many stations also had a bell, a gun or a horn. Electric lamps came in
the twentieth century, then timers and sensors that switch them on at dusk, and most keepers left.
Ships now find their way by satellite. Yet many lights still burn, since a receiver can fail, and
a lamp on a rock asks for nothing but a pair of eyes.

Why do many lights still burn? Answer in one sentence."""
MESSAGES = [{"role": "user", "content": PROMPT}]
OUTPUT_TOKENS = lab.pick(quick=48, full=48, smoke=4)

llm = LLM()
llm.chat(MESSAGES, max_tokens=4)  # warm up; the answer below reuses nothing of this one
answers = [llm.chat(MESSAGES, max_tokens=OUTPUT_TOKENS) for _ in range(lab.repeats())]
# The one in the middle, by its whole duration, stands for all.
answer = sorted(answers, key=lambda one: e2e_ns(one.trace) or 0)[len(answers) // 2]

rows = []
start_ms = 0.0
for number, (chunk, token_id) in enumerate(
    zip(answer.trace.chunks, answer.token_ids, strict=True), 1
):
    end_ms = (chunk.t_ns - answer.trace.sent_ns) / 1e6
    lane, role = ("pause", "prefill") if number == 1 else ("stream", "decode")
    text = llm.tokenizer.piece(token_id)
    rows.append({"lane": lane, "role": role, "token": number, "text": text,
                 "start": start_ms, "end": end_ms, "took": end_ms - start_ms})  # fmt: skip
    start_ms = end_ms

prompt_tokens, pause = len(answer.prompt_token_ids), rows[0]["end"]
per_token = (start_ms - pause) / max(1, len(rows) - 1)
lab.record(
    rows=rows,
    columns=[
        lab.Column("token", "token", digits=0),
        lab.Column("text", "text"),
        lab.Column("role", "made by"),
        lab.Column("end", "on screen after", "ms", digits=0),
        lab.Column("took", "took", "ms", digits=1),
    ],
    finding=f"A pause of {pause:,.0f} ms reads {prompt_tokens:,} tokens of prompt; then a token "
    f"comes every {per_token:.1f} ms.",
    chart=lab.Chart("timeline", x_label="time since Enter, ms"),
    parameters={"prompt_tokens": prompt_tokens, "output_tokens": len(rows),
                "requests": len(answers), "question": PROMPT.splitlines()[-1]},
    model=llm,
)  # fmt: skip
