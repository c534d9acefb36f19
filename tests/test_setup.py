"""`make` on a clean machine: what it says when something is missing, and what it does again.

Most tests run the real Makefile and scripts/setup with a `python` that only notes how it was called
and does what the test says, so that each fault happens at will and takes milliseconds.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = (
    *("sh", "make", "awk", "cat", "cp", "df", "dirname", "echo", "grep"),
    *("head", "ls", "mkdir", "mv", "rm", "sed", "sleep", "tail"),
)
FAKE_PYTHON = """#!/bin/sh
echo "$*" >>calls
case "$*" in
    *version_info*) echo "${FAKE_VERSION:-3.12}" ;;
    --version) echo "Python ${FAKE_VERSION:-3.12}.0" ;;
    "-c import venv, ensurepip") exit "${FAKE_VENV_STATUS:-0}" ;;
    "-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    "-m pip install"*) eval "${FAKE_PIP:-}" ;;
    "-m inferlab model fetch") eval "${FAKE_FETCH:-}" ;;
    "-m inferlab"*) echo "$INFERLAB_PROFILE $INFERLAB_DEVICE: $*" ;;
esac
"""


class Clone:
    """A copy of what set-up needs, in a folder of its own, and how to run make there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripts").mkdir(parents=True)
        for name in ("Makefile", "scripts/setup", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder / name)
        self.bin = folder.with_name(f"{folder.name}-bin")
        self.bin.mkdir()
        for tool in TOOLS:
            path = shutil.which(tool)
            assert path, f"this machine has no {tool}"
            (self.bin / tool).symlink_to(path)
        self.environment = {
            "PATH": str(self.bin), "HOME": str(folder), "INFERLAB_SETUP_KIB": "0", "LC_ALL": "C",
        }  # fmt: skip

    def add_python(self, name: str = "python3") -> None:
        path = self.bin / name
        path.write_text(FAKE_PYTHON)
        path.chmod(0o755)

    def make(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )

    def problem(self, *arguments: str, **environment: str) -> str:
        """Run make, which must fail, and return the one line that says why."""
        done = self.make(*arguments, **environment)
        assert done.returncode != 0, done.stdout
        errors = [line for line in done.stderr.splitlines() if not line.startswith("make")]
        assert len(errors) == 1, done.stderr
        return errors[0]

    def calls(self) -> list[str]:
        """How python was called since the last time this was asked."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


@pytest.fixture
def ready(clone: Clone) -> Clone:
    """A clone whose set-up is complete."""
    clone.add_python()
    assert clone.make("setup").returncode == 0
    clone.calls()
    return clone


def test_help_is_the_default_and_lists_every_target(clone: Clone) -> None:
    listed = clone.make().stdout
    assert listed == clone.make("help").stdout
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"site", "test", "serve", "lab", "check", "clean"} <= set(targets)
    for target in targets:
        assert re.search(rf"^  make {target} +\w", listed, re.MULTILINE), target
    assert "PROFILE=quick|full" in listed
    assert "DEVICE=auto|cpu|cuda|mps" in listed


def test_no_python_at_all(clone: Clone) -> None:
    assert clone.problem("site").startswith("error: no Python found; install Python 3.11 or newer")


def test_an_old_python_is_named(clone: Clone) -> None:
    clone.add_python()
    assert clone.problem("test", FAKE_VERSION="3.9") == (
        "error: Python 3.9 is too old; install Python 3.11 or newer and repeat with "
        "PYTHON=python3.12, say"
    )
    assert not (clone.folder / ".venv").exists()


def test_an_old_python_that_was_asked_for_is_named(clone: Clone) -> None:
    clone.add_python("python3.10")
    problem = clone.problem("site", "PYTHON=python3.10", FAKE_VERSION="3.10")
    assert problem == "error: PYTHON=python3.10 is Python 3.10; inferlab needs 3.11 or newer"


def test_a_python_that_is_not_there_is_named(clone: Clone) -> None:
    assert "PYTHON=/none/python does not run" in clone.problem("site", "PYTHON=/none/python")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14", "3.20", "4.0"])
def test_a_newer_python_beside_an_old_one_is_found(clone: Clone, version: str) -> None:
    clone.add_python("python3.12")
    old = clone.bin / "python3"
    old.write_text("#!/bin/sh\necho 3.9\n")
    old.chmod(0o755)
    assert clone.make("setup", FAKE_VERSION=version).returncode == 0


def test_a_missing_venv_module_says_what_to_install(clone: Clone) -> None:
    clone.add_python()
    assert "has no venv module; install it" in clone.problem("site", FAKE_VENV_STATUS="1")


def test_too_little_space_is_said_before_anything_is_made(clone: Clone) -> None:
    clone.add_python()
    problem = clone.problem("site", INFERLAB_SETUP_KIB="999999999999")
    assert re.match(r"error: \d+ MB are free at .*clone, but the set-up needs about", problem)
    assert not (clone.folder / ".venv").exists()


@pytest.mark.parametrize("option", ["PROFILE=fast", "DEVICE=gpu"])
def test_a_wrong_option_is_named(clone: Clone, option: str) -> None:
    assert clone.problem("site", option).startswith(f"error: {option}: expected ")


def test_a_disk_that_fills_up_during_installation(clone: Clone) -> None:
    clone.add_python()
    pip = "echo 'ERROR: [Errno 28] No space left on device' >>.venv/install.log; exit 1"
    assert clone.problem("site", FAKE_PIP=pip).startswith("error: the disk is full")


def test_another_problem_of_pip_shows_what_pip_said(clone: Clone) -> None:
    clone.add_python()
    pip = "echo '2026-01-01T00:00:00 ERROR: a conflict of versions' >>.venv/install.log; exit 1"
    done = clone.make("site", FAKE_PIP=pip)
    assert done.returncode != 0
    said = done.stderr.splitlines()
    assert said[0] == "a conflict of versions"
    assert said[1].startswith("error: pip could not install the packages")


def test_no_network_on_first_use(clone: Clone) -> None:
    """With the real Python and pip, and an index that nothing answers."""
    for name in ("src", "README.md", "LICENSE"):
        (clone.folder / name).symlink_to(ROOT / name)
    nowhere = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    problem = clone.problem("test", f"PYTHON={sys.executable}", PIP_RETRIES="0", **nowhere)
    assert problem.startswith("error: pip cannot reach the package index")
    assert "connect and run make again" in problem


def test_a_problem_with_the_model_is_passed_on(clone: Clone) -> None:
    clone.add_python()
    fetch = "echo 'error: wrong checksum of the model' >&2; exit 1"
    assert clone.problem("site", FAKE_FETCH=fetch) == "error: wrong checksum of the model"


def test_the_second_run_only_asks_for_the_model(ready: Clone) -> None:
    done = ready.make("site", "PROFILE=full", "DEVICE=cpu", FAKE_PIP="exit 1")
    assert done.returncode == 0, done.stderr
    assert ready.calls() == ["-m inferlab model fetch", "-m inferlab site build"]
    assert done.stdout == "full cpu: -m inferlab site build\n"


def test_tests_run_with_coverage_and_parts_without(ready: Clone) -> None:
    ready.make("test")
    assert ready.calls()[-1] == "-m pytest --cov --cov-report=term --cov-fail-under=95"
    ready.make("test", "ARGS=tests/lab -x")
    assert ready.calls()[-1] == "-m pytest tests/lab -x"


def test_a_failing_test_run_fails_make(ready: Clone) -> None:
    (ready.folder / ".venv/bin/python").write_text('#!/bin/sh\ncase "$*" in *pytest*) exit 1; esac')
    assert ready.make("test").returncode != 0


def test_changed_versions_are_installed(ready: Clone) -> None:
    with (ready.folder / "constraints.txt").open("a") as file:
        file.write("extra==1\n")
    ready.make("setup")
    calls = ready.calls()
    assert any(call.startswith("-m pip install") for call in calls)
    assert not any(call.startswith("-m venv") for call in calls)


def test_the_chosen_index_for_torch_is_kept(ready: Clone) -> None:
    ready.make("setup", "TORCH_INDEX=https://example.org/cu")
    assert any("--index-url https://example.org/cu torch" in call for call in ready.calls())
    ready.make("setup")
    assert ready.calls() == ["-m inferlab model fetch"]


def test_cuda_with_a_torch_that_has_none(ready: Clone) -> None:
    torch = ready.folder / ".venv/lib/python3.12/site-packages/torch"
    torch.mkdir(parents=True)
    (torch / "version.py").write_text("cuda: Optional[str] = None\n")
    assert "built without CUDA" in ready.problem("site", "DEVICE=cuda")
    (torch / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
    assert ready.make("site", "DEVICE=cuda").returncode == 0


def test_a_moved_clone_gets_its_own_environment(ready: Clone) -> None:
    ready.folder = ready.folder.rename(ready.folder.with_name("moved"))
    assert ready.make("setup").returncode == 0
    assert any(call.startswith("-m venv") for call in ready.calls())


def test_a_broken_environment_is_made_anew(ready: Clone) -> None:
    (ready.folder / ".venv/bin/python").unlink()
    assert "making it anew" in ready.make("setup").stdout
    assert any(call.startswith("-m venv") for call in ready.calls())


def test_an_interrupted_set_up_says_so_and_the_next_completes_it(clone: Clone) -> None:
    clone.add_python()
    process = subprocess.Popen(
        ["make", "site"],
        cwd=clone.folder,
        env=clone.environment | {"FAKE_PIP": "exec sleep 60"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    calls = clone.folder / "calls"
    while not (calls.exists() and "pip install" in calls.read_text()):
        assert time.monotonic() < deadline, "pip was not called"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, problem = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "interrupted: run make again, it goes on from here" in problem
    clone.calls()

    assert "making it anew" in clone.make("site").stdout
    assert any(call.startswith("-m pip install") for call in clone.calls())
    assert clone.make("site").returncode == 0
    assert not any("pip" in call for call in clone.calls())


def test_clean_keeps_the_environment_and_distclean_does_not(ready: Clone) -> None:
    for name in ("site", "dist", ".pytest_cache"):
        (ready.folder / name).mkdir()
    ready.make("clean")
    left = {path.name for path in ready.folder.iterdir()}
    assert ".venv" in left
    assert not {"site", "dist", ".pytest_cache"} & left
    ready.make("distclean")
    assert not (ready.folder / ".venv").exists()


@pytest.mark.parametrize("script", ["scripts/setup", ".ci/run"])
def test_scripts_can_be_run_and_parsed(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    shell = "bash" if "bash" in path.read_text().partition("\n")[0] else "sh"
    subprocess.run([shell, "-n", path], check=True)
