"""`.ci/run`: fails when anything fails, and ends in pytest's own closing line either way."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CLOSING = "======= 3 passed, 1 skipped in 12.34s (0:00:12) ======="
FAKE_MAKE = f"""#!/bin/sh
echo "make $*; browser required: ${{INFERLAB_REQUIRE_BROWSER:-no}}"
case "$1" in
    test) echo "{CLOSING}"; exit "${{TEST_STATUS:-0}}" ;;
    site) cat; echo "site built"; exit "${{SITE_STATUS:-0}}" ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with .ci/run, a `make` that does nothing, and a verify that can fail."""
    for name, text in {
        "bin/make": FAKE_MAKE,
        "bin/chromium": "#!/bin/sh\necho Chromium 1\n",
        ".venv/bin/python": '#!/bin/sh\necho "$*"; exit "${VERIFY_STATUS:-0}"\n',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    return tmp_path


def run(clone: Path, **environment: str) -> tuple[int, list[str]]:
    path = f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}"
    clean = {k: v for k, v in os.environ.items() if k != "INFERLAB_REQUIRE_BROWSER"}
    done = subprocess.run(
        [clone / ".ci" / "run"],
        env=clean | {"PATH": path} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        input="an answer that nothing may ask for",
    )
    return done.returncode, done.stdout.splitlines()


def test_tests_then_site_then_verification(clone: Path) -> None:
    status, lines = run(clone)
    assert status == 0
    assert lines == [
        "make test PROFILE=quick; browser required: 1",
        CLOSING,
        "make site PROFILE=quick; browser required: 1",
        "site built",
        "-m inferlab site verify",
        CLOSING,
    ]


@pytest.mark.parametrize("step", ["TEST_STATUS", "SITE_STATUS", "VERIFY_STATUS"])
def test_a_failing_step_fails_the_run_and_the_closing_line_comes_last(
    clone: Path, step: str
) -> None:
    status, lines = run(clone, **{step: "7"})
    assert status == 7
    assert lines[-2:] == ["ci: failed with status 7", CLOSING]


def test_without_a_closing_line_it_says_so(clone: Path) -> None:
    (clone / "bin" / "make").write_text("#!/bin/sh\nexit 2\n")
    status, lines = run(clone)
    assert status == 2
    assert lines[-1] == "ci: pytest did not reach its end"


def test_no_temporary_folder_is_left(clone: Path) -> None:
    temporary = clone / "tmp"
    temporary.mkdir()
    run(clone, TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []
