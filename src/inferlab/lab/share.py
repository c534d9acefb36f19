"""Carry records between machines: export this one's, import another's into docs/recorded."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferlab import files
from inferlab.errors import InferlabError
from inferlab.lab import schema
from inferlab.lab.store import Record, Store

_HARDWARE = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass
class Exported:
    """What was written, and why other snippets were left out."""

    written: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def file_name(record: Mapping[str, Any]) -> str:
    """What a record's file is called in an exported or recorded folder."""
    return f"{record['snippet'].replace('/', '__')}.json"


def export_records(
    store: Store, names: Sequence[str], folder: Path, *, profile: str, device: str
) -> Exported:
    """Write each fresh record of this machine to `folder`; stale ones do not leave it."""
    done = Exported()
    for name in names:
        status = store.status(name, profile, device)
        if status.state != "fresh" or status.record is None:
            done.left_out[name] = f"{status.state}: {status.why}"
            continue
        path = folder / file_name(status.record)
        files.write_atomic(path, _text(status.record))
        done.written.append(path)
    return done


def import_records(source: Path, root: Path, *, force: bool = False) -> list[Path]:
    """Put another machine's records under `root`/docs/recorded/<hardware>/<chapter>__<name>.json.

    `source` is a record or a folder with records. Every record is checked before one is written;
    a different record that is already there is only replaced with `force`.
    """
    paths = sorted(source.rglob("*.json")) if source.is_dir() else [source]
    if not paths:
        raise InferlabError(f"no records (*.json) in {source}")
    records = {path: read_record(path) for path in paths}
    targets = {path: _target(root, record) for path, record in records.items()}
    for path, target in targets.items():
        doubles = [other for other in targets if targets[other] == target and other != path]
        if doubles:
            raise InferlabError(f"{path} and {doubles[0]} are records of the same; keep one")
        if not force and _differs(target, records[path]):
            raise InferlabError(f"{target} holds another record; --force replaces it")
    for path, target in targets.items():
        files.write_atomic(target, _text(records[path]))
    return list(targets.values())


def read_record(path: Path) -> Record:
    """A record that a page may show; InferlabError says what is wrong with any other file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InferlabError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InferlabError(f"{path} is not JSON: {error}") from error
    try:
        schema.check_record(record)
    except InferlabError as error:
        raise InferlabError(f"{path} is not a sound record: {error}") from error
    if record["status"] != "ok":
        raise InferlabError(f"{path} holds no result: {record['reason']}")
    if record["profile"] == "smoke":
        raise InferlabError(f"{path} is of profile smoke, which only tests; measure quick or full")
    if not _HARDWARE.fullmatch(str(record["environment"].get("hardware_id", ""))):
        raise InferlabError(f"{path} does not say which hardware it is of (hardware_id)")
    return dict(record)


def _target(root: Path, record: Record) -> Path:
    name, hardware = str(record["snippet"]), str(record["environment"]["hardware_id"])
    if not (root / "snippets" / f"{name}.py").is_file():
        raise InferlabError(f"no page can show a record of {name}: this clone has no such snippet")
    return root / "docs" / "recorded" / hardware / file_name(record)


def _differs(target: Path, record: Record) -> bool:
    return target.is_file() and target.read_text(encoding="utf-8") != _text(record)


def _text(record: Record) -> str:
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"
