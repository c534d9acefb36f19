"""Tiny models on disk, and a place of their own for what inferlab keeps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import random_state, tiny, write_folder, write_gguf


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny llama as a Hugging Face folder."""
    config = tiny()
    return write_folder(tmp_path / "model", config, random_state(config))


@pytest.fixture
def gguf_path(tmp_path: Path) -> Path:
    """A tiny llama as a GGUF file."""
    config = tiny()
    return write_gguf(tmp_path / "model.gguf", config, random_state(config))


@pytest.fixture
def edit_json() -> Callable[..., None]:
    """Change keys of a JSON file; None removes one."""

    def edit(path: Path, **changes: Any) -> None:
        value = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({k: v for k, v in value.items() if v is not None}))

    return edit
