"""Where files are kept on each system, and that writing never leaves half a file."""

import errno
import os
import sys
from pathlib import Path

import pytest

from inferlab import files
from inferlab.errors import InferlabError


def test_the_chosen_home_wins_and_may_name_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERLAB_HOME", "~/elsewhere")
    assert files.home() == Path.home() / "elsewhere"


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "{base}/inferlab"),
        ("win32", "LOCALAPPDATA", "{base}/inferlab/Cache"),
    ],
)
def test_home_follows_each_systems_own_variable(
    platform: str, variable: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INFERLAB_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert files.home() == Path(expected.format(base=tmp_path))


def test_home_without_any_variable_is_the_users_cache_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("INFERLAB_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert files.home() == Path.home() / ".cache" / "inferlab"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert files.home() == Path.home() / "Library" / "Caches" / "inferlab"


@pytest.mark.parametrize("content", ["text, é", b"\x00bytes"])
def test_what_is_written_is_read_again(content: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    files.write_atomic(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def test_a_full_disk_keeps_the_old_file_and_leaves_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    files.write_atomic(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InferlabError, match=r"No space left on device.*Free some space"):
        files.write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InferlabError, match=r"cannot write .*file/below"):
        files.write_atomic(tmp_path / "file" / "below", "text")
