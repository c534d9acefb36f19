"""Where a model runs and in which dtype; shapes and prompts made of random numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

import torch

from inferlab import hardware
from inferlab.errors import InferlabError
from inferlab.model import hub
from inferlab.model.config import SHAPES, ModelConfig
from inferlab.model.tokenizer import Tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEVICES = ("auto", "cpu", "cuda", "mps")
GIB = 2**30
SPREAD = 0.02  # standard deviation of random weights, as models are initialized


@dataclass(frozen=True)
class Placement:
    """A device and the dtype that weights and cache have on it."""

    device: torch.device
    dtype: torch.dtype


def choose(device: str, dtype: str, num_threads: int | None = None) -> Placement:
    """Resolve "auto", check the rest against this machine, set the number of CPU threads.

    Raises InferlabError for a device that is not here or a dtype that it cannot use.
    """
    if num_threads is not None:
        if num_threads < 1:
            raise InferlabError(f"num_threads must be at least 1, not {num_threads}.")
        torch.set_num_threads(num_threads)
    kind = _device(device)
    if dtype != "auto" and dtype not in DTYPES:
        raise InferlabError(f"no dtype {dtype!r}. There are: auto, {', '.join(DTYPES)}.")
    if kind == "cpu" and dtype == "float16":
        raise InferlabError("float16 is for GPUs; on a CPU use bfloat16 or float32.")
    chosen = DTYPES[_fastest_dtype(kind) if dtype == "auto" else dtype]
    return Placement(torch.device(kind), chosen)


def _device(name: str) -> str:
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(kind for kind, present in there.items() if present)
    if name not in there:
        raise InferlabError(f"no device {name!r}. There are: {', '.join(DEVICES)}.")
    if not there[name]:
        what = {"cuda": "a CUDA GPU (and PyTorch built for it)", "mps": "an Apple GPU"}[name]
        raise InferlabError(f"device {name!r} needs {what}, which this machine does not show.")
    return name


def _fastest_dtype(kind: str) -> str:
    if kind == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    if kind == "mps":
        return "float16"
    # Without instructions for it, bfloat16 on a CPU is emulated, several times slower.
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bfloat16" if native else "float32"


def shape_named(shape: str | ModelConfig, num_layers: int | None) -> ModelConfig:
    """The configuration of a named shape, with fewer layers when asked."""
    if isinstance(shape, str):
        if shape not in SHAPES:
            raise InferlabError(f"no shape {shape!r}. There are: {', '.join(SHAPES)}.")
        shape = SHAPES[shape]
    return shape if num_layers is None else replace(shape, num_layers=num_layers)


def random_state(config: ModelConfig, place: Placement, seed: int) -> dict[str, torch.Tensor]:
    """Weights drawn from a normal distribution; norms are ones. Made on the device itself."""
    generator = torch.Generator(place.device).manual_seed(seed)

    def draw(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        made = torch.empty(shape, dtype=place.dtype, device=place.device)
        if "norm" in name:
            return made.fill_(1.0)
        return made.normal_(0.0, SPREAD, generator=generator)

    return {name: draw(name, shape) for name, shape in config.tensor_shapes().items()}


def random_prompt(
    config: ModelConfig, tokenizer: Tokenizer, num_tokens: int, seed: int
) -> list[int]:
    """Random ids among the tokens that add text, so no control token is among them."""
    if num_tokens < 1:
        raise InferlabError(f"a prompt has at least 1 token, not {num_tokens}.")
    size = min(config.vocab_size, tokenizer.vocab_size)
    ordinary = [token for token in range(size) if tokenizer.token_bytes(token)]
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(len(ordinary), (num_tokens,), generator=generator)
    return [ordinary[i] for i in picks.tolist()]


def start_ids(tokenizer: Tokenizer) -> list[int]:
    """What an empty prompt starts from: bos, else the model's end token."""
    first = tokenizer.bos_token_id
    if first is None and not tokenizer.eos_token_ids:
        raise InferlabError("the prompt is empty, and this model has no token to start from.")
    return [tokenizer.eos_token_ids[0] if first is None else first]


def checked_ids(prompt: Any, vocab_size: int) -> list[int]:
    """The ids as a list of int; integers of NumPy and tensors count as such.

    Raises InferlabError for no ids, for anything else, and for an id outside the vocabulary.
    """
    if isinstance(prompt, bytes | Mapping) or not isinstance(prompt, Iterable):
        raise InferlabError(f"a prompt is a text or a list of token ids, not {prompt!r}.")
    ids = [_checked_id(token, vocab_size) for token in prompt]
    if not ids:
        raise InferlabError("the prompt has no tokens; give at least one.")
    return ids


def _checked_id(token: Any, vocab_size: int) -> int:
    try:
        number = -1 if isinstance(token, bool) else index(token)
    except TypeError:
        number = -1
    if not 0 <= number < vocab_size:
        raise InferlabError(f"{token!r} is not a token id: they are 0 to {vocab_size - 1}.")
    return number


def require_memory(config: ModelConfig, place: Placement) -> None:
    """Raise InferlabError when the weights cannot fit into the memory that is free now.

    Says nothing where the free memory is unknown.
    """
    needed = config.num_parameters * place.dtype.itemsize
    free = free_bytes(place.device)
    if free is not None and needed > free:
        raise InferlabError(
            f"{config.name} needs {needed / GIB:.1f} GiB for its weights in "
            f"{str(place.dtype).removeprefix('torch.')}, and {place.device.type} has "
            f"{free / GIB:.1f} GiB free. Choose a smaller model, or fewer layers (num_layers)."
        )


def free_bytes(device: torch.device) -> int | None:
    """Memory of the device that is free now; None where that is unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    memory = hardware.describe()["memory"]
    known = [memory.get(key) for key in ("available_bytes", "limit_bytes")]
    return min((size for size in known if size), default=None)


def checksums(path: Path) -> str | dict[str, str]:
    """SHA-256 of a model file; of each file of weights by name for a folder."""
    if path.is_file():
        return hub.checksum(path)
    return {file.name: hub.checksum(file) for file in sorted(path.glob("*.safetensors"))}
