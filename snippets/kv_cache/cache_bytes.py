"""How many bytes does a real cache take, and does the formula say so?

Caches as the engine allocates them, for this model and for one that differs in a single number: as
many KV heads as query heads, as before grouped-query attention.
"""

from dataclasses import replace

from inferlab import LLM, lab
from inferlab.cost import kv_bytes_per_token
from inferlab.kv_cache.contiguous import ContiguousCache

lengths = [512, 1024, 2048, 4096, 8192]
llm = LLM()
grouped = llm.config
full = replace(grouped, num_kv_heads=grouped.num_heads)

rows = []
for num_tokens in lengths:
    row = {"tokens": num_tokens}
    for name, config in (("grouped", grouped), ("full", full)):
        cache = ContiguousCache(config, num_tokens, llm.dtype, llm.device)
        row[name] = cache.nbytes / 2**20
    numbers = 2 * grouped.num_layers * grouped.num_kv_heads * grouped.head_dim
    row["formula"] = num_tokens * numbers * llm.dtype.itemsize / 2**20
    row["of_weights"] = 100 * row["grouped"] * 2**20 / llm.weight_bytes
    rows.append(row)

assert all(row["grouped"] == row["formula"] for row in rows)
per_token, last = kv_bytes_per_token(grouped, llm.dtype), rows[-1]
lab.record(
    rows=rows,
    columns=[
        lab.Column("tokens", "length", "tokens", 0),
        lab.Column("grouped", f"{grouped.num_kv_heads} KV heads (this model)", "MiB", 1),
        lab.Column("formula", "by the formula", "MiB", 1),
        lab.Column("of_weights", "of the weights' size", "%", 0),
        lab.Column("full", f"{full.num_kv_heads} KV heads", "MiB", 1),
    ],
    finding=f"At {last['tokens']:,} tokens the cache takes {last['grouped']:,.1f} MiB, "
    f"{last['of_weights']:.0f} % of the weights' size: {per_token:,} bytes for each token, as the "
    "formula says.",
    chart=lab.Chart(
        "line", "tokens", ("full", "grouped"), roles={"grouped": "cache"}, y_label="cache"
    ),
    model=llm,
)
