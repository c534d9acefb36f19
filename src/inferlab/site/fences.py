"""Fences of a page: Python that runs (through markdown-exec), and Mermaid diagrams."""

import html
import logging
import re
from typing import Any

from markdown_exec import formatter, validator
from markupsafe import Markup

from inferlab.site import state

__all__ = ["diagram", "run", "validator"]

# One mid-tone for each meaning, on which white text is legible in the light and the dark theme.
_CLASSES = {
    "prefill": "#0072B2",
    "decode": "#B85C00",
    "cache": "#00795C",
    "idle": "#6B7280",
    "failure": "#B3261E",
}
_WITH_CLASSES = re.compile(r"\s*(flowchart|graph|stateDiagram|stateDiagram-v2)\b")
_TITLE = re.compile(r"^\s*accTitle\s*:\s*(.+)$", re.MULTILINE)


def run(source: str, language: str, css_class: str, options: Any, md: Any, **rest: Any) -> str:
    """Run a fence and show what it prints, then what its blocks wrote.

    An error, also `sys.exit`, becomes a problem of the page: MkDocs alone would only warn, or end
    with status 0.
    """
    listener = _Listener()
    logger = logging.getLogger("markdown_exec")
    logger.propagate = False
    logger.addHandler(listener)
    try:
        with state.collected() as written:
            printed = str(formatter(source, language, css_class, options, md, **rest))
            result = printed + "".join(written)
    except SystemExit as error:
        state.current().problem(f"a fence ended with sys.exit({error.code}):\n{source.strip()}")
        return Markup("<p>This block ended before it showed anything.</p>")
    finally:
        logger.removeHandler(listener)
    for message in listener.messages:
        state.current().problem(_last_lines(message))
    return Markup(result)


def diagram(source: str, language: str, css_class: str, options: Any, md: Any, **rest: Any) -> str:
    """A Mermaid diagram with the palette's classes; its accTitle is what a screen reader says."""
    title = _TITLE.search(source)
    if title is None:
        state.current().problem(f"a Mermaid diagram has no accTitle line:\n{source.strip()[:200]}")
    if _WITH_CLASSES.match(source):
        defined = "".join(
            f"\n  classDef {name} fill:{colour},stroke:{colour},color:#fff"
            for name, colour in _CLASSES.items()
        )
        source = source.rstrip() + defined
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

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.messages.append(record.getMessage())


def _last_lines(message: str) -> str:
    lines = [line.rstrip() for line in message.rstrip().splitlines() if line.strip()]
    return "a fence failed; the last lines:\n" + "\n".join(lines[-8:])
