"""When does attention in tiles gain nothing?"""

from statistics import median

import torch

from inferlab import lab
from inferlab.model.attention import attend_sdpa, visible
from inferlab.model.flash_attention import attend_tiled

HEADS, KV_HEADS, DIM = 9, 3, 64  # the embedded model's


def standard(q, k, v):
    """All scores at once; the query heads of a group share one reading of the keys, as in tiles."""
    rows = q.view(len(q), KV_HEADS, -1, DIM).permute(1, 2, 0, 3)  # (Hkv, G, T, D)
    scores = rows @ k[:, None].transpose(2, 3) / DIM**0.5  # (Hkv, G, T, S)
    scores.masked_fill_(~visible(len(q), k.shape[1], None, q.device), float("-inf"))
    return (scores.softmax(-1) @ v[:, None]).permute(2, 0, 1, 3).reshape(q.shape)


FORMS = {"standard": standard, "tiled": attend_tiled, "SDPA": attend_sdpa}
device = "cuda" if lab.ceilings().device == "cuda" else "cpu"
dtype = torch.bfloat16 if device == "cuda" else torch.float32
wait = torch.cuda.synchronize if device == "cuda" else None
CASES = {  # new tokens, tokens in the cache with them
    "decode, 1 token behind 511": (1, 512),
    "decode, 1 token behind 2,047": (1, 2048),
    "prompt of 32 tokens": (32, 32),
    "prompt of 512 tokens": (512, 512),
    "chunk of 128 behind 1,408": (128, 1536),
}
cases = lab.pick(quick=list(CASES), full=list(CASES), smoke=list(CASES)[:3])

rows = []
for case in cases:
    new, length = CASES[case]
    q = torch.randn(new, HEADS, DIM, device=device, dtype=dtype)
    k, v = torch.randn(2, KV_HEADS, length, DIM, device=device, dtype=dtype)
    runs = {name: lambda form=form, q=q, k=k, v=v: form(q, k, v) for name, form in FORMS.items()}
    times = lab.interleave(runs, lab.repeats(quick=15, full=31), synchronize=wait)
    middle = {name: median(seconds) for name, seconds in times.items()}
    row = {"case": case, "scores_kb": HEADS * new * length * 4 / 1e3}
    row |= {f"{name}_ms": [s * 1e3 for s in seconds] for name, seconds in times.items()}
    rows.append(row | {"tiled_gain": middle["standard"] / middle["tiled"]})

columns = [
    lab.Column("case", "case"),
    lab.Column("scores_kb", "all scores", "kB", digits=0),
    *(lab.Column(f"{name}_ms", name, "ms", digits=2) for name in FORMS),
    lab.Column("tiled_gain", "tiled, times as fast as standard", digits=2),
]
best, worst = (pick(rows, key=lambda row: row["tiled_gain"]) for pick in (max, min))
finding = (
    f"Tiles in Python run {best['tiled_gain']:.1f} times as fast as standard attention in the best "
    f"case ({best['case']}) and {worst['tiled_gain']:.1f} times in the worst ({worst['case']})."
)
chart = lab.Chart("hbar", "case", "tiled_gain", title=finding)
lab.record(rows=rows, columns=columns, finding=finding, chart=chart,
           parameters={"heads": [HEADS, KV_HEADS, DIM], "dtype": str(dtype)})  # fmt: skip
