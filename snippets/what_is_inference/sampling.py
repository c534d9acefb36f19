"""How do greedy, temperature, top-k and top-p pick from the same probabilities?"""

import torch

from inferlab import LLM, SamplingParams, lab
from inferlab.engine.sampler import Sampler, distribution

PROMPT = "My favourite season is"
DRAWS = lab.pick(quick=200, full=2000, smoke=20)
STRATEGIES = {
    "greedy": SamplingParams(temperature=0),
    "temperature 0.5": SamplingParams(temperature=0.5, seed=1),
    "temperature 1": SamplingParams(temperature=1, seed=1),
    "temperature 1.5": SamplingParams(temperature=1.5, seed=1),
    "top-k 3": SamplingParams(temperature=1, top_k=3, seed=1),
    "top-p 0.5": SamplingParams(temperature=1, top_p=0.5, seed=1),
}

llm = LLM()
prompt_ids = llm.tokenizer.encode(PROMPT)
logits = llm.forward(prompt_ids, llm.new_cache(len(prompt_ids)))  # (V,), the same for all
rank_of = logits.argsort(descending=True).argsort().tolist()

rows = []
for name, params in STRATEGIES.items():
    sample = Sampler(params, prompt_ids, llm.device)
    drawn = [sample(logits) for _ in range(DRAWS)]
    ranks = torch.tensor([rank_of[token] for token in drawn])
    favourite = max(set(drawn), key=drawn.count)
    rows.append(
        {
            "strategy": name,
            "possible": int((distribution(logits, params) > 0).sum()),
            "different": len(set(drawn)),
            "first": 100 * float((ranks == 0).float().mean()),
            "next": 100 * float(((ranks > 0) & (ranks < 10)).float().mean()),
            "rest": 100 * float((ranks >= 10).float().mean()),
            "favourite": f"“{llm.tokenizer.piece(favourite)}”",
        }
    )
plain = rows[2]
lab.record(
    rows=rows,
    columns=[
        lab.Column("strategy", "strategy"),
        lab.Column("possible", "tokens it may pick", digits=0),
        lab.Column("different", "tokens it picked", digits=0),
        lab.Column("first", "the likeliest", "%", digits=0),
        lab.Column("next", "rank 2 to 10", "%", digits=0),
        lab.Column("rest", "beyond rank 10", "%", digits=0),
        lab.Column("favourite", "picked most"),
    ],
    finding=f"In {DRAWS:,} draws after “{PROMPT}”, greedy always picks one token and "
    f"temperature 1 picks {plain['different']} different ones, from the same probabilities.",
    chart=lab.Chart("hbar", "strategy", ("first", "next", "rest"), options={"stacked": True},
                    y_label="share of draws",
                    title=f"Temperature 1: the likeliest in {plain['first']:.0f} % of draws"),
    parameters={"prompt": PROMPT, "draws": DRAWS},
    model=llm,
)  # fmt: skip
