"""Chat templates: the model's own program, run safely; user text never becomes control tokens."""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import TYPES, gguf_meta, tiny

from inferlab.errors import InferlabError
from inferlab.model.gguf_file import GGUFFile
from inferlab.model.hub import resolve
from inferlab.model.tokenizer import Tokenizer

USER = [{"role": "user", "content": "Hi"}]


def with_template(template: str | None, **changes: Any) -> Tokenizer:
    meta = gguf_meta(tiny()) | {f"tokenizer.ggml.{k}": v for k, v in changes.items()}
    return Tokenizer.from_gguf(meta | {"tokenizer.chat_template": template}, "test")


@lru_cache
def chatml() -> Tokenizer:
    return with_template(None)


def test_chatml_serves_models_that_have_its_tokens() -> None:
    expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert chatml().apply_chat_template(USER) == expected
    without = chatml().apply_chat_template(USER, add_generation_prompt=False)
    assert without == "<|im_start|>user\nHi<|im_end|>\n"


def test_a_model_without_template_or_chatml_tokens_is_refused() -> None:
    types = [1 if kind == 3 else kind for kind in TYPES]
    with pytest.raises(InferlabError, match="no chat template"):
        with_template(None, token_type=types).apply_chat_template(USER)


def test_templates_know_bos_eos_and_block_syntax() -> None:
    template = """
    {%- for m in messages %}
        {%- if m.role == 'tool' %}{% continue %}{% endif %}
[{{ bos_token }}{{ m.content }}{{ eos_token }}]
    {%- endfor %}
    """
    messages = [*USER, {"role": "tool", "content": "x"}]
    assert with_template(template).apply_chat_template(messages).strip() == "[<s>Hi</s>]"


def test_templates_may_ask_the_date() -> None:
    text = with_template("{{ strftime_now('%Y-%m-%d') }}").apply_chat_template(USER)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", text)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for", "refuses these messages"),
        ("{{ messages[0].content + 1 }}", "refuses these messages"),
        ("{{ ''.__class__.__mro__ }}", "refuses these messages"),
        ("{{ messages.append(1) }}", "refuses these messages"),
    ],
)
def test_failing_and_hostile_templates_end_in_an_error(template: str, message: str) -> None:
    with pytest.raises(InferlabError, match=message):
        with_template(template).apply_chat_template(USER)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "at least one message"),
        ([{"role": "user"}], "message 0 must have"),
        ([{"role": "user", "content": 5}], "message 0 must have"),
        ([*USER, "hello"], "message 1 must have"),
    ],
)
@pytest.mark.parametrize("method", ["apply_chat_template", "encode_chat"])
def test_messages_of_another_form_are_refused(messages: Any, problem: str, method: str) -> None:
    with pytest.raises(InferlabError, match=problem):
        getattr(chatml(), method)(messages)


def test_encoded_chat_has_the_templates_control_tokens() -> None:
    tokenizer = chatml()
    ids = tokenizer.encode_chat(USER)
    assert ids == tokenizer.encode(tokenizer.apply_chat_template(USER), allow_special=True)
    assert (ids.count(3), ids.count(4)) == (2, 1)


def test_a_template_that_writes_bos_gives_it_once() -> None:
    tokenizer = with_template("{{ bos_token }}{{ messages[0].content }}", add_bos_token=True)
    assert tokenizer.encode_chat(USER) == [1, *tokenizer.encode("Hi", add_bos=False)]


HOSTILE = st.lists(
    st.sampled_from(["<|im_end|>", "<|im_start|>", "<s>", "\ufdd0", "\n", "system", "<|im_"])
    | st.text(max_size=5)
).map("".join)


@settings(max_examples=300, deadline=None)
@given(HOSTILE, HOSTILE)
def test_no_message_can_forge_a_turn(system: str, user: str) -> None:
    tokenizer = chatml()
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    ids = tokenizer.encode_chat(messages)
    assert (ids.count(1), ids.count(3), ids.count(4)) == (0, 3, 2)
    assert tokenizer.decode(ids) == f"system\n{system}\nuser\n{user}\nassistant\n"


# --------------------------------------------------------------------------- where it is found


def test_folder_templates(folder: Path, edit_json: Callable[..., None]) -> None:
    settings_file = folder / "tokenizer_config.json"
    assert Tokenizer.from_folder(folder).chat_template is None
    edit_json(settings_file, chat_template="one")
    assert Tokenizer.from_folder(folder).chat_template == "one"
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "two"}]
    edit_json(settings_file, chat_template=named)
    assert Tokenizer.from_folder(folder).chat_template == "two"
    (folder / "chat_template.jinja").write_text("three")
    assert Tokenizer.from_folder(folder).chat_template == "three"
    assert json.loads(settings_file.read_text())["bos_token"] == "<s>"


@pytest.mark.weights
def test_the_embedded_models_default_system_prompt() -> None:
    tokenizer = Tokenizer.from_gguf(GGUFFile(resolve("smollm2-135m")).meta, "test")
    greeting = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    turn = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    expected = f"<|im_start|>system\n{greeting}<|im_end|>\n{turn}"
    assert tokenizer.apply_chat_template(USER) == expected
    own = [{"role": "system", "content": "Be brief."}, *USER]
    expected = f"<|im_start|>system\nBe brief.<|im_end|>\n{turn}"
    assert tokenizer.apply_chat_template(own) == expected
    assert tokenizer.encode_chat(USER)[:2] == [1, 9690]
