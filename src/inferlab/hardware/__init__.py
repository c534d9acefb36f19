"""What this machine is, how fast its parts can go at most, and how busy others keep it.

Nothing here imports torch before a ceiling is measured, so the command line may ask for the rest.
"""

from inferlab.hardware.activity import noise, peak_memory_bytes
from inferlab.hardware.gpu import resolve_device
from inferlab.hardware.limits import Ceilings, ceilings, known_ceilings, sustained
from inferlab.hardware.machine import describe, fingerprint
from inferlab.hardware.measuring import Sampled

__all__ = [
    "Ceilings",
    "Sampled",
    "ceilings",
    "describe",
    "fingerprint",
    "known_ceilings",
    "noise",
    "peak_memory_bytes",
    "resolve_device",
    "sustained",
]
