"""Reads GGUF files: metadata, the list of tensors, and one tensor at a time.

The `gguf` package's own reader needs seconds for a vocabulary of 49,152 strings, since it makes
several arrays of each; this one walks the file once. Values and layouts are the format's (version
2 and 3, little-endian); the block formats themselves are decoded by `gguf.quants`.
"""

import mmap
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferlab.errors import InferlabError

if TYPE_CHECKING:
    import torch

MAGIC = b"GGUF"
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
STRING, ARRAY = 8, 9
FETCH_AGAIN = "Download it again (`inferlab model fetch --force` for the embedded model)."


def tally(tensors: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """From (format, bytes) of each tensor: tensors and bytes per format, most bytes first."""
    count: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for kind, nbytes in tensors:
        count[kind] += 1
        size[kind] += nbytes
    return {kind: (count[kind], total) for kind, total in size.most_common()}


class _Cursor:
    """Reads values one after the other; reading past the end raises struct.error."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.position = data, 0

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.position)
        self.position += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        length = self.scalar("Q")
        end = self.position + length
        if end > len(self.data):
            raise struct.error("a string reaches past the end")
        text = self.data[self.position : end].decode("utf-8", "replace")
        self.position = end
        return text

    def strings(self, count: int) -> list[str]:
        """Read an array of strings: the inner loop of opening a file."""
        data, position, unpack = self.data, self.position, struct.Struct("<Q").unpack_from
        result = []
        for _ in range(count):
            start = position + 8
            position = start + unpack(data, position)[0]
            result.append(data[start:position].decode("utf-8", "replace"))
        if position > len(data):
            raise struct.error("an array of strings reaches past the end")
        self.position = position
        return result

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.scalar(SCALARS[kind])
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner == STRING:
            return self.strings(count)
        if inner == ARRAY:
            return [self.value(ARRAY) for _ in range(count)]
        layout = f"<{count}{SCALARS[inner]}"
        values = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return list(values)


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies; `shape` in PyTorch's order (rows first)."""

    name: str
    shape: tuple[int, ...]
    kind: str  # "F32", "Q4_1", ...
    offset: int
    nbytes: int


class GGUFFile:
    """An open GGUF file: `meta` (all keys) and `tensors` (by name); nothing is decoded yet.

    Raises InferlabError when the file is not GGUF, is cut off, or holds a tensor format that
    `gguf` does not know.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                # A private mapping is writable memory, as torch wants it; the file never changes.
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise InferlabError(f"cannot read {path}: {error}.") from error
        if self._data[:4] != MAGIC:
            raise InferlabError(
                f"{path} is not a GGUF file (it begins with {self._data[:4]!r}). "
                "Give a .gguf file, or a folder with config.json and *.safetensors."
            )
        try:
            self.meta, self.tensors = self._parse(_Cursor(self._data))
        except (struct.error, KeyError, MemoryError, OverflowError) as error:
            raise InferlabError(
                f"{path} is damaged or cut off: its header cannot be read. {FETCH_AGAIN}"
            ) from error
        self._check_length()

    def _parse(self, cursor: _Cursor) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
        cursor.position = len(MAGIC)
        version = cursor.scalar("I")
        if version not in (2, 3):
            raise InferlabError(
                f"{self.path}: GGUF version {version} is not supported (2 and 3 are, "
                "little-endian). Convert the model again with a current llama.cpp."
            )
        num_tensors, num_keys = cursor.scalar("Q"), cursor.scalar("Q")
        meta = {}
        for _ in range(num_keys):
            key = cursor.string()
            meta[key] = cursor.value(cursor.scalar("I"))
        infos = [self._tensor(cursor) for _ in range(num_tensors)]
        alignment = meta.get("general.alignment", 32)
        start = -(-cursor.position // alignment) * alignment
        return meta, {
            i.name: TensorInfo(i.name, i.shape, i.kind, start + i.offset, i.nbytes) for i in infos
        }

    def _tensor(self, cursor: _Cursor) -> TensorInfo:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        name = cursor.string()
        shape = tuple(cursor.scalar("Q") for _ in range(cursor.scalar("I")))[::-1]
        number, offset = cursor.scalar("I"), cursor.scalar("Q")
        if number not in set(GGMLQuantizationType):
            raise InferlabError(
                f"{self.path}: tensor {name} has the unknown format {number}. "
                "Use a file with F32, F16, BF16, Q8_0, Q4_0, Q4_1 or K quants."
            )
        kind = GGMLQuantizationType(number)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        elements = 1
        for size in shape:
            elements *= size
        if not shape or shape[-1] % block:
            raise InferlabError(
                f"{self.path}: tensor {name} of shape {shape} does not fill blocks of {block} "
                f"({kind.name}). {FETCH_AGAIN}"
            )
        return TensorInfo(name, shape, kind.name, offset, elements // block * block_bytes)

    def _check_length(self) -> None:
        needed = max((t.offset + t.nbytes for t in self.tensors.values()), default=0)
        if needed > len(self._data):
            raise InferlabError(
                f"{self.path} is cut off: it has {len(self._data):,} bytes, its tensors need "
                f"{needed:,}. {FETCH_AGAIN}"
            )

    def mix(self) -> dict[str, tuple[int, int]]:
        """Return the number of tensors and of bytes for each format, largest first."""
        return tally((tensor.kind, tensor.nbytes) for tensor in self.tensors.values())

    def floats(self, name: str) -> list[float]:
        """Return the values of a small F32 tensor without importing torch."""
        info = self.tensors[name]
        if info.kind != "F32":
            raise InferlabError(f"{self.path}: {name} is stored as {info.kind}, not as F32.")
        return list(struct.unpack_from(f"<{info.nbytes // 4}f", self._data, info.offset))

    def load(self, name: str, dtype: "torch.dtype") -> "torch.Tensor":
        """Decode one tensor into `dtype`; it owns its memory."""
        import torch

        from inferlab.model.dequantize import dequantize

        info = self.tensors[name]
        raw = torch.frombuffer(self._data, dtype=torch.uint8, count=info.nbytes, offset=info.offset)
        try:
            return dequantize(raw, info.kind, info.shape, dtype)
        except NotImplementedError as error:
            raise InferlabError(
                f"{self.path}: tensor {name} is stored as {info.kind}, which cannot be decoded. "
                "Use a file with F32, F16, BF16, Q8_0, Q4_0, Q4_1 or K quants."
            ) from error
