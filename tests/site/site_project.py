"""A small project with this repository's mkdocs.yml, two snippets that need no model, one page."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from inferlab.hardware import Ceilings, limits

REPO = Path(__file__).parents[2]

SQUARES = '''"""How fast does the square of a number grow?"""

from inferlab import lab


def square(number: int) -> int:
    return number * number


def main() -> None:
    # [start:loop]
    rows = [
        {"number": n, "square": square(n), "time": [n + 1.0, n + 1.25, n + 1.5]}
        for n in range(1, 6)
    ]
    # [end:loop]
    lab.record(
        rows=rows,
        columns=[
            lab.Column("number", "number"),
            lab.Column("square", "square", "m²"),
            lab.Column("time", "time", "ms", digits=2),
        ],
        finding=f"The square of {rows[-1]['number']} is {rows[-1]['square']}.",
        chart=lab.Chart("line", x="number", y="square", title="Squares grow fast."),
        notes=["Computed, not timed."],
    )


if __name__ == "__main__":
    main()
'''

GPU = '''"""What does a GPU do here?"""

from inferlab import lab

lab.require("package:no_such_gpu_package")
'''

INDEX = """# Demo

The square is {{ value("demo/squares", "square", row=-1) }}, which is
{{ value("demo/squares", "square", row="max", over=0) }} times the first. {{ machine() }}.

Literally: `{{ value("demo/squares", "square") }}`.

```python exec="true"
from inferlab.site.blocks import result
result("demo/squares")
```
"""

INDEXES = """# Indexes

{{ finding("demo/squares") }}

```python exec="true"
from inferlab.site.blocks import record_index, snippet_index
snippet_index()
record_index()
```
"""


@dataclass
class Project:
    """A clone in miniature, and how to build it in a process of its own."""

    root: Path
    home: Path

    @property
    def site(self) -> Path:
        return self.root / "site"

    def page(self, name: str, text: str) -> None:
        path = self.root / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def snippet(self, name: str, text: str) -> Path:
        path = self.root / "snippets" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def build(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "mkdocs", "build", "--strict", *arguments, **environment)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.root,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=200,
        )

    def environment(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("INFERLAB_")}
        ours = {
            "INFERLAB_HOME": str(self.home),
            "TMPDIR": str(self.home),  # labs of other users of this machine must not be waited for
            "NO_MKDOCS_2_WARNING": "1",
            "SOURCE_DATE_EPOCH": "1700000000",
        }
        return kept | ours | more

    def records(self, snippet: str) -> list[Path]:
        return sorted((self.home / "records" / snippet).glob("*.json"))

    def html(self, name: str = "index.html") -> str:
        return (self.site / name).read_text(encoding="utf-8")


def make_project(root: Path, home: Path) -> Project:
    """Create the project; its ceilings are given, so that no build spends time on them."""
    config = (REPO / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[0]
    hook = str(REPO / "src/inferlab/site/hook.py")
    project = Project(root, home)
    root.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    (root / "mkdocs.yml").write_text(config.replace("src/inferlab/site/hook.py", hook) + "\n")
    assets = root / "docs" / "assets"
    assets.mkdir(parents=True)
    for name in ("inferlab.css", "mermaid-palette.js"):
        shutil.copy(REPO / "docs/assets" / name, assets)
    (assets / "vendor").symlink_to(REPO / "docs/assets/vendor")
    project.snippet("demo/squares", SQUARES)
    project.snippet("demo/on_gpu", GPU)
    project.page("index.md", INDEX)
    _give_ceilings(home)
    return project


def _give_ceilings(home: Path) -> None:
    rate = {"median": 9.0, "low": 8.0, "high": 10.0, "samples": [8.0, 9.0, 10.0]}
    known = Ceilings("cpu", {"float32": rate}, rate, rate, "2026-01-01T00:00:00+00:00", 1)
    content = {"version": limits._VERSION, "basis": limits._basis(), "ceilings": asdict(known)}
    path = home / "ceilings" / limits._path("cpu").name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
