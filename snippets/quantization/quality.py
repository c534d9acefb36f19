"""How much worse does a model predict a text when its weights are rounded?"""

from inferlab import LLM, lab
from inferlab.engine.perplexity import perplexity, shipped_text

device = "cuda" if lab.ceilings().device == "cuda" else "cpu"  # where the kernels are
text = shipped_text()  # the Declaration of Independence, or what you care about
text = text[: lab.pick(quick=4000, full=len(text), smoke=600)]
stored = lab.pick(
    quick=["float32", "bfloat16", "int8", "int4", "int4-64", "int4-128"],
    full=["float32", "bfloat16", "int8", "int4", "int4-64", "int4-128"],
    smoke=["bfloat16", "int4-64"],
)
rows = []
for name in stored:
    if name.startswith("int"):
        llm = LLM(device=device, dtype="bfloat16", quantize=name)
    else:
        llm = LLM(device=device, dtype=name)
    found = perplexity(llm, text, window=512, stride=256)
    rows.append(
        {
            "stored": name,
            "weight_mb": llm.weight_bytes / 1e6,
            "perplexity": found.value,
            "change": 100 * (found.value / rows[0]["perplexity"] - 1) if rows else 0.0,
        }
    )

worst = max(rows, key=lambda row: row["perplexity"])
finding = (
    f"On this text of {found.num_tokens + 1:,} tokens the perplexity is "
    f"{rows[0]['perplexity']:.2f} in {rows[0]['stored']}, and at worst "
    f"{worst['perplexity']:.2f}, in {worst['stored']}."
)
columns = [
    lab.Column("stored", "weights in"),
    lab.Column("weight_mb", "weights", "MB", digits=0),
    lab.Column("perplexity", "perplexity", digits=2),
    lab.Column("change", f"against {rows[0]['stored']}", "%", digits=1),
]
chart = lab.Chart("hbar", "stored", "perplexity", finding)
lab.record(
    rows=rows,
    columns=columns,
    finding=finding,
    chart=chart,
    model=llm,
    notes=["Lower is better. One short, famous text: a comparison of formats, not a benchmark."],
)
