"""What all tests share: a home of their own with the real model, and skips that say why."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from inferlab import files

# Where a failure blocks others, the same examples each time; elsewhere new ones, which find more.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Before anything imports torch: tiny tensors on many threads only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", str(min(4, os.cpu_count() or 1)))

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
REAL_HOME = pytest.StashKey[Path]()
TEST_HOME = pytest.StashKey[Path]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Give the session its home; without the embedded model, say so once and stop."""
    # A worker of a parallel run, or a test that runs pytest, must not nest homes.
    real = Path(os.environ.get("INFERLAB_REAL_HOME") or files.home())
    if not any((real / "models").glob("*.gguf")):
        pytest.exit(
            f"the embedded model is not in {real / 'models'}: run `inferlab model fetch` "
            "(or `make test`, which does)",
            returncode=1,
        )
    session.config.stash[TEST_HOME] = home = Path(tempfile.mkdtemp(prefix="inferlab-tests-"))
    (home / "models").symlink_to(real / "models", target_is_directory=True)
    if (real / "ceilings").is_dir():  # measuring them takes long, and they have not changed
        shutil.copytree(real / "ceilings", home / "ceilings")
    os.environ["INFERLAB_REAL_HOME"] = str(real)
    os.environ["INFERLAB_HOME"] = str(home)
    for name in ("INFERLAB_PROFILE", "INFERLAB_DEVICE", "INFERLAB_EXECUTE", "INFERLAB_MODEL"):
        os.environ.pop(name, None)


def pytest_unconfigure(config: pytest.Config) -> None:
    if home := config.stash.get(TEST_HOME, None):
        shutil.rmtree(home, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine cannot run, with the reason."""
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    browser = [item for item in items if item.get_closest_marker("browser")]
    if gpu and not has_cuda():
        for item in gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))
    # Where a browser must be there (CI), its absence has to fail the test, not skip it.
    if browser and find_browser() is None and not os.environ.get("INFERLAB_REQUIRE_BROWSER"):
        for item in browser:
            item.add_marker(pytest.mark.skip(reason=f"needs one of {', '.join(BROWSERS)}"))


def has_cuda() -> bool:
    """Whether PyTorch sees a CUDA GPU; imports it, so ask only for tests that need one."""
    import torch

    return torch.cuda.is_available()


def find_browser() -> str | None:
    """The path of a Chromium: `$INFERLAB_BROWSER`, else the first of BROWSERS on the PATH."""
    if chosen := os.environ.get("INFERLAB_BROWSER"):
        return chosen
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The Chromium to drive; a test that takes this is marked `browser`."""
    path = find_browser()
    assert path, f"INFERLAB_REQUIRE_BROWSER is set, but there is none of {', '.join(BROWSERS)}"
    return path


@pytest.fixture(scope="session")
def root() -> Path:
    """The clone that is tested."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home for one test, when it asks for it: no model, no record, no ceilings."""
    folder = tmp_path / "inferlab-home"
    folder.mkdir()
    monkeypatch.setenv("INFERLAB_HOME", str(folder))
    return folder
