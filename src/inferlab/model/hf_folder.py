"""Reads a Hugging Face model folder: its JSON files, and its safetensors, sharded or not."""

import json
import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferlab.errors import InferlabError
from inferlab.model.config import ModelConfig
from inferlab.model.gguf_file import tally

if TYPE_CHECKING:
    import torch

INDEX = "model.safetensors.index.json"
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}  # bytes per value
FETCH_AGAIN = "Download the model again, or remove the folder."


def read_json(path: Path, *, required: bool = True) -> dict[str, Any]:
    """Return a JSON object from `path`; {} when it is missing and not required."""
    if not path.is_file():
        if not required:
            return {}
        raise InferlabError(
            f"{path.parent} has no {path.name}. A model is a folder with config.json, "
            "tokenizer.json and *.safetensors, or one .gguf file."
        )
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InferlabError(f"{path} is not valid JSON: {error}. {FETCH_AGAIN}") from error
    if not isinstance(value, dict):
        raise InferlabError(f"{path} should hold a JSON object, not {type(value).__name__}.")
    return value


def config_of_folder(folder: Path) -> ModelConfig:
    """Return the configuration of a folder; generation_config.json names the ends of a text."""
    generation = read_json(folder / "generation_config.json", required=False)
    return ModelConfig.from_hf(read_json(folder / "config.json"), folder.name, generation)


class SafetensorsFolder:
    """All tensors of a folder's shards, by name, with their shapes; data is read on `load`.

    Raises InferlabError when a shard is missing, cut off, or holds other than floating-point data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.kinds: dict[str, str] = {}
        self._shard_of: dict[str, Path] = {}
        self._open: tuple[Path, Any] | None = None
        for shard in self._shards():
            for name, entry in _header(shard).items():
                self._add(name, entry, shard)

    def _shards(self) -> list[Path]:
        if (self.folder / INDEX).is_file():
            weight_map = read_json(self.folder / INDEX).get("weight_map")
            names = weight_map.values() if isinstance(weight_map, dict) else ()
            if not names or not all(isinstance(name, str) for name in names):
                raise InferlabError(f"{self.folder / INDEX} has no weight_map. {FETCH_AGAIN}")
            shards = [self.folder / name for name in sorted(set(names))]
        else:
            shards = sorted(self.folder.glob("*.safetensors"))
        if not shards:
            raise InferlabError(
                f"{self.folder} has no *.safetensors. Download the weights, or convert older "
                "ones (pytorch_model.bin) to safetensors."
            )
        if missing := [shard.name for shard in shards if not shard.is_file()]:
            raise InferlabError(
                f"{self.folder} lacks the shard {', '.join(missing)} that {INDEX} names. "
                f"{FETCH_AGAIN}"
            )
        return shards

    def _add(self, name: str, entry: dict[str, Any], shard: Path) -> None:
        if entry["dtype"] not in FLOATS:
            raise InferlabError(
                f"{shard}: tensor {name} is stored as {entry['dtype']}; only {', '.join(FLOATS)} "
                "are read. Use an unquantized checkpoint, or a GGUF file."
            )
        self.shapes[name], self._shard_of[name] = tuple(entry["shape"]), shard
        self.kinds[name] = entry["dtype"]

    def mix(self) -> dict[str, tuple[int, int]]:
        """Return the number of tensors and of bytes for each dtype, largest first."""
        sizes = {name: math.prod(shape) for name, shape in self.shapes.items()}
        return tally((self.kinds[name], n * FLOATS[self.kinds[name]]) for name, n in sizes.items())

    def load(self, name: str, dtype: "torch.dtype") -> "torch.Tensor":
        """Read one tensor in `dtype`. Shards are opened one at a time: load in file order."""
        from safetensors import safe_open

        shard = self._shard_of[name]
        if self._open is None or self._open[0] != shard:
            self._open = (shard, safe_open(shard, framework="pt"))
        tensor: torch.Tensor = self._open[1].get_tensor(name).to(dtype)
        return tensor


def _header(shard: Path) -> dict[str, Any]:
    """Return the table of contents of one shard, having checked it against the file's length."""
    try:
        with shard.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            size = shard.stat().st_size
            if 8 + length > size:
                raise ValueError("it ends inside its own header")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        needed = 8 + length + max(entry["data_offsets"][1] for entry in header.values())
        if needed > size:
            raise ValueError(f"it has {size:,} bytes, its tensors need {needed:,}")
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InferlabError(f"{shard} is damaged or cut off: {error}. {FETCH_AGAIN}") from error
    return dict(header)
