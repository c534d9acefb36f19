"""Where inferlab keeps its files, and how it writes them without losing what was there."""

import os
import sys
import tempfile
from pathlib import Path

from inferlab.errors import InferlabError


def home() -> Path:
    """The folder for models, records and caches: `$INFERLAB_HOME`, else the user's cache folder."""
    if chosen := os.environ.get("INFERLAB_HOME"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "inferlab"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "inferlab" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "inferlab"


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write `content` to `path` so that readers see the old file or the whole new one, never half.

    Raises InferlabError when the file cannot be written (full disk, no permission); the old file
    then stays as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise InferlabError(
            f"cannot write {path}: {reason}. Free some space or choose another place "
            "(INFERLAB_HOME says where inferlab keeps its files)."
        ) from error
