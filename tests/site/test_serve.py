"""The preview: a prose edit shows and measures nothing, a snippet's edit is measured and shown."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from site_project import SQUARES, Project

LIMIT_S = 60.0  # a machine that others keep busy may take long; no test asserts a time


@contextmanager
def serving(project: Project, *options: str) -> Iterator[Callable[[str, str], str]]:
    """Serve the project; gives a function that waits until an address shows a text."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = project.root / "serve.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "inferlab", "site", "serve", "--address", address, *options],
            cwd=project.root,
            env=project.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )

        def shows(path: str, text: str) -> str:
            end = time.monotonic() + LIMIT_S
            page = ""
            while time.monotonic() < end and process.poll() is None:
                with suppress(OSError):
                    page = urllib.request.urlopen(f"http://{address}/{path}").read().decode()
                    if text in page:
                        return page
                time.sleep(0.1)
            pytest.fail(f"{text!r} is not in {page[-500:]!r}\n{log.read_text()}")

        try:
            yield shows
        finally:
            process.terminate()
            process.wait(20)


def test_an_edit_shows_and_measures_just_what_was_edited(project: Project) -> None:
    before = project.records("demo/squares")
    project.page("other.md", "# Other\n")
    with serving(project) as shows:
        shows("", "The square of 5 is 25.")
        project.page("index.md", project_page(project).replace("# Demo", "# Edited title"))
        page = shows("", "Edited title")
        assert "The square of 5 is 25." in page
        assert project.records("demo/squares") == before
        project.page("other.md", '# Other\n\n{{ value("no/such", "x") }}\n')
        shows("other/", "no snippet or chapter")  # a preview goes on, and shows what is wrong
        project.snippet("demo/squares", SQUARES.replace("range(1, 6)", "range(1, 8)"))
        shows("", "The square of 7 is 49.")
        assert len(project.records("demo/squares")) == 2


def test_a_preview_can_render_all_pages(project: Project) -> None:
    with serving(project, "--whole", "--execute", "never") as shows:
        shows("", "The square of 5 is 25.")


def project_page(project: Project) -> str:
    return (project.root / "docs/index.md").read_text(encoding="utf-8")
