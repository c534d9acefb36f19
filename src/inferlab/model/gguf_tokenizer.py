"""Builds a `tokenizers` backend from the vocabulary that a GGUF file carries.

GGUF names the way text is cut before merging ("pre") instead of carrying it, so the rules of the
supported families stand here, as llama.cpp and the models' own tokenizer.json have them.
"""

from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from inferlab.errors import InferlabError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # GGUF's token types

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LOWER, _UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = {
    "llama-bpe": _CONTRACTIONS + r"\p{N}{1,3}" + _REST,
    "qwen2": _CONTRACTIONS + r"\p{N}" + _REST,
    "tekken": _TEKKEN,
}
ALIASES = {"llama3": "llama-bpe", "llama-v3": "llama-bpe", "default": "gpt-2"}
WHOLE_WORDS_FIRST = ("llama-bpe", "tekken")  # a piece that is a token needs no merges
ADD_BOS = ("llama-bpe", "tekken")


def byte_symbols() -> list[str]:
    """GPT-2's printable stand-in for each byte, in byte order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    stand_in = {byte: chr(byte) for byte in printable}
    stand_in |= {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [stand_in[byte] for byte in range(256)]


def build_backend(meta: Mapping[str, Any], where: str) -> tuple[tokenizers.Tokenizer, bool]:
    """Return the backend, and whether the model wants its bos token first.

    Raises InferlabError for a tokenizer of another kind, or an incomplete one.
    """
    kind = meta.get("tokenizer.ggml.model")
    pieces, types = meta.get("tokenizer.ggml.tokens"), meta.get("tokenizer.ggml.token_type")
    if not pieces:
        raise InferlabError(f"{where} has no tokenizer. Use a GGUF file that carries one.")
    types = types or [NORMAL] * len(pieces)
    _check_ids(meta, pieces, types, where)
    if kind == "gpt2":
        backend, adds_bos = _byte_level(meta, pieces, where)
    elif kind == "llama":
        backend, adds_bos = _sentencepiece(meta, pieces, types, where), True
    else:
        raise InferlabError(
            f"{where}: tokenizer {kind!r} is not supported; byte-level BPE (gpt2) and "
            "SentencePiece (llama) are."
        )
    for added, special in ((CONTROL, True), (USER_DEFINED, False)):
        tokens = [p for p, t in zip(pieces, types, strict=True) if t == added and p]
        backend.add_tokens([AddedToken(p, special=special, normalized=False) for p in tokens])
    return backend, bool(meta.get("tokenizer.ggml.add_bos_token", adds_bos))


def _check_ids(meta: Mapping[str, Any], pieces: list[str], types: list[int], where: str) -> None:
    if len(types) != len(pieces):
        raise InferlabError(
            f"{where}: {len(pieces):,} tokens but {len(types):,} token types; the file is damaged."
        )
    for name in ("bos", "eos", "eot"):
        token_id = meta.get(f"tokenizer.ggml.{name}_token_id")
        if token_id is not None and not 0 <= token_id < len(pieces):
            raise InferlabError(
                f"{where}: {name} token {token_id} is not in the vocabulary of {len(pieces):,}."
            )


def _byte_level(
    meta: Mapping[str, Any], pieces: list[str], where: str
) -> tuple[tokenizers.Tokenizer, bool]:
    pre = meta.get("tokenizer.ggml.pre", "default")
    pre = ALIASES.get(pre, pre)
    if pre not in SPLITS and pre not in ("gpt-2", "smollm"):
        raise InferlabError(
            f"{where}: pre-tokenizer {pre!r} is not supported; known are gpt-2, smollm, "
            f"{', '.join(SPLITS)}. Use the model's Hugging Face folder."
        )
    merges = [tuple(line.split(" ", 1)) for line in meta.get("tokenizer.ggml.merges") or ()]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    try:
        model = models.BPE(vocabulary, merges, ignore_merges=pre in WHOLE_WORDS_FIRST)
    except Exception as error:  # the library raises bare Exception
        raise InferlabError(f"{where}: the merges do not fit the tokens: {error}") from error
    backend = tokenizers.Tokenizer(model)
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = _cut(pre)
    backend.decoder = decoders.ByteLevel()
    return backend, pre in ADD_BOS


def _cut(pre: str) -> Any:
    """How text is cut into pieces before bytes are merged within them."""
    if pre not in SPLITS:
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        digits = [pre_tokenizers.Digits(individual_digits=True)] if pre == "smollm" else []
        return pre_tokenizers.Sequence([*digits, words])
    split = pre_tokenizers.Split(tokenizers.Regex(SPLITS[pre]), behavior="isolated")
    return pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def _sentencepiece(
    meta: Mapping[str, Any], pieces: list[str], types: list[int], where: str
) -> tokenizers.Tokenizer:
    scores = meta.get("tokenizer.ggml.scores") or ()
    if len(scores) != len(pieces):
        raise InferlabError(f"{where}: {len(pieces):,} tokens but {len(scores):,} scores.")
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    unknown = pieces[meta.get("tokenizer.ggml.unknown_token_id", 0)]
    model = models.BPE(
        vocabulary,
        _merges(pieces, types, scores),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=True,
    )
    backend = tokenizers.Tokenizer(model)
    prefix = meta.get("tokenizer.ggml.add_space_prefix", True)
    first = [normalizers.Prepend("\u2581")] if prefix else []
    backend.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "\u2581")])
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return backend


def _merges(pieces: list[str], types: list[int], scores: Any) -> list[tuple[str, str]]:
    """SentencePiece joins the two neighbours whose union scores best; as a ranked list of merges.

    Only ordinary tokens take part, so that no text turns into a control token.
    """
    score = {
        p: s for p, t, s in zip(pieces, types, scores, strict=True) if t in (NORMAL, USER_DEFINED)
    }
    ranked = [
        (-value, len(piece), piece[:cut], piece[cut:])
        for piece, value in score.items()
        for cut in range(1, len(piece))
        if piece[:cut] in score and piece[cut:] in score
    ]
    return [(left, right) for *_, left, right in sorted(ranked)]
