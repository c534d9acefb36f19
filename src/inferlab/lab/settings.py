"""What this run was asked for: the profile and device, and where a snippet's result should go."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferlab.errors import InferlabError
from inferlab.lab import schema


@dataclass(frozen=True)
class Options:
    """What this run was asked for, on the command line or by the lab."""

    profile: str = "quick"
    device: str = "auto"
    json: Path | None = None
    chart: Path | None = None
    record_to: Path | None = None


_parsed: dict[str, Options] = {}


def options() -> Options:
    """The options of the running snippet; `--help` and wrong options end it here, at its import."""
    if target := os.environ.get("INFERLAB_RECORD_TO"):
        return Options(_profile(), _device(), record_to=Path(target))
    path = _main_path()
    if path is None:
        return Options(_profile(), _device())
    if str(path) not in _parsed:
        _parsed[str(path)] = _parse(path)
    return _parsed[str(path)]


def pick(*, quick: Any, full: Any, smoke: Any = None) -> Any:
    """The value for this run's profile; `smoke`, which tests run, defaults to a short `quick`."""
    profile = options().profile
    if profile == "full":
        return full
    if profile == "quick":
        return quick
    if smoke is not None:
        return smoke
    return quick[:2] if isinstance(quick, list | tuple) else quick


def repeats(quick: int = 5, full: int = 11) -> int:
    """How often to repeat each measurement in this run's profile."""
    return int(pick(quick=quick, full=full, smoke=1))


def _profile() -> str:
    return _one_of("INFERLAB_PROFILE", schema.PROFILES, "quick")


def _device() -> str:
    return _one_of("INFERLAB_DEVICE", schema.DEVICES, "auto")


def _one_of(variable: str, choices: Sequence[str], default: str) -> str:
    value = os.environ.get(variable) or default
    if value not in choices:
        raise InferlabError(f"{variable}={value!r}: expected one of {', '.join(choices)}")
    return value


def _main_path() -> Path | None:
    """The snippet that Python runs as its main program, or None when it runs something else."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    path = Path(file).resolve() if file else None
    return path if path is not None and path.parent.parent.name == "snippets" else None


def _parse(path: Path) -> Options:
    parser = argparse.ArgumentParser(
        prog=f"python snippets/{path.parent.name}/{path.name}",
        description=getattr(sys.modules["__main__"], "__doc__", None),
        epilog="Without options it measures and prints its table. Copy the file and change it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--profile",
        choices=schema.PROFILES,
        default=_profile(),
        help="how much to measure: quick (minutes for all snippets), full, or smoke (a test's)",
    )
    parser.add_argument("--device", choices=schema.DEVICES, default=_device())
    parser.add_argument(
        "--chart",
        nargs="?",
        type=Path,
        const=path.with_suffix(".svg"),
        metavar="FILE",
        help="also draw the chart, as SVG (default: beside the snippet)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the full record")
    given = parser.parse_args()
    os.environ["INFERLAB_PROFILE"], os.environ["INFERLAB_DEVICE"] = given.profile, given.device
    return Options(given.profile, given.device, given.json, given.chart)
