"""MkDocs' hook (`hooks:` in mkdocs.yml): measure, publish the results, render, check.

Measured code runs in processes of its own, never in this one. What goes wrong is collected while
the pages are rendered, and ends the build before anything is written.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Literal

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from inferlab.errors import InferlabError
from inferlab.site import mathml, state
from inferlab.site.execute import Measuring
from inferlab.site.publish import published

log = get_plugin_logger("inferlab")

_MERMAID = ("assets/vendor/mermaid/mermaid.min.js", "assets/mermaid-palette.js")
_BUNDLE = re.compile(r'<script src="[^"]*assets/javascripts/bundle\.')


class _Session:
    """What outlives one build of `mkdocs serve`."""

    serving = False
    measuring = Measuring()
    measured: tuple[str, ...] = ()  # snippets, just now
    pages: dict[str, set[str]] = {}  # noqa: RUF012 - of each snippet, the pages that show it


def on_startup(command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
    """Note whether this is a preview. That it exists keeps this module from being reloaded."""
    _Session.serving = command == "serve"
    _Session.measuring = Measuring()
    _Session.pages = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the addresses from the environment; fix the date that files of the site carry."""
    root = _root(config)
    os.environ["SOURCE_DATE_EPOCH"] = os.environ.get("SOURCE_DATE_EPOCH") or _commit_time(root)
    if address := os.environ.get("INFERLAB_REPO_URL"):
        config.repo_url = address
        config.repo_name = config.repo_name or address.rstrip("/").rpartition("/")[2]
    if not _Session.serving and (address := os.environ.get("INFERLAB_SITE_URL")):
        config.site_url = address.rstrip("/") + "/"
    return config


def on_pre_build(config: MkDocsConfig) -> None:
    """Measure what is missing or stale, before MkDocs empties the site's folder."""
    root = _root(config)
    try:
        settings = state.Settings.from_environment()
        site = state.begin(
            state.Site(root, Path(config.docs_dir), settings, serving=_Session.serving)
        )
        measured = _Session.measuring.bring_up_to_date(site)
    except InferlabError as error:
        raise PluginError(str(error)) from error
    _Session.measured = tuple(measured)
    measured = [name for name in measured if name not in site.failures]
    if measured:
        names = ", ".join(measured[:3]) + (", ..." if len(measured) > 3 else "")
        log.info(f"measured {len(measured)}: {names}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add charts, records and snippets, so that the first build already has them."""
    for uri, text in published(state.current()):
        files.append(File.generated(config, uri, content=text))
    _render_again(files)
    return files


def _render_again(files: Files) -> None:
    """A preview renders edited pages only: have it render those of newly measured snippets too."""
    for name in _Session.measured:
        for page in _Session.pages.get(name, ()):
            if (file := files.get_file_from_path(page)) is not None:
                Path(file.abs_dest_path).unlink(missing_ok=True)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Tell blocks which page they are on."""
    site = state.current()
    site.page, site.page_url = page.file.src_uri, page.url
    return markdown


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Turn TeX into MathML."""
    return mathml.convert(html)


def on_env(env: Any, **_: Any) -> Any:
    """All pages are rendered, none is written: end here when something must not be published."""
    site = state.current()
    site.page = ""
    for name, pages in site.pages.items():
        _Session.pages.setdefault(name, set()).update(pages)
    for name, failure in site.failures.items():
        where = ", ".join(sorted(_Session.pages.get(name, ()))) or "no page"
        site.problem(str(failure), page=where)
    _stop(site.problems)
    return env


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Load Mermaid on the pages that hold a diagram, before Material looks for it."""
    if '<pre class="mermaid">' not in output:
        return output
    from mkdocs.utils import get_relative_url

    addresses = (get_relative_url(script, page.url) for script in _MERMAID)
    scripts = "".join(f'<script src="{address}"></script>\n      ' for address in addresses)
    found = _BUNDLE.search(output)
    at = found.start() if found else output.rindex("</body>")
    return output[:at] + scripts + output[at:]


def on_post_build(config: MkDocsConfig) -> None:
    """Check the pages as they were written; a preview is not checked, to show edits at once."""
    if _Session.serving:
        return
    from inferlab.site.verify import verify

    unmeasured = state.current().settings.execute == "never"
    _stop(verify(Path(config.site_dir), allow_unmeasured=unmeasured))


def _stop(problems: list[state.Problem]) -> None:
    """End the build when there are problems; a preview shows them and goes on."""
    if not problems:
        return
    listed = "\n".join(f"  {problem}" for problem in problems)
    message = f"{len(problems)} problem{'s' if len(problems) != 1 else ''} in the site:\n{listed}"
    if not _Session.serving:
        raise PluginError(message)
    log.error(message)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.config_file_path).resolve().parent


def _commit_time(root: Path) -> str:
    """The last commit's time, so that two builds of the same clone are equal byte by byte."""
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "315532800"  # 1980: the earliest that archives can hold
    return done.stdout.strip() or "315532800"
