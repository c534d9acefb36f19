"""The files that results add to the site: charts, records as JSON, snippets to download."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from inferlab import files
from inferlab.errors import InferlabError
from inferlab.lab import schema
from inferlab.lab.store import Record, Store
from inferlab.site.state import Site, chart_uri, record_uri

THEMES = ("light", "dark")


def published(site: Site) -> Iterator[tuple[str, str]]:
    """Each file as (address under the site's root, text); they do not depend on any page."""
    charts = ChartCache(site.root)
    for name, snippet in site.snippets.items():
        yield f"snippets/{name}.py", snippet.path.read_text(encoding="utf-8")
        record = site.statuses[name].record
        if record is not None:
            yield record_uri(name), json.dumps(record, indent=1, ensure_ascii=False) + "\n"
            yield from _charts(site, charts, record, "")
    for items in site.recorded.values():
        for item in items:
            yield from _charts(site, charts, item.record, item.hardware)


class ChartCache:
    """Charts drawn before, kept under `$INFERLAB_HOME/charts`: drawing all takes a while.

    A chart is drawn anew when the record or any module of the lab differs.
    """

    def __init__(self, root: Path) -> None:
        self._folder = files.home() / "charts"
        modules = Store(root).digests()
        text = json.dumps({n: d for n, d in modules.items() if n.startswith("inferlab.lab.")})
        self._modules = schema.digest(text.encode())

    def svg(self, record: Record, theme: str) -> str:
        """The chart of a record as SVG."""
        content = json.dumps([record, theme, self._modules], sort_keys=True)
        path = self._folder / f"{schema.digest(content.encode())}.svg"
        try:
            return path.read_text(encoding="utf-8")
        except OSError:
            from inferlab.lab import charts

            svg = str(charts.render(record, theme))
            files.write_atomic(path, svg)
            return svg


def _charts(
    site: Site, charts: ChartCache, record: Record, hardware: str
) -> Iterator[tuple[str, str]]:
    if not record.get("chart"):
        return
    for theme in THEMES:
        try:
            uri, svg = chart_uri(record["snippet"], theme, hardware), charts.svg(record, theme)
            if box := re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg):
                site.chart_sizes[uri] = (round(float(box[1])), round(float(box[2])))
            yield uri, svg
        except InferlabError as error:
            site.problem(f"the chart cannot be drawn: {error}", page=f"snippet {record['snippet']}")
