"""Does a pass run out of arithmetic or of memory speed, on this machine?

One token (decode), then more at once (prefill). Intensity: operations for each byte moved.
"""

from statistics import median

from inferlab import LLM, lab
from inferlab.cost import prefill_work

context = 128  # tokens in the cache before each pass
sizes = lab.pick(quick=[1, 8, 64, 512], full=[1, 4, 16, 64, 256, 1024, 4096])
llm = LLM()
limits = lab.ceilings()
peak, bandwidth = limits.best_flop_s(llm.dtype), limits.best_read_bytes_s
ridge = limits.ridge_flop_per_byte(llm.dtype)
cache = llm.new_cache(context + max(sizes))
weights = {"dtype": llm.dtype, "weight_num_bytes": llm.model.step_bytes}
passes = {n: llm.random_prompt(n, seed=n) for n in sizes}


def run(tokens):
    cache.num_tokens = context  # forget what the last run added
    llm.forward(tokens, cache)


llm.forward(llm.random_prompt(context), cache)
runs = {n: lambda tokens=tokens: run(tokens) for n, tokens in passes.items()}
seconds = lab.interleave(runs, lab.repeats(quick=9, full=21), synchronize=llm.synchronize)

rows = []
for n in sizes:
    work = prefill_work(llm.config, n, context=context, **weights)
    role = "decode" if n == 1 else "prefill"
    name = f"{role}: {n}" if n in sizes[:2] else f"{n:,}"  # the chart has room for short names
    row = {"name": name, "role": role, "tokens": n, "intensity": work.intensity_flop_per_byte}
    row["flop_s"] = [work.flops / s for s in seconds[n]]
    row["gflop_s"] = [work.flops / s / 1e9 for s in seconds[n]]
    row["roof"] = min(peak, work.intensity_flop_per_byte * bandwidth) / 1e9
    row["share"] = 100 * median(row["gflop_s"]) / row["roof"]
    row["limit"], row["ridge"] = work.limited_by(peak, bandwidth), ridge
    rows.append(row)

one, many = rows[0], rows[-1]
lab.record(
    rows=rows,
    columns=[
        lab.Column("role", "phase"),
        lab.Column("tokens", "tokens at once", digits=0),
        lab.Column("intensity", "intensity", "FLOP/byte", 1),
        lab.Column("gflop_s", "reached", "GFLOP/s", 0, at_most="roof"),
        lab.Column("roof", "roof", "GFLOP/s", 0),
        lab.Column("share", "of the roof", "%", 0),
        lab.Column("limit", "limited by"),
    ],
    finding=f"One token at a time does {one['intensity']:.1f} operations for each byte moved, "
    f"{many['tokens']:,} at once {many['intensity']:.0f}; this machine's ridge is at {ridge:.0f}.",
    chart=lab.Chart("roofline", options={"peak_flop_s": peak, "bandwidth_bytes_s": bandwidth}),
    model=llm,
)
