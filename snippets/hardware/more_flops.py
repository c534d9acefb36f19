"""Why does a GPU with more FLOP/s not write tokens proportionally faster?"""

from inferlab import cost, lab
from inferlab.model.config import SHAPES

shape = SHAPES["llama-3.1-8b"]
prompt_tokens = 2048
base = next(one for one in cost.ACCELERATORS if one.name == "A100-80GB")
prefill = cost.prefill_work(shape, prompt_tokens)
decode = cost.decode_work(shape, prompt_tokens)


def least_s(work, accelerator):
    return work.lower_bound_s(accelerator.bf16_flop_s, accelerator.bandwidth_bytes_s)


rows = []
for one in cost.ACCELERATORS:
    rows.append(
        {
            "gpu": one.name,
            "tflop_s": one.bf16_flop_s / 1e12,
            "tb_s": one.bandwidth_bytes_s / 1e12,
            "prefill_ms": least_s(prefill, one) * 1e3,
            "decode_ms": least_s(decode, one) * 1e3,
            "tok_s": 1 / least_s(decode, one),
            "flops_times": one.bf16_flop_s / base.bf16_flop_s,
            "decode_times": least_s(decode, base) / least_s(decode, one),
        }
    )

columns = [
    lab.Column("gpu", "GPU (datasheet)"),
    lab.Column("tflop_s", "dense bf16", "TFLOP/s", digits=0),
    lab.Column("tb_s", "bandwidth", "TB/s", digits=2),
    lab.Column("prefill_ms", f"least prefill, {prompt_tokens:,} tokens", "ms", digits=0),
    lab.Column("decode_ms", "least time per token", "ms", digits=1),
    lab.Column("tok_s", "tokens per second at most", digits=0),
    lab.Column("flops_times", "times the FLOP/s", digits=2),
    lab.Column("decode_times", "times the tokens", digits=2),
]
h100 = next(row for row in rows if row["gpu"].startswith("H100"))
finding = (
    f"Computed for {shape.name} in bf16: {h100['gpu']} has {h100['flops_times']:.1f} times the "
    f"FLOP/s of {base.name} and writes at most {h100['decode_times']:.1f} times its tokens."
)
chart = lab.Chart("hbar", "gpu", ("flops_times", "decode_times"), title=finding,
                  y_label=f"times {base.name}", roles={"decode_times": "decode"})  # fmt: skip
notes = ["Computed from datasheets: nothing here was measured, and real speeds are lower."]
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, notes=notes)
