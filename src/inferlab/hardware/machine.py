"""What this machine is: processor, limits on it, caches, memory, GPUs and system, without torch."""

import os
import platform
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from inferlab.hardware.gpu import gpus, tool_output

# Instructions that decide how fast inference runs, as Linux and macOS name them.
_FEATURES = (
    *("avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16"),
    *("avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("neon", "asimd", "asimdhp", "asimddp", "fphp", "i8mm", "bf16", "sve", "sve2", "sme"),
)
_UNLIMITED = 2**60  # cgroup v1 writes "no limit" as a number near 2^63
_GIB = 2**30


@cache
def describe(root: Path = Path("/")) -> dict[str, Any]:
    """What this machine is, in JSON's types: hardware_id, cpu, memory, gpus, os and versions.

    cpu: model, physical_cores, logical_cores, usable (by affinity and the container's quota),
    features, and caches as bytes and number of instances by level. Sizes are in bytes.
    """
    quota, memory_limit = _cgroup_limits(root)
    cpu = _cpu_macos() if platform.system() == "Darwin" else _cpu_linux(root)
    affinity = _affinity(cpu["logical_cores"])
    cpu["affinity"] = affinity
    cpu["quota"] = quota
    cpu["usable"] = max(1, min(affinity, round(quota) if quota else affinity))
    found = list(gpus())
    return {
        "hardware_id": hardware_id(cpu, found),
        "cpu": cpu,
        "memory": {**_memory(root), "limit_bytes": memory_limit},
        "gpus": found,
        "os": _system(),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("inferlab", "torch")},
        },
    }


@cache
def fingerprint() -> dict[str, Any]:
    """What a measurement here depends on; another value means that it must be made again."""
    machine = describe()
    memory = machine["memory"]["limit_bytes"] or machine["memory"]["total_bytes"] or 0
    return {
        "cpu": machine["cpu"]["model"],
        "cpus": machine["cpu"]["usable"],
        "features": machine["cpu"]["features"],
        "memory_gib": round(memory / _GIB),
        "gpus": [[gpu["name"], gpu["memory_bytes"], gpu["driver"]] for gpu in machine["gpus"]],
        "system": f"{platform.system()} {platform.machine()}",
    }


def hardware_id(cpu: dict[str, Any], found: list[dict[str, Any]]) -> str:
    """A short name for a folder: the GPU where there is one, else the processor and its cores."""
    if found:
        count = f" {len(found)}x" if len(found) > 1 else ""
        return _slug(f"{found[0]['name'] or 'gpu'}{count}")
    cores = cpu["usable"]
    return _slug(f"{cpu['model']} {cores} core{'s' if cores > 1 else ''}")


def _slug(name: str) -> str:
    name = re.sub(r"\((r|tm|c)\)|\bcpu\b|\bprocessor\b|@.*?hz|\b\d+-core\b", " ", name.lower())
    return re.sub(r"[^a-z0-9.]+", "-", name).strip("-.") or "unknown"


def _cpu_linux(root: Path) -> dict[str, Any]:
    """From /proc/cpuinfo and /sys; on ARM, whose cpuinfo names no model, from lscpu."""
    text = _read(root / "proc/cpuinfo")
    model = _field(text, "model name") or _field(tool_output("lscpu"), "Model name")
    flags = set((_field(text, "flags") or _field(text, "Features") or "").split())
    cpus = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*"))
    logical = len(re.findall(r"^processor\s*:", text, re.MULTILINE)) or os.cpu_count() or 1
    cores = {
        (_read(cpu / "topology/physical_package_id"), _read(cpu / "topology/core_id"))
        for cpu in cpus
        if (cpu / "topology/core_id").exists()
    }
    return {
        "model": model or platform.processor() or platform.machine() or "unknown",
        "physical_cores": len(cores) or logical,
        "logical_cores": logical,
        "features": [name for name in _FEATURES if name in flags],
        "caches": _caches(cpus),
    }


def _caches(cpus: list[Path]) -> dict[str, dict[str, int]]:
    """Size of one instance of each data cache in bytes, and how many instances there are."""
    instances: dict[str, set[str]] = {}
    sizes: dict[str, int] = {}
    for index in (index for cpu in cpus for index in sorted(cpu.glob("cache/index[0-9]*"))):
        kind, size = _read(index / "type"), re.fullmatch(r"(\d+)([KM]?)", _read(index / "size"))
        if kind not in ("Data", "Unified") or not size:
            continue
        level = f"L{_read(index / 'level')}{'d' if kind == 'Data' else ''}"
        sizes[level] = int(size[1]) * {"": 1, "K": 2**10, "M": 2**20}[size[2]]
        instances.setdefault(level, set()).add(_read(index / "shared_cpu_list"))
    return {level: {"bytes": sizes[level], "count": len(instances[level])} for level in instances}


def _cpu_macos() -> dict[str, Any]:
    """From sysctl."""
    lines = (line.partition(":") for line in tool_output("sysctl", "-a").splitlines())
    values = {key: value.strip() for key, _, value in lines}
    number = {key: int(value) for key, value in values.items() if value.isdigit()}
    arm = {
        key.removeprefix("hw.optional.arm.FEAT_").lower(): value
        for key, value in number.items()
        if key.startswith("hw.optional.arm.FEAT_")
    }
    sizes = {"L1d": "hw.l1dcachesize", "L2": "hw.l2cachesize", "L3": "hw.l3cachesize"}
    logical = number.get("hw.logicalcpu") or os.cpu_count() or 1
    return {
        "model": values.get("machdep.cpu.brand_string") or platform.machine(),
        "physical_cores": number.get("hw.physicalcpu", logical),
        "logical_cores": logical,
        "features": [name for name in _FEATURES if arm.get(name)],
        "caches": {
            level: {"bytes": number[key], "count": 1}
            for level, key in sizes.items()
            if number.get(key)
        },
    }


def _affinity(logical: int) -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical


def _cgroup_limits(root: Path) -> tuple[float | None, int | None]:
    """The container's limits: processors (a quota, may be a fraction) and bytes of memory.

    Both versions of cgroups, the tightest limit on the way up to the root; None without a limit.
    """
    quotas: list[float] = []
    memories: list[int] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        mount = root / "sys/fs/cgroup" / controllers
        inner = Path(path.lstrip("/"))
        for folder in (mount / inner, *(mount / parent for parent in inner.parents)):
            words = _read(folder / "cpu.max").split() or [
                _read(folder / "cpu.cfs_quota_us"),
                _read(folder / "cpu.cfs_period_us"),
            ]
            if len(words) == 2 and all(word.isdigit() for word in words):
                quotas.append(int(words[0]) / int(words[1]))
            limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
            if limit.isdigit() and int(limit) < _UNLIMITED:
                memories.append(int(limit))
    return min(quotas, default=None), min(memories, default=None)


def _memory(root: Path) -> dict[str, int | None]:
    total = re.search(r"^MemTotal:\s*(\d+)", _read(root / "proc/meminfo"), re.MULTILINE)
    free = re.search(r"^MemAvailable:\s*(\d+)", _read(root / "proc/meminfo"), re.MULTILINE)
    if total:
        return {
            "total_bytes": int(total[1]) * 1024,
            "available_bytes": int(free[1]) * 1024 if free else None,
        }
    size = tool_output("sysctl", "-n", "hw.memsize").strip()
    return {"total_bytes": int(size) if size.isdigit() else None, "available_bytes": None}


def _system() -> str:
    """The system in words, for instance "Debian GNU/Linux 12 (bookworm), Linux 6.1.0, x86_64"."""
    kernel = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}, {kernel}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _field(text: str, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}\s*:[ \t]*(\S.*?)\s*$", text, re.MULTILINE)
    return found[1] if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
