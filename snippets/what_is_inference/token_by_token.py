"""How does an answer grow, one token at a time?"""

from inferlab import LLM, lab

PROMPT = "The moon moves around the Earth because"
OUTPUT_TOKENS = lab.pick(quick=12, full=12, smoke=3)

llm = LLM()
prompt_ids = llm.tokenizer.encode(PROMPT)
cache = llm.new_cache(len(prompt_ids) + OUTPUT_TOKENS)

rows = []
text = PROMPT
logits = llm.forward(prompt_ids, cache)  # the whole prompt: the logits of what comes after it
for number in range(1, OUTPUT_TOKENS + 1):
    probabilities = logits.softmax(-1)
    token_id = int(logits.argmax())  # greedy: take the likeliest
    piece = llm.tokenizer.piece(token_id)
    text += llm.tokenizer.decode([token_id])
    rows.append(
        {
            "step": number,
            "piece": f"{number}. “{piece}”",
            "probability": 100 * float(probabilities[token_id]),
            "text": text,
        }
    )
    logits = llm.forward([token_id], cache)  # one token more: the logits of what comes next

surest = max(rows, key=lambda row: row["probability"])
least = min(rows, key=lambda row: row["probability"])
lab.record(
    rows=rows,
    columns=[
        lab.Column("piece", "token"),
        lab.Column("probability", "probability", "%", digits=0, at_most=100),
        lab.Column("text", "text so far"),
    ],
    finding=f"{len(rows)} tokens take {len(rows)} passes through the model, which was surest of "
    f"token {surest['piece']} ({surest['probability']:.0f} %) and least sure of token "
    f"{least['piece']} ({least['probability']:.0f} %).",
    chart=lab.Chart(
        "hbar",
        "piece",
        "probability",
        title=f"Each token is one choice: {least['probability']:.0f} to "
        f"{surest['probability']:.0f} % sure",
    ),
    parameters={"prompt": PROMPT, "output_tokens": OUTPUT_TOKENS},
    model=llm,
)
