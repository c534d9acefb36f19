"""Bring this machine's records up to date before the pages are rendered."""

from collections.abc import Iterable
from pathlib import Path

from inferlab.lab.run import run_all
from inferlab.site.state import Site


class Measuring:
    """Decides what a build measures, and measures it, each snippet in a process of its own.

    The first build of a session measures all that is missing or stale. Later builds of
    `mkdocs serve` measure only snippets whose own file was edited since, so that a prose edit
    never waits for a measurement.
    """

    def __init__(self) -> None:
        self._edited_at: dict[Path, int] | None = None

    def bring_up_to_date(self, site: Site) -> list[str]:
        """Measure, then let `site` see the records; return the names that were measured."""
        site.refresh()
        times = {s.path: s.path.stat().st_mtime_ns for s in site.snippets.values()}
        before, self._edited_at = self._edited_at, times
        settings = site.settings
        if before is None:
            names = sorted(site.snippets)
        else:
            names = sorted(
                n for n, s in site.snippets.items() if before.get(s.path) != times[s.path]
            )
        if settings.execute == "never" or not names:
            return []
        return self._run(site, names, force=settings.execute == "always" and before is None)

    def _run(self, site: Site, names: Iterable[str], force: bool) -> list[str]:
        names = list(names)
        report = run_all(
            names,
            profile=site.settings.profile,
            device=site.settings.device,
            root=site.root,
            force=force,
        )
        for name in names:
            site.failures.pop(name, None)
        site.failures.update({failure.snippet: failure for failure in report.failed})
        if report.done or report.failed:
            site.refresh()
        return [*report.done, *(failure.snippet for failure in report.failed)]
