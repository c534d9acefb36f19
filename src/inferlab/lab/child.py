"""Run one snippet in a process of its own, and say exactly how it failed when it did."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from inferlab.errors import InferlabError

TAIL_LINES = 20
_TAIL_BYTES = 64 * 1024
_GRACE_S = 2.0  # between asking a process group to end and killing it


class SnippetError(InferlabError):
    """A snippet gave no result that can be kept: which, why, and the last lines it printed."""

    def __init__(self, snippet: str, reason: str, tail: str = "") -> None:
        self.snippet, self.reason, self.tail = snippet, reason, tail
        last = f" Its last lines:\n{tail}" if tail else " It printed nothing."
        super().__init__(f"snippet {snippet}: {reason.rstrip('.')}.{last}")


@dataclass(frozen=True)
class Result:
    """What a snippet handed over, and the last lines it printed."""

    draft: dict[str, Any]
    tail: str


def run_snippet(
    name: str, path: Path, *, root: Path, profile: str, device: str, time_limit_s: float
) -> Result:
    """Run a snippet to its end and return its draft of a record.

    Whatever happens, no process of its group is left behind, also on Ctrl-C. Raises SnippetError.
    """
    with tempfile.TemporaryDirectory(prefix="inferlab-") as folder:
        target = Path(folder) / "record.json"
        environment = os.environ | {
            "INFERLAB_RECORD_TO": str(target),
            "INFERLAB_PROFILE": profile,
            "INFERLAB_DEVICE": device,
            "PYTHONUNBUFFERED": "1",  # so that the last lines are there when it is killed
        }
        with _process([sys.executable, str(path)], root, environment) as (process, tail):
            try:
                status = process.wait(time_limit_s)
            except subprocess.TimeoutExpired:
                _end_group(process)
                reason = f"did not end within {time_limit_s:g} s, so it was ended (--time-limit)"
                raise SnippetError(name, reason, tail.text()) from None
        text = tail.text()
        if status != 0:
            raise SnippetError(name, _why(status, text), text)
        if not target.exists():
            raise SnippetError(name, "ended with status 0 before it recorded a result", text)
        try:
            return Result(json.loads(target.read_text(encoding="utf-8")), text)
        except ValueError as error:
            raise SnippetError(name, f"recorded what is not JSON ({error})", text) from error


@contextmanager
def _process(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[tuple["subprocess.Popen[bytes]", "_Tail"]]:
    """A process that leads its own group, which is gone when the block ends."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    tail = _Tail(process.stdout)
    try:
        yield process, tail
    finally:
        _end_group(process)
        tail.close()


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End the process, if it still runs, and whatever it started."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: int) -> None:
    # Nobody may be left; macOS says "not permitted" of a group of zombies.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _why(status: int, tail: str) -> str:
    if status < 0:
        name = signal.Signals(-status).name
        memory = " (is there enough memory?)" if name == "SIGKILL" else ""
        return f"was killed by {name}{memory}"
    last = tail.rstrip().rpartition("\n")[2]
    if status == 1 and "Traceback (most recent call last)" in tail:
        return f"raised {last.removeprefix('inferlab.errors.')}".rstrip(".")
    return f"exited with status {status}"


class _Tail:
    """Reads a pipe to its end in the background and keeps its last lines, so none fills up."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while chunk := os.read(self._stream.fileno(), 65536):
            self._kept = (self._kept + chunk)[-_TAIL_BYTES:]

    def close(self) -> None:
        """Wait for the last bytes; a process that left the group may still hold the other end."""
        self._thread.join(_GRACE_S)
        if not self._thread.is_alive():
            self._stream.close()

    def text(self) -> str:
        self._thread.join(0.2)
        lines = self._kept.decode(errors="replace").rstrip().splitlines()
        return "\n".join(lines[-TAIL_LINES:])
