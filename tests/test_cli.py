"""The command line as a user meets it: help, version, one-line errors, Ctrl-C, a closed pipe."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from inferlab.cli.main import COMMANDS

HEAVY = ("torch", "matplotlib", "numpy", "rich", "transformers", "mkdocs")
# A command that is there only for the test, in the place where real ones are registered.
RUN_FAKE = """
import sys
from inferlab.cli import main
main.COMMANDS["fake"] = "fake_command"
main.main()
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "inferlab", *arguments], capture_output=True, text=True, timeout=120
    )


def fake(folder: Path, body: str) -> "subprocess.Popen[str]":
    """Start `inferlab fake`, whose function has this body."""
    (folder / "fake_command.py").write_text(
        "import sys, time\nfrom inferlab.errors import InferlabError\n\n"
        f"def fake() -> None:\n    {body}\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", RUN_FAKE, "fake"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_every_command_with_what_it_does(flag: str) -> None:
    done = run(flag)
    assert done.returncode == 0
    listed = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line[:3]}
    for command in COMMANDS:
        assert command in listed, f"{command} is not in:\n{done.stdout}"
        assert len(listed[command]) >= 2, f"{command} has no description"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([c, "-h"] for c in COMMANDS)])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys, atexit\n"
        f"sys.argv = ['inferlab', *{arguments!r}]\n"
        "from inferlab.cli.main import main\n"
        f"heavy = {HEAVY!r}\n"
        "atexit.register(lambda: print('heavy:', [n for n in heavy if n in sys.modules]))\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("heavy: []")


def test_no_arguments_show_the_help() -> None:
    done = run()
    assert done.returncode == 2
    assert done.stderr == run("--help").stdout


def test_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"inferlab {version('inferlab')}\n"


def test_an_unknown_command_suggests_the_near_one() -> None:
    done = run("generat")
    assert done.returncode == 2
    assert "generat" in done.stderr
    assert "Did you mean 'generate'?" in done.stderr


def test_an_error_is_one_line_without_traceback() -> None:
    done = run("model", "info", "no-such-model")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_bug_shows_its_traceback(tmp_path: Path) -> None:
    process = fake(tmp_path, "raise ZeroDivisionError('a bug')")
    _, problem = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "ZeroDivisionError: a bug" in problem


def test_ctrl_c_ends_with_130_and_without_traceback(tmp_path: Path) -> None:
    process = fake(tmp_path, "print('ready'); time.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, problem = process.communicate(timeout=60)
    assert process.returncode == 130
    assert problem == "interrupted\n"


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    process = fake(tmp_path, "[print('line', n) for n in range(1_000_000)]")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "line 0\n"
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


def test_installing_gives_the_command() -> None:
    command = Path(sys.executable).with_name("inferlab")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"inferlab {version('inferlab')}\n"
