"""Which implementations does PyTorch's attention have on this machine, and how do they compare?"""

from statistics import median

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from inferlab import lab

HEADS, KV_HEADS, DIM = 9, 3, 64  # the embedded model's
BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
}
device = "cuda" if lab.ceilings().device == "cuda" else "cpu"
dtype = torch.bfloat16 if device == "cuda" else torch.float32
length = lab.pick(quick=1024, full=4096, smoke=64)
q = torch.randn(1, HEADS, length, DIM, device=device, dtype=dtype)
k, v = torch.randn(2, 1, KV_HEADS, length, DIM, device=device, dtype=dtype)


def attend_by(backend):
    def run():
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    return run


runs, refused = {}, []
for name, backend in BACKENDS.items():
    try:
        attend_by(backend)()
        runs[name] = attend_by(backend)
    except RuntimeError:  # not built for this device, dtype or grouped heads
        refused.append(name)

wait = torch.cuda.synchronize if device == "cuda" else None
rows = [
    {"backend": name, "time_ms": [s * 1e3 for s in seconds],
     "peak_mb": lab.peak_bytes(runs[name]) / 1e6}
    for name, seconds in lab.interleave(runs, lab.repeats(), synchronize=wait).items()
]  # fmt: skip
columns = [
    lab.Column("backend", "backend of SDPA"),
    lab.Column("time_ms", "time of one layer", "ms", digits=1),
    lab.Column("peak_mb", "most held at once", "MB", digits=1),
]
slow, fast = (pick(rows, key=lambda row: median(row["time_ms"])) for pick in (max, min))
finding = (
    f"For {length:,} tokens the {fast['backend']} backend takes {median(fast['time_ms']):.1f} ms "
    f"and {fast['peak_mb']:.1f} MB, the {slow['backend']} backend {median(slow['time_ms']):.1f} ms "
    f"and {slow['peak_mb']:.1f} MB; not here: {', '.join(refused) or 'none'}."
)
lab.record(rows=rows, columns=columns, finding=finding, parameters={"length": length},
           chart=lab.Chart("hbar", "backend", "time_ms", title=finding))  # fmt: skip
