"""This machine's records: where they live, which of them still hold, and why others do not.

They stand outside the clone, under `$INFERLAB_HOME/records/<snippet>/<key>.json`, so that a second
clone on the same machine finds what still holds.
"""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from inferlab import files
from inferlab.errors import InferlabError
from inferlab.lab import schema

Record = dict[str, Any]
State = Literal["fresh", "stale", "missing", "unavailable", "failed"]
KEEP = 5  # records kept for each snippet and profile
_FAILURE = "last-failure.txt"


@dataclass(frozen=True)
class Status:
    """Whether a snippet's result still holds. `record` is the newest usable one, stale or not."""

    snippet: str
    state: State
    record: Record | None
    why: str = ""


class Store:
    """The records of the snippets under `root` (default: the clone around the working directory).

    It reads each source file once: make a new Store after files have changed.
    """

    def __init__(
        self, root: Path | None = None, *, records: Path | None = None, package: Path | None = None
    ) -> None:
        self.root = root or find_root()
        self.folder = records or files.home() / "records"
        self.package = package or Path(files.__file__).parent
        self._digests: dict[Path, str | None] = {}

    def status(self, snippet: str, profile: str = "quick", device: str = "auto") -> Status:
        """Whether a record of at least this profile, on this device, has the key of now."""
        text = self._digest(self.root / "snippets" / f"{snippet}.py")
        if text is None:
            raise InferlabError(f"no snippet {snippet!r} under {self.root / 'snippets'}")
        candidates = [
            record
            for record in self.records(snippet)
            if _satisfies(record["profile"], profile) and _on_device(record, device)
        ]
        candidates.sort(key=lambda record: -schema.PROFILES.index(record["profile"]))
        for record in candidates:
            if schema.key_of(self._as_of_now(record)) == record["key"]:
                if record["status"] == "unavailable":
                    return Status(snippet, "unavailable", record, record["reason"])
                return Status(snippet, "fresh", record)
        newest = max(candidates, key=_started_at, default=None)
        if failure := self._failure(snippet, text):
            return Status(snippet, "failed", newest, failure)
        if newest is None:
            return Status(snippet, "missing", None, f"never measured here in profile {profile}")
        return Status(snippet, "stale", newest, self._what_changed(newest))

    def records(self, snippet: str) -> list[Record]:
        """All readable records of a snippet, newest first."""
        found = []
        for path in (self.folder / snippet).glob("*.json"):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                schema.check_record(record)
            except (OSError, ValueError, InferlabError):
                continue  # of another schema version, or damaged: as good as never measured
            found.append(record)
        return sorted(found, key=_started_at, reverse=True)

    def save(self, record: Record) -> Path:
        """Keep a finished record, forget an earlier failure, prune older records."""
        schema.check_record(record)
        folder = self.folder.joinpath(str(record["snippet"]))
        path = folder.joinpath(f"{record['key']}.json")
        files.write_atomic(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        (folder / _FAILURE).unlink(missing_ok=True)
        same = [r for r in self.records(record["snippet"]) if r["profile"] == record["profile"]]
        for old in same[KEEP:]:
            (folder / f"{old['key']}.json").unlink(missing_ok=True)
        return path

    def note_failure(self, snippet: str, reason: str) -> None:
        """Remember why a snippet failed, until it succeeds or its text changes."""
        text = self._digest(self.root / "snippets" / f"{snippet}.py")
        files.write_atomic(self.folder / snippet / _FAILURE, f"{text}\n{reason}\n")

    def expected_s(self, snippet: str, profile: str) -> float | None:
        """How long the snippet took when it last ran in this profile, None when it never did."""
        for record in self.records(snippet):
            if record["profile"] == profile and record["status"] == "ok":
                return float(record["run"]["duration_s"])
        return None

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each of the package's modules as it is on disk now, by module name."""
        found = {}
        for path in sorted(self.package.rglob("*.py")):
            parts = (self.package.name, *path.relative_to(self.package).with_suffix("").parts)
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = schema.digest(path.read_bytes())
        return found

    def _as_of_now(self, record: Record) -> Record:
        """The record with each fact that its key covers as it is now."""
        source, environment = record["source"], record["environment"]
        return {
            **record,
            "source": {
                "snippet_sha256": self._digest(self.root / "snippets" / f"{record['snippet']}.py"),
                "modules": {name: self._module_digest(name) for name in source["modules"]},
            },
            "environment": {
                "packages": {name: _version(name) for name in environment["packages"]},
                "python": platform.python_version(),
                "fingerprint": fingerprint(),
            },
        }

    def _what_changed(self, record: Record) -> str:
        now = self._as_of_now(record)
        if record["source"]["snippet_sha256"] != now["source"]["snippet_sha256"]:
            return "the snippet itself changed"
        old, new = record["source"]["modules"], now["source"]["modules"]
        if changed := sorted(name for name in old if old[name] != new[name]):
            return f"changed: {', '.join(changed[:3])}" + ("..." if len(changed) > 3 else "")
        before, after = record["environment"], now["environment"]
        for name, version in before["packages"].items():
            if version != after["packages"][name]:
                return f"package {name}: {version} -> {after['packages'][name]}"
        if before["python"] != after["python"]:
            return f"Python: {before['python']} -> {after['python']}"
        return "the hardware or its driver changed"

    def _module_digest(self, name: str) -> str | None:
        base = self.package.parent.joinpath(*name.split("."))
        return self._digest(base.with_suffix(".py")) or self._digest(base / "__init__.py")

    def _digest(self, path: Path) -> str | None:
        if path not in self._digests:
            self._digests[path] = schema.digest(path.read_bytes()) if path.is_file() else None
        return self._digests[path]

    def _failure(self, snippet: str, text: str) -> str | None:
        try:
            noted = (self.folder / snippet / _FAILURE).read_text(encoding="utf-8")
        except OSError:
            return None
        digest, _, reason = noted.partition("\n")
        return reason.strip() if digest == text else None


def find_root(start: Path | None = None) -> Path:
    """The clone (with `snippets/` and mkdocs.yml or pyproject.toml): around the working directory,
    else around the package.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, Path(files.__file__).resolve().parents[2]):
        marked = any((folder / name).is_file() for name in ("mkdocs.yml", "pyproject.toml"))
        if marked and (folder / "snippets").is_dir():
            return folder
    raise InferlabError(
        f"no clone of inferlab (snippets/, mkdocs.yml) in {here} or above it; cd there"
    )


def _satisfies(has: str, wanted: str) -> bool:
    return schema.PROFILES.index(has) >= schema.PROFILES.index(wanted)


def _on_device(record: Mapping[str, Any], device: str) -> bool:
    asked = record["settings"].get("device", "auto")
    if asked == device:
        return True
    if asked == "auto":  # what "auto" came to is what was asked for by name
        return bool(record["environment"]["device"] == device)
    return False


def _started_at(record: Mapping[str, Any]) -> str:
    return str(record["run"]["started_at"])


@cache
def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def fingerprint() -> dict[str, Any]:
    """What of this machine a measurement depends on, in JSON's types."""
    from inferlab import hardware

    return dict(schema.plain(hardware.fingerprint()))
