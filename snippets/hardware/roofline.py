"""How many tokens must share a pass over the weights before computing is the limit?"""

from statistics import median

import torch

from inferlab import lab

ceilings = lab.ceilings()
device = ceilings.device
dtype = max(ceilings.matmul_flop_s, key=ceilings.best_flop_s)  # the one that multiplies fastest
flop_s, bytes_s = ceilings.best_flop_s(dtype), ceilings.best_read_bytes_s
# Several layers, so that none is still in a cache when its turn comes again.
width, num_layers = lab.pick(quick=(4096, 8), full=(4096, 16), smoke=(2048, 8))
kind = {"device": device, "dtype": getattr(torch, dtype)}
layers = [torch.randn(width, width, **kind) for _ in range(num_layers)]
counts = lab.pick(quick=[1, 4, 16, 64, 512], full=[1, 4, 16, 64, 256, 2048], smoke=[1, 8])


def one_pass(num_tokens):
    x = torch.randn(num_tokens, width, **kind)

    def run():
        for weight in layers:
            torch.nn.functional.linear(x, weight)

    return run


wait = torch.cuda.synchronize if device == "cuda" else None
times = lab.interleave({n: one_pass(n) for n in counts}, lab.repeats(3), synchronize=wait)
rows = []
for n, seconds in times.items():
    flops = 2 * n * width * width * num_layers
    moved = num_layers * (width * width + 2 * n * width) * layers[0].element_size()
    rows.append(
        {
            "name": f"{n} token{'s' * (n > 1)}",
            "intensity": flops / moved,
            "pass_ms": [s * 1e3 for s in seconds],
            "gflop_s": flops / median(seconds) / 1e9,
            "gb_s": moved / median(seconds) / 1e9,
            "flop_s": flops / median(seconds),
        }
    )

columns = [
    lab.Column("name", "tokens in the pass"),
    lab.Column("intensity", "operations per byte", "FLOP/byte", digits=1),
    lab.Column("pass_ms", "time", "ms", digits=1),
    lab.Column("gflop_s", "computed", "GFLOP/s", digits=0, at_most=flop_s / 1e9),
    lab.Column("gb_s", "moved", "GB/s", digits=1),
]
finding = (
    f"This machine's ridge in {dtype} is {flop_s / bytes_s:.0f} FLOP per byte: one token computes "
    f"{rows[0]['gflop_s']:,.0f} GFLOP/s, {counts[-1]} in one pass {rows[-1]['gflop_s']:,.0f}."
)
roof = {"peak_flop_s": flop_s, "bandwidth_bytes_s": bytes_s}
chart = lab.Chart("roofline", title=finding, options=roof)
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, parameters={"width": width})
