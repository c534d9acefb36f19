"""`inferlab lab`: measure the snippets on this machine, and see what is measured."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferlab.errors import InferlabError

if TYPE_CHECKING:
    from inferlab.lab.run import RunReport
    from inferlab.lab.store import Status

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure the snippets on this machine; list, show and share what they gave.",
)

INTERRUPTED = 130  # 128 + SIGINT


class Profile(StrEnum):
    """How much to measure (`schema.PROFILES`)."""

    QUICK = "quick"
    FULL = "full"
    SMOKE = "smoke"


class Device(StrEnum):
    """Where to measure (`schema.DEVICES`)."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="A snippet, a chapter, a glob, or how one begins. Default: all.",
    ),
]
ProfileOption = Annotated[
    Profile,
    typer.Option(
        "--profile",
        envvar="INFERLAB_PROFILE",
        help="How much to measure; a full record also counts as a quick one.",
    ),
]
DeviceOption = Annotated[
    Device,
    typer.Option(
        "--device",
        envvar="INFERLAB_DEVICE",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command(name="list")
def list_snippets(names: Names = None) -> None:
    """List the snippets with the question each answers."""
    chosen = _chosen(names)
    width = max(len(snippet.name) for snippet in chosen)
    for snippet in chosen:
        typer.echo(f"{snippet.name.ljust(width)}  {snippet.question}".rstrip())


@app.command()
def run(
    names: Names = None,
    profile: ProfileOption = Profile.QUICK,
    device: DeviceOption = Device.AUTO,
    force: Annotated[
        bool, typer.Option("--force", help="Measure what is fresh again, too.")
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", min=0.1, help="Seconds that each snippet may take."),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first snippet that fails.")
    ] = False,
) -> None:
    """Measure what is missing or stale; finished records stay when it is interrupted."""
    from inferlab.lab.run import run_all

    root = _root()
    _chosen(names)  # an unknown name ends here, before anything is measured
    try:
        report = run_all(
            names or (),
            profile=profile.value,
            device=device.value,
            root=root,
            force=force,
            time_limit_s=time_limit,
            fail_fast=fail_fast,
        )
    except KeyboardInterrupt as stop:
        typer.echo("interrupted: finished records are kept; run it again to go on", err=True)
        raise typer.Exit(INTERRUPTED) from stop
    typer.echo(_summary(report))
    if report.failed:
        names_text = ", ".join(error.snippet for error in report.failed)
        raise InferlabError(f"{len(report.failed)} failed: {names_text}; see above for why")


def _summary(report: "RunReport") -> str:
    fresh = sum(status.state == "fresh" for status in report.skipped)
    absent = [status for status in report.skipped if status.state == "unavailable"]
    lines = [f"measured {len(report.done)}, already fresh {fresh}, failed {len(report.failed)}"]
    lines += [f"not measured on this machine: {s.snippet} ({s.why})" for s in absent]
    return "\n".join(lines)


@app.command()
def status(
    names: Names = None,
    profile: ProfileOption = Profile.QUICK,
    device: DeviceOption = Device.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Say which results still hold, which are stale and why, and which are missing."""
    states = _states(names, profile, device)
    if as_json:
        typer.echo(json.dumps([_facts(state) for state in states], indent=2))
        return
    width = max(len(state.snippet) for state in states)
    for state in states:
        when = state.record["run"]["started_at"][:10] if state.record else ""
        detail = state.why or f"{_profile_of(state)}, {when}"
        typer.echo(f"{state.snippet.ljust(width)}  {state.state.ljust(11)}  {detail}".rstrip())
    counts = {name: sum(s.state == name for s in states) for name in dict.fromkeys(_ORDER)}
    typer.echo(", ".join(f"{count} {name}" for name, count in counts.items() if count))


_ORDER = ("fresh", "stale", "missing", "unavailable", "failed")


def _facts(state: "Status") -> dict[str, Any]:
    record = state.record
    return {
        "snippet": state.snippet,
        "state": state.state,
        "why": state.why,
        "profile": record["profile"] if record else None,
        "started_at": record["run"]["started_at"] if record else None,
        "duration_s": record["run"]["duration_s"] if record else None,
        "key": record["key"] if record else None,
    }


def _profile_of(state: "Status") -> str:
    return state.record["profile"] if state.record else ""


@app.command()
def show(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="As for `run`.")],
    profile: ProfileOption = Profile.QUICK,
    device: DeviceOption = Device.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Print a result: table, finding, and where, when and how it was measured."""
    from inferlab.lab import tables

    states = _states(names, profile, device)
    shown = [state for state in states if state.record is not None]
    if not shown:
        why = "; ".join(f"{state.snippet}: {state.why}" for state in states)
        raise InferlabError(f"nothing to show ({why}); measure it: inferlab lab run {names[0]}")
    if as_json:
        records = [state.record for state in shown]
        typer.echo(json.dumps(records if len(records) > 1 else records[0], indent=1))
        return
    for number, state in enumerate(shown):
        record = state.record or {}
        typer.echo(("\n" if number else "") + state.snippet)
        if state.state != "fresh":
            typer.echo(f"{state.state.upper()}: {state.why}")
        if record["status"] == "ok":
            typer.echo("\n" + tables.to_text(record) + "\n")
        typer.echo(record["finding"])
        for note in record["notes"]:
            typer.echo(f"Note: {note}")
        typer.echo("\n" + "\n".join(f"{key:9} {value}" for key, value in _provenance(record)))


def _provenance(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Where, when and how a record was measured."""
    environment, source, run_facts = record["environment"], record["source"], record["run"]
    model = record["model"] or {}
    gpus = [gpu["name"] for gpu in environment.get("gpus", [])]
    machine = [environment.get("cpu", {}).get("model"), f"{environment['num_threads']} threads"]
    commit = f"{(source['commit'] or 'none')[:10]}{' with changes' if source['dirty'] else ''}"
    packages = ", ".join(f"{name} {text}" for name, text in environment["packages"].items())
    facts = [
        ("device", ", ".join([environment["device"], *filter(None, [*gpus, *machine])])),
        ("model", ", ".join(str(model[k]) for k in ("name", "dtype", "sha256") if model.get(k))),
        ("software", f"Python {environment['python']}, {packages}".rstrip(", ")),
        ("date", f"{run_facts['started_at']}, {run_facts['duration_s']:g} s"),
        ("repeats", f"{run_facts['repeats']}, profile {record['profile']}"),
        ("commit", commit),
        ("command", run_facts["command"]),
        ("key", record["key"]),
    ]
    return [(key, value) for key, value in facts if value]


@app.command(name="import")
def import_(
    source: Annotated[Path, typer.Argument(metavar="FILE_OR_DIR", exists=True)],
    force: Annotated[
        bool, typer.Option("--force", help="Replace other records that are there.")
    ] = False,
) -> None:
    """Check another machine's records and put them under docs/recorded/<hardware>/."""
    from inferlab.lab.share import import_records

    for path in import_records(source, _root(), force=force):
        typer.echo(str(path))


@app.command()
def export(
    names: Names = None,
    profile: ProfileOption = Profile.QUICK,
    device: DeviceOption = Device.AUTO,
    to: Annotated[
        Path, typer.Option("--to", file_okay=False, help="The folder to write to.")
    ] = Path("records"),
) -> None:
    """Write this machine's fresh records to a folder, for another clone to import."""
    from inferlab.lab.share import export_records
    from inferlab.lab.store import Store

    chosen = [snippet.name for snippet in _chosen(names)]
    done = export_records(Store(_root()), chosen, to, profile=profile, device=device)
    for name, why in done.left_out.items():
        typer.echo(f"left out {name}, {why}", err=True)
    if not done.written:
        raise InferlabError("no fresh record to export; measure first: inferlab lab run")
    for path in done.written:
        typer.echo(str(path))


def _root() -> Path:
    from inferlab.lab.store import find_root

    return find_root()


def _chosen(names: list[str] | None) -> list[Any]:
    from inferlab.lab.run import discover, select

    root = _root()
    snippets = discover(root)
    if not snippets:
        raise InferlabError(f"no snippets in {root / 'snippets'}; is this a whole clone?")
    return select(names or (), snippets)


def _states(names: list[str] | None, profile: str, device: str) -> "list[Status]":
    from inferlab.lab.store import Store

    chosen = _chosen(names)
    store = Store(_root())
    return [store.status(snippet.name, profile, device) for snippet in chosen]
