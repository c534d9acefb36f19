"""This machine's measured ceilings: the speeds that no computation on it can pass.

They are measured once and kept; every bound on the site and in `inferlab measure` rests on them.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inferlab.errors import InferlabError
from inferlab.files import home, write_atomic
from inferlab.hardware.gpu import resolve_device
from inferlab.hardware.machine import describe, fingerprint
from inferlab.hardware.measuring import Sampled, measure, reached_twice

_VERSION = 1
_KNOWN_DEVICES = ("cpu", "cuda", "mps")
_MIB = 2**20
_LAST_CACHES = 8  # a buffer of so many times the last cache leaves it nothing to serve
_CPU_BUFFER = (256 * _MIB, 1024 * _MIB)
_GPU_BUFFER = 2048 * _MIB


def sustained(rate: Mapping[str, Any]) -> float:
    """The rate of a `Sampled` that bounds others: the best that was reached twice."""
    return reached_twice(rate["samples"])


@dataclass(frozen=True)
class Ceilings:
    """The fastest that a device multiplied, read and copied; FLOP/s and bytes/s, never in units.

    `matmul_flop_s` maps a dtype to its samples; a copied byte counts twice (read and written).
    The bound is the best that was reached twice: a burst that came once cannot be sustained.
    """

    device: str
    matmul_flop_s: Mapping[str, Sampled]
    read_bytes_s: Sampled
    copy_bytes_s: Sampled
    measured_at: str
    num_threads: int

    def best_flop_s(self, dtype: object) -> float:
        """FLOP/s that bound a computation in `dtype` (a name or a torch dtype)."""
        name = str(dtype).removeprefix("torch.")
        if name not in self.matmul_flop_s:
            raise InferlabError(
                f"no matmul ceiling for {name} on {self.device}; measured: "
                f"{', '.join(self.matmul_flop_s)}. Choose one of these dtypes."
            )
        return sustained(self.matmul_flop_s[name])

    @property
    def best_read_bytes_s(self) -> float:
        """Bytes/s that bound whatever has to read its operands from memory."""
        return sustained(self.read_bytes_s)

    @property
    def best_copy_bytes_s(self) -> float:
        """Bytes/s that bound a copy, counted as read plus written."""
        return sustained(self.copy_bytes_s)

    def ridge_flop_per_byte(self, dtype: object) -> float:
        """The arithmetic intensity at which compute and bandwidth limit a computation equally."""
        return self.best_flop_s(dtype) / self.best_read_bytes_s


def ceilings(device: str = "auto", refresh: bool = False) -> Ceilings:
    """The ceilings of a device, measured (5 to 15 seconds) unless this machine's are known.

    With `refresh` it measures anew, and keeps of each figure the faster measurement: a ceiling that
    was reached once holds. Raises InferlabError for a device that is not here, or a full disk.
    """
    device = resolve_device(device)
    known = _load(device)
    if known is not None and not refresh:
        return known
    found = _measure(device)
    if known is not None:
        found = _faster(known, found)
    content = {"version": _VERSION, "basis": _basis(), "ceilings": asdict(found)}
    write_atomic(_path(device), json.dumps(content, indent=1) + "\n")
    return found


def known_ceilings() -> dict[str, dict[str, Any]]:
    """The ceilings of each device that were measured on this machine, in JSON's types, by device.

    Measures nothing and imports no torch; empty before the first measurement.
    """
    found = {device: _load(device) for device in _KNOWN_DEVICES}
    return {device: asdict(known) for device, known in found.items() if known is not None}


def _measure(device: str) -> Ceilings:
    cpu = describe()["cpu"]
    num_threads = min(cpu["physical_cores"], cpu["usable"])
    rates = measure(device, _buffer_bytes(device), num_threads)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Ceilings(device, **rates, measured_at=now, num_threads=num_threads)


def _buffer_bytes(device: str) -> int:
    """How much memory to read: many times the last cache, and little of what is free."""
    if device == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
        size = min(_GPU_BUFFER, free // 4)
    else:
        caches = [cache["bytes"] * cache["count"] for cache in describe()["cpu"]["caches"].values()]
        total = describe()["memory"]["limit_bytes"] or describe()["memory"]["total_bytes"]
        low, high = _CPU_BUFFER
        size = min(max(low, _LAST_CACHES * max(caches, default=0)), high, (total or high * 8) // 8)
    return max(size // _MIB, 1) * _MIB


def _faster(known: Ceilings, found: Ceilings) -> Ceilings:
    """Of each figure the measurement that sustained more."""

    def better(old: Sampled | None, new: Sampled | None) -> Sampled:
        return max((rate for rate in (old, new) if rate), key=sustained)

    dtypes = dict.fromkeys((*known.matmul_flop_s, *found.matmul_flop_s))
    return Ceilings(
        found.device,
        {
            dtype: better(known.matmul_flop_s.get(dtype), found.matmul_flop_s.get(dtype))
            for dtype in dtypes
        },
        better(known.read_bytes_s, found.read_bytes_s),
        better(known.copy_bytes_s, found.copy_bytes_s),
        found.measured_at,
        found.num_threads,
    )


def _path(device: str) -> Path:
    return home() / "ceilings" / f"{describe()['hardware_id']}-{device}.json"


def _basis() -> dict[str, Any]:
    """What the ceilings hold for: this machine, and this build of PyTorch's kernels."""
    return {**fingerprint(), "torch": describe()["versions"]["torch"]}


def _load(device: str) -> Ceilings | None:
    """The kept ceilings; None when there are none, for another machine, or a damaged file."""
    try:
        content = json.loads(_path(device).read_text(encoding="utf-8"))
        if content["version"] != _VERSION or content["basis"] != _basis():
            return None
        known = Ceilings(**content["ceilings"])
        rates = [*known.matmul_flop_s.values(), known.read_bytes_s, known.copy_bytes_s]
        plausible = known.device == device and known.matmul_flop_s and all(map(_is_sound, rates))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return known if plausible else None


def _is_sound(rate: Sampled) -> bool:
    numbers = [rate["median"], rate["low"], rate["high"], *rate["samples"]]
    return bool(rate["samples"]) and all(math.isfinite(n) and n > 0 for n in numbers)
