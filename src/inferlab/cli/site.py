"""`inferlab site`: build the site with this machine's results, preview it, check what was built.

`mkdocs build --strict` does the same job; these commands set it up and say plainly what failed.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from inferlab.cli.lab import Device, Profile
from inferlab.errors import InferlabError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Build the site from this machine's measurements, preview it, check what was built.",
)


class Execute(StrEnum):
    """Which snippets a build measures."""

    auto = "auto"
    always = "always"
    never = "never"


ExecuteOption = Annotated[
    Execute | None,
    typer.Option(help="Measure what is missing or stale (auto), everything anew, or nothing."),
]
ProfileOption = Annotated[Profile | None, typer.Option(help="How much the snippets measure.")]
DeviceOption = Annotated[Device | None, typer.Option(help="Where the snippets compute.")]


@app.command()
def build(
    execute: ExecuteOption = None,
    profile: ProfileOption = None,
    device: DeviceOption = None,
    strict: Annotated[bool, typer.Option(help="Let warnings fail the build.")] = True,
    site_dir: Annotated[Path | None, typer.Option(help="Where to write; default: site/.")] = None,
) -> None:
    """Measure what is missing, render all pages, and check them; status 1 when a check fails."""
    config_file = _prepare(execute, profile, device)
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    with _plain_messages():
        config = load_config(
            str(config_file),
            strict=strict,
            site_dir=str(site_dir.resolve()) if site_dir else None,
        )
        config.plugins.on_startup(command="build", dirty=False)
        try:
            mkdocs_build(config)
        finally:
            config.plugins.on_shutdown()
    typer.echo(_summary(Path(config.site_dir)))


@app.command()
def serve(
    execute: ExecuteOption = None,
    profile: ProfileOption = None,
    device: DeviceOption = None,
    address: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1:8000",
    whole: Annotated[
        bool, typer.Option("--whole", help="Render all pages after an edit, not the edited alone.")
    ] = False,
) -> None:
    """Preview the site: an edit of a page shows at once, an edit of a snippet is measured first."""
    config_file = _prepare(execute, profile, device)
    from mkdocs.commands.serve import serve as mkdocs_serve

    with _plain_messages():
        mkdocs_serve(
            str(config_file), build_type=None if whole else "dirty", dev_addr=address, strict=False
        )


@app.command()
def verify(
    site_dir: Annotated[Path | None, typer.Argument(help="The built site; default: site/.")] = None,
) -> None:
    """Check a built site: links, anchors, images, ids, alt texts, results, no foreign requests."""
    from inferlab.lab.store import find_root
    from inferlab.site.verify import verify as problems_of

    folder = site_dir or find_root() / "site"
    problems = problems_of(folder)
    for problem in problems:
        typer.echo(str(problem), err=True)
    if problems:
        raise InferlabError(f"{len(problems)} problem(s) in {folder}")
    typer.echo(_summary(folder))


def _prepare(execute: Execute | None, profile: Profile | None, device: Device | None) -> Path:
    """Hand the options to the hook through the environment; return the path of mkdocs.yml."""
    from importlib.util import find_spec

    from inferlab.lab.store import find_root

    if find_spec("mkdocs") is None or find_spec("material") is None:
        raise InferlabError("the site needs MkDocs: pip install -e '.[docs]' in the clone")
    for variable, chosen in (
        ("INFERLAB_EXECUTE", execute),
        ("INFERLAB_PROFILE", profile),
        ("INFERLAB_DEVICE", device),
    ):
        if chosen is not None:
            os.environ[variable] = chosen.value
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    config_file = find_root() / "mkdocs.yml"
    if not config_file.is_file():
        raise InferlabError(f"no {config_file}: the site is built from a clone of the repository")
    return config_file


def _summary(folder: Path) -> str:
    pages = len(list(folder.rglob("*.html")))
    results = len(list((folder / "records").glob("*.json")))
    return f"{folder}: {pages} pages with {results} records of this machine, all checks passed"


class _NotDirty(logging.Filter):
    """Drops MkDocs' warning that a preview renders only what was edited: that is what is asked."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep all but that warning."""
        return "'dirty' build" not in record.getMessage()


@contextmanager
def _plain_messages() -> Iterator[None]:
    """Show MkDocs' log as plain lines, and its way of giving up as a status."""
    from mkdocs.exceptions import Abort, MkDocsException

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.addFilter(_NotDirty())
    logger = logging.getLogger("mkdocs")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    except Abort as error:
        # What was wrong is on the screen already; this says only that it ends here.
        raise InferlabError("the site was not built; see above") from error
    except MkDocsException as error:
        raise InferlabError(str(error)) from error
    finally:
        logger.removeHandler(handler)
