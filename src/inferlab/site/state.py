"""What one build of the site knows: its settings, the results it may show, the problems it met.

MkDocs loads the hook as a module of its own, so what the hook, the fences and the blocks share
stands here.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from inferlab.errors import InferlabError
from inferlab.lab import schema
from inferlab.lab.child import SnippetError
from inferlab.lab.run import Snippet, discover, select
from inferlab.lab.store import Record, Status, Store

Execute = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class Settings:
    """What a build was asked for, through the environment so that `mkdocs build` has it too."""

    execute: Execute = "auto"
    profile: str = "quick"
    device: str = "auto"

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read INFERLAB_EXECUTE, INFERLAB_PROFILE and INFERLAB_DEVICE; refuse unknown values."""
        return cls(
            _one_of("INFERLAB_EXECUTE", get_args(Execute), "auto"),  # type: ignore[arg-type]
            _one_of("INFERLAB_PROFILE", schema.PROFILES, "quick"),
            _one_of("INFERLAB_DEVICE", schema.DEVICES, "auto"),
        )


@dataclass(frozen=True)
class Problem:
    """Something that must not be published, and the page (path under docs/) it is on."""

    page: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


@dataclass(frozen=True)
class Recorded:
    """A record from another machine, kept in docs/recorded/<hardware>/."""

    hardware: str
    record: Record
    uri: str


@dataclass(frozen=True)
class Shown:
    """All that a page can show of one snippet."""

    snippet: Snippet
    status: Status
    recorded: list[Recorded]

    @property
    def measured(self) -> Record | None:
        """This machine's result, also a stale one; None when there is none."""
        record = self.status.record
        return record if record is not None and record["status"] == "ok" else None

    @property
    def best(self) -> Record | None:
        """This machine's result, else one recorded elsewhere."""
        return self.measured or next((item.record for item in self.recorded), None)


@dataclass
class Site:
    """One build, or one session of `mkdocs serve`."""

    root: Path
    docs_dir: Path
    settings: Settings
    serving: bool = False
    snippets: dict[str, Snippet] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)
    recorded: dict[str, list[Recorded]] = field(default_factory=dict)
    failures: dict[str, SnippetError] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    pages: dict[str, set[str]] = field(default_factory=dict)  # of each snippet that a page shows
    chart_sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # by address
    page: str = ""
    page_url: str = ""

    def refresh(self) -> None:
        """Look at the snippets, this machine's records and the recorded ones as they are now."""
        store = Store(self.root)
        profile, device = self.settings.profile, self.settings.device
        self.snippets = {snippet.name: snippet for snippet in discover(self.root)}
        self.statuses = {name: store.status(name, profile, device) for name in self.snippets}
        self.recorded = self._recorded()

    def shown(self, name: str) -> Shown:
        """What there is to show of a snippet; remembers that the current page uses it.

        Raises InferlabError for a name that is no snippet's.
        """
        if name not in self.snippets:
            found = select([name], list(self.snippets.values()))
            names = ", ".join(snippet.name for snippet in found)
            raise InferlabError(f"{name!r} is not one snippet; it could be: {names}")
        self.pages.setdefault(name, set()).add(self.page)
        return Shown(self.snippets[name], self.statuses[name], self.recorded.get(name, []))

    def problem(self, text: str, page: str | None = None) -> None:
        """Note what must stop this build; the current page is to blame unless another is named."""
        self.problems.append(Problem(page or self.page or "mkdocs.yml", text))

    def link(self, uri: str) -> str:
        """The address of `uri` (under the site's root) relative to the current page."""
        from mkdocs.utils import get_relative_url

        return get_relative_url(uri, self.page_url)

    def _recorded(self) -> dict[str, list[Recorded]]:
        found: dict[str, list[Recorded]] = {}
        for path in sorted((self.docs_dir / "recorded").glob("*/*.json")):
            uri = path.relative_to(self.docs_dir).as_posix()
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                schema.check_record(record)
            except (OSError, ValueError, InferlabError) as error:
                self.problem(f"cannot be shown: {error}", page=uri)
                continue
            if record["status"] == "ok":
                item = Recorded(path.parent.name, record, uri)
                found.setdefault(record["snippet"], []).append(item)
        return found


def record_uri(name: str) -> str:
    """Where the site publishes this machine's record of a snippet."""
    return f"records/{name.replace('/', '__')}.json"


def chart_uri(name: str, theme: str, hardware: str = "") -> str:
    """Where the site publishes a snippet's chart: this machine's, or another hardware's."""
    folder = f"assets/charts/{hardware}/" if hardware else "assets/charts/"
    return f"{folder}{name.replace('/', '__')}-{theme}.svg"


_current: list[Site] = []
_written: list[str] = []


def current() -> Site:
    """The build that is going on; blocks work only inside one."""
    if not _current:
        raise InferlabError("the blocks of inferlab.site work only while MkDocs builds the site")
    return _current[-1]


def begin(site: Site) -> Site:
    """Make `site` the one that blocks see."""
    _current[:] = [site]
    return site


def write(html: str) -> None:
    """Add to what the running fence shows."""
    _written.append(html)


@contextmanager
def collected() -> Iterator[list[str]]:
    """What blocks write while the context is open."""
    _written.clear()
    yield _written


def _one_of(variable: str, choices: tuple[str, ...], default: str) -> str:
    value = os.environ.get(variable) or default
    if value not in choices:
        raise InferlabError(f"{variable}={value!r}: expected one of {', '.join(choices)}")
    return value
