"""What do token ids become before the first layer, and how many bytes is that?"""

import torch
import torch.nn.functional as F

from inferlab import LLM, lab

PROMPT = "The capital of France is"

llm = LLM()
token_ids = llm.tokenizer.encode(PROMPT)
table = llm.model.embedding  # (V, H): one row for each token of the vocabulary
ids = table.new_tensor(token_ids).long()  # (T,)
vectors = F.embedding(ids, table)  # (T, H): no arithmetic, each id picks its row


def size_of(tensor: torch.Tensor) -> dict[str, object]:
    return {"shape": " x ".join(f"{n:,}" for n in tensor.shape), "numbers": tensor.numel(),
            "kind": str(tensor.dtype).removeprefix("torch."), "bytes": tensor.nbytes}  # fmt: skip


rows = [
    {"what": "token ids of the prompt", **size_of(ids)},
    {"what": "their vectors", **size_of(vectors)},
    {"what": "the whole table", **size_of(table)},
]
share = 100 * table.nbytes / llm.weight_bytes
tied = "serves as the output matrix too" if llm.config.tie_embeddings else "is for input alone"
lab.record(
    rows=rows,
    columns=[
        lab.Column("what", "what"),
        lab.Column("shape", "shape"),
        lab.Column("kind", "type"),
        lab.Column("numbers", "numbers", digits=0),
        lab.Column("bytes", "bytes", digits=0),
    ],
    finding=f"Each id picks one row of {table.shape[1]:,} numbers out of a table of "
    f"{table.nbytes / 1e6:,.1f} MB, {share:.0f} % of all weights; the table {tied}.",
    parameters={"prompt": PROMPT},
    model=llm,
)
