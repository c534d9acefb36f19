"""Check the built site."""

from pathlib import Path

from inferlab.site.state import Problem


def verify(site_dir: Path, *, allow_unmeasured: bool = False) -> list[Problem]:
    """All problems of the built site."""
    return []
