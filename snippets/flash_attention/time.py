"""How long does attention take as the text grows, with and without tiles?"""

from importlib.util import find_spec
from statistics import median

import torch

from inferlab import lab
from inferlab.model.attention import attend_reference, attend_sdpa
from inferlab.model.flash_attention import attend_tiled

HEADS, KV_HEADS, DIM = 9, 3, 64  # the embedded model's
forms = {"standard": attend_reference, "tiled": attend_tiled, "SDPA": attend_sdpa}
ceilings = lab.ceilings()
device = "cuda" if ceilings.device == "cuda" else "cpu"
dtype, wait = torch.float32, None
if device == "cuda":
    dtype, wait = torch.bfloat16, torch.cuda.synchronize
if device == "cuda" and find_spec("triton"):
    from inferlab.model.flash_triton import attend_triton

    forms["Triton"] = attend_triton
lengths = lab.pick(quick=[128, 256, 512, 1024, 2048], full=[256, 512, 1024, 2048, 4096],
                   smoke=[32, 64])  # fmt: skip

rows = []
for length in lengths:
    q = torch.randn(length, HEADS, DIM, device=device, dtype=dtype)
    k, v = torch.randn(2, KV_HEADS, length, DIM, device=device, dtype=dtype)
    runs = {name: lambda form=form, q=q, k=k, v=v: form(q, k, v) for name, form in forms.items()}
    for name, seconds in lab.interleave(runs, lab.repeats(), synchronize=wait).items():
        row = {"length": length, "form": name, "time_ms": [s * 1e3 for s in seconds]}
        rows.append(row | {"per_token_us": median(seconds) / length * 1e6})

last = {row["form"]: median(row["time_ms"]) for row in rows[-len(forms) :]}
columns = [
    lab.Column("length", "tokens", digits=0),
    lab.Column("form", "attention"),
    lab.Column("time_ms", "time of one layer", "ms", digits=2),
    lab.Column("per_token_us", "for each token", "us", digits=1),
]
finding = (
    f"For {lengths[-1]:,} tokens standard attention takes {last['standard'] / last['tiled']:.1f} "
    f"times as long as tiled attention in Python, and {last['standard'] / last['SDPA']:.1f} times "
    f"as long as SDPA."
)
chart = lab.Chart("line", "length", "time_ms", title=finding, series="form", log_x=True,
                  log_y=True)  # fmt: skip
lab.record(rows=rows, columns=columns, finding=finding, chart=chart,
           parameters={"heads": [HEADS, KV_HEADS, DIM], "dtype": str(dtype)})  # fmt: skip
