"""The command-line and API pages say all there is, and their examples run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inferlab.cli.main import COMMANDS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SOURCE = Path(__file__).parents[2] / "src"


def fences(page: str, opening: str) -> list[str]:
    """The code of each fence that begins with that line."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{re.escape(opening)}\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def api_names() -> set[str]:
    """The headings that the API page prints."""
    printed: list[str] = []
    names: dict[str, Any] = {"print": lambda *parts, **_: printed.extend(map(str, parts))}
    for code in fences("api.md", 'python exec="true" session="api"'):
        exec(code, names)
    return set(re.findall(r"^#+ (\S+)$", "\n".join(printed), re.MULTILINE))


def test_the_command_line_page_shows_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = fences("cli.md", 'python exec="true"')
    exec(code, {})
    shown = set(re.findall(r"^#+ inferlab (\S+)$", capsys.readouterr().out, re.MULTILINE))
    assert shown == set(COMMANDS)


def test_the_command_line_page_names_every_variable() -> None:
    """Of those that a user sets; INFERLAB_RECORD_TO is the lab's own."""
    used = {
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r"\"(INFERLAB_[A-Z_]+)\"", path.read_text(encoding="utf-8"))
    }
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(INFERLAB_\w+)`", page, re.MULTILINE)) == used - {
        "INFERLAB_RECORD_TO"
    }


@pytest.mark.parametrize("package", ["trace", "cost", "hardware", "lab"])
def test_the_api_page_shows_every_function_and_class(package: str, api_names: set[str]) -> None:
    module = __import__(f"inferlab.{package}", fromlist=["__all__"])
    callables = {n for n in module.__all__ if getattr(getattr(module, n), "__doc__", None)}
    made_here = {n for n in callables if hasattr(getattr(module, n), "__qualname__")}
    assert {f"{package}.{n}" for n in made_here - {"Shape"}} <= api_names


def test_the_api_page_shows_what_the_package_exports(api_names: set[str]) -> None:
    import inferlab

    assert set(inferlab.__all__) - {"lab", "Trace"} <= api_names
    assert {"trace.Trace", "Completion", "LLM.generate", "LLM.random"} <= api_names


def test_the_first_example_of_the_api_page_runs() -> None:
    [example] = fences("api.md", "python")
    run = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, env=os.environ, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(" Paris")
