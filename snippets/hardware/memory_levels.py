"""How fast can this machine read, and how much depends on how much it reads?"""

from statistics import median

import torch

from inferlab import lab

ceilings = lab.ceilings()
device = ceilings.device
sizes = lab.pick(
    quick=[2**power for power in range(16, 30, 2)],
    full=[2**power for power in range(14, 31)],
    smoke=[2**16, 2**18],
)
if device == "cuda":
    wait, at_once = torch.cuda.synchronize, 2**30  # a GPU needs more work to time than a CPU
else:
    wait, at_once = None, lab.pick(quick=2**28, full=2**29, smoke=2**20)


def reading(num_bytes):
    data = torch.ones(num_bytes // 4, device=device)

    def run():
        for _ in range(max(1, at_once // num_bytes)):
            data.amax()

    return run


times = lab.interleave({n: reading(n) for n in sizes}, lab.repeats(), synchronize=wait)
rows = []
for num_bytes, seconds in times.items():
    read = max(1, at_once // num_bytes) * num_bytes
    rows.append(
        {
            "mib": num_bytes / 2**20,
            "gb_s": [read / s / 1e9 for s in seconds],
            "ceiling": ceilings.best_read_bytes_s / 1e9,
        }
    )

best, last = max(rows, key=lambda row: median(row["gb_s"])), rows[-1]
columns = [
    lab.Column("mib", "read again and again", "MiB"),
    lab.Column("gb_s", "reached", "GB/s", digits=1),
    lab.Column("ceiling", "from memory at most", "GB/s", digits=1),
]
finding = (
    f"Reading {last['mib']:g} MiB again and again reaches {median(last['gb_s']):,.0f} GB/s; "
    f"the best size, {best['mib']:g} MiB, reaches {median(best['gb_s']):,.0f}."
)
chart = lab.Chart("line", "mib", "gb_s", title=finding, bound="ceiling", log_x=True)
lab.record(rows=rows, columns=columns, finding=finding, chart=chart)
