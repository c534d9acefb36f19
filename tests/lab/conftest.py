"""A throwaway lab in this process, and the real command in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from throwaway_lab import QUIET, Command, Lab

from inferlab import hardware
from inferlab.hardware import limits


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab in this process; the machine is taken as quiet, which saves the time to look."""
    monkeypatch.setattr(hardware, "noise", lambda: QUIET)
    root = tmp_path / "clone"
    (root / "snippets").mkdir(parents=True)
    (root / "mkdocs.yml").touch()
    return Lab(root, tmp_path / "records")


@pytest.fixture
def command(lab: Lab, home: Path, tmp_path: Path) -> Iterator[Command]:
    """Start a real `inferlab lab ...` in the clone, with a home of its own where the ceilings are
    known, and a lock of its own: other labs on this machine must not hold a test up."""
    lab.records, lab.device = home / "records", "cpu"
    one = {"median": 1e9, "low": 1e9, "high": 1e9, "samples": [1e9]}
    known = limits.Ceilings("cpu", {"float32": one}, one, one, "2026-01-01T00:00:00+00:00", 1)
    content = {"version": limits._VERSION, "basis": limits._basis(), "ceilings": asdict(known)}
    path = limits._path("cpu")
    path.parent.mkdir(parents=True)
    path.write_text(limits.json.dumps(content))
    started = []

    def start(*arguments: str, folder: Path | None = None) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "inferlab", "lab", *arguments],
            cwd=folder or lab.root,
            env=os.environ | {"TMPDIR": str(tmp_path), "INFERLAB_DEVICE": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
