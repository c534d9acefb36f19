"""What a check needs to know of one built page, read with the standard library's HTML parser."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_QUIET = {"script", "style", "template", "math"}  # their text is not prose
_CODE = {"pre", "code", "kbd", "samp"}
_VOID = {
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "wbr",
}
# Attributes that make a browser fetch something, by tag. <a href> only when the reader follows it.
_FETCHED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "track": ("src",),
    "input": ("src",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
_FETCHING_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch"}
_FETCHING_LINKS |= {"modulepreload", "manifest", "apple-touch-icon"}
_CSS_URL = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")


@dataclass
class Facts:
    """One page: its ids, links, fetched addresses, images, headings, results and text."""

    lang: str | None = None
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    without_alt: list[str] = field(default_factory=list)
    headings: int = 0  # of level 1
    results: dict[str, str] = field(default_factory=dict)  # snippet -> state
    missing_values: int = 0
    untitled_diagrams: int = 0
    canonical: str | None = None
    text: str = ""  # all that is shown, code too
    prose: str = ""  # all that is shown, without code


def read_page(html: str) -> Facts:
    """Read a page, or an SVG file, from its text."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    facts = parser.facts
    facts.text, facts.prose = "".join(parser.text), "".join(parser.prose)
    return facts


def css_addresses(css: str) -> list[str]:
    """The addresses that a style sheet fetches."""
    without_comments = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    found = (m.group(1) or m.group(2) for m in _CSS_URL.finditer(without_comments))
    return [address.strip() for address in found if not address.startswith(("data:", "#"))]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.facts = Facts()
        self.text: list[str] = []
        self.prose: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag not in _VOID:
            self._open.append(tag)
        self._note_place(tag, found)
        self._note_addresses(tag, found)
        classes = found.get("class", "").split()
        if "il-missing" in classes and tag == "span":
            self.facts.missing_values += 1
        if "mermaid" in classes and tag == "pre":
            self.facts.untitled_diagrams += 1  # until its accTitle is read
        if tag == "img":
            hidden = found.get("role") == "presentation" or found.get("aria-hidden") == "true"
            if not found.get("alt", "").strip() and not hidden:
                self.facts.without_alt.append(found.get("src", ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            self.facts.fetched += css_addresses(data)
        if _QUIET.intersection(self._open):
            return
        self.text.append(data)
        if not _CODE.intersection(self._open):
            self.prose.append(data)
        elif self.facts.untitled_diagrams and "accTitle" in data:
            self.facts.untitled_diagrams -= 1

    def _note_place(self, tag: str, found: dict[str, str]) -> None:
        if tag == "html":
            self.facts.lang = found.get("lang")
        if tag == "h1":
            self.facts.headings += 1
        if "id" in found:
            self.facts.ids.append(found["id"])
        if tag == "a" and found.get("name"):
            self.facts.ids.append(found["name"])
        if "data-snippet" in found:
            self.facts.results[found["data-snippet"]] = found.get("data-state", "")

    def _note_addresses(self, tag: str, found: dict[str, str]) -> None:
        if tag == "a" and "href" in found:
            self.facts.links.append(found["href"])
        if tag == "link":
            kinds = set(found.get("rel", "").lower().split())
            if "canonical" in kinds:
                self.facts.canonical = found.get("href")
            if kinds & _FETCHING_LINKS:
                self.facts.fetched.append(found.get("href", ""))
        for name in _FETCHED.get(tag, ()):
            if name in found:
                self.facts.fetched += _addresses(name, found[name])
        if "style" in found:
            self.facts.fetched += css_addresses(found["style"])


def _addresses(attribute: str, value: str) -> list[str]:
    if attribute != "srcset":
        return [value]
    return [part.split()[0] for part in value.split(",") if part.strip()]
