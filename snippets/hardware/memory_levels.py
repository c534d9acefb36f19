"""How fast can this machine read, and how much depends on how much it reads?"""

from statistics import median

import torch

from inferlab import lab

ceilings = lab.ceilings()
device = ceilings.device
sizes = lab.pick(
    quick=[2**power for power in range(15, 30, 2)],
    full=[2**power for power in range(14, 31)],
    smoke=[2**16, 2**18],
)
at_once = 2**30 if device == "cuda" else lab.pick(quick=2**28, full=2**29, smoke=2**20)
wait = torch.cuda.synchronize if device == "cuda" else None


def reading(num_bytes):
    again = max(1, at_once // num_bytes)
    if device == "cuda":
        data = torch.ones(num_bytes // 4, device=device)
        return lambda: [data.amax() for _ in range(again)]
    # Each thread reads its own part again and again within one operation: starting many operations
    # would take longer than reading a few kilobytes.
    threads = torch.get_num_threads()
    parts = torch.ones(threads, 1, num_bytes // 4 // threads).expand(-1, again, -1)
    return lambda: parts.amax(2)


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
