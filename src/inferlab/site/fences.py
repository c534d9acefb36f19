"""Fences of a page: Python that runs (through markdown-exec), and Mermaid diagrams."""

import html
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from markdown_exec import formatter, validator
from markupsafe import Markup

from inferlab.site import state

__all__ = ["diagram", "run", "validator"]

_LOGGERS = ("markdown_exec", "mkdocs.plugins.markdown_exec")
_TITLE = re.compile(r"^\s*accTitle\s*:\s*(.+)$", re.MULTILINE)


def run(source: str, language: str, css_class: str, options: Any, md: Any, **rest: Any) -> str:
    """Run a fence and show what it prints, then what its blocks wrote.

    An error, also `sys.exit`, becomes a problem of the page: MkDocs alone would only warn, or end
    with status 0.
    """
    listener = _Listener()
    try:
        with listener.attached(), state.collected() as written:
            printed = str(formatter(source, language, css_class, options, md, **rest))
            result = printed + "".join(written)
    except SystemExit as error:
        state.current().problem(f"a fence ended with sys.exit({error.code}):\n{source.strip()}")
        return Markup("<p>This block ended before it showed anything.</p>")
    for message in listener.messages:
        state.current().problem(_last_lines(message))
    return Markup(result)


def diagram(source: str, language: str, css_class: str, options: Any, md: Any, **rest: Any) -> str:
    """A Mermaid diagram; its accTitle is what a screen reader says."""
    title = _TITLE.search(source)
    if title is None:
        state.current().problem(f"a Mermaid diagram has no accTitle line:\n{source.strip()[:200]}")
    label = html.escape(title.group(1).strip() if title else "diagram", quote=True)
    code = html.escape(source, quote=False)
    return Markup(
        f'<figure class="il-diagram" role="group" aria-label="{label}">'
        f'<pre class="mermaid"><code>{code}</code></pre></figure>'
    )


class _Listener(logging.Handler):
    """Keeps the warnings of markdown-exec, which says so when a fence raised."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Listen in MkDocs' stead; under MkDocs the other library names its loggers MkDocs' way."""
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.propagate = False
            logger.addHandler(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.propagate = True
                logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.messages.append(record.getMessage())


def _last_lines(message: str) -> str:
    lines = [line.rstrip() for line in message.rstrip().splitlines() if line.strip()]
    return "a fence failed; the last lines:\n" + "\n".join(lines[-8:])
