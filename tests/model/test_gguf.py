"""GGUF files: every block format, the header, and damaged files."""

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from tiny_models import add_value

from inferlab.errors import InferlabError
from inferlab.model import dequantize
from inferlab.model.gguf_file import GGUFFile

ROWS, COLUMNS = 6, 512  # two blocks of the K quants in a row
KINDS = [
    "F32", "F16", "BF16", "F64", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
    "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
]  # fmt: skip


def stored(kind: str) -> np.ndarray:
    """Bytes of a (ROWS, COLUMNS) tensor; with small bytes every scale is a finite number."""
    block, size = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    rng = np.random.default_rng(len(kind))
    if kind in ("F32", "F64"):
        return rng.standard_normal((ROWS, COLUMNS)).astype("f4" if kind == "F32" else "f8")
    if kind == "F16":
        return rng.standard_normal((ROWS, COLUMNS)).astype("f2")
    if kind in ("BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        values = rng.standard_normal((ROWS, COLUMNS)).astype("f4")
        return gguf.quants.quantize(values, GGMLQuantizationType[kind])
    return rng.integers(0, 64, (ROWS, COLUMNS // block * size), dtype=np.uint8)


def write(path: Path, tensors: dict[str, tuple[str, np.ndarray]], **meta: Any) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in meta.items():
        add_value(writer, key.replace("__", "."), value)
    for name, (kind, data) in tensors.items():
        plain = kind in ("F32", "F16", "F64")
        writer.add_tensor(name, data, raw_dtype=None if plain else GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slab_rows", [4, 1000])
def test_every_format_is_decoded_as_gguf_does(
    tmp_path: Path, kind: str, slab_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dequantize, "SLAB_ELEMENTS", slab_rows * COLUMNS)
    data = stored(kind)
    file = GGUFFile(
        write(tmp_path / "x.gguf", {"first": ("F32", stored("F32")), "w": (kind, data)})
    )
    if kind == "F64":
        expected = torch.from_numpy(data)
    else:
        expected = torch.from_numpy(gguf.quants.dequantize(data, GGMLQuantizationType[kind]))
    assert file.tensors["w"].kind == kind
    assert file.tensors["w"].shape == (ROWS, COLUMNS)
    assert expected.isfinite().all()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        found = file.load("w", dtype)
        assert found.dtype == dtype
        assert torch.equal(found, expected.to(dtype))


def test_a_loaded_tensor_owns_its_memory(tmp_path: Path) -> None:
    file = GGUFFile(write(tmp_path / "x.gguf", {"w": ("F32", stored("F32"))}))
    file.load("w", torch.float32).zero_()
    assert file.load("w", torch.float32).abs().sum() > 0


def test_metadata_of_every_type_equals_what_gguf_reads(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    kinds = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
    for number, kind in enumerate(kinds):
        getattr(writer, f"add_{kind}")(f"a.{kind}", 3 + number)
    writer.add_float32("a.f4", 0.5)
    writer.add_float64("a.f8", 0.1)
    writer.add_bool("a.yes", True)
    writer.add_string("a.text", "héllo 😀")
    writer.add_array("a.texts", ["x", "", "ÿ"])
    writer.add_array("a.ints", [1, -2, 3])
    writer.add_array("a.floats", [0.5, 1.5])
    writer.add_array("a.nested", [[1, 2], [3]])
    writer.add_tensor("w", stored("F32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    meta = GGUFFile(path).meta
    assert meta.pop("a.nested") == [[1, 2], [3]]
    fields = gguf.GGUFReader(path).fields
    expected = {k: f.contents() for k, f in fields.items() if not k.startswith("GGUF.")}
    expected.pop("a.nested")
    assert meta == expected


def test_alignment_of_tensors_is_the_files_own(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(256)
    data = stored("F32")
    writer.add_tensor("w", data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert np.array_equal(GGUFFile(path).load("w", torch.float32).numpy(), data)


def test_mix_counts_tensors_and_bytes(tmp_path: Path) -> None:
    tensors = {
        "a": ("F32", stored("F32")),
        "b": ("Q4_0", stored("Q4_0")),
        "c": ("Q4_0", stored("Q4_0")),
    }
    file = GGUFFile(write(tmp_path / "x.gguf", tensors))
    values = ROWS * COLUMNS
    assert file.mix() == {"F32": (1, 4 * values), "Q4_0": (2, 2 * values // 32 * 18)}
    assert list(file.mix()) == ["F32", "Q4_0"]
    assert file.floats("a") == stored("F32").ravel().tolist()
    with pytest.raises(InferlabError, match="b is stored as Q4_0"):
        file.floats("b")


# -------------------------------------------------------------------------------------- refused


def test_not_a_gguf_file(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"PK\x03\x04 a zip file, say")
    with pytest.raises(InferlabError, match=r"x\.gguf is not a GGUF file"):
        GGUFFile(path)


@pytest.mark.parametrize("content", [None, b""])
def test_missing_or_empty_file(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InferlabError, match=r"cannot read .*x\.gguf"):
        GGUFFile(path)


def test_a_file_cut_anywhere_is_refused(gguf_path: Path) -> None:
    whole = gguf_path.read_bytes()
    GGUFFile(gguf_path)
    lengths = [*range(4, 400, 7), len(whole) // 2, len(whole) - 1]
    for length in lengths:
        gguf_path.write_bytes(whole[:length])
        with pytest.raises(InferlabError, match="cut off"):
            GGUFFile(gguf_path)


def test_a_damaged_count_does_not_exhaust_memory(gguf_path: Path) -> None:
    content = bytearray(gguf_path.read_bytes())
    struct.pack_into("<Q", content, 16, 1 << 60)  # number of keys
    gguf_path.write_bytes(content)
    with pytest.raises(InferlabError, match="damaged or cut off"):
        GGUFFile(gguf_path)
    at = content.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type") + 8
    struct.pack_into("<Q", content, at, 1 << 60)  # length of an array
    gguf_path.write_bytes(content)
    with pytest.raises(InferlabError, match="damaged or cut off"):
        GGUFFile(gguf_path)


def test_other_version_or_byte_order(gguf_path: Path) -> None:
    content = bytearray(gguf_path.read_bytes())
    struct.pack_into(">I", content, 4, 3)
    gguf_path.write_bytes(content)
    with pytest.raises(InferlabError, match="version 50331648 is not supported"):
        GGUFFile(gguf_path)


def damage_tensor(path: Path, field: int, value: int) -> None:
    """Overwrite a field behind the name of tensor "w" (2 dimensions): 4 bytes each but sizes."""
    content = bytearray(path.read_bytes())
    start = content.index(struct.pack("<Q", 1) + b"w") + 9
    struct.pack_into("<I" if field >= 20 else "<Q", content, start + field, value)
    path.write_bytes(content)


def test_unknown_tensor_format(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", {"w": ("Q4_0", stored("Q4_0"))})
    damage_tensor(path, 20, 999)
    with pytest.raises(InferlabError, match="w has the unknown format 999"):
        GGUFFile(path)


def test_shape_that_fills_no_whole_blocks(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", {"w": ("Q4_0", stored("Q4_0"))})
    damage_tensor(path, 4, 500)
    with pytest.raises(InferlabError, match=r"does not fill blocks of 32 \(Q4_0\)"):
        GGUFFile(path)


def test_format_that_cannot_be_decoded(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", {"w": ("Q4_0", stored("Q4_0"))})
    damage_tensor(path, 20, GGMLQuantizationType.Q8_1)
    path.write_bytes(path.read_bytes() + bytes(8000))  # Q8_1 needs more of them
    with pytest.raises(InferlabError, match="w is stored as Q8_1, which cannot be decoded"):
        GGUFFile(path).load("w", torch.float32)
