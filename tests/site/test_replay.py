"""Blocks for one kind of record: a request at its own speed, a text in tokens."""

from typing import Any

import pytest
from site_project import Project

from inferlab.errors import InferlabError
from inferlab.site.pieces import pieces_html
from inferlab.site.replay import replay_html


def record(*rows: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    return {"snippet": "home/one_request", "rows": list(rows), "parameters": parameters}


def test_each_token_appears_when_it_came() -> None:
    shown = replay_html(
        record({"text": "a <b>", "end": 180.4}, {"text": " c", "end": {"median": 197.6}})
    )
    assert '<span style="animation-delay:180ms">a &lt;b&gt;</span>' in shown
    assert '<span style="animation-delay:198ms"> c</span>' in shown
    assert 'id="replay-home-one_request"' in shown
    assert 'for="replay-home-one_request"' in shown
    assert "il-replay-asked" not in shown


def test_the_question_stands_above_and_the_end_token_is_no_text() -> None:
    shown = replay_html(
        record({"text": "Yes", "end": 5}, {"text": "<|im_end|>", "end": 9}, question="1 < 2?")
    )
    assert '<p class="il-replay-asked">1 &lt; 2?</p>' in shown
    assert "im_end" not in shown


@pytest.mark.parametrize("rows", [[], [{"text": "no time"}], [{"text": "<|im_end|>", "end": 1}]])
def test_rows_without_text_and_time_cannot_be_replayed(rows: list[dict[str, Any]]) -> None:
    with pytest.raises(InferlabError, match=r"home/one_request cannot be replayed"):
        replay_html(record(*rows))


def test_a_page_that_replays_another_kind_of_result_fails_the_build(project: Project) -> None:
    call = "from inferlab.site.blocks import pieces, replay\n"
    call += 'replay("demo/squares")\npieces("demo/squares")'
    project.page("index.md", f'# Demo\n\n```python exec="true"\n{call}\n```\n')
    done = project.build()
    assert done.returncode == 1
    assert "replay: demo/squares cannot be replayed" in done.stdout + done.stderr
    assert "pieces: demo/squares has no pieces" in done.stdout + done.stderr


def test_each_token_is_a_chip_with_its_id() -> None:
    shown = pieces_html(record({"text": " <b>", "id": "216"}, {"text": "\\xe6", "id": "17"}))
    assert "<li><b>␣&lt;b&gt;</b><small>216</small></li>" in shown
    assert "<li><b>\\xe6</b><small>17</small></li>" in shown


def test_rows_without_ids_have_no_pieces() -> None:
    with pytest.raises(InferlabError, match=r"home/one_request has no pieces"):
        pieces_html(record({"text": "no id"}))
