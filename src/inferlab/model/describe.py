"""What a model on disk is, read from its headers alone: no weight is loaded, no torch imported."""

from dataclasses import dataclass
from pathlib import Path

from inferlab.model import hub
from inferlab.model.config import ModelConfig
from inferlab.model.gguf_config import config_of_gguf
from inferlab.model.gguf_file import GGUFFile
from inferlab.model.hf_folder import SafetensorsFolder, config_of_folder


@dataclass(frozen=True)
class Description:
    """A model on disk. `mix`: tensors and bytes per storage format, most bytes first."""

    path: Path
    config: ModelConfig
    mix: dict[str, tuple[int, int]]
    sha256: dict[str, str]  # by file name

    @property
    def stored_bytes(self) -> int:
        """Bytes of all weights as they are stored."""
        return sum(size for _, size in self.mix.values())


def read_config(path: Path) -> ModelConfig:
    """Return the configuration alone of a .gguf file or a Hugging Face folder."""
    return config_of_folder(path) if path.is_dir() else config_of_gguf(GGUFFile(path))


def describe(path: Path) -> Description:
    """Describe a .gguf file or a Hugging Face folder.

    Raises InferlabError when it is damaged, incomplete, or of a family that inferlab cannot run.
    """
    if not path.is_dir():
        file = GGUFFile(path)
        return Description(path, config_of_gguf(file), file.mix(), {path.name: hub.checksum(path)})
    files = sorted(path.glob("*.safetensors"))
    return Description(
        path,
        config_of_folder(path),
        SafetensorsFolder(path).mix(),
        {file.name: hub.checksum(file) for file in files},
    )
