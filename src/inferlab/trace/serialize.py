"""A trace as plain JSON and back, refusing whatever is not exactly a trace."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar, get_args

from inferlab.errors import InferlabError
from inferlab.trace.events import Channel, Chunk, CountSource, Status, Trace, Usage
from inferlab.trace.identities import check_trace

# The fields themselves say what a file may hold, so the two can't drift apart.
_TRACE_KEYS = set(Trace.__dataclass_fields__)
_CHUNK_KEYS = set(Chunk.__dataclass_fields__)
_USAGE_KEYS = set(Usage.__dataclass_fields__)

_T = TypeVar("_T")


def to_dict(trace: Trace) -> dict[str, Any]:
    """The trace as JSON types: `json.dumps` takes it, and `from_dict` gives an equal trace."""
    return asdict(trace)


def from_dict(data: Any, name: str = "trace") -> Trace:
    """The trace that `to_dict` wrote; `name` says where it came from in an error.

    `scheduled_ns` and `sent_ns` must be there, the rest has defaults. Raises InferlabError for an
    unknown or missing key, a wrong type, an unknown channel or status, and for a trace that
    contradicts itself (times that go back, negative counts).
    """
    fields = _object(data, name, _TRACE_KEYS, required={"scheduled_ns", "sent_ns"})
    chunks = fields.get("chunks", [])
    if not isinstance(chunks, list):
        raise _wrong(f"{name}.chunks", chunks, "a list of chunks")
    trace = Trace(
        scheduled_ns=_integer(fields["scheduled_ns"], f"{name}.scheduled_ns"),
        sent_ns=_integer(fields["sent_ns"], f"{name}.sent_ns"),
        chunks=[_chunk(chunk, f"{name}.chunks[{i}]") for i, chunk in enumerate(chunks)],
        end_ns=_optional_integer(fields, "end_ns", name),
        usage=_usage(fields.get("usage", {}), f"{name}.usage"),
        status=_choice(fields.get("status", "incomplete"), f"{name}.status", get_args(Status)),
        error=_optional_text(fields, "error", name),
        finish_reason=_optional_text(fields, "finish_reason", name),
    )
    # Well-formed is not enough: times that go back would give negative latencies.
    check_trace(trace, name)
    return trace


def _chunk(data: Any, name: str) -> Chunk:
    fields = _object(data, name, _CHUNK_KEYS, required={"t_ns"})
    has_choices = fields.get("has_choices", True)
    if not isinstance(has_choices, bool):
        raise _wrong(f"{name}.has_choices", has_choices, "true or false")
    return Chunk(
        t_ns=_integer(fields["t_ns"], f"{name}.t_ns"),
        num_tokens=_optional_integer(fields, "num_tokens", name),
        channel=_choice(fields.get("channel", "content"), f"{name}.channel", get_args(Channel)),
        has_choices=has_choices,
    )


def _usage(data: Any, name: str) -> Usage:
    fields = _object(data, name, _USAGE_KEYS, required=set())
    return Usage(
        prompt_tokens=_optional_integer(fields, "prompt_tokens", name),
        output_tokens=_optional_integer(fields, "output_tokens", name),
        cached_tokens=_optional_integer(fields, "cached_tokens", name),
        source=_choice(fields.get("source", "unknown"), f"{name}.source", get_args(CountSource)),
    )


def _object(data: Any, name: str, known: set[str], required: set[str]) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise _wrong(name, data, "an object")
    if missing := sorted(required - data.keys()):
        raise InferlabError(f"{name} lacks {', '.join(missing)}. Add it: a trace can't do without.")
    if unknown := sorted(str(key) for key in data.keys() - known):
        raise InferlabError(
            f"{name} has no field {', '.join(unknown)}. It may hold {', '.join(sorted(known))}."
        )
    return data


def _integer(value: Any, name: str) -> int:
    # JSON's true is a Python int, and a float nanosecond has already lost its last digits.
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, value, "a whole number")
    return value


def _optional_integer(fields: Mapping[str, Any], key: str, name: str) -> int | None:
    value = fields.get(key)
    return None if value is None else _integer(value, f"{name}.{key}")


def _optional_text(fields: Mapping[str, Any], key: str, name: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise _wrong(f"{name}.{key}", value, "text or null")
    return value


def _choice(value: Any, name: str, choices: tuple[_T, ...]) -> _T:
    for choice in choices:
        if value == choice:
            return choice
    raise _wrong(name, value, f"one of {', '.join(map(str, choices))}")


def _wrong(name: str, value: Any, wanted: str) -> InferlabError:
    shown = repr(value)  # cut short: a whole file may stand where a number should
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return InferlabError(f"{name} is {shown}, which is not {wanted}. Correct it, or record again.")
