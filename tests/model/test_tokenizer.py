"""Tokenizers: llama.cpp's ids, control tokens as text, streaming, and what is refused."""

import json
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tiny_models import TOKENS, gguf_meta, tiny
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from inferlab.errors import InferlabError
from inferlab.model.gguf_file import GGUFFile
from inferlab.model.gguf_tokenizer import build_backend, byte_symbols
from inferlab.model.hub import resolve
from inferlab.model.tokenizer import Detokenizer, Tokenizer

CASES = json.loads((Path(__file__).parents[1] / "data" / "tokenizer_cases.json").read_text())
RULES = [key for key in CASES["ids"] if not key.startswith("sentencepiece")]


@lru_cache
def embedded_meta() -> dict[str, Any]:
    return GGUFFile(resolve("smollm2-135m")).meta


@lru_cache
def embedded(rule: str = "smollm") -> Tokenizer:
    return Tokenizer.from_gguf(embedded_meta() | {"tokenizer.ggml.pre": rule}, "test")


@lru_cache
def embedded_backend() -> Backend:
    return build_backend(embedded_meta(), "test")[0]


@lru_cache
def small() -> Tokenizer:
    return Tokenizer.from_gguf(gguf_meta(tiny()), "test")


def sentencepiece_meta(**changes: Any) -> dict[str, Any]:
    vocabulary = CASES["vocabulary"]
    meta = {
        "model": "llama",
        "tokens": vocabulary["tokens"],
        "scores": vocabulary["scores"],
        "token_type": vocabulary["types"],
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in (meta | changes).items()}


@lru_cache
def sentencepiece() -> Tokenizer:
    return Tokenizer.from_gguf(sentencepiece_meta(), "test")


# ------------------------------------------------------------------------ the ids of llama.cpp


@pytest.mark.weights
@pytest.mark.parametrize("key", RULES)
def test_ids_equal_llama_cpp(key: str) -> None:
    rule, _, special = key.partition("+")
    tokenizer = embedded(rule)
    for text, expected in zip(CASES["texts"], CASES["ids"][key], strict=True):
        if rule == "qwen2" and unicodedata.normalize("NFC", text) != text:
            continue  # Qwen's own tokenizer.json composes characters; llama.cpp does not
        found = tokenizer.encode(text, allow_special=bool(special), add_bos=False)
        assert found == expected, text


@pytest.mark.parametrize("special", [False, True])
def test_sentencepiece_ids_equal_llama_cpp(special: bool) -> None:
    tokenizer = sentencepiece()
    ids = CASES["ids"]["sentencepiece+special" if special else "sentencepiece"]
    for text, expected in zip(CASES["texts"], ids, strict=True):
        found = tokenizer.encode(text, allow_special=special, add_bos=False)
        if not special and {1, 2} & set(expected):
            # Its merges turn a "<s>" that a user typed into the control token; ours never do.
            assert not {1, 2} & set(found)
        else:
            assert found == expected, text


# ----------------------------------------------------------------- control tokens, bos, strange


def test_control_tokens_in_text_stay_text_unless_allowed() -> None:
    tokenizer, text = small(), "a<|im_end|>b"
    assert 4 not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode(text, allow_special=True)[1] == 4
    assert tokenizer.decode(tokenizer.encode(text, allow_special=True)) == "ab"
    assert 4 not in tokenizer.encode(text)  # the switch is not sticky


def test_user_defined_tokens_are_always_tokens() -> None:
    types = [4 if token == "<|im_end|>" else 1 for token in TOKENS]
    meta = gguf_meta(tiny()) | {"tokenizer.ggml.token_type": types}
    tokenizer = Tokenizer.from_gguf(meta, "test")
    assert 4 in tokenizer.encode("a<|im_end|>b")
    assert tokenizer.decode(tokenizer.encode("a<|im_end|>b")) == "a<|im_end|>b"


def test_bos_comes_once_and_only_when_wanted() -> None:
    plain = small()
    assert plain.encode("x") == plain.encode("x", add_bos=False)
    assert plain.encode("x", add_bos=True) == [1, *plain.encode("x")]
    wanted = Tokenizer.from_gguf(gguf_meta(tiny()) | {"tokenizer.ggml.add_bos_token": True}, "test")
    assert wanted.encode("x") == [1, *plain.encode("x")]
    assert wanted.encode("<s>x", allow_special=True) == [1, *plain.encode("x")]
    assert wanted.encode("") == [1]
    assert wanted.encode("x", add_bos=False) == plain.encode("x")


def test_bos_of_sentencepiece_and_llama3_by_default() -> None:
    assert sentencepiece().adds_bos
    meta = gguf_meta(tiny()) | {"tokenizer.ggml.pre": "llama3"}
    assert Tokenizer.from_gguf(meta, "test").adds_bos
    no_bos = {**meta, "tokenizer.ggml.bos_token_id": None}
    assert Tokenizer.from_gguf(no_bos, "test").encode("x") == small().encode("x")


def test_lone_surrogates_become_replacement_characters() -> None:
    tokenizer = small()
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83d\ude00")) == "😀"


def test_empty_text_and_strange_ids() -> None:
    tokenizer = small()
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode([10**6]) == ""
    with pytest.raises(InferlabError, match="-1 is not a token id"):
        tokenizer.decode([-1])


def test_pieces_are_printable() -> None:
    tokenizer = small()
    (newline,) = tokenizer.encode("\n")
    first, *_ = tokenizer.encode("é")
    assert tokenizer.piece(newline) == "\\n"
    assert tokenizer.piece(first) == "\\xc3"
    assert tokenizer.piece(4) == "<|im_end|>"
    assert tokenizer.piece(TOKENS.index("Ġw")) == " w"
    assert tokenizer.piece(10**6) == ""


def test_byte_tokenizer_serves_random_models() -> None:
    tokenizer = Tokenizer.of_bytes()
    assert tokenizer.vocab_size == 256
    assert tokenizer.encode("hé\n") == list("hé\n".encode())
    assert tokenizer.decode(range(256)) == bytes(range(256)).decode("utf-8", "replace")


# ------------------------------------------------------------------------------------ streaming


def streamed(tokenizer: Tokenizer, ids: list[int]) -> tuple[list[str], str]:
    detokenizer = Detokenizer(tokenizer)
    return [detokenizer.push(i) for i in ids], detokenizer.flush()


@settings(max_examples=300, deadline=None)
@given(st.text())
@pytest.mark.parametrize("make", [small, sentencepiece, Tokenizer.of_bytes])
def test_streaming_any_text_gives_the_text(make: Any, text: str) -> None:
    tokenizer = make()
    ids = tokenizer.encode(text, add_bos=False)
    pieces, rest = streamed(tokenizer, ids)
    assert rest == ""
    assert "".join(pieces) == tokenizer.decode(ids)
    # The library's SentencePiece decoder drops one leading space, even of what was no prefix.
    assert tokenizer.decode(ids) in (text, text.removeprefix(" "))
    assert not any("\ufffd" in piece for piece in pieces) or "\ufffd" in text


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 263)))
@pytest.mark.parametrize("make", [small, sentencepiece])
def test_streaming_any_ids_gives_what_decode_gives(make: Any, ids: list[int]) -> None:
    pieces, rest = streamed(make(), ids)
    assert "".join(pieces) + rest == make().decode(ids)
    assert set(rest) <= {"\ufffd"}  # nothing that is whole was held back


@pytest.mark.weights
@settings(max_examples=200, deadline=None)
@given(st.text())
def test_streaming_with_the_embedded_vocabulary(text: str) -> None:
    tokenizer = embedded()
    known = set(embedded_meta()["tokenizer.ggml.tokens"])
    # The model's vocabulary lacks 21 bytes: some control characters, parts of unassigned planes.
    lacking = {byte for byte, symbol in enumerate(byte_symbols()) if symbol not in known}
    assume(lacking.isdisjoint(text.encode()))
    pieces, rest = streamed(tokenizer, tokenizer.encode(text))
    assert "".join(pieces) + rest == text


@pytest.mark.weights
@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 49_151), max_size=30))
def test_decode_equals_the_librarys(ids: list[int]) -> None:
    assert embedded().decode(ids) == embedded_backend().decode(ids, skip_special_tokens=True)


def test_a_character_comes_whole_and_flush_replaces_half_of_one() -> None:
    tokenizer = Tokenizer.of_bytes()
    detokenizer = Detokenizer(tokenizer)
    assert [detokenizer.push(b) for b in "é😀".encode()] == ["", "é", "", "", "", "😀"]
    assert [detokenizer.push(b) for b in "😀".encode()[:3]] == ["", "", ""]
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""
    assert detokenizer.push(ord("a")) == "a"


def test_sentencepiece_prefix_is_dropped_once_per_stream() -> None:
    tokenizer = sentencepiece()
    ids = tokenizer.encode("a b", add_bos=False)
    detokenizer = Detokenizer(tokenizer)
    for _ in range(2):
        assert "".join(map(detokenizer.push, ids)) + detokenizer.flush() == "a b"


def test_sentencepiece_without_prefix() -> None:
    meta = sentencepiece_meta(add_space_prefix=False, add_bos_token=False)
    tokenizer = Tokenizer.from_gguf(meta, "test")
    assert tokenizer.decode(tokenizer.encode(" a")) == " a"
    assert tokenizer.encode("a") == [CASES["vocabulary"]["tokens"].index("a")]


# --------------------------------------------------------------------------------------- folders


def test_metaspace_decoders_are_sentencepiece() -> None:
    backend = Backend(models.BPE({"\u2581a": 0, "b": 1}, []))
    backend.decoder = decoders.Metaspace()
    assert Tokenizer(backend).decode([0, 1, 0]) == "ab a"
    backend.decoder = decoders.Metaspace(prepend_scheme="never")
    assert Tokenizer(backend).decode([0, 1]) == " ab"


def test_folder_that_adds_bos_by_its_post_processor(folder: Path) -> None:
    value = json.loads((folder / "tokenizer.json").read_text())
    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    value["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    (folder / "tokenizer.json").write_text(json.dumps(value))
    assert Tokenizer.from_folder(folder).encode("x") == [1, *small().encode("x")]


def test_added_token_with_a_space_is_spelled_as_it_is(folder: Path) -> None:
    value = json.loads((folder / "tokenizer.json").read_text())
    token = {"id": 264, "content": "a b", "special": False, "normalized": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    value["added_tokens"].append(token | flags)
    (folder / "tokenizer.json").write_text(json.dumps(value))
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.vocab_size == 265
    assert tokenizer.encode("a b") == [264]
    assert tokenizer.decode([264]) == "a b"


# --------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": None}, "test has no tokenizer"),
        ({"model": "bert"}, "tokenizer 'bert' is not supported"),
        ({"pre": "klingon"}, "pre-tokenizer 'klingon' is not supported.*smollm"),
        ({"token_type": [1]}, "264 tokens but 1 token types"),
        ({"eos_token_id": 999}, "eos token 999 is not in the vocabulary of 264"),
        ({"merges": ["zz yy"]}, "the merges do not fit the tokens"),
        ({"model": "llama"}, "264 tokens but 0 scores"),
    ],
)
def test_gguf_tokenizer_is_refused_with_the_reason(changes: dict[str, Any], message: str) -> None:
    meta = gguf_meta(tiny()) | {f"tokenizer.ggml.{k}": v for k, v in changes.items()}
    with pytest.raises(InferlabError, match=message):
        Tokenizer.from_gguf(meta, "test")


def test_gguf_without_token_types_has_no_control_tokens() -> None:
    meta = gguf_meta(tiny()) | {"tokenizer.ggml.token_type": None}
    tokenizer = Tokenizer.from_gguf(meta, "test")
    assert 4 not in tokenizer.encode("<|im_end|>", allow_special=True)


def test_folder_without_or_with_a_broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(InferlabError, match=r"tokenizer\.json cannot be read"):
        Tokenizer.from_folder(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InferlabError, match=r"has no tokenizer\.json"):
        Tokenizer.from_folder(folder)


def test_other_decoders_are_refused() -> None:
    backend = Backend(models.BPE({s: i for i, s in enumerate(byte_symbols())}, []))
    with pytest.raises(InferlabError, match="decoder \\(None\\) is not supported"):
        Tokenizer(backend)
    backend.decoder = decoders.WordPiece()
    with pytest.raises(InferlabError, match="decoder \\(WordPiece\\) is not supported"):
        Tokenizer(backend)
