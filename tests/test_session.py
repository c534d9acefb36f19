"""The test session itself: its home, and what it says where something is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferlab import files

ROOT = Path(__file__).resolve().parents[1]
MARKED = """
import pytest

@pytest.mark.gpu
def test_gpu():
    import torch
    assert torch.cuda.is_available()

@pytest.mark.browser
def test_browser(browser_path):
    assert browser_path
"""


def run_pytest(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    without = ("INFERLAB_REAL_HOME", "INFERLAB_REQUIRE_BROWSER", "INFERLAB_BROWSER")
    clean = {name: value for name, value in os.environ.items() if name not in without}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", *arguments],
        cwd=ROOT,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_session_has_a_home_of_its_own_with_the_real_model() -> None:
    real = Path(os.environ["INFERLAB_REAL_HOME"])
    assert files.home() != real
    assert (files.home() / "models").resolve() == (real / "models").resolve()


def test_a_missing_model_is_one_clear_failure(tmp_path: Path) -> None:
    done = run_pytest("tests/test_files.py", INFERLAB_HOME=str(tmp_path))
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert f"the embedded model is not in {tmp_path / 'models'}" in said
    assert "run `inferlab model fetch`" in said
    assert "passed" not in said


@pytest.fixture
def marked(tmp_path: Path) -> str:
    """A test file with a test for a GPU and one for a browser, under the conftest of this one."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_marked.py").write_text(MARKED)
    return str(tmp_path / "test_marked.py")


def test_what_a_machine_cannot_run_is_skipped_with_the_reason(marked: str, tmp_path: Path) -> None:
    alone = {"PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    done = run_pytest("-c", "pyproject.toml", marked, **alone)
    assert done.returncode == 0, done.stdout
    assert "needs a CUDA GPU" in done.stdout
    assert "needs one of chromium, " in done.stdout
    assert "2 skipped" in done.stdout


def test_where_a_browser_must_be_there_its_absence_fails(marked: str, tmp_path: Path) -> None:
    alone = {"PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "", "INFERLAB_REQUIRE_BROWSER": "1"}
    done = run_pytest("-c", "pyproject.toml", marked, **alone)
    assert done.returncode == 1
    assert "INFERLAB_REQUIRE_BROWSER is set, but there is none of chromium" in done.stdout
