"""How fast does this machine multiply matrices, and how large must they be?"""

from statistics import median

import torch

from inferlab import lab

ceilings = lab.ceilings()
dtypes = [dtype for dtype in ("float32", "bfloat16", "float16") if dtype in ceilings.matmul_flop_s]
sizes = lab.pick(
    quick=[32, 64, 128, 256, 512, 1024, 2048],
    full=[32, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    smoke=[32, 64],
)


def products(size, dtype, count):
    x = torch.randn(size, size, device=ceilings.device).to(getattr(torch, dtype))
    w, out = torch.randn_like(x), torch.empty_like(x)

    def run():
        for _ in range(count):
            torch.mm(x, w, out=out)

    return run


rows = []
for size in sizes:
    flops = 2 * size**3  # a multiplication and an addition for each of size x size x size
    runs, counts = {}, {}
    for dtype in dtypes:
        least_s = flops / ceilings.best_flop_s(dtype)
        if least_s < 0.3:  # longer ones are not repeated here
            counts[dtype] = max(1, min(500, int(0.005 / least_s)))  # many small ones: clocks tick
            runs[dtype] = products(size, dtype, counts[dtype])
    wait = torch.cuda.synchronize if ceilings.device == "cuda" else None
    times = lab.interleave(runs, lab.repeats(), synchronize=wait)
    for dtype, seconds in times.items():
        rates = [counts[dtype] * flops / s / 1e9 for s in seconds]
        ceiling = ceilings.best_flop_s(dtype) / 1e9
        row = {"size": size, "dtype": dtype, "gflop_s": rates, "ceiling": ceiling}
        rows.append(row | {"share": 100 * median(rates) / ceiling})

small, best = rows[0], max(rows, key=lambda row: row["share"])
columns = [
    lab.Column("size", "rows and columns", digits=0),
    lab.Column("dtype", "dtype"),
    lab.Column("gflop_s", "reached", "GFLOP/s", digits=0, at_most="ceiling"),
    lab.Column("ceiling", "ceiling", "GFLOP/s", digits=0),
    lab.Column("share", "share of the ceiling", "%", digits=0),
]
finding = (
    f"Matrices of {small['size']} x {small['size']} reach {small['share']:.0f} % of the ceiling of "
    f"{small['dtype']}, matrices of {best['size']} x {best['size']} {best['share']:.0f} % of that "
    f"of {best['dtype']}."
)
chart = lab.Chart("line", "size", "share", title=finding, series="dtype", log_x=True)
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, parameters={"sizes": sizes})
