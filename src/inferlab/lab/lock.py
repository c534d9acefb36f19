"""One lab measures on a machine at a time: two would slow each other down and record it."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock; labs then do not wait
    fcntl = None  # type: ignore[assignment]

_POLL_S = 0.2


def lock_path() -> Path:
    """The lock of this user's labs on this machine, whatever clone or home they use."""
    return Path(tempfile.gettempdir()) / f"inferlab-lab-{os.getuid()}.lock"


@contextmanager
def exclusive(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock at `path`; wait for another lab to end, and say so once.

    The system frees the lock when its holder ends, however it ends: a file left behind is no lock.
    """
    with path.open("a+", encoding="utf-8") as file:
        if not _taken(file):
            say(f"another lab (process {_holder(file)}) is measuring on this machine; waiting")
            while not _taken(file):
                time.sleep(_POLL_S)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _taken(file: IO[str]) -> bool:
    if fcntl is None:  # pragma: no cover - Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip() or "unknown"
