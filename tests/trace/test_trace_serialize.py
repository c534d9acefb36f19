"""A trace as JSON: it comes back equal, and what is not a trace is refused by name."""

import json
from typing import Any

import pytest
from hypothesis import given
from make_traces import random_traces

from inferlab.errors import InferlabError
from inferlab.trace import Chunk, Trace, Usage, from_dict, to_dict


@given(random_traces())
def test_a_trace_survives_json(request: Trace) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(request)))) == request


def test_the_form_on_disk() -> None:
    request = Trace(
        5,
        7,
        [Chunk(9, 2, "reasoning")],
        end_ns=11,
        usage=Usage(3, 2, 1, "server"),
        status="ok",
        finish_reason="stop",
    )
    assert to_dict(request) == {
        "scheduled_ns": 5,
        "sent_ns": 7,
        "chunks": [{"t_ns": 9, "num_tokens": 2, "channel": "reasoning", "has_choices": True}],
        "end_ns": 11,
        "usage": {"prompt_tokens": 3, "output_tokens": 2, "cached_tokens": 1, "source": "server"},
        "status": "ok",
        "error": None,
        "finish_reason": "stop",
    }


def test_what_is_left_out_takes_its_default() -> None:
    assert from_dict({"scheduled_ns": 1, "sent_ns": 2}) == Trace(1, 2)
    assert from_dict({"scheduled_ns": 1, "sent_ns": 2, "chunks": [{"t_ns": 3}]}).chunks == [
        Chunk(3)
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sent_ns": None}, "t.sent_ns is None, which is not a whole number"),
        ({"sent_ns": 1.5}, "t.sent_ns is 1.5"),
        ({"sent_ns": True}, "t.sent_ns is True"),
        ({"sent_ns": float("nan")}, "t.sent_ns is nan"),
        ({"end_ns": "9"}, "t.end_ns is '9'"),
        ({"status": "done"}, "t.status is 'done', which is not one of ok, failed"),
        ({"status": ["ok"]}, "t.status is ['ok']"),
        ({"error": 5}, "t.error is 5, which is not text or null"),
        ({"finish_reason": {}}, "t.finish_reason is {}"),
        ({"latency": 3}, "t has no field latency. It may hold chunks, end_ns"),
        ({"chunks": {}}, "t.chunks is {}, which is not a list of chunks"),
        ({"chunks": [7]}, "t.chunks[0] is 7, which is not an object"),
        ({"chunks": [{}]}, "t.chunks[0] lacks t_ns"),
        ({"chunks": [{"t_ns": 9, "text": "a"}]}, "t.chunks[0] has no field text"),
        ({"chunks": [{"t_ns": 9, "channel": "audio"}]}, "t.chunks[0].channel is 'audio'"),
        ({"chunks": [{"t_ns": 9, "channel": None}]}, "t.chunks[0].channel is None"),
        ({"chunks": [{"t_ns": 9, "num_tokens": "1"}]}, "t.chunks[0].num_tokens is '1'"),
        ({"chunks": [{"t_ns": 9, "has_choices": 1}]}, "t.chunks[0].has_choices is 1"),
        ({"chunks": [{"t_ns": 9}, {"t_ns": 8}]}, "chunk 1 came at 8 ns, before chunk 0"),
        ({"chunks": [{"t_ns": 1}]}, "before the request was sent"),
        ({"usage": None}, "t.usage is None, which is not an object"),
        ({"usage": {"output_tokens": -4}}, "usage.output_tokens is -4, under 0"),
        ({"usage": {"source": "guess"}}, "t.usage.source is 'guess'"),
        ({"usage": {"completion_tokens": 4}}, "t.usage has no field completion_tokens"),
        ({"error": ["x" * 500]}, "t.error is ['xxx"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InferlabError) as error:
        from_dict({"scheduled_ns": 4, "sent_ns": 5} | change, name="t")
    assert message in str(error.value)
    assert len(str(error.value)) < 260


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "trace is None, which is not an object"),
        ([], "trace is [], which is not an object"),
        ({}, "trace lacks scheduled_ns, sent_ns"),
        ({"sent_ns": 4}, "trace lacks scheduled_ns"),
    ],
)
def test_what_is_no_trace_at_all_is_refused(data: Any, message: str) -> None:
    with pytest.raises(InferlabError) as error:
        from_dict(data)
    assert message in str(error.value)
