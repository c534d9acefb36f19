"""Chat templates: the model's own jinja program, run in a sandbox."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from inferlab.errors import InferlabError

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def render(
    template: str | None,
    messages: Sequence[Mapping[str, str]],
    tokens: Mapping[str, str],
    add_generation_prompt: bool,
) -> str:
    """Run `template` over `messages` ({role, content} each); `tokens`: bos_token and eos_token.

    Raises InferlabError for messages of another form, no template, or one that fails.
    """
    if template is None:
        raise InferlabError(
            "this model has no chat template. Use plain generation, or a chat (instruct) model."
        )
    check(messages)
    from jinja2 import TemplateError

    try:
        text: str = _compiled(template).render(
            messages=[dict(m) for m in messages],
            add_generation_prompt=add_generation_prompt,
            **tokens,
        )
        return text
    except (TemplateError, TypeError, ValueError, LookupError) as error:
        raise InferlabError(f"the model's chat template refuses these messages: {error}") from error


def check(messages: Sequence[Mapping[str, str]]) -> None:
    """Raise InferlabError unless each message is {role, content}, both text."""
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or not all(
            isinstance(message.get(key), str) for key in ("role", "content")
        ):
            raise InferlabError(
                f"message {number} must have a text under 'role' and one under 'content', "
                f"not {message!r}."
            )
    if not messages:
        raise InferlabError("a conversation needs at least one message.")


@lru_cache(maxsize=8)
def _compiled(template: str) -> Any:
    # jinja2 is a dependency of torch. The sandbox matters: a template is code from a download.
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template)


def _refuse(message: str) -> NoReturn:
    from jinja2 import TemplateError

    raise TemplateError(message)


def template_of_folder(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Return the template from chat_template.jinja, or from tokenizer_config.json's settings."""
    if (file := folder / "chat_template.jinja").is_file():
        return file.read_text(encoding="utf-8")
    value = settings.get("chat_template")
    if isinstance(value, list):  # several, by name
        named = {entry.get("name"): entry.get("template") for entry in value}
        value = named.get("default")
    return value if isinstance(value, str) else None
