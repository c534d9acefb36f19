"""What does splitting a model over GPUs ask of the link between them?"""

from inferlab import cost, lab
from inferlab.model.config import SHAPES

shape = SHAPES["llama-3.1-70b"]
num_gpus, prompt_tokens = 4, 2048
gpu = next(one for one in cost.ACCELERATORS if one.name == "H100 SXM")
all_reduces = cost.all_reduce_count(shape.num_layers)


def compute_s(work):
    """Each GPU does its share of the work, at full speed."""
    return work.lower_bound_s(gpu.bf16_flop_s, gpu.bandwidth_bytes_s) / num_gpus


jobs = {
    "decode, 1 request": (1, compute_s(cost.decode_work(shape, prompt_tokens))),
    "decode, 64 requests": (64, compute_s(cost.decode_work(shape, prompt_tokens, batch=64))),
    "prefill": (prompt_tokens, compute_s(cost.prefill_work(shape, prompt_tokens))),
}
rows = []
for link in sorted(cost.LINKS, key=lambda one: -one.bytes_s):
    if "A100" in link.name or "B200" in link.name:
        continue  # links of other GPUs
    for job, (num_tokens, least_s) in jobs.items():
        each = cost.all_reduce_bytes(1, num_tokens, shape.hidden_size)
        link_s = all_reduces * cost.all_reduce_lower_bound_s(each, num_gpus, link.bytes_s)
        rows.append(
            {
                "job": job,
                "link": link.name,
                "link_gb_s": link.bytes_s / 1e9,
                "each_mb": each / 1e6,
                "link_ms": link_s * 1e3,
                "gpu_ms": least_s * 1e3,
                "share": 100 * link_s / (link_s + least_s),
            }
        )

columns = [
    lab.Column("job", "job"),
    lab.Column("link", "link (datasheet)"),
    lab.Column("link_gb_s", "each way", "GB/s", digits=0),
    lab.Column("each_mb", "bytes of an all-reduce", "MB", digits=2),
    lab.Column("link_ms", f"{all_reduces} all-reduces at least", "ms", digits=2),
    lab.Column("gpu_ms", "computing at least", "ms", digits=1),
    lab.Column("share", "share of the link", "%", digits=0),
]
prefills = [row for row in rows if row["job"] == "prefill"]
fast, slow = (next(r for r in prefills if r["link"].startswith(k)) for k in ("NVLink 4", "PCIe 5"))
finding = (
    f"Computed for {shape.name} on {num_gpus} x {gpu.name}: in a prefill of {prompt_tokens:,} "
    f"tokens the link takes at least {fast['share']:.0f} % of the time over {fast['link']}, and "
    f"{slow['share']:.0f} % over {slow['link']}."
)
chart = lab.Chart("hbar", "link", "share", series="job", title=finding,
                  y_label="share of the time that the link takes")  # fmt: skip
notes = ["Computed from datasheets, without latency: nothing here was measured."]
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, notes=notes)
