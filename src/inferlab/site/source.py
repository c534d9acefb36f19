"""Source code on a page: a whole file, one function or class, or a marked region."""

import ast
import html
import re
from pathlib import Path

from inferlab.errors import InferlabError

_SUFFIXES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".toml": "toml", ".sh": "bash"}


def read_section(root: Path, path: str, section: str | None = None) -> str:
    """The text of a file under `root`, or of one section of it, without its indentation.

    section: a function, a class, `Class.method`, or NAME for the lines between `# [start:NAME]` and
    `# [end:NAME]`. Raises InferlabError when there is no such file or section.
    """
    file = (root / path).resolve()
    if not file.is_relative_to(root.resolve()) or not file.is_file():
        raise InferlabError(f"code({path!r}): no such file in the clone")
    text = file.read_text(encoding="utf-8")
    if section is None:
        return without_marks(text)
    found = _region(text, section) or (_definition(text, section) if file.suffix == ".py" else None)
    if found is None:
        raise InferlabError(f"code({path!r}): it has no section {section!r}")
    return without_marks(_dedent(found))


def highlighted(text: str, path: str, title: str = "") -> str:
    """Code as HTML in the form that Material styles and adds a copy button to."""
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    language = _SUFFIXES.get(Path(path).suffix, "text")
    formatter = HtmlFormatter(nowrap=True)
    body = highlight(text, get_lexer_by_name(language), formatter)
    head = f'<span class="filename">{html.escape(title)}</span>' if title else ""
    return (
        f'<div class="language-{language} highlight">{head}'
        f"<pre><span></span><code>{body}</code></pre></div>"
    )


def without_marks(text: str) -> str:
    """The text without the lines that mark regions."""
    return re.sub(r"(?m)^[ \t]*# \[(?:start|end):[\w.-]+\][ \t]*\n?", "", text)


def _region(text: str, name: str) -> str | None:
    mark = re.escape(name)
    found = re.search(rf"(?ms)^[ \t]*# \[start:{mark}\][ \t]*\n(.*?)^[ \t]*# \[end:{mark}\]", text)
    return found.group(1) if found else None


def _definition(text: str, name: str) -> str | None:
    body: list[ast.stmt] = ast.parse(text).body
    found: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None = None
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = next((n for n in body if isinstance(n, kinds) and n.name == part), None)
        if found is None:
            return None
        body = found.body
    assert found is not None
    first = min([found.lineno, *(d.lineno for d in found.decorator_list)])
    return "".join(text.splitlines(keepends=True)[first - 1 : found.end_lineno])


def _dedent(text: str) -> str:
    from textwrap import dedent

    return dedent(text)
