"""The `inferlab` command: finds the command that was asked for, and turns errors into one line.

A command's module is imported when it is needed, and imports torch or matplotlib only inside its
functions, so that `inferlab --help` answers at once.
"""

import os
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from inferlab.errors import InferlabError

# Command name -> module that defines it, in the order that `--help` shows. The module holds either
# `app`, a group of commands, or a function with the command's name.
COMMANDS = {
    "generate": "inferlab.cli.generate",
    "measure": "inferlab.cli.measure",
    "model": "inferlab.cli.model",
    "lab": "inferlab.cli.lab",
    "site": "inferlab.cli.site",
    "doctor": "inferlab.cli.doctor",
}
INTERRUPTED = 130  # 128 + SIGINT
PIPE_CLOSED = 141  # 128 + SIGPIPE


class Commands(TyperGroup):
    """Loads each command on first use, and gives every command the same error handling."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the command names in the order that `--help` shows."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, imported now; None (a usage error) when there is none of the name."""
        if cmd_name not in COMMANDS:
            known: Any = dict.fromkeys(COMMANDS)
            self.commands = known  # where typer looks for near names to suggest
            return None
        module = import_module(COMMANDS[cmd_name])
        if hasattr(module, "app"):
            command: Any = get_group(module.app)
        else:
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(cmd_name)(getattr(module, cmd_name))
            command = get_command(single)
        command.name = cmd_name
        return command

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a problem that the user can act on becomes one line and a status."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except InferlabError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(1) from error
        except KeyboardInterrupt as stop:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from stop
        except BrokenPipeError as closed:
            # The reader (`head`, say) is gone; what is still buffered must not raise again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from closed
        return result


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Files are kept in the user's cache folder, or where $INFERLAB_HOME says.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"inferlab {version('inferlab')}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Understand and measure LLM inference, with code that runs on your own machine."""


def main() -> None:
    """Run the command line with `sys.argv`; the entry point of the `inferlab` command."""
    app(prog_name="inferlab")
