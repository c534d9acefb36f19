"""What the lab adds to a snippet's result: the machine, its ceilings and noise, commit and key."""

import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inferlab.errors import InferlabError
from inferlab.lab import schema
from inferlab.lab.store import fingerprint


def complete(draft: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The full record of a snippet's draft: with hardware, source, and the key over it all."""
    from inferlab import hardware

    commit, dirty = git_state(root)
    record: dict[str, Any] = schema.plain(
        {
            **draft,
            "environment": {
                **hardware.describe(),
                "python": platform.python_version(),
                "fingerprint": fingerprint(),
                **draft["environment"],
            },
            "ceilings": hardware.known_ceilings(),
            "noise": hardware.noise(),
            "source": {**draft["source"], "commit": commit, "dirty": dirty},
        }
    )
    record["key"] = schema.key_of(record)
    return record


def ceilings_measurer(device: str) -> Callable[[bool], None]:
    """A function that measures the device's ceilings unless known; given True, measures anew.

    It works in a process of its own, so that the lab itself never imports torch.
    """

    def measure(anew: bool) -> None:
        code = f"from inferlab import hardware; hardware.ceilings({str(device)!r}, refresh={anew})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if done.returncode != 0:
            tail = "\n".join(done.stderr.rstrip().splitlines()[-5:])
            raise InferlabError(f"could not measure this machine's ceilings ({device}):\n{tail}")

    return measure


def git_state(root: Path) -> tuple[str | None, bool]:
    """The commit of the clone at `root`, and whether its files differ from it; None without git."""
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit.strip(), bool(_git(root, "status", "--porcelain").strip())
    except (OSError, subprocess.SubprocessError):
        return None, False


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=True
    )
    return done.stdout
