"""`mkdocs build --strict` alone measures, renders, checks; what must not be published fails it."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
from site_project import INDEXES, SQUARES, Project

from inferlab.errors import InferlabError
from inferlab.site import blocks
from inferlab.site.page import read_page


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_result_shows_finding_chart_table_code_and_provenance(built: Project) -> None:
    page = built.html()
    assert '<p class="il-finding">The square of 5 is 25.</p>' in page
    assert 'src="assets/charts/demo__squares-light.svg#only-light"' in page
    assert 'src="assets/charts/demo__squares-dark.svg#only-dark"' in page
    assert re.search(
        r'<img src="assets/charts/demo__squares-light.*? width="\d+" height="\d+"', page
    )
    assert '<td class="num">6.25 <span class="spread">(6.00–6.50)</span></td>' in page
    assert 'href="snippets/demo/squares.py" download="squares.py"' in page
    assert "3 repeats, all within 11% of their median" in page
    assert "<li>Computed, not timed.</li>" in page
    assert "python snippets/demo/squares.py" in page
    assert read_page(page).results == {"demo/squares": "shown", "demo/on_gpu": "shown"}


def test_what_this_machine_lacks_is_said_with_the_recorded_result_under_it(built: Project) -> None:
    page = built.html()
    said = page.index("Not measured on this machine: needs the Python package no_such_gpu_package")
    recorded = page.index("Recorded on NVIDIA H200", said)
    assert page.index("Random weights: this shows speed only", recorded) > recorded
    assert "commit 0123456 with changes" in page
    assert "llama-3.1-8b · bfloat16" in page
    assert 'href="recorded/nvidia-h200/demo__on_gpu.json"' in page


def test_another_machines_result_stands_beside_ours_in_a_tab(built: Project) -> None:
    page = built.html()
    assert page.index(">This machine</label>") < page.index(">Recorded on NVIDIA H200, ")
    assert 'src="assets/charts/nvidia-h200/demo__squares-light.svg#only-light"' in page


def test_values_in_a_sentence_lead_to_the_record(built: Project) -> None:
    page = built.html()
    link = 'href="records/demo__squares.json" title="Measured here: demo/squares"'
    assert f'<a class="il-value" {link}>' in page or f"{link}>25\u00a0m²</a>" in page
    assert ">25\u00a0m²</a>" in page
    record = json.loads(built.html("records/demo__squares.json"))
    assert record["rows"][-1]["square"] == 25


def test_a_value_from_another_machine_says_so(built: Project) -> None:
    assert ">4\u00a0m² (on NVIDIA H200)</a>" in built.html()


def test_code_diagrams_and_formulas(built: Project) -> None:
    page = built.html()
    assert "snippets/demo/squares.py: square" in page
    assert "[start:loop]" not in page
    assert 'aria-label="A prompt is prefilled, then decoded"' in page
    assert page.index("vendor/mermaid/mermaid.min.js") < page.index("assets/javascripts/bundle.")
    assert 'alttext="a^2"' in page
    assert '<math alttext="\\frac{a}{b}"' in page
    assert "<td" in page  # a fence that computes prints Markdown
    assert "mermaid.min.js" not in built.html("more/indexes/index.html")


def test_the_indexes_name_every_snippet_and_record(built: Project) -> None:
    page = built.html("more/indexes/index.html")
    assert 'href="../../snippets/demo/squares.py"' in page
    assert 'href="../../records/demo__squares.json" title="Measured here' in page
    assert "How fast does the square of a number grow?" in page
    assert 'href="../../recorded/nvidia-h200/demo__on_gpu.json"' in page


def test_two_builds_from_the_same_records_are_byte_identical(built: Project) -> None:
    first = contents(built.site)
    done = built.build("--site-dir", str(built.root / "again"))
    assert done.returncode == 0, done.stderr
    assert contents(built.root / "again") == first
    assert "sitemap.xml.gz" in first


def test_a_prose_edit_measures_nothing(project: Project) -> None:
    before = contents(project.home / "records")
    project.page("index.md", "# Other words\n\n{{ finding('demo/squares') }}\n")
    done = project.build()
    assert done.returncode == 0, done.stderr
    assert "snippet" not in done.stderr
    assert contents(project.home / "records") == before


def test_never_measures_nothing_and_says_what_is_missing(project: Project) -> None:
    project.snippet("demo/new", SQUARES)
    project.page(
        "index.md",
        "# New\n\n{{ value('demo/new', 'square') }} {{ finding('demo/new') }}\n\n"
        '```python exec="true"\nfrom inferlab.site.blocks import finding, result, value\n'
        'result("demo/new")\nfinding("demo/new")\nvalue("demo/new", "square")\n```\n',
    )
    done = project.build(INFERLAB_EXECUTE="never")
    assert done.returncode == 0, done.stderr
    assert not project.records("demo/new")
    assert "inferlab lab run demo/new" in project.html()
    assert "(not measured here)" in project.html()
    checked = project.run("-m", "inferlab", "site", "verify")
    assert checked.returncode == 1
    assert "the result of snippet demo/new is missing" in checked.stderr
    assert "values in its sentences are not measured" in checked.stderr


def test_never_shows_an_outdated_result_as_outdated(project: Project) -> None:
    project.snippet("demo/squares", SQUARES + "# edited\n")
    done = project.build(INFERLAB_EXECUTE="never")
    assert done.returncode == 0, done.stderr
    assert "Out of date: the snippet itself changed." in project.html()
    project.page("index.md", '# New\n\n{{ value("demo/squares", "cube") }}\n')
    assert project.build(INFERLAB_EXECUTE="never").returncode == 0
    assert "(not measured here)" in project.html()


def test_always_measures_anew(project: Project) -> None:
    (before,) = project.records("demo/squares")
    age = before.stat().st_mtime_ns
    done = project.build(INFERLAB_EXECUTE="always", INFERLAB_PROFILE="quick")
    assert done.returncode == 0, done.stderr
    assert before.stat().st_mtime_ns > age


def test_an_unknown_setting_is_refused(project: Project) -> None:
    done = project.build(INFERLAB_EXECUTE="sometimes")
    assert done.returncode == 1
    assert "INFERLAB_EXECUTE='sometimes': expected one of auto, always, never" in done.stderr


FAILING = {
    "raises": ("raise ValueError('too hot')\n", "raised ValueError: too hot"),
    "leaves": ("import sys\nsys.exit(0)\n", "before it recorded a result"),
    "status": ("import sys\nprint('bye')\nsys.exit(3)\n", "exited with status 3"),
    "nothing": ("pass\n", "before it recorded a result"),
}


def test_failing_snippets_fail_the_build_and_keep_what_was_measured(project: Project) -> None:
    project.build().check_returncode()
    published = contents(project.site)
    for name, (body, _) in FAILING.items():
        project.snippet(f"bad/{name}", f'"""Does it work?"""\n\n{body}')
    project.snippet("good/late", SQUARES)
    project.page(
        "trouble.md",
        '# Trouble\n\n```python exec="true"\nfrom inferlab.site.blocks import result\n'
        'result("bad/raises")\n```\n',
    )
    done = project.build()
    assert done.returncode == 1
    for name, (_, reason) in FAILING.items():
        assert f"snippet bad/{name}: " in done.stderr
        assert reason in done.stderr
    assert "trouble.md: snippet bad/raises: raised ValueError: too hot" in done.stderr
    assert "no page: snippet bad/status" in done.stderr
    assert "bye" in done.stderr  # its last line
    assert len(project.records("good/late")) == 1
    assert not set(contents(project.site)) & {name for name in published if ".html" in name}


def test_a_failed_snippet_is_said_to_have_failed_when_nothing_is_measured(
    project: Project,
) -> None:
    project.snippet("demo/squares", "raise ValueError('too hot')\n")
    shutil.rmtree(project.home / "records")
    assert project.build().returncode == 1
    done = project.build(INFERLAB_EXECUTE="never")
    assert done.returncode == 0, done.stderr
    assert "Snippet demo/squares failed: raised ValueError: too hot" in project.html()


def test_a_project_without_snippets_or_git_builds(project: Project) -> None:
    shutil.rmtree(project.root / "snippets/demo")
    project.page("index.md", INDEXES.replace('{{ finding("demo/squares") }}', ""))
    done = project.build(PATH="", SOURCE_DATE_EPOCH="", INFERLAB_SITE_URL="https://a.org")
    assert done.returncode == 0, done.stderr
    assert project.html().count("None yet.") == 2
    assert "<lastmod>1980-01-01</lastmod>" in project.html("sitemap.xml")


def test_a_chart_that_is_too_large_fails_the_build(project: Project) -> None:
    project.snippet(
        "demo/squares", SQUARES.replace("range(1, 6)", "range(1, 250)").replace('"line"', '"bar"')
    )
    done = project.build()
    assert done.returncode == 1
    assert "snippet demo/squares: the chart cannot be drawn: the chart of demo/squares takes" in (
        done.stderr
    )


def test_blocks_work_only_while_the_site_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferlab.site.state._current", [])
    with pytest.raises(InferlabError, match="only while MkDocs builds the site"):
        blocks.snippet_index()


BAD_PAGES = {
    "unknown.md": (
        'from inferlab.site.blocks import result\nresult("demo/squars")',
        "demo/squares",
    ),
    "chapter.md": ('from inferlab.site.blocks import result\nresult("demo")', "not one snippet"),
    "section.md": (
        'from inferlab.site.blocks import code\ncode("snippets/demo/squares.py", "cubes")',
        "no section 'cubes'",
    ),
    "file.md": ('from inferlab.site.blocks import code\ncode("../x.py")', "no such file"),
    "raises.md": ("1 / 0", "ZeroDivisionError"),
    "exits.md": ("import sys\nsys.exit(0)", "sys.exit(0)"),
}


def test_pages_that_ask_for_what_is_not_there_fail_the_build_by_name(project: Project) -> None:
    for page, (fence, _) in BAD_PAGES.items():
        project.page(page, f'# Bad\n\n```python exec="true"\n{fence}\n```\n')
    project.page("inline.md", '# Bad\n\n{{ value("demo/squares", "cube") }} {{ finding(1 + x) }}\n')
    project.page("row.md", '# Bad\n\n{{ value("demo/squares", "square", row=99) }} {{ value() }}\n')
    project.page("tex.md", "# Bad\n\n$\\frac{a}$\n")
    project.page("drawn.md", "# Bad\n\n```mermaid\nflowchart TB\n  A --> B\n```\n")
    project.page("recorded/some-gpu/demo__squares.json", "{}")
    done = project.build()
    assert done.returncode == 1
    for page, (_, reason) in BAD_PAGES.items():
        (line,) = [part for part in done.stderr.split("\n  ") if part.startswith(f"{page}: ")]
        assert reason in done.stderr[done.stderr.index(line) :]
    assert "inline.md: {{ value(" in done.stderr
    assert "has no column 'cube'; it has number, square, time" in done.stderr
    assert "arguments are literals" in done.stderr
    assert "row.md: {{ value(" in done.stderr
    assert "tex.md: cannot turn this TeX into MathML" in done.stderr
    assert "drawn.md: a Mermaid diagram has no accTitle" in done.stderr
    assert "recorded/some-gpu/demo__squares.json: cannot be shown" in done.stderr


def test_what_blocks_print_is_checked_in_the_built_page(project: Project) -> None:
    printed = (
        '<a href="nowhere/">a</a><a href="#no-such-anchor">b</a><img src="no.png" alt="c">'
        '<img src="assets/images/favicon.png"><i id="twice"></i><i id="twice"></i>'
    )
    fence = f'```python exec="true" html="true"\nprint("""{printed}""")\n```\n'
    project.page("index.md", f"# Printed\n\n{fence}\nTraceback (most recent call last): x\n")
    done = project.build()
    assert done.returncode == 1
    for problem in (
        "index.html: the link nowhere/ leads to nothing in the site",
        "index.html: the link #no-such-anchor leads to an anchor that index.html does not have",
        "index.html: the link no.png leads to nothing in the site",
        "index.html: the image assets/images/favicon.png has no alt text",
        "index.html: the id 'twice' stands on 2 elements",
        "index.html: shows a Traceback",
    ):
        assert problem in done.stderr


def test_a_broken_link_of_the_prose_fails_the_build(project: Project) -> None:
    project.page("index.md", "# Link\n\n[gone](gone.md)\n")
    done = project.build()
    assert done.returncode == 1
    assert "gone.md" in done.stderr


@pytest.mark.parametrize("address", ["https://example.org/inferlab", ""])
def test_addresses_come_from_the_environment(project: Project, address: str) -> None:
    done = project.build(INFERLAB_REPO_URL=address, INFERLAB_SITE_URL=address)
    assert done.returncode == 0, done.stderr
    assert ("https://example.org/inferlab/" in project.html("sitemap.xml")) == bool(address)
    assert ('href="https://example.org/inferlab"' in project.html()) == bool(address)
    assert project.html("404.html").count('href="/inferlab/') == 0 or address
