"""`inferlab generate` prints the continuation, alone, as it comes."""

import pytest
from typer.testing import CliRunner

from inferlab.cli.main import app

pytestmark = pytest.mark.weights
FRANCE = ["generate", "The capital of France is", "--max-tokens", "8", "--dtype", "float32"]


def test_the_continuation_alone_goes_to_standard_output() -> None:
    done = CliRunner().invoke(app, [*FRANCE, "--temperature", "0"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(" Paris")
    assert done.stdout.endswith("\n")
    assert "France" not in done.stdout
    assert done.stderr == ""


def test_without_the_cache_the_text_is_the_same() -> None:
    plain = CliRunner().invoke(app, [*FRANCE, "--no-cache"])
    assert plain.stdout == CliRunner().invoke(app, FRANCE).stdout


def test_statistics_go_to_standard_error() -> None:
    done = CliRunner().invoke(app, [*FRANCE, "--stats", "--stop", "aris"])
    assert done.stdout == " P\n"
    assert "TTFT" in done.stderr
    assert "ended by stop" in done.stderr
    assert "smollm2-135m in float32 on cpu: 5 prompt tokens" in done.stderr


def test_one_token_has_no_tpot() -> None:
    done = CliRunner().invoke(app, [*FRANCE, "--stats", "--max-tokens", "1"])
    assert "TPOT -" in done.stderr


def test_a_prompt_from_standard_input_in_chat_form() -> None:
    arguments = ["generate", "-", "--chat", "--system", "You are terse.", "--max-tokens", "5"]
    done = CliRunner().invoke(app, arguments, input="What is 2+2?")
    assert done.exit_code == 0
    assert done.stdout.strip()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--system", "You are terse."], "add --chat"),
        (["--top-p", "2"], "top_p must be"),
        (["--model", "nothing"], "no model 'nothing'"),
        (["--dtype", "float8"], "no dtype 'float8'"),
        (["--stop", ""], "stop must be"),
    ],
)
def test_options_that_are_refused(options: list[str], message: str) -> None:
    done = CliRunner().invoke(app, [*FRANCE, *options])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
