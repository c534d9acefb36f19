"""What does a language model return for a prompt?"""

from inferlab import LLM, lab

PROMPT = "The capital of France is"

llm = LLM()
candidates = llm.next_token_distribution(PROMPT, top=10)

rows = [
    {
        "rank": rank,
        "token": f"“{candidate.text}”",
        "id": str(candidate.token_id),
        "logit": candidate.logit,
        "probability": 100 * candidate.probability,
    }
    for rank, candidate in enumerate(candidates, 1)
]
first, together = rows[0], sum(row["probability"] for row in rows)
lab.record(
    rows=rows,
    columns=[
        lab.Column("rank", "rank", digits=0),
        lab.Column("token", "next token"),
        lab.Column("id", "id"),
        lab.Column("logit", "logit", digits=2),
        lab.Column("probability", "probability", "%", digits=1, at_most=100),
    ],
    finding=f"After “{PROMPT}” the model gives {first['token']} a probability of "
    f"{first['probability']:.1f} %; the ten likeliest of {llm.config.vocab_size:,} tokens "
    f"share {together:.1f} %.",
    chart=lab.Chart(
        "hbar",
        "token",
        "probability",
        title=f"“{PROMPT} …”: {first['probability']:.0f} % for {first['token']}",
    ),
    parameters={"prompt": PROMPT},
    model=llm,
)
