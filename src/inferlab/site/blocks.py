"""What a page calls in a fence with `exec="true"`: each block writes its own HTML.

An unknown snippet or section, and a snippet that failed, become problems of the page: the build
names them and fails.
"""

import html
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from inferlab.errors import InferlabError
from inferlab.lab import tables
from inferlab.lab.store import Record
from inferlab.site import machine as machines
from inferlab.site import source, state
from inferlab.site.pieces import pieces_html
from inferlab.site.replay import replay_html
from inferlab.site.result import bytes_text, hardware_name, missing_html, result_html
from inferlab.site.values import RowChoice, value_text

__all__ = [
    "code",
    "finding",
    "machine",
    "pieces",
    "record_index",
    "replay",
    "result",
    "snippet_index",
    "value",
]

P = ParamSpec("P")


def _block(make: Callable[P, str]) -> Callable[P, None]:
    """Let a function that returns HTML write it to the page; its errors are the page's problems."""

    @wraps(make)
    def block(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            state.write(make(*args, **kwargs))
        except InferlabError as error:
            state.current().problem(f"{make.__name__}: {error}")
            state.write(missing_html(str(error)))

    return block


@_block
def result(name: str, code: bool = True, chart: bool = True, table: bool = True) -> str:
    """A snippet's result: finding, chart, table, code and provenance; other machines' in tabs."""
    site = state.current()
    return result_html(site, site.shown(name), code=code, chart=chart, table=table)


@_block
def finding(name: str) -> str:
    """The finding alone, as a paragraph; inside a sentence write {{ finding("x/y") }}."""
    record = state.current().shown(name).best
    if record is None:
        return missing_html(f"Not measured on this machine yet: inferlab lab run {name}")
    link = state.current().link(_uri_of(name))
    text = html.escape(record["finding"])
    return f'<p class="il-finding"><a class="il-value" href="{link}">{text}</a></p>'


@_block
def value(
    name: str,
    column: str,
    row: RowChoice = 0,
    over: RowChoice | None = None,
    digits: int | None = None,
    unit: str | bool = True,
    scale: float = 1.0,
    percent: bool = False,
) -> str:
    """One number of a record; see `values.value_text` for the arguments."""
    record = state.current().shown(name).best
    if record is None:
        return '<span class="il-missing">(not measured here)</span>'
    text = value_text(
        record, column, row=row, over=over, digits=digits, unit=unit, scale=scale, percent=percent
    )
    link = state.current().link(_uri_of(name))
    return f'<a class="il-value" href="{link}">{html.escape(text)}</a>'


@_block
def replay(name: str) -> str:
    """A recorded request as its reader saw it: the pause, then the stream, at recorded speed."""
    return _of_record(name, replay_html)


@_block
def pieces(name: str) -> str:
    """A tokenized text as chips, one for each token."""
    return _of_record(name, pieces_html)


def _of_record(name: str, make: Callable[[Record], str]) -> str:
    record = state.current().shown(name).best
    if record is None:
        return missing_html(f"Not measured on this machine yet: inferlab lab run {name}")
    return make(record)


@_block
def code(path: str, section: str | None = None, title: str | None = None) -> str:
    """Source from the clone: a file, a function or class, or a marked region."""
    site = state.current()
    text = source.read_section(site.root, path, section)
    label = title if title is not None else f"{path}: {section}" if section else path
    return source.highlighted(text, path, label)


@_block
def machine() -> str:
    """This machine and its ceilings as a card."""
    return machines.card()


@_block
def snippet_index() -> str:
    """Every snippet with its question, where it is shown, and its time and memory here."""
    site = state.current()
    rows = []
    for name, snippet in site.snippets.items():
        record = site.statuses[name].record
        seconds = peak = tables.DASH
        if record is not None and record["status"] == "ok":
            seconds = f"{record['run']['duration_s']:,.1f}"
            peak = bytes_text(record["run"]["peak_memory_bytes"])
        link = site.link(f"snippets/{name}.py")
        rows.append(
            f'<tr><td><a href="{link}"><code>{name}</code></a></td>'
            f"<td>{html.escape(snippet.question)}</td>"
            f'<td class="num">{seconds}</td><td class="num">{peak}</td></tr>'
        )
    heads = ("Snippet", "What it answers", "Time here, s", "Peak memory here")
    return _index("Every snippet", heads, rows, numeric=(2, 3))


@_block
def record_index() -> str:
    """Every record of the site: this machine's and the recorded ones."""
    site = state.current()
    rows = []
    for name in site.snippets:
        record = site.statuses[name].record
        if record is not None:
            rows.append(_record_row(name, record, state.record_uri(name), "this machine"))
        for item in site.recorded.get(name, []):
            rows.append(_record_row(name, item.record, item.uri, hardware_name(item.record)))
    heads = ("Record", "Measured on", "Date", "Finding")
    return _index("Every record", heads, rows, numeric=())


def _record_row(name: str, record: dict[str, object], uri: str, where: str) -> str:
    run = record["run"]
    assert isinstance(run, dict)
    link = state.current().link(uri)
    return (
        f'<tr><td><a href="{link}"><code>{name}</code></a></td><td>{html.escape(where)}</td>'
        f'<td class="date">{str(run["started_at"])[:10]}</td>'
        f"<td>{html.escape(str(record['finding']))}</td></tr>"
    )


def _index(label: str, heads: tuple[str, ...], rows: list[str], numeric: tuple[int, ...]) -> str:
    if not rows:
        return "<p>None yet.</p>"
    kinds = [' class="num"' if number in numeric else "" for number in range(len(heads))]
    cells = "".join(
        f'<th scope="col"{kind}>{text}</th>' for kind, text in zip(kinds, heads, strict=True)
    )
    return (
        f'<div class="lab-table il-index" role="region" tabindex="0" aria-label="{label}">'
        '<table class="lab">'
        f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _uri_of(name: str) -> str:
    """Where the record is that `Shown.best` gives."""
    shown = state.current().shown(name)
    return state.record_uri(name) if shown.measured else shown.recorded[0].uri
