"""One result as HTML: finding, chart, table, the snippet that made it, and where it comes from."""

import html
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from inferlab.lab import tables
from inferlab.lab.schema import spread
from inferlab.lab.store import Record
from inferlab.site import machine, source
from inferlab.site.state import Shown, Site, chart_uri, record_uri

GIB, MIB = 2**30, 2**20
NOISY = 0.5  # a sample this far from its median: something else used the machine
LONG_TABLE = 12  # rows; a longer table under a chart is folded


def result_html(site: Site, shown: Shown, *, code: bool, chart: bool, table: bool) -> str:
    """All of a result; where other machines recorded it too, a tab for each machine."""
    name = shown.snippet.name
    panels = [("This machine", _own_panel(site, shown, chart, table))]
    for item in shown.recorded:
        title = f"Recorded on {hardware_name(item.record)}, {_date(item.record)}"
        body = _measured(site, item.record, item.uri, item.hardware, chart, table)
        panels.append((title, body))
    body = panels[0][1] if len(panels) == 1 else _tabs(name, panels)
    if shown.status.state == "unavailable" and len(panels) > 1:
        # What cannot be measured here must not hide what was recorded elsewhere behind a tab.
        body = panels[0][1] + _tabs(name, panels[1:])
    snippet = _snippet(site, shown) if code else ""
    question = html.escape(shown.snippet.question, quote=True)
    return (
        f'<section class="il-result" id="{anchor(name)}" data-snippet="{name}" '
        f'data-state="{_state(shown)}" aria-label="{question}">\n{body}\n{snippet}</section>\n'
    )


def anchor(name: str) -> str:
    """The id of a snippet's result on its page."""
    return "result-" + name.replace("/", "-")


def hardware_name(record: Record) -> str:
    """The device of a record without its threads: "NVIDIA H200", "AMD EPYC 9R14"."""
    environment = {**record["environment"], "num_threads": None}
    return machine.device_text(environment)


def missing_html(text: str) -> str:
    """A note that stands where a result should be."""
    return (
        '<div class="admonition warning il-missing"><p class="admonition-title">No result</p>'
        f"<p>{html.escape(text)}</p></div>"
    )


def _state(shown: Shown) -> str:
    """For the check of the built site: "shown", or why nothing is."""
    if shown.measured or shown.recorded:
        return "shown"
    return "unavailable" if shown.status.state == "unavailable" else "missing"


def _own_panel(site: Site, shown: Shown, chart: bool, table: bool) -> str:
    name, status = shown.snippet.name, shown.status
    if status.state == "unavailable":
        return (
            '<div class="admonition info il-unavailable"><p class="admonition-title">'
            f"Not measured on this machine: {html.escape(status.why)}.</p>"
            f"<p>{_repeat(f'python snippets/{name}.py')} measures it on a machine that has it.</p>"
            "</div>"
        )
    if shown.measured is None and status.state == "failed":
        return missing_html(f"Snippet {name} failed: {status.why}")
    if shown.measured is None:
        return missing_html(
            f"Not measured on this machine yet: inferlab lab run {name} ({status.why})"
        )
    stale = ""
    if status.state != "fresh":
        stale = f'<p class="il-stale">Out of date: {html.escape(status.why)}.</p>'
    return stale + _measured(site, shown.measured, record_uri(name), "", chart, table)


def _measured(site: Site, record: Record, uri: str, hardware: str, chart: bool, table: bool) -> str:
    drawn = chart and bool(record.get("chart"))
    # A chart whose title is the finding need not repeat it; search still finds it in the text.
    own = record["chart"].get("title") if drawn else None
    said = " hidden" if drawn and own in (None, "", record["finding"]) else ""
    parts = [f'<p class="il-finding"{said}>{html.escape(record["finding"])}</p>']
    if drawn:
        parts.append(_chart(site, record, hardware))
    if table:
        parts.append(_table(record, folded=drawn and len(record["rows"]) > LONG_TABLE))
    notes = list(record["notes"])
    if has_random_weights(record):
        notes.insert(0, "Random weights: this shows speed only, not what a model answers.")
    if notes:
        items = "".join(f"<li>{html.escape(str(note))}</li>" for note in notes)
        parts.append(f'<ul class="il-notes">{items}</ul>')
    parts.append(provenance(site, record, uri))
    return "\n".join(parts)


def _chart(site: Site, record: Record, hardware: str) -> str:
    """Both themes' images; Material shows the one that fits, a printer and no script the light."""
    alt = html.escape(record["finding"], quote=True)
    images = []
    for theme, loading in (("light", ""), ("dark", ' loading="lazy"')):
        uri = chart_uri(record["snippet"], theme, hardware)
        # The size keeps the text below from moving when the image arrives.
        size = "".join(
            f' {name}="{pixels}"'
            for name, pixels in zip(
                ("width", "height"), site.chart_sizes.get(uri, ()), strict=False
            )
        )
        address = f"{site.link(uri)}#only-{theme}"
        images.append(f'<img src="{address}" alt="{alt}"{size}{loading}>')
    return f'<figure class="il-chart">{"".join(images)}</figure>'


def _table(record: Record, folded: bool) -> str:
    # With a class, Material leaves the table to inferlab.css.
    body = tables.to_html(record).replace("<table>", '<table class="lab">', 1)
    if not folded:
        return body
    count = len(record["rows"])
    return f'<details class="il-rows"><summary>All {count} rows</summary>{body}</details>'


def _snippet(site: Site, shown: Shown) -> str:
    name = shown.snippet.name
    path = f"snippets/{name}.py"
    text = source.without_marks(shown.snippet.path.read_text(encoding="utf-8"))
    lines = len(text.splitlines())
    link = site.link(path)
    return (
        f'<details class="il-code" data-search-exclude>'
        f"<summary>The code: <code>{path}</code>, {lines} lines</summary>"
        f"{source.highlighted(text, path)}"
        f'<p><a href="{link}" download="{name.rpartition("/")[2]}.py">Download</a>, change it, '
        f"run it: {_repeat(f'python {path}')}</p></details>\n"
    )


def _tabs(name: str, panels: list[tuple[str, str]]) -> str:
    """Material's tabs, which work without scripts too."""
    group = f"tabs-{name.replace('/', '-')}"
    inputs, labels, blocks = [], [], []
    for number, (title, body) in enumerate(panels, 1):
        checked = ' checked="checked"' if number == 1 else ""
        inputs.append(f'<input{checked} id="{group}-{number}" name="{group}" type="radio">')
        labels.append(f'<label for="{group}-{number}">{html.escape(title)}</label>')
        blocks.append(f'<div class="tabbed-block">{body}</div>')
    return (
        f'<div class="tabbed-set tabbed-alternate" data-tabs="{group}:{len(panels)}">'
        f'{"".join(inputs)}<div class="tabbed-labels">{"".join(labels)}</div>'
        f'<div class="tabbed-content">{"".join(blocks)}</div></div>'
    )


def provenance(site: Site, record: Record, uri: str) -> str:
    """Where, when and how a record was made, with the record and the command to repeat it."""
    made = [_date(record), _commit(record["source"]), f"{record['profile']} profile"]
    if is_computed(record):
        facts = ["Computed", *made]
    else:
        facts = [
            f"Measured on {machine.device_text(record['environment'])}",
            *_model_facts(record.get("model") or {}),
            *made,
            _repeats(record),
            f"peak memory {bytes_text(record['run']['peak_memory_bytes'])}",
        ]
    text = " · ".join(html.escape(fact) for fact in facts)
    links = f'<a href="{site.link(uri)}">record (JSON)</a>'
    command = record["run"]["command"]
    return (
        f'<p class="il-provenance" data-search-exclude>{text} · {links} · '
        f"repeat: {_repeat(command)}</p>"
    )


def is_computed(record: Record) -> bool:
    """Whether arithmetic alone made a record: no model, no repeated samples, no torch."""
    cells = (cell for row in record["rows"] for cell in row.values())
    return (
        not record.get("model")
        and "torch" not in record["environment"].get("packages", {})
        and not any(isinstance(cell, Mapping) for cell in cells)
    )


def _model_facts(model: Mapping[str, Any]) -> list[str]:
    return [str(model[key]) for key in ("name", "dtype") if model.get(key)]


def has_random_weights(record: Record) -> bool:
    """Whether the record's model was made up, so that only its speed means anything."""
    model = record.get("model") or {}
    return bool(model.get("random_weights")) or "random" in str(model.get("weights", "")).lower()


def _commit(source_facts: Mapping[str, Any]) -> str:
    commit = source_facts.get("commit")
    if not commit:
        return "no commit"
    return f"commit {commit[:7]}" + (" with changes" if source_facts.get("dirty") else "")


def _repeats(record: Record) -> str:
    count = record["run"].get("repeats", 1)
    if count < 2:
        return "measured once"
    widest = max(_relative_spread(cell) for row in record["rows"] for cell in row.values())
    noisy = ": noisy, so compare with care or measure again" if widest > NOISY else ""
    return f"{count} repeats, all within {widest:.0%} of their median{noisy}"


def _relative_spread(cell: Any) -> float:
    between = spread(cell)
    if between is None or not cell["median"]:
        return 0.0
    middle = cell["median"]
    return float(max(between[1] - middle, middle - between[0]) / abs(middle))


def _date(record: Record) -> str:
    day = datetime.fromisoformat(record["run"]["started_at"])
    return f"{day.day} {day:%b %Y}"


def bytes_text(size: float) -> str:
    """A size in GiB or MiB."""
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / MIB:.0f} MiB"


def _repeat(command: str) -> str:
    return f"<code>{html.escape(command)}</code>"
