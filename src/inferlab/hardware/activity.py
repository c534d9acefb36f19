"""How busy others keep this machine, and the most memory that this process has held."""

import os
import sys
import time
from pathlib import Path
from typing import Any

_CLOCK_TICKS = 100  # /proc/stat counts hundredths of a second on every Linux that PyTorch runs on
_IDLE, _IOWAIT, _STEAL, _COUNTERS = 3, 4, 7, 8


def noise(seconds: float = 0.2, *, proc: Path = Path("/proc")) -> dict[str, Any]:
    """How much of the processors other processes and other virtual machines take right now.

    `others_busy` and `steal` are shares of all processors, from 0 to 1, over `seconds`; None where
    the system does not count them (other than Linux).
    """
    load = os.getloadavg() if hasattr(os, "getloadavg") else (None,)
    before, own_before = _ticks(proc), time.process_time()
    time.sleep(seconds)
    after, own = _ticks(proc), time.process_time() - own_before
    result: dict[str, Any] = {
        "load_average_1m": load[0],
        "others_busy": None,
        "steal": None,
        "over_s": seconds,
    }
    if before is None or after is None:
        return result
    spent = [now - then for now, then in zip(after, before, strict=True)]
    total = sum(spent)
    if total > 0:
        busy = total - spent[_IDLE] - spent[_IOWAIT] - spent[_STEAL] - own * _CLOCK_TICKS
        result["others_busy"] = round(min(max(busy / total, 0.0), 1.0), 3)
        result["steal"] = round(min(max(spent[_STEAL] / total, 0.0), 1.0), 3)
    return result


def _ticks(proc: Path) -> list[int] | None:
    """Ticks of all processors: user, nice, system, idle, iowait, irq, softirq, steal."""
    try:
        first = (proc / "stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    return [int(field) for field in first.split()[1 : 1 + _COUNTERS]]


def peak_memory_bytes(*, status: Path = Path("/proc/self/status")) -> int:
    """The most memory this process has held so far, in bytes: resident on the host, plus on a GPU.

    Linux keeps `ru_maxrss` across exec, so that a small child of a large process looks large;
    VmHWM counts from this program's start.
    """
    return _host_peak_bytes(status) + _gpu_peak_bytes()


def _host_peak_bytes(status: Path) -> int:
    try:
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _gpu_peak_bytes() -> int:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return 0
    return sum(torch.cuda.max_memory_reserved(i) for i in range(torch.cuda.device_count()))
