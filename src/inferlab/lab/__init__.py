"""What a snippet needs to measure honestly and hand over its result.

A snippet imports this package; the runner, the store, charts and tables are submodules that it
never loads, so that their edits leave its record fresh.
"""

from inferlab.lab.memory import peak_bytes
from inferlab.lab.settings import options, pick, repeats
from inferlab.lab.snippet import (
    Chart,
    Column,
    ceilings,
    record,
    require,
    unavailable,
)
from inferlab.lab.timing import interleave, timed

__all__ = [
    "Chart",
    "Column",
    "ceilings",
    "interleave",
    "options",
    "peak_bytes",
    "pick",
    "record",
    "repeats",
    "require",
    "timed",
    "unavailable",
]

options()  # `python snippets/x/y.py --help` must answer before anything is measured
