"""`inferlab doctor`: what this machine is, how fast it can be, what is missing for which page."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from inferlab.errors import InferlabError

GIB = 2**30
MIN_PYTHON = (3, 11)
NEEDED = ("numpy", "safetensors", "tokenizers", "gguf")
DOCS = {
    "mkdocs": "mkdocs",
    "material": "mkdocs-material",
    "markdown_exec": "markdown-exec",
    "latex2mathml": "latex2mathml",
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
DEVICE_NAMES = {"cpu": "CPU", "cuda": "CUDA GPU", "mps": "Apple GPU"}


@dataclass(frozen=True)
class Check:
    """One thing that may be here: what it is for, and what to do when it is missing."""

    name: str
    found: str | None
    needed_for: str
    remedy: str
    basic: bool = False


def doctor(
    device: Annotated[
        str, typer.Option(help="Whose ceilings to show: auto, cpu, cuda or mps.")
    ] = "auto",
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Measure the ceilings anew (5 to 15 seconds).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show this machine, its measured ceilings, and what is missing for which page."""
    from inferlab import hardware

    checks = all_checks()
    broken = [check for check in checks if check.basic and check.found is None]
    found = _ceilings(device, refresh) if not broken else None
    machine = hardware.describe()
    if as_json:
        report = {
            "machine": machine,
            "ceilings": found,
            "checks": [{**vars(check), "ok": check.found is not None} for check in checks],
            "ok": not broken,
        }
        typer.echo(json.dumps(report, indent=2))
    else:
        _print(machine, found, checks)
    if broken:
        raise InferlabError("; ".join(f"{c.name} is missing: {c.remedy}" for c in broken))


def _ceilings(device: str, refresh: bool) -> dict[str, Any]:
    """The device's ceilings in JSON's types, measured when they are unknown."""
    from dataclasses import asdict

    from inferlab import hardware

    device = hardware.resolve_device(device)
    if refresh or device not in hardware.known_ceilings():
        name = DEVICE_NAMES[device]
        typer.echo(f"measuring the ceilings of the {name}: 5 to 15 seconds ...", err=True)
    return asdict(hardware.ceilings(device, refresh))


def all_checks() -> list[Check]:
    """Everything that inferlab can use, the basics first."""
    torch = _torch()
    gpu = [_gpu()] if torch.found else []
    return [_python(), torch, *_packages(), _model(), _docs(), _browser(), *gpu]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(
        "Python",
        version if sys.version_info >= MIN_PYTHON else None,
        "everything",
        f"install Python {'.'.join(map(str, MIN_PYTHON))} or newer (this is {version})",
        basic=True,
    )


def _torch() -> Check:
    """PyTorch, imported: a build for another machine is installed and yet of no use."""
    remedy = "pip install torch, in this environment"
    try:
        import torch
    except (ImportError, OSError) as error:
        reason = str(error).partition("\n")[0]
        return Check("torch", None, "everything", f"{remedy} (now: {reason})", basic=True)
    return Check("torch", torch.__version__, "everything", remedy, basic=True)


def _packages() -> list[Check]:
    remedy = "pip install inferlab, in this environment"
    return [Check(name, _version(name), "everything", remedy, basic=True) for name in NEEDED]


def _model() -> Check:
    from inferlab.model import hub

    package = hub.PACKAGES[hub.EMBEDDED]
    path = hub.models_dir() / package.file_name
    return Check(
        f"embedded model {hub.EMBEDDED}",
        str(path) if path.is_file() and path.stat().st_size == package.num_bytes else None,
        "every page that measures a real model",
        "inferlab model fetch (about 100 MB, once; the first use does it too)",
    )


def _docs() -> Check:
    missing = [package for module, package in DOCS.items() if not _importable(module)]
    return Check(
        "site packages",
        f"mkdocs {_version('mkdocs')}" if not missing else None,
        "building the site",
        f"pip install 'inferlab[docs]' (lacks {', '.join(missing)})",
    )


def _browser() -> Check:
    return Check(
        "browser",
        next((path for name in BROWSERS if (path := shutil.which(name))), None),
        "the site's own browser tests; not for building or reading it",
        "install Chromium or Chrome",
    )


def _gpu() -> Check:
    """A GPU that PyTorch can use; one that only the driver sees is named in the remedy."""
    from inferlab import hardware

    names = [str(gpu["name"]) for gpu in hardware.describe()["gpus"]]
    device = hardware.resolve_device()
    return Check(
        "GPU",
        None if device == "cpu" else f"{', '.join(names) or 'GPU'} ({device})",
        "results of a GPU (DEVICE=cuda or mps); every page of today measures the CPU as well",
        f"{names[0]} is here, but this PyTorch cannot use it: install a build with CUDA"
        if names
        else "nothing to do; results recorded on other machines can be imported",
    )


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _importable(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def _print(
    machine: Mapping[str, Any], found: Mapping[str, Any] | None, checks: list[Check]
) -> None:
    versions = [f"{name} {text}" for name, text in machine["versions"].items() if text]
    _section("Machine", [*machine_rows(machine), ("Versions", ", ".join(versions))])
    if found is not None:
        where = DEVICE_NAMES[found["device"]]
        threads = f", {found['num_threads']} threads" if found["device"] == "cpu" else ""
        head = f"Measured ceilings ({where}{threads}, {found['measured_at'][:10]})"
        _section(head, ceiling_rows(found))
    here = [check for check in checks if check.found is not None]
    _section("Here", [(check.name, check.found or "") for check in here])
    missing = [check for check in checks if check.found is None]
    _section("Missing", [(c.name, f"for {c.needed_for}\n-> {c.remedy}") for c in missing])


def machine_rows(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Processor, caches, memory, GPUs and system in words."""
    cpu, memory = machine["cpu"], machine["memory"]
    cores = f"{cpu['physical_cores']} cores, {cpu['logical_cores']} threads"
    if cpu["usable"] != cpu["logical_cores"]:
        cores += f", {cpu['usable']} usable here"
    caches = (
        f"{level} {_size(cache['bytes'])}" + (f" x {cache['count']}" if cache["count"] > 1 else "")
        for level, cache in cpu["caches"].items()
    )
    sizes = [f"{_size(memory[key])} {word}" for key, word in _MEMORY.items() if memory.get(key)]
    rows = [
        ("Processor", f"{cpu['model']}, {cores}"),
        ("Instructions", " ".join(cpu["features"]) or "unknown"),
        ("Caches", ", ".join(caches) or "unknown"),
        ("Memory", ", ".join(sizes) or "unknown"),
    ]
    for gpu in machine["gpus"]:
        size = _size(gpu["memory_bytes"]) if gpu["memory_bytes"] else None
        driver = f"driver {gpu['driver']}" if gpu["driver"] else None
        level = gpu["compute_capability"]
        parts = (gpu["name"], size, driver, f"compute capability {level}" if level else None)
        rows.append(("GPU", ", ".join(part for part in parts if part)))
    return [*rows, ("System", machine["os"])]


_MEMORY = {
    "total_bytes": "in all",
    "available_bytes": "available",
    "limit_bytes": "is this container's limit",
}


def ceiling_rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each ceiling: what was sustained, median and spread, and the kernel that reached it."""
    rates = {f"Matmul {dtype}": rate for dtype, rate in found["matmul_flop_s"].items()}
    rows = [(name, _rate(rate, 1e12, "TFLOP/s")) for name, rate in rates.items()]
    rows.append(("Memory read", _rate(found["read_bytes_s"], 1e9, "GB/s")))
    return [*rows, ("Memory copy", _rate(found["copy_bytes_s"], 1e9, "GB/s"))]


def _rate(rate: Mapping[str, Any], scale: float, unit: str) -> str:
    from inferlab.hardware import sustained

    best, median, low = (r / scale for r in (sustained(rate), rate["median"], rate["low"]))
    digits = 1 if best >= 10 else 3
    return (
        f"{best:8.{digits}f} {unit:<7}  median {median:.{digits}f}, low {low:.{digits}f}, "
        f"{len(rate['samples'])} samples; {rate['kernel']}"
    )


def _size(num_bytes: int) -> str:
    if num_bytes >= GIB:
        return f"{num_bytes / GIB:.1f} GiB"
    return f"{num_bytes / 2**20:.0f} MiB" if num_bytes >= 2**20 else f"{num_bytes / 2**10:.0f} KiB"


def _section(title: str, rows: list[tuple[str, str]]) -> None:
    """A heading and aligned rows; further lines of a value stand under its first."""
    if not rows:
        return
    width = max(len(name) for name, _ in rows)
    typer.echo(title)
    for name, value in rows:
        first, *more = value.splitlines()
        typer.echo(f"  {name.ljust(width)}  {first}")
        for line in more:
            typer.echo(f"  {'':{width}}  {line}")
    typer.echo()
