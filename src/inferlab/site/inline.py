"""`{{ value("chapter/name", "column") }}` inside a sentence: a Markdown extension.

As an inline pattern it also works in tables and headings, and leaves code alone.
"""

import ast
from posixpath import dirname, relpath
from typing import Any
from xml.etree import ElementTree as ET

from markdown import Markdown  # type: ignore[import-untyped]
from markdown.extensions import Extension  # type: ignore[import-untyped]
from markdown.inlinepatterns import InlineProcessor  # type: ignore[import-untyped]
from markdown.util import AtomicString  # type: ignore[import-untyped]

from inferlab.errors import InferlabError
from inferlab.site import state
from inferlab.site.machine import short_text
from inferlab.site.result import hardware_name
from inferlab.site.values import value_text

_PATTERN = r"\{\{\s*(finding|value|machine)\((.*?)\)\s*\}\}"
_PRIORITY = 185  # after code spans (190), before links and emphasis


class MeasuredInline(InlineProcessor):  # type: ignore[misc]
    """Turns one call into text with a link to the record it comes from."""

    def handleMatch(self, m: Any, data: str) -> Any:  # noqa: N802 - the base class's name
        site = state.current()
        try:
            element = _CALLS[m.group(1)](*_arguments(m.group(1), m.group(2)))
        except (InferlabError, TypeError) as error:
            site.problem(f"{m.group(0)}: {error}")
            element = _text(f"[{error}]", "il-missing")
        return element, m.start(0), m.end(0)


class InlineExtension(Extension):  # type: ignore[misc]
    """What mkdocs.yml names as `inferlab.site.inline`."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the base class's name
        """Register the pattern."""
        md.inlinePatterns.register(MeasuredInline(_PATTERN, md), "inferlab", _PRIORITY)


def makeExtension(**options: Any) -> InlineExtension:  # noqa: N802 - the name Markdown looks for
    """What Markdown calls to load the extension."""
    return InlineExtension(**options)


def _arguments(name: str, text: str) -> tuple[list[Any], dict[str, Any]]:
    """The literal arguments of the call; no code of a page is run here."""
    try:
        call = ast.parse(f"{name}({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        positional = [ast.literal_eval(argument) for argument in call.args]
        named = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, AssertionError) as error:
        raise InferlabError(f"cannot be read: {error}; arguments are literals") from error
    return positional, named


def _finding(positional: list[Any], named: dict[str, Any]) -> ET.Element:
    element = _measured(_name_of(positional), lambda record: str(record["finding"]))
    element.set("class", f"{element.get('class')} il-sentence")
    return element


def _value(positional: list[Any], named: dict[str, Any]) -> ET.Element:
    return _measured(
        _name_of(positional), lambda record: value_text(record, *positional[1:], **named)
    )


def _machine(positional: list[Any], named: dict[str, Any]) -> ET.Element:
    return _text(short_text(), "il-machine-name")


def _name_of(positional: list[Any]) -> str:
    if not positional:
        raise InferlabError("name the snippet first: 'chapter/name'")
    return str(positional[0])


def _measured(name: str, write: Any) -> ET.Element:
    site = state.current()
    shown = site.shown(name)
    if shown.measured is not None:
        try:
            text = write(shown.measured)
        except InferlabError:
            # A page may already ask an outdated record for what the edited snippet will give.
            if site.settings.execute == "never" and shown.status.state == "stale":
                return _text("(not measured here)", "il-missing")
            raise
        return _link(text, state.record_uri(name), f"Measured here: {name}")
    if shown.recorded:
        item = shown.recorded[0]
        where = hardware_name(item.record)
        return _link(f"{write(item.record)} (on {where})", item.uri, f"Recorded on {where}: {name}")
    return _text("(not measured here)", "il-missing")


def _link(text: str, uri: str, title: str) -> ET.Element:
    element = ET.Element("a", {"class": "il-value", "title": title})
    # MkDocs takes it for a link of the prose, from file to file, and makes the address of it.
    element.set("href", relpath(uri, dirname(state.current().page) or "."))
    element.text = AtomicString(text)
    return element


def _text(text: str, css_class: str) -> ET.Element:
    element = ET.Element("span", {"class": css_class})
    element.text = AtomicString(text)
    return element


_CALLS = {"finding": _finding, "value": _value, "machine": _machine}
