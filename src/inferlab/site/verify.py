"""Check the built site: what MkDocs does not, above all in what blocks have written.

It reads the files alone, so it also checks a site that was built elsewhere.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from inferlab.errors import InferlabError
from inferlab.lab.charts import MAX_BYTES
from inferlab.site.page import Facts, css_addresses, read_page
from inferlab.site.state import Problem

_TRACEBACK = "Traceback (most recent call last)"
_IMAGE_THEMES = {"only-light", "only-dark"}  # fragments that Material's style sheet reads


@dataclass
class _Built:
    """The built site: its files by address, and what each page holds."""

    folder: Path
    files: set[str] = field(default_factory=set)
    pages: dict[str, Facts] = field(default_factory=dict)
    prefix: str = "/"  # where the site stands on its host


def verify(site_dir: Path, *, allow_unmeasured: bool = False) -> list[Problem]:
    """All problems of the built site, each with its page; none when it may be published.

    With `allow_unmeasured`, results that were not measured are no problem. Raises InferlabError
    when there is no site in `site_dir`.
    """
    built = _read(site_dir)
    problems = [
        Problem(page, text)
        for page, facts in built.pages.items()
        for text in (
            *_page_problems(facts),
            *(() if allow_unmeasured else _unmeasured(facts)),
            *_address_problems(built, page, facts),
        )
    ]
    return [*problems, *_file_problems(built)]


def _read(site_dir: Path) -> _Built:
    if not (site_dir / "index.html").is_file():
        raise InferlabError(f"no built site in {site_dir}: run inferlab site build first")
    built = _Built(site_dir)
    for path in sorted(site_dir.rglob("*")):
        if path.is_file():
            address = path.relative_to(site_dir).as_posix()
            built.files.add(address)
            if path.suffix == ".html":
                built.pages[address] = read_page(path.read_text(encoding="utf-8"))
    canonical = built.pages["index.html"].canonical
    if canonical:
        built.prefix = urlsplit(canonical).path or "/"
    return built


def _page_problems(facts: Facts) -> Iterator[str]:
    if _TRACEBACK in facts.text:
        after = facts.text.partition(_TRACEBACK)[2].strip().splitlines()
        yield f"shows a Traceback {' '.join(line.strip() for line in after[:6])[:200]}"
    if not facts.lang:
        yield "<html> has no lang"
    if facts.headings != 1:
        yield f"has {facts.headings} headings of level 1, not exactly one"
    for name, count in Counter(facts.ids).items():
        if count > 1:
            yield f"the id {name!r} stands on {count} elements"
    for source in facts.without_alt:
        yield f"the image {source} has no alt text"
    if facts.untitled_diagrams:
        yield f"{facts.untitled_diagrams} Mermaid diagrams have no accTitle"
    for call in re.findall(r"\{\{.{0,60}", facts.prose):
        yield f"shows an unresolved {call!r}"


def _unmeasured(facts: Facts) -> Iterator[str]:
    for snippet, state in facts.results.items():
        if state not in ("shown", "unavailable"):
            yield f"the result of snippet {snippet} is {state or 'empty'}"
    if facts.missing_values:
        yield f"{facts.missing_values} values in its sentences are not measured"


def _address_problems(built: _Built, page: str, facts: Facts) -> Iterator[str]:
    for address in dict.fromkeys(facts.fetched):
        if _is_foreign(address):
            yield f"asks another host for {address}"
        elif problem := _unresolved(built, page, address):
            yield problem
    for address in dict.fromkeys(facts.links):
        inside = not urlsplit(address).scheme and not address.startswith("//")
        if inside and (problem := _unresolved(built, page, address)):
            yield problem


def _unresolved(built: _Built, page: str, address: str) -> str | None:
    """Why an address of this site leads nowhere, seen from `page`; None when it resolves."""
    parts = urlsplit(address)
    if parts.scheme == "data":
        return None
    target = _target(built, page, unquote(parts.path))
    if target is None:
        return f"the link {address} leads to nothing in the site"
    fragment = unquote(parts.fragment)
    if not fragment or fragment in _IMAGE_THEMES or target not in built.pages:
        return None
    if fragment in built.pages[target].ids:
        return None
    return f"the link {address} leads to an anchor that {target} does not have"


def _target(built: _Built, page: str, path: str) -> str | None:
    """The file that a path means, None when there is none."""
    if not path:
        return page
    if path.startswith("/"):
        if not path.startswith(built.prefix):
            return None
        joined = path.removeprefix(built.prefix)
    else:
        joined = (PurePosixPath(page).parent / path).as_posix()
    found = normpath(joined) if joined else "."
    for candidate in (found, normpath(f"{found}/index.html")):
        if candidate in built.files:
            return candidate
    return None


def _file_problems(built: _Built) -> Iterator[Problem]:
    for address in sorted(built.files):
        path = built.folder / address
        if path.suffix == ".css":
            yield from _style_problems(built, address, path.read_text(encoding="utf-8"))
        elif path.suffix == ".svg":
            for fetched in read_page(path.read_text(encoding="utf-8")).fetched:
                if _is_foreign(fetched):
                    yield Problem(address, f"asks another host for {fetched}")
            size = path.stat().st_size
            if address.startswith("assets/charts/") and size > MAX_BYTES:
                yield Problem(address, f"the chart takes {size:,} bytes, more than {MAX_BYTES:,}")
        elif path.suffix == ".json" and address.startswith("records/"):
            try:
                json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                yield Problem(address, f"the record is not JSON: {error}")


def _style_problems(built: _Built, address: str, css: str) -> Iterator[Problem]:
    for fetched in css_addresses(css):
        if _is_foreign(fetched):
            yield Problem(address, f"asks another host for {fetched}")
        elif _target(built, address, unquote(urlsplit(fetched).path)) is None:
            yield Problem(address, f"the address {fetched} leads to nothing in the site")


def _is_foreign(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https")
