"""A built demo site for tests that only read it, and fresh projects for those that change one."""

import json
import shutil
from pathlib import Path

import pytest
from site_project import INDEXES, Project, make_project

from inferlab.lab import schema

FULL_PAGE = """# Demo

The square is {{ value("demo/squares", "square", row=-1) }}. {{ finding("demo/squares") }}
Elsewhere it was {{ value("demo/on_gpu", "square", row=1) }}. This is {{ machine() }}. $a^2$ and

$$
\\frac{a}{b}
$$

```python exec="true"
from inferlab.site.blocks import code, finding, machine, result, value
result("demo/squares")
result("demo/on_gpu")
finding("demo/squares")
value("demo/squares", "number", row=-1)
code("snippets/demo/squares.py", section="square")
code("snippets/demo/squares.py", section="loop", title="The loop")
machine()
```

```mermaid
flowchart TB
  accTitle: A prompt is prefilled, then decoded
  P[Prompt] --> F[Prefill]:::prefill --> D[Decode]:::decode
```

```python exec="true"
print("| n | square |\\n|--:|--:|")
for n in (1, 2):
    print(f"| {n} | {n * n} |")
```
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with every kind of block, built once; tests only read it."""
    folder = tmp_path_factory.mktemp("built")
    project = make_project(folder / "clone", folder / "home")
    project.build().check_returncode()
    add_recorded(project, "demo/on_gpu")
    add_recorded(project, "demo/squares")
    project.page("index.md", FULL_PAGE)
    project.page("more/indexes.md", INDEXES)
    done = project.build()
    assert done.returncode == 0, done.stderr
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    """A project of the test's own, whose two snippets are measured already."""
    for name in ("records", "charts", "ceilings"):
        shutil.copytree(built.home / name, tmp_path / "home" / name)
    return make_project(tmp_path / "clone", tmp_path / "home")


def add_recorded(project: Project, name: str) -> None:
    """Give the project a record of `name` from a machine with a GPU and random weights."""
    record = json.loads(project.records("demo/squares")[0].read_text(encoding="utf-8"))
    record["snippet"] = name
    record["environment"] |= {
        "device": "cuda",
        "gpus": [{"name": "NVIDIA H200", "memory_bytes": 150 * 10**9, "driver": "1"}],
        "fingerprint": {"gpus": ["NVIDIA H200"]},
    }
    record["model"] = {
        "name": "llama-3.1-8b",
        "weights": "random weights, speed only",
        "dtype": "bfloat16",
    }
    record["source"] |= {"commit": "0123456789abcdef", "dirty": True}
    record["key"] = schema.key_of(record)
    path = project.root / "docs/recorded/nvidia-h200" / f"{name.replace('/', '__')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
