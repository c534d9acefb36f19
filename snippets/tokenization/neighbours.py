"""Which tokens lie next to a token in the embedding table?"""

import torch.nn.functional as F

from inferlab import LLM, lab

WORD = " Monday"

llm = LLM()
(token_id,) = llm.tokenizer.encode(WORD)
table = F.normalize(llm.model.embedding.float(), dim=-1)  # (V, H), each row of length 1
similarity = table @ table[token_id]  # (V,) cosine with every other row
nearest = similarity.topk(11).indices.tolist()[1:]  # the first one is the word itself

rows = [
    {
        "token": f"“{llm.tokenizer.piece(other)}”",
        "id": str(other),
        "similarity": float(similarity[other]),
    }
    for other in nearest
]
rows.append({"token": "all tokens, mean", "id": None, "similarity": float(similarity.mean())})
lab.record(
    rows=rows,
    columns=[
        lab.Column("token", "token"),
        lab.Column("id", "id"),
        lab.Column("similarity", "cosine similarity", digits=2, at_most=1),
    ],
    finding=f"The row of “{WORD}” lies closest to that of {rows[0]['token']}: cosine similarity "
    f"{rows[0]['similarity']:.2f}, against {rows[-1]['similarity']:.2f} for a token at random.",
    chart=lab.Chart(
        "hbar",
        "token",
        "similarity",
        title=f"Nearest to “{WORD}”: {rows[0]['token']}, at {rows[0]['similarity']:.2f}",
    ),
    parameters={"token": WORD},
    model=llm,
)
