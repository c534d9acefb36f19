"""A recorded request as its reader saw it: the pause, then the stream, at their recorded speed."""

import html

from inferlab.errors import InferlabError
from inferlab.lab.schema import center
from inferlab.lab.store import Record


def replay_html(record: Record) -> str:
    """The answer's tokens, each appearing when it came; a style sheet plays it, no script.

    The rows need `text` and `end` (ms since Enter); `parameters` may hold the `question`. Where
    nothing moves, on paper for instance, the whole answer stands there at once.
    """
    name = record["snippet"]
    rows = [row for row in record["rows"] if not str(row.get("text", "")).startswith("<|")]
    if not rows or any("text" not in row or "end" not in row for row in rows):
        raise InferlabError(f"{name} cannot be replayed: its rows need 'text' and 'end'")
    spans = "".join(
        f'<span style="animation-delay:{float(center(row["end"])):.0f}ms">'
        f"{html.escape(str(row['text']))}</span>"
        for row in rows
    )
    question = record["parameters"].get("question")
    asked = f'<p class="il-replay-asked">{html.escape(str(question))}</p>' if question else ""
    control = "replay-" + name.replace("/", "-")
    return (
        f'<div class="il-replay"><input type="checkbox" id="{control}">'
        f'<label for="{control}">Play it again</label>{asked}'
        f'<p class="il-replay-answer">{spans}</p></div>\n'
    )
