"""`inferlab doctor`: what it shows, what it calls missing, and when it fails."""

import builtins
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from inferlab import hardware
from inferlab.cli import doctor as module
from inferlab.cli.main import app
from inferlab.hardware import limits
from inferlab.model import hub

GIB = 2**30


def sampled(best: float) -> dict[str, Any]:
    return {"median": best / 2, "low": best / 4, "high": best, "samples": [best] * 3, "kernel": "k"}


@pytest.fixture
def measured(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices that were measured so far; a measurement takes no time."""
    calls: list[str] = []

    def measure(device: str, *rest: int) -> dict[str, Any]:
        calls.append(device)
        return {
            "matmul_flop_s": {"float32": sampled(0.25e12), "bfloat16": sampled(12.5e12)},
            "read_bytes_s": sampled(39e9),
            "copy_bytes_s": sampled(8e9),
        }

    monkeypatch.setattr(limits, "measure", measure)
    return calls


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["doctor", *arguments])


def lines(text: str) -> dict[str, str]:
    """The rows of a report by name."""
    return {
        name: value.strip()
        for name, _, value in (
            line.strip().partition("  ") for line in text.splitlines() if line.startswith("  ")
        )
    }


def test_shows_machine_ceilings_and_what_is_missing(measured: list[str]) -> None:
    done = run("--device", "cpu")
    assert done.exit_code == 0, done.output
    rows = lines(done.stdout)
    cpu = hardware.describe()["cpu"]
    assert rows["Processor"].startswith(cpu["model"])
    assert rows["Versions"].endswith(f"torch {hardware.describe()['versions']['torch']}")
    assert rows["Matmul float32"].startswith("0.250 TFLOP/s  median 0.125, low 0.062, 3 samples")
    assert rows["Matmul bfloat16"].startswith("12.5 TFLOP/s")
    assert rows["Memory read"].startswith("39.0 GB/s")
    assert rows["Memory copy"].startswith("8.000 GB/s")
    assert rows["torch"] == torch.__version__
    assert rows["embedded model smollm2-135m"] == "for every page that measures a real model"
    assert "-> inferlab model fetch" in done.stdout


def test_measures_once_and_says_so_on_stderr(measured: list[str]) -> None:
    first, second = run("--device", "cpu"), run("--device", "cpu")
    assert measured == ["cpu"]
    assert "measuring the ceilings of the CPU" in first.stderr
    assert "measuring" not in first.stdout
    assert "measuring" not in second.stderr
    assert first.stdout == second.stdout
    assert "measuring" in run("--device", "cpu", "--refresh").stderr
    assert measured == ["cpu", "cpu"]


def test_json_holds_the_same(measured: list[str]) -> None:
    done = run("--device", "cpu", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0
    assert report["ok"] is True
    assert report["machine"]["hardware_id"] == hardware.describe()["hardware_id"]
    assert report["ceilings"] == hardware.known_ceilings()["cpu"]
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["torch"]["ok"] is True
    assert checks["embedded model smollm2-135m"]["found"] is None
    assert all(check["needed_for"] and check["remedy"] for check in report["checks"])


def test_finds_the_embedded_model_only_when_it_is_whole(home: Path) -> None:
    package = hub.PACKAGES[hub.EMBEDDED]
    path = hub.models_dir() / package.file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    assert module._model().found is None
    with path.open("r+b") as file:
        file.truncate(package.num_bytes)
    assert module._model().found == str(path)


def test_a_device_that_is_not_here_fails_in_one_line(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = run("--device", "cuda")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: device 'cuda': no CUDA GPU")
    assert done.stderr.count("\n") == 1
    assert measured == []


def test_without_torch_it_still_shows_the_machine_and_fails(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def no_torch(name: str, *rest: Any, **more: Any) -> Any:
        if name == "torch":
            raise ImportError("libcudart.so.12: cannot open shared object file\nmore")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_torch)
    done = run()
    assert done.exit_code == 1
    assert "Processor" in done.stdout
    assert "ceilings" not in done.stdout
    assert done.stderr == (
        "error: torch is missing: pip install torch, in this environment "
        "(now: libcudart.so.12: cannot open shared object file)\n"
    )
    assert measured == []
    assert json.loads(run("--json").stdout)["ok"] is False


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_PYTHON", (99, 1))
    check = module._python()
    assert check.found is None
    assert check.basic
    assert check.remedy.startswith("install Python 99.1 or newer")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEEDED", ("numpy", "no-such-package"))
    found = {check.name: check.found for check in module._packages()}
    assert found["numpy"]
    assert found["no-such-package"] is None


def test_missing_site_packages_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DOCS", {"json": "json", "no_such_module": "no-such-package"})
    check = module._docs()
    assert check.found is None
    assert "lacks no-such-package" in check.remedy


def test_a_browser_is_looked_for_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert module._browser().found is None
    (tmp_path / "google-chrome").write_text("#!/bin/sh\n")
    (tmp_path / "google-chrome").chmod(0o755)
    assert module._browser().found == str(tmp_path / "google-chrome")


@pytest.mark.parametrize(
    ("cards", "device", "found", "remedy"),
    [
        (["NVIDIA H200"], "cuda", "NVIDIA H200 (cuda)", ""),
        (["NVIDIA L4"], "cpu", None, "NVIDIA L4 is here, but this PyTorch cannot use it"),
        ([], "cpu", None, "nothing to do"),
    ],
)
def test_a_gpu_counts_when_torch_can_use_it(
    monkeypatch: pytest.MonkeyPatch, cards: list[str], device: str, found: str | None, remedy: str
) -> None:
    monkeypatch.setattr(hardware, "describe", lambda: {"gpus": [{"name": n} for n in cards]})
    monkeypatch.setattr(hardware, "resolve_device", lambda: device)
    check = module._gpu()
    assert check.found == found
    assert check.remedy.startswith(remedy)


def test_rows_of_a_machine_with_everything() -> None:
    rows = module.machine_rows(
        {
            "cpu": {
                "model": "Some CPU",
                "physical_cores": 8,
                "logical_cores": 16,
                "usable": 4,
                "features": ["avx2", "amx_bf16"],
                "caches": {"L1d": {"bytes": 49152, "count": 8}, "L3": {"bytes": GIB, "count": 1}},
            },
            "memory": {"total_bytes": 64 * GIB, "available_bytes": None, "limit_bytes": 2**29},
            "gpus": [
                {
                    "name": "NVIDIA H200",
                    "memory_bytes": 141 * GIB,
                    "driver": "570.1",
                    "compute_capability": "9.0",
                },
                {
                    "name": "Apple GPU",
                    "memory_bytes": None,
                    "driver": None,
                    "compute_capability": None,
                },
            ],
            "os": "Linux",
        }
    )
    assert rows == [
        ("Processor", "Some CPU, 8 cores, 16 threads, 4 usable here"),
        ("Instructions", "avx2 amx_bf16"),
        ("Caches", "L1d 48 KiB x 8, L3 1.0 GiB"),
        ("Memory", "64.0 GiB in all, 512 MiB is this container's limit"),
        ("GPU", "NVIDIA H200, 141.0 GiB, driver 570.1, compute capability 9.0"),
        ("GPU", "Apple GPU"),
        ("System", "Linux"),
    ]


def test_values_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    module._section("Title", [("a", "1"), ("long name", "2\n3")])
    module._section("Nothing", [])
    assert capsys.readouterr().out == ("Title\n  a          1\n  long name  2\n             3\n\n")


def test_the_real_command_works_in_a_process_of_its_own(home: Path, measured: list[str]) -> None:
    hardware.ceilings("cpu")  # so that the command itself measures nothing
    done = subprocess.run(
        [sys.executable, "-m", "inferlab", "doctor", "--device", "cpu"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"INFERLAB_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "39.0 GB/s" in done.stdout
