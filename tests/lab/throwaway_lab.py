"""A clone with tiny snippets, and a lab that measures them with real child processes."""

import io
import subprocess
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferlab.lab import run as lab_run
from inferlab.lab.progress import Progress
from inferlab.lab.store import Status, Store

QUIET = {"load_average_1m": 0.0, "others_busy": 0.0, "steal": 0.0, "over_s": 0.0}
GOOD = '''
    """How fast is a fake clock?"""
    from inferlab import lab

    rows = [{"n": n, "s": [0.1 * n, 0.12 * n]} for n in lab.pick(quick=[1, 2], full=[1, 2, 4])]
    lab.record(
        rows=rows,
        columns=[lab.Column("n", "work"), lab.Column("s", "time", "s")],
        finding=f"The clock was read {len(rows)} times.",
        chart=lab.Chart("line", "n", "s"),
    )
'''


@dataclass
class Lab:
    """One throwaway clone, its records, and what the lab said."""

    root: Path
    records: Path
    package: Path | None = None
    device: str = "auto"
    said: io.StringIO = field(default_factory=io.StringIO)
    ceilings_measured: list[bool] = field(default_factory=list)

    def snippet(self, name: str, text: str = GOOD) -> Path:
        """Write a snippet; the text may be indented."""
        path = self.root / "snippets" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
        return path

    def run(self, *names: str, **options: Any) -> lab_run.RunReport:
        """Measure in this process, each snippet in a child."""
        options = {"measure_ceilings": self.ceilings_measured.append, **options}
        return lab_run.run_all(
            names,
            root=self.root,
            records=self.records,
            package=self.package,
            lock=self.root / "lock",
            ui=Progress(self.said),
            **options,
        )

    def store(self) -> Store:
        return Store(self.root, records=self.records, package=self.package)

    def status(self, name: str, profile: str = "quick", device: str = "") -> Status:
        return self.store().status(name, profile, device or self.device)

    def states(self) -> dict[str, str]:
        names = [snippet.name for snippet in lab_run.discover(self.root)]
        return {name: self.status(name).state for name in names}


Command = Callable[..., "subprocess.Popen[str]"]


def ended(process: "subprocess.Popen[str]", timeout: float = 60) -> tuple[int, str, str]:
    """Its exit status and what it wrote to stdout and stderr."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err
