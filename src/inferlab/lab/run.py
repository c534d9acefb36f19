"""Find the snippets, choose those without a fresh record, and measure them one at a time."""

import ast
import difflib
import fnmatch
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from inferlab.errors import InferlabError
from inferlab.lab import machine, schema
from inferlab.lab.child import SnippetError, run_snippet
from inferlab.lab.lock import exclusive, lock_path
from inferlab.lab.progress import Progress, best_progress
from inferlab.lab.store import Record, Status, Store, find_root

TIME_LIMIT_S = {"smoke": 120.0, "quick": 600.0, "full": 3600.0}


@dataclass(frozen=True)
class Snippet:
    """A complete script that measures one thing: `snippets/<chapter>/<what_it_shows>.py`."""

    name: str
    path: Path

    @property
    def question(self) -> str:
        """The first line of its docstring: the question it answers."""
        text = ast.get_docstring(ast.parse(self.path.read_text(encoding="utf-8"))) or ""
        return text.partition("\n")[0]


@dataclass
class RunReport:
    """How a run ended: names measured, failures with the reason, snippets that needed no run."""

    done: list[str] = field(default_factory=list)
    failed: list[SnippetError] = field(default_factory=list)
    skipped: list[Status] = field(default_factory=list)


@dataclass(frozen=True)
class _Plan:
    """What every snippet of one run shares."""

    root: Path
    profile: str
    device: str
    time_limit_s: float
    records: Path
    package: Path
    measure_ceilings: Callable[[bool], None]

    def store(self) -> Store:
        """A store that sees the files as they are now."""
        return Store(self.root, records=self.records, package=self.package)


def discover(root: Path | None = None) -> list[Snippet]:
    """All snippets under `root`/snippets, in order of name."""
    folder = (root or find_root()) / "snippets"
    found = [Snippet(f"{path.parent.name}/{path.stem}", path) for path in folder.glob("*/*.py")]
    return sorted(
        (snippet for snippet in found if schema.NAME.fullmatch(snippet.name)),
        key=lambda snippet: snippet.name,
    )


def select(names: Sequence[str], snippets: Sequence[Snippet]) -> list[Snippet]:
    """The snippets that `names` mean; all when there are none.

    A name is a snippet's ("prefill/length", or "length" alone), a chapter, a glob, or how any of
    these begins. Raises InferlabError for one that means none, with those that are near.
    """
    if not names:
        return list(snippets)
    chosen: set[str] = set()
    for name in names:
        asked = name.strip("/").removeprefix("snippets/").removesuffix(".py")
        known = [snippet.name for snippet in snippets]
        matches = {
            full
            for full in known
            if asked in (full, *full.split("/")) or fnmatch.fnmatchcase(full, asked)
        }
        matches = matches or {full for full in known if asked and full.startswith(asked)}
        if not matches:
            raise InferlabError(_unknown(name, asked, snippets))
        chosen |= matches
    return [snippet for snippet in snippets if snippet.name in chosen]


def run_all(
    names: Sequence[str] = (),
    *,
    profile: str = "quick",
    device: str = "auto",
    root: Path | None = None,
    force: bool = False,
    ui: Progress | None = None,
    time_limit_s: float | None = None,
    fail_fast: bool = False,
    records: Path | None = None,
    package: Path | None = None,
    lock: Path | None = None,
    measure_ceilings: Callable[[bool], None] | None = None,
) -> RunReport:
    """Measure what is missing, stale or failed among `names`, or all of it with `force`.

    Each finished record is kept at once; a failure is reported and the next snippet runs, unless
    `fail_fast`. Ctrl-C (or SIGTERM) ends the running snippet with all its processes and raises
    KeyboardInterrupt. When nothing is to be measured, this neither waits nor locks.
    """
    root = root or find_root()
    store = Store(root, records=records, package=package)
    plan = _Plan(
        root,
        profile,
        device,
        time_limit_s or TIME_LIMIT_S[profile],
        store.folder,
        store.package,
        measure_ceilings or machine.ceilings_measurer(device),
    )
    snippets = select(names, discover(root))
    report = RunReport()
    if not _wanted(snippets, plan, force, report):
        return report
    ui = ui or best_progress()
    with exclusive(lock or lock_path(), ui.say), _terminate_as_interrupt():
        # Another lab may have measured some of it while this one waited.
        wanted = _wanted(snippets, plan, force, report)
        try:
            _measure(wanted, plan, report, ui, fail_fast)
        finally:
            ui.close()
    return report


def _wanted(
    snippets: Sequence[Snippet], plan: _Plan, force: bool, report: RunReport
) -> list[Snippet]:
    store = plan.store()
    states = {s.name: store.status(s.name, plan.profile, plan.device) for s in snippets}
    settled = ("fresh", "unavailable") if not force else ()
    report.skipped = [status for status in states.values() if status.state in settled]
    return [s for s in snippets if states[s.name].state not in settled]


def _measure(
    wanted: Sequence[Snippet], plan: _Plan, report: RunReport, ui: Progress, fail_fast: bool
) -> None:
    store = plan.store()
    names = [snippet.name for snippet in wanted]
    ui.plan(names, {name: store.expected_s(name, plan.profile) for name in names})
    if wanted:
        plan.measure_ceilings(False)
    for snippet in wanted:
        ui.start(snippet.name)
        started = monotonic()
        try:
            record = _measure_one(snippet, plan, ui)
        except SnippetError as error:
            report.failed.append(error)
            ui.finish(snippet.name, "FAILED", monotonic() - started)
            ui.say(str(error))
            with suppress(InferlabError):  # a full disk: the failure is in the report anyway
                plan.store().note_failure(snippet.name, error.reason)
            if fail_fast:
                return
        else:
            report.done.append(snippet.name)
            outcome = "done" if record["status"] == "ok" else f"not measured, {record['reason']},"
            ui.finish(snippet.name, outcome, monotonic() - started)


def _measure_one(snippet: Snippet, plan: _Plan, ui: Progress) -> Record:
    """Run a snippet and keep its record; past its bound, once more against fresh ceilings.

    A ceiling that was measured in a noisy moment is too low, and honest results pass it.
    """
    for last_attempt in (False, True):
        draft, tail = _run_once(snippet, plan)
        try:
            record = machine.complete(draft, plan.root)
            plan.store().save(record)
        except schema.BeyondBoundError as error:
            if last_attempt:
                raise SnippetError(snippet.name, str(error), tail) from None
            ui.say(f"{snippet.name}: {error}; measuring the ceilings and the snippet again")
            plan.measure_ceilings(True)
        except InferlabError as error:
            raise SnippetError(snippet.name, str(error), tail) from error
        else:
            return record
    raise AssertionError("the second attempt returns or raises")


def _run_once(snippet: Snippet, plan: _Plan) -> tuple[Record, str]:
    """A snippet's draft of a record and the last lines it printed."""
    # Source as it was before the run: a file edited meanwhile then makes the record stale, whether
    # the run had read the old text or the new.
    modules = plan.store().digests()
    text = schema.digest(snippet.path.read_bytes())
    started = monotonic()
    result = run_snippet(
        snippet.name,
        snippet.path,
        root=plan.root,
        profile=plan.profile,
        device=plan.device,
        time_limit_s=plan.time_limit_s,
    )
    draft = result.draft
    used = {name: modules.get(name, found) for name, found in draft["source"]["modules"].items()}
    draft["source"] = {"snippet_sha256": text, "modules": used}
    draft["run"]["duration_s"] = round(monotonic() - started, 3)
    return draft, result.tail


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that the running snippet ends with its lab."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _unknown(name: str, asked: str, snippets: Sequence[Snippet]) -> str:
    known = [snippet.name for snippet in snippets]
    tails = {known_name.split("/")[1]: known_name for known_name in known}
    near = difflib.get_close_matches(asked, [*known, *tails], n=3, cutoff=0.5)
    near = list(dict.fromkeys(tails.get(match, match) for match in near))
    hint = f"did you mean {', '.join(near)}?" if near else "`inferlab lab list` shows all."
    return f"no snippet or chapter {name!r}; {hint}"
