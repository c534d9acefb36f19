"""What this machine, or the one of a record, is: in a few words, and as a card."""

import html
from collections.abc import Mapping
from functools import cache
from typing import Any

GIB = 2**30


@cache
def here() -> dict[str, Any]:
    """This machine's description; cheap, and the same during one build."""
    from inferlab import hardware

    return dict(hardware.describe())


def short_text(environment: Mapping[str, Any] | None = None) -> str:
    """A machine in a few words: processor, cores, memory, GPU."""
    found = here() if environment is None else environment
    cpu = found.get("cpu") or {}
    parts = [str(cpu.get("model") or "unknown processor")]
    if cores := cpu.get("usable"):
        parts.append(f"{cores} core{'s' if cores != 1 else ''}")
    if total := _memory(found):
        parts.append(f"{total / GIB:.0f} GiB")
    names = [str(gpu.get("name")) for gpu in gpus(found)]
    parts.append(", ".join(names) if names else "no GPU")
    return ", ".join(parts)


def device_text(environment: Mapping[str, Any]) -> str:
    """What computed a record: its GPU's name, or the processor and its threads."""
    device = environment.get("device", "cpu")
    found = gpus(environment)
    if device == "cuda" and found:
        return str(found[0].get("name"))
    model = (environment.get("cpu") or {}).get("model") or str(device)
    threads = environment.get("num_threads")
    return f"{model}, {threads} thread{'s' if threads != 1 else ''}" if threads else str(model)


def gpus(environment: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The GPUs of a machine, none for one without."""
    return list(environment.get("gpus") or [])


def _memory(environment: Mapping[str, Any]) -> int:
    """Bytes of memory that programs may use: the container's limit, else all; 0 when unknown."""
    memory = environment.get("memory") or {}
    return int(memory.get("limit_bytes") or memory.get("total_bytes") or 0)


def card() -> str:
    """This machine as a definition list: what it is, and the ceilings measured on it."""
    from inferlab import hardware

    facts = {**_facts(here()), **_ceilings(hardware.known_ceilings())}
    rows = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd></div>"
        for name, text in facts.items()
    )
    return f'<dl class="il-machine" aria-label="This machine">{rows}</dl>'


def _facts(found: Mapping[str, Any]) -> dict[str, str]:
    cpu = found.get("cpu") or {}
    facts = {"Processor": str(cpu.get("model") or "unknown")}
    if cores := cpu.get("usable"):
        facts["Cores"] = str(cores)
    if total := _memory(found):
        facts["Memory"] = f"{total / GIB:.1f} GiB"
    for gpu in gpus(found):
        size = f", {gpu['memory_bytes'] / GIB:.0f} GiB" if gpu.get("memory_bytes") else ""
        facts["GPU"] = f"{gpu.get('name')}{size}"
    facts.setdefault("GPU", "none")
    return facts


def _ceilings(known: Mapping[str, Any]) -> dict[str, str]:
    """The best sustained rates; `known` holds one device's ceilings, or one set for each device."""
    facts: dict[str, str] = {}
    sets = [known] if "matmul_flop_s" in known else list(known.values())
    for found in sets:
        where = str(found.get("device", "")).upper()
        for dtype, rate in (found.get("matmul_flop_s") or {}).items():
            facts[f"Matrix products, {dtype}, {where}"] = f"{_best(rate) / 1e12:.2f} TFLOP/s"
        for name, key in (("Reading", "read_bytes_s"), ("Copying", "copy_bytes_s")):
            if key in found:
                facts[f"{name} memory, {where}"] = f"{_best(found[key]) / 1e9:.1f} GB/s"
    return facts


def _best(rate: Any) -> float:
    from inferlab.hardware import sustained

    return sustained(rate) if isinstance(rate, Mapping) else float(rate)
