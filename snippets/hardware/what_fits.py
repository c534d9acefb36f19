"""Which model fits in how much memory, and how many long conversations beside it?"""

from inferlab import cost, lab
from inferlab.model.config import SHAPES

GB = 1e9
models = ["llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b", "llama-2-13b", "llama-3.1-70b"]
memories_gb = [8, 16, 24, 48, 80]
context, usable = 4096, 0.9  # a tenth of the memory is left for activations and the runtime

rows = []
for name in models:
    shape = SHAPES[name]
    for dtype in ("bfloat16", "int4"):
        row = {
            "model": name,
            "weights": dtype,
            "weight_gb": cost.weight_bytes(shape.num_parameters, dtype) / GB,
            "cache_gb": cost.kv_cache_bytes(shape, context) / GB,
        }
        for memory_gb in memories_gb:
            row[f"in_{memory_gb}"] = cost.sequences_that_fit(
                shape, memory_gb * GB, context, weight_dtype=dtype, usable=usable
            )
        rows.append(row)

columns = [
    lab.Column("model", "model"),
    lab.Column("weights", "weights in"),
    lab.Column("weight_gb", "weights", "GB", digits=1),
    lab.Column("cache_gb", f"cache of {context:,} tokens", "GB", digits=2),
    *[lab.Column(f"in_{gb}", f"fit in {gb} GB", digits=0) for gb in memories_gb],
]
shown = next(row for row in rows if row["model"] == "llama-3.1-8b")
finding = (
    f"Computed: {shown['model']} in {shown['weights']} has {shown['weight_gb']:.1f} GB of weights; "
    f"beside them, {shown['in_24']} conversations of {context:,} tokens fit in 24 GB, and "
    f"{shown['in_80']} in 80 GB."
)
lab.record(
    rows=rows,
    columns=columns,
    finding=finding,
    parameters={"context": context, "usable": usable},
    notes=["Computed from published shapes: nothing here was measured."],
)
