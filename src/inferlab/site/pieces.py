"""A text as its tokenizer cuts it: one chip for each token, with its id under it."""

import html

from inferlab.errors import InferlabError
from inferlab.lab.store import Record


def pieces_html(record: Record) -> str:
    """Chips in the order of the text; the rows need `text` and `id`. A space shows as a mark."""
    rows = record["rows"]
    if not rows or any("text" not in row or "id" not in row for row in rows):
        raise InferlabError(f"{record['snippet']} has no pieces: its rows need 'text' and 'id'")
    chips = "".join(
        f"<li><b>{html.escape(str(row['text'])).replace(' ', '␣')}</b>"
        f"<small>{html.escape(str(row['id']))}</small></li>"
        for row in rows
    )
    return f'<ol class="il-pieces" aria-label="Tokens and their ids">{chips}</ol>\n'
