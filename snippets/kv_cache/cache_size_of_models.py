"""How large does the cache of a known model become with its context and its users?

Computed from each model's published shape, bf16: nothing is loaded or measured. The context is one
that all of these models can hold.
"""

from inferlab import lab
from inferlab.cost import kv_bytes_per_token, kv_cache_bytes, weight_bytes
from inferlab.model.config import SHAPES

GB = 1e9
context, users = 4096, 32
names = ["smollm2-135m", "qwen3-0.6b", "llama-3.2-3b", "qwen2.5-7b", "llama-3.1-8b"]
names += ["llama-2-7b", "llama-2-13b", "llama-3.1-70b"]

rows = []
for name in names:
    shape = SHAPES[name]
    rows.append(
        {
            "model": name,
            "kv_heads": f"{shape.num_kv_heads} of {shape.num_heads}",
            "per_token": kv_bytes_per_token(shape),
            "one_user": kv_cache_bytes(shape, context) / GB,
            "all_users": kv_cache_bytes(shape, context, num_sequences=users) / GB,
            "weights": weight_bytes(shape.num_parameters, "bfloat16") / GB,
        }
    )

most = max(rows, key=lambda row: row["all_users"] / row["weights"])
lab.record(
    rows=rows,
    columns=[
        lab.Column("model", "model"),
        lab.Column("kv_heads", "KV heads"),
        lab.Column("per_token", "each token", "bytes", 0),
        lab.Column("one_user", f"one user, {context:,} tokens", "GB", 2),
        lab.Column("all_users", f"{users} users", "GB", 1),
        lab.Column("weights", "weights", "GB", 1),
    ],
    finding=f"With {users} users of {context:,} tokens, the cache of {most['model']} takes "
    f"{most['all_users']:,.1f} GB, {most['all_users'] / most['weights']:.1f} times its weights.",
    chart=lab.Chart(
        "hbar", "model", ("all_users", "weights"), roles={"all_users": "cache"}, y_label="memory"
    ),
    notes=["Computed from published shapes; no machine was measured."],
)
