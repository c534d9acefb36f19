"""verify names each page and problem of a built site, and finds nothing wrong with a good one."""

from pathlib import Path

import pytest
from site_project import Project

from inferlab.errors import InferlabError
from inferlab.site.page import css_addresses, read_page
from inferlab.site.verify import verify

HEAD = '<html lang="en"><head><link rel="canonical" href="https://example.org/base/"></head><body>'
GOOD = HEAD + '<h1 id="top">Title</h1><a href="sub/#there">to</a></body></html>'
SUB = HEAD + '<h1>Sub</h1><p id="there"></p><a href="../">up</a><a href="/base/sub">same</a></html>'


def site(tmp_path: Path, body: str = "", **files: str) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(GOOD.replace("</body>", body + "</body>"))
    (tmp_path / "sub/index.html").write_text(SUB)
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def problems(folder: Path) -> list[str]:
    return [str(problem) for problem in verify(folder)]


def test_a_good_site_has_no_problem(tmp_path: Path, built: Project) -> None:
    assert problems(site(tmp_path)) == []
    assert problems(built.site) == []


WRONG = [
    ('<a href="gone/">x</a>', "the link gone/ leads to nothing in the site"),
    ('<a href="/other/">x</a>', "the link /other/ leads to nothing in the site"),
    ('<a href="sub/#nowhere">x</a>', "leads to an anchor that sub/index.html does not have"),
    ('<a href="#nowhere">x</a>', "leads to an anchor that index.html does not have"),
    ('<img src="a.png" alt="a">', "the link a.png leads to nothing in the site"),
    ('<img src="sub/index.html">', "the image sub/index.html has no alt text"),
    ('<img src="https://x.org/a.png" alt="a">', "asks another host for https://x.org/a.png"),
    ('<img srcset="//x.org/a.png 2x" src="#" alt="a">', "asks another host for //x.org/a.png"),
    ('<script src="https://x.org/a.js"></script>', "asks another host for https://x.org/a.js"),
    ('<link rel="stylesheet" href="http://x.org/a.css">', "asks another host for http://x.org"),
    ('<link rel="preconnect" href="https://x.org">', "asks another host for https://x.org"),
    ("<style>p{background:url(https://x.org/a)}</style>", "asks another host for https://x.org/a"),
    ('<p style="background:url(//x.org/a)">', "asks another host for //x.org/a"),
    ('<iframe src="https://x.org/"></iframe>', "asks another host for https://x.org/"),
    ('<p id="top">', "the id 'top' stands on 2 elements"),
    ("<h1>Again</h1>", "has 2 headings of level 1, not exactly one"),
    ("<pre>Traceback (most <b>recent</b> call last):\nKeyError: 'x'</pre>", "KeyError: 'x'"),
    ('<section data-snippet="a/b" data-state="missing">', "the result of snippet a/b is missing"),
    ('<section data-snippet="a/b">', "the result of snippet a/b is empty"),
    ('<span class="il-missing">(not measured here)</span>', "1 values in its sentences"),
    ("<p>{{ vale('a/b') }}</p>", "shows an unresolved"),
    ('<pre class="mermaid"><code>flowchart TB</code></pre>', "1 Mermaid diagrams have no accTitle"),
]


@pytest.mark.parametrize(("body", "problem"), WRONG, ids=[problem for _, problem in WRONG])
def test_each_problem_is_named_with_its_page(tmp_path: Path, body: str, problem: str) -> None:
    (found,) = problems(site(tmp_path, body))
    assert found.startswith("index.html: ")
    assert problem in found


@pytest.mark.parametrize(
    "body",
    [
        '<a href="https://x.org/">a page elsewhere</a><a href="mailto:a@x.org">mail</a>',
        '<a href="#">top</a><a href="?q=1">query</a><a href="sub/index.html#there">there</a>',
        '<img src="data:image/gif;base64,AA" alt="dot"><img src="sub/" alt="" role="presentation">',
        "<code>{{ value('a/b') }}</code><script>x = '{{'</script><math><mi>{{</mi></math>",
        '<pre class="mermaid"><code>flowchart TB\n accTitle: All</code></pre><br/><a name="n"></a>',
        '<section data-snippet="a/b" data-state="unavailable"></section>',
    ],
)
def test_what_is_allowed_is_no_problem(tmp_path: Path, body: str) -> None:
    assert problems(site(tmp_path, body)) == []


def test_a_page_without_language_or_heading_is_named(tmp_path: Path) -> None:
    assert problems(site(tmp_path, bare_dot_html="<html><p>x</p></html>")) == [
        "bare.html: <html> has no lang",
        "bare.html: has 0 headings of level 1, not exactly one",
    ]


def test_files_are_checked_too(tmp_path: Path) -> None:
    folder = site(
        tmp_path,
        a_dot_css="@import 'https://x.org/b.css'; p { background: url(gone.png) } /* url(no) */",
        drawing_dot_svg='<svg><image href="https://x.org/a.png"/></svg>',
        assets__charts__big_dot_svg="<svg>" + "x" * 41_000 + "</svg>",
        records__a_dot_json="{",
    )
    assert problems(folder) == [
        "a.css: asks another host for https://x.org/b.css",
        "a.css: the address gone.png leads to nothing in the site",
        "assets/charts/big.svg: the chart takes 41,011 bytes, more than 40,000",
        "drawing.svg: asks another host for https://x.org/a.png",
        "records/a.json: the record is not JSON: Expecting property name enclosed in double quotes:"
        " line 1 column 2 (char 1)",
    ]


def test_unmeasured_results_may_be_allowed(tmp_path: Path) -> None:
    folder = site(tmp_path, '<section data-snippet="a/b" data-state="missing"></section>')
    assert verify(folder, allow_unmeasured=True) == []


def test_a_folder_without_a_site_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InferlabError, match=r"no built site in .*inferlab site build"):
        verify(tmp_path)


def test_a_page_without_canonical_address_stands_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<html lang="en"><h1>x</h1><a href="/index.html">y</a>')
    assert verify(tmp_path) == []


def test_reading_a_page() -> None:
    facts = read_page(
        '<p>a<code>b</code></p><svg><use xlink:href="#c"/></svg><source srcset="d 2x">'
    )
    assert (facts.text, facts.prose) == ("ab", "a")
    assert facts.fetched == ["#c", "d"]
    assert css_addresses("a{b:url( 'c.png' )} @import \"d.css\"; e{f:url(data:x)}") == [
        "c.png",
        "d.css",
    ]
