"""Well-known accelerators and links by their vendors' datasheets: cited figures, not measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerator:
    """One device's datasheet: dense bf16 FLOP/s (not the sparse figure, which is twice as high)."""

    name: str
    bf16_flop_s: float
    bandwidth_bytes_s: float
    memory_bytes: float
    source: str = "datasheet"

    @property
    def ridge_flop_per_byte(self) -> float:
        """Dense bf16 FLOP/s over memory bandwidth."""
        return self.bf16_flop_s / self.bandwidth_bytes_s


@dataclass(frozen=True)
class Link:
    """What one device can send to others in one direction; vendors often quote twice that."""

    name: str
    bytes_s: float
    source: str = "datasheet"


def _row(name: str, tflop_s: float, tb_s: float, memory_gb: float) -> Accelerator:
    return Accelerator(name, tflop_s * 1e12, tb_s * 1e12, memory_gb * 1e9)


ACCELERATORS = (
    _row("A100-80GB", 312, 2.039, 80),
    _row("H100 SXM", 989, 3.35, 80),
    _row("H200", 989, 4.8, 141),
    _row("B200", 2250, 8, 180),
    _row("RTX 4090", 165, 1.008, 24),
    _row("RTX 3090", 71, 0.936, 24),
    _row("L4", 121, 0.30, 24),
    _row("L40S", 362, 0.864, 48),
    _row("MI300X", 1307, 5.3, 192),
)
LINKS = (
    Link("NVLink 3 (A100)", 300e9),
    Link("NVLink 4 (H100, H200)", 450e9),
    Link("NVLink 5 (B200)", 900e9),
    Link("PCIe 4.0 x16", 32e9),
    Link("PCIe 5.0 x16", 64e9),
    Link("InfiniBand NDR, 400 Gb/s", 50e9),
)
