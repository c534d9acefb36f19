"""How much memory does attention need beside its inputs, as the text grows?"""

import torch

from inferlab import lab
from inferlab.model.attention import attend_reference, attend_sdpa
from inferlab.model.flash_attention import attend_tiled

HEADS, KV_HEADS, DIM = 9, 3, 64  # the embedded model's
FORMS = {"standard": attend_reference, "tiled": attend_tiled, "SDPA": attend_sdpa}
device = "cuda" if lab.ceilings().device == "cuda" else "cpu"
dtype = torch.bfloat16 if device == "cuda" else torch.float32
lengths = lab.pick(quick=[256, 512, 1024, 2048], full=[512, 1024, 2048, 4096], smoke=[32, 64])

rows = []
for length in lengths:
    q = torch.randn(length, HEADS, DIM, device=device, dtype=dtype)
    k, v = torch.randn(2, KV_HEADS, length, DIM, device=device, dtype=dtype)
    for name, form in FORMS.items():
        form(q, k, v)  # warms up
        peak = lab.peak_bytes(lambda form=form, q=q, k=k, v=v: form(q, k, v))
        row = {"length": length, "form": name, "peak_mb": peak / 1e6}
        rows.append(row | {"per_token_kb": peak / length / 1e3, "output_mb": q.nbytes / 1e6})

last = {row["form"]: row for row in rows[-len(FORMS) :]}
columns = [
    lab.Column("length", "tokens", digits=0),
    lab.Column("form", "attention"),
    lab.Column("peak_mb", "most held at once", "MB", digits=1),
    lab.Column("per_token_kb", "for each token", "kB", digits=1),
    lab.Column("output_mb", "of it the output", "MB", digits=1),
]
finding = (
    f"For {lengths[-1]:,} tokens standard attention holds {last['standard']['peak_mb']:,.1f} MB at "
    f"once in one layer, tiled attention {last['tiled']['peak_mb']:,.1f} and SDPA "
    f"{last['SDPA']['peak_mb']:,.1f}."
)
chart = lab.Chart("line", "length", "peak_mb", title=finding, series="form", log_x=True,
                  log_y=True)  # fmt: skip
notes = ["Random inputs of the embedded model's shape: what is held does not depend on the values."]
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, notes=notes,
           parameters={"heads": [HEADS, KV_HEADS, DIM], "dtype": str(dtype)})  # fmt: skip
