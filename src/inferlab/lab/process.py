"""What only the measuring process knows about itself: its modules, packages, threads, memory."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from inferlab.lab import schema


def imported_modules() -> dict[str, str]:
    """Each module of inferlab that this process has imported, with the SHA-256 of its text."""
    files = {
        name: file
        for name, module in sorted(sys.modules.items())
        if name.split(".")[0] == "inferlab" and (file := getattr(module, "__file__", None))
    }
    return {name: schema.digest(Path(file).read_bytes()) for name, file in files.items()}


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The installed version of each package, found without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    return found


def device_in_use(asked: str) -> str:
    """The device this process computed on, when no model says it."""
    torch = sys.modules.get("torch")
    if asked == "auto" and torch is not None and torch.cuda.is_initialized():
        return "cuda"
    return "cpu" if asked == "auto" else asked


def num_threads() -> int:
    """Threads that PyTorch computes with here; the processors when it was not imported."""
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch is not None else os.cpu_count() or 1


def peak_memory_bytes() -> int:
    """The most memory this process has held, on host and GPU."""
    from inferlab import hardware

    return int(hardware.peak_memory_bytes())
