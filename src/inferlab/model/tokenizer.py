"""Text to token ids and back, for byte-level and SentencePiece vocabularies."""

import codecs
import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from inferlab.errors import InferlabError
from inferlab.model import chat
from inferlab.model.gguf_tokenizer import build_backend, byte_symbols
from inferlab.model.hf_folder import FETCH_AGAIN, read_json

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SYMBOL_BYTES = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
SPACE_SYMBOL = "\u2581"  # SentencePiece writes a space so
TURN = ("role", "content")
NONCHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # never in text, says Unicode


class Tokenizer:
    """A `tokenizers` backend, and what a model adds to it: control tokens, bos, eos, chat form."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        bos_token_id: int | None = None,
        eos_token_ids: Iterable[int] = (),
        adds_bos: bool = False,
        chat_template: str | None = None,
    ) -> None:
        self.bos_token_id, self.eos_token_ids = bos_token_id, tuple(eos_token_ids)
        self.adds_bos, self.chat_template = adds_bos and bos_token_id is not None, chat_template
        self._backend, self._lock = backend, threading.Lock()
        added = backend.get_added_tokens_decoder()
        self.vocab_size: int = max([backend.get_vocab_size() - 1, *added]) + 1
        self._special = {i: token.content for i, token in added.items() if token.special}
        self._byte_level, self.strips_space = _decoder_kind(backend.decoder)
        self._bytes: dict[int, bytes] = {}
        self._bytes.update(dict.fromkeys(self._special, b""))

    @classmethod
    def from_gguf(cls, meta: Mapping[str, Any], where: str) -> "Tokenizer":
        """Build the tokenizer that GGUF metadata describes; `where` names the file in errors."""
        backend, adds_bos = build_backend(meta, where)
        ids = {k: meta.get(f"tokenizer.ggml.{k}_token_id") for k in ("bos", "eos", "eot")}
        return cls(
            backend,
            bos_token_id=ids["bos"],
            eos_token_ids=dict.fromkeys(i for i in (ids["eos"], ids["eot"]) if i is not None),
            adds_bos=adds_bos,
            chat_template=meta.get("tokenizer.chat_template"),
        )

    @classmethod
    def from_folder(
        cls, folder: Path, bos_token_id: int | None = None, eos_token_ids: Sequence[int] = ()
    ) -> "Tokenizer":
        """Read tokenizer.json and tokenizer_config.json; the ids given win over the latter's."""
        read_json(folder / "tokenizer.json")  # a clear error when it is missing or damaged
        try:
            backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises bare Exception
            raise InferlabError(
                f"{folder / 'tokenizer.json'} cannot be read: {error}. {FETCH_AGAIN}"
            ) from error
        settings = read_json(folder / "tokenizer_config.json", required=False)
        named = {
            k: backend.token_to_id(_content(settings.get(f"{k}_token"))) for k in ("bos", "eos")
        }
        bos = named["bos"] if bos_token_id is None else bos_token_id
        first = backend.encode("", add_special_tokens=True).ids[:1]
        return cls(
            backend,
            bos_token_id=bos,
            eos_token_ids=eos_token_ids or [i for i in (named["eos"],) if i is not None],
            adds_bos=bool(first) and first[0] == bos,
            chat_template=chat.template_of_folder(folder, settings),
        )

    @classmethod
    def of_bytes(cls) -> "Tokenizer":
        """A vocabulary of the 256 bytes, for models with random weights."""
        vocabulary = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
        backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
        backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
            add_prefix_space=False, use_regex=False
        )
        backend.decoder = tokenizers.decoders.ByteLevel()
        return cls(backend)

    def encode(
        self, text: str, *, allow_special: bool = False, add_bos: bool | None = None
    ) -> list[int]:
        """Return the ids of `text`.

        Control tokens that `text` spells out stay plain text unless `allow_special`. The bos token
        comes first when the model wants it (`add_bos` overrides) and `text` did not bring it.
        Surrogates that no encoding can hold become U+FFFD.
        """
        with self._lock:  # the switch belongs to the backend, not to the call
            self._backend.encode_special_tokens = not allow_special
            ids: list[int] = self._backend.encode(_valid(text), add_special_tokens=False).ids
        wanted = self.adds_bos if add_bos is None else add_bos
        if wanted and self.bos_token_id is not None and ids[:1] != [self.bos_token_id]:
            return [self.bos_token_id, *ids]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids`, without control tokens; broken UTF-8 becomes U+FFFD."""
        data = b"".join(map(self.token_bytes, ids))
        if self.strips_space and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """Return what one token adds to the text: none for control tokens and padding rows."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._spell(token_id)
        return known

    def _spell(self, token_id: int) -> bytes:
        if token_id < 0:
            raise InferlabError(f"{token_id} is not a token id: ids are 0 and above.")
        token = self._backend.id_to_token(token_id) or ""
        if self._byte_level:
            if all(symbol in SYMBOL_BYTES for symbol in token):
                return bytes(SYMBOL_BYTES[symbol] for symbol in token)
            return token.encode()
        if match := BYTE_TOKEN.fullmatch(token):
            return bytes([int(match[1], 16)])
        return token.replace(SPACE_SYMBOL, " ").encode()

    def piece(self, token_id: int) -> str:
        """Return one token in a form to print: visible escapes for line ends and broken bytes."""
        if token_id in self._special:
            return self._special[token_id]
        text = self.token_bytes(token_id).decode("utf-8", "backslashreplace")
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True
    ) -> str:
        """Return the conversation as the model's own template writes it, ready for its answer.

        Raises InferlabError when the model has no template, or the template refuses the messages.
        """
        template = self.chat_template
        if template is None and {"<|im_start|>", "<|im_end|>"} <= set(self._special.values()):
            template = chat.CHATML
        bos = None if self.bos_token_id is None else self._special.get(self.bos_token_id)
        eos = self._special.get(self.eos_token_ids[0]) if self.eos_token_ids else None
        tokens = {"bos_token": bos or "", "eos_token": eos or ""}
        return chat.render(template, messages, tokens, add_generation_prompt)

    def encode_chat(
        self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True
    ) -> list[int]:
        """Return the ids of a conversation; control tokens that a message spells out stay text."""
        chat.check(messages)
        turns = [{key: message[key] for key in TURN} for message in messages]
        written = sorted(filter(None, self._special.values()), key=len, reverse=True)
        texts = "".join(turn["role"] + turn["content"] for turn in turns)
        if not any(token in texts for token in written):
            text = self.apply_chat_template(turns, add_generation_prompt=add_generation_prompt)
            return self.encode(text, allow_special=True, add_bos=False)
        # A mark inside each such spelling keeps it apart from the template's own control tokens.
        mark = next(c for c in NONCHARACTERS if c not in texts)
        pattern = re.compile("|".join(map(re.escape, written)))
        marked = [
            {k: pattern.sub(lambda m: m[0][0] + mark + m[0][1:], v) for k, v in turn.items()}
            for turn in turns
        ]
        text = self.apply_chat_template(marked, add_generation_prompt=add_generation_prompt)
        ids: list[int] = []
        for part in re.split(f"({pattern.pattern})", text):
            ids += self.encode(
                part.replace(mark, ""), allow_special=bool(pattern.fullmatch(part)), add_bos=False
            )
        return ids


class Detokenizer:
    """Turns a stream of ids into text as it comes, never ending inside a character."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._strip = tokenizer, tokenizer.strips_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """Return the text that is complete with this token: "" while a character is unfinished."""
        data = self._tokenizer.token_bytes(token_id)
        if self._strip and data:
            data, self._strip = data.removeprefix(b" "), False
        return self._decoder.decode(data)

    def flush(self) -> str:
        """End the stream: an unfinished character becomes U+FFFD. A new stream may follow."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        self._strip = self._tokenizer.strips_space
        return rest


def _decoder_kind(decoder: Any) -> tuple[bool, bool]:
    """Return (byte-level?, drops the first space?); raise InferlabError for other decoders."""
    state = json.loads(decoder.__getstate__()) if decoder else {"type": None}
    parts = state.get("decoders", [state])
    kinds = {part["type"]: part for part in parts}
    if "ByteLevel" in kinds:
        return True, False
    if "Metaspace" in kinds:
        return False, kinds["Metaspace"].get("prepend_scheme", "always") != "never"
    if "ByteFallback" in kinds:
        return False, "Strip" in kinds
    raise InferlabError(
        f"the tokenizer's decoder ({', '.join(map(str, kinds))}) is not supported; byte-level and "
        "SentencePiece tokenizers are."
    )


def _content(token: Any) -> str:
    """Tokenizer_config.json names a token by its text, or by an object that holds it."""
    value = token.get("content") if isinstance(token, Mapping) else token
    return value if isinstance(value, str) else ""


def _valid(text: str) -> str:
    """Join surrogate pairs, replace lone surrogates: Python strings may hold both, UTF-8 none."""
    if any("\ud800" <= c <= "\udfff" for c in text):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
