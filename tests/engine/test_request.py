"""Parameters that make sense, and text that ends where it was told to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferlab import InferlabError, SamplingParams
from inferlab.engine.request import StopText


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", 0),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("stop", ("",)),
        ("stop", 5),
        ("stop", [5]),
        ("stop_token_ids", 7),
        ("max_tokens", "8"),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("temperature", None),
        ("temperature", "x"),
        ("top_k", 1.5),
        ("seed", 1.5),
        ("seed", -1),
        ("seed", 2**64),
    ],
)
def test_values_without_meaning_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InferlabError, match=f"{field} must be"):
        SamplingParams(**{field: value})


def test_one_stop_string_is_a_list_of_one() -> None:
    assert SamplingParams(stop="END").stop == ("END",)
    assert SamplingParams(stop=["a", "b"]).stop == ("a", "b")
    assert SamplingParams(stop=None).stop == ()  # type: ignore[arg-type]


def test_overrides_replace_fields_and_unknown_ones_are_named() -> None:
    base = SamplingParams(max_tokens=5, temperature=1.0)
    assert SamplingParams.of(base, {"max_tokens": 7}) == SamplingParams(7, 1.0)
    assert SamplingParams.of(None, {}) == SamplingParams()
    with pytest.raises(InferlabError, match=r"no sampling parameter 'max_token'.*max_tokens"):
        SamplingParams.of(None, {"max_token": 7})


@pytest.mark.parametrize(
    ("stop", "pieces", "expected", "found"),
    [
        ((), ["ab", "c"], ["ab", "c"], False),
        (("X",), ["ab", "cXd", "e"], ["ab", "c"], True),
        (("END",), ["a E", "N", "D b"], ["a ", "", ""], True),
        (("END",), ["a E", "N", "x b"], ["a ", "", "ENx b"], False),
        (("aab",), ["aa", "aab"], ["", "aa"], True),
        (("bc", "abcd"), ["ab", "cd"], ["", ""], True),  # the one that begins first
    ],
)
def test_stop_strings(
    stop: tuple[str, ...], pieces: list[str], expected: list[str], found: bool
) -> None:
    text = StopText(stop)
    seen = []
    for piece in pieces:
        seen.append(text.push(piece))
        if text.found:
            break
    assert (seen, text.found) == (expected, found)


def test_what_was_held_back_comes_at_the_end() -> None:
    text = StopText(("END",))
    assert text.push("the EN") == "the "
    assert text.flush() == "EN"
    assert text.flush() == ""


@given(
    st.lists(st.text("ab", max_size=4), max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_pieces_give_what_the_whole_text_gives(pieces: list[str], stops: list[str]) -> None:
    whole = "".join(pieces)
    text, seen = StopText(tuple(stops)), ""
    for piece in pieces:
        seen += text.push(piece)
        if text.found:
            break
    if not text.found:
        seen += text.flush()
        assert not any(stop in whole for stop in stops)
        assert seen == whole
    else:
        assert whole.startswith(seen)
        assert any(whole[len(seen) :].startswith(stop) for stop in stops)
        assert not any(stop in seen for stop in stops)
