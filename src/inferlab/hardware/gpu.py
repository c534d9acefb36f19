"""Which GPUs are here, found without importing torch, and which device `auto` means."""

import platform
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from inferlab.errors import InferlabError

DEVICES = ("auto", "cpu", "cuda", "mps")
_QUERY = ("name", "memory.total", "driver_version", "compute_cap")
_MIB = 2**20
_ABSENT = {
    "cuda": "no CUDA GPU that PyTorch can use here; `inferlab doctor` shows what was found",
    "mps": "no Apple GPU that PyTorch can use here",
}


@cache
def gpus() -> tuple[dict[str, Any], ...]:
    """Each GPU's name, memory_bytes, driver and compute_capability; what is unknown is None."""
    found = parse_nvidia_smi(tool_output("nvidia-smi", f"--query-gpu={','.join(_QUERY)}", _CSV))
    found = found or read_proc_nvidia(Path("/proc/driver/nvidia"))
    if not found and platform.system() == "Darwin" and platform.machine() == "arm64":
        found = apple_gpu()
    return tuple(found)


_CSV = "--format=csv,noheader,nounits"


def parse_nvidia_smi(text: str) -> list[dict[str, Any]]:
    """Read the answer of nvidia-smi; a field that it cannot tell ("[N/A]") is None."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(_QUERY):
            continue
        name, memory, driver, capability = (None if "[" in field else field for field in fields)
        found.append(
            {
                "name": name,
                "memory_bytes": int(memory) * _MIB if memory and memory.isdigit() else None,
                "driver": driver,
                "compute_capability": capability,
            }
        )
    return found


def read_proc_nvidia(folder: Path) -> list[dict[str, Any]]:
    """What the NVIDIA kernel driver itself says, for containers without nvidia-smi."""
    try:
        version = re.search(r"Module[^\d]*([\d.]+)", (folder / "version").read_text())
        texts = [path.read_text() for path in sorted(folder.glob("gpus/*/information"))]
    except OSError:
        return []
    models = [re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE) for text in texts]
    return [
        {
            "name": model.group(1),
            "memory_bytes": None,
            "driver": version.group(1) if version else None,
            "compute_capability": None,
        }
        for model in models
        if model
    ]


def apple_gpu() -> list[dict[str, Any]]:
    """The GPU of an Apple chip, which shares the machine's memory."""
    memory = tool_output("sysctl", "-n", "hw.memsize").strip()
    return [
        {
            "name": f"{tool_output('sysctl', '-n', 'machdep.cpu.brand_string').strip()} GPU",
            "memory_bytes": int(memory) if memory.isdigit() else None,
            "driver": platform.mac_ver()[0] or None,
            "compute_capability": None,
        }
    ]


def resolve_device(device: str = "auto") -> str:
    """The device that is meant: `auto` is CUDA where PyTorch can use it, else MPS, else the CPU.

    Imports torch, unless the CPU is asked for. Raises InferlabError for a device that is not here.
    """
    if device not in DEVICES:
        raise InferlabError(f"unknown device {device!r}: expected one of {', '.join(DEVICES)}")
    if device == "cpu":
        return device
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    for name in ("cuda", "mps") if device == "auto" else (device,):
        if there[name]:
            return name
    if device == "auto":
        return "cpu"
    raise InferlabError(f"device {device!r}: {_ABSENT[device]}; use cpu")


def tool_output(*command: str) -> str:
    """What a system tool prints; nothing when it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
