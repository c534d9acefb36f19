"""Numbers in a sentence: which row, which digits, which unit; and TeX as MathML."""

import re
from typing import Any

import pytest
from site_project import REPO

from inferlab.errors import InferlabError
from inferlab.site.machine import card, device_text, short_text
from inferlab.site.mathml import to_mathml
from inferlab.site.result import bytes_text
from inferlab.site.source import highlighted
from inferlab.site.values import value_text

RECORD: dict[str, Any] = {
    "snippet": "a/b",
    "columns": [
        {"key": "tokens", "unit": ""},
        {"key": "time", "unit": "ms", "digits": 1},
        {"key": "share", "unit": ""},
        {"key": "name", "unit": ""},
    ],
    "rows": [
        {"tokens": 64, "time": {"median": 2.0, "low": 1.0, "high": 3.0, "samples": [1, 2, 3]}}
        | {"share": 0.25, "name": "short"},
        {"tokens": 2048, "time": 15.25, "share": None, "name": "long"},
        {"tokens": 512, "time": 4.0, "share": 0.5, "name": "middle"},
    ],
}


@pytest.mark.parametrize(
    ("column", "options", "text"),
    [
        ("time", {}, "2.0\u00a0ms"),
        ("time", {"row": -1}, "4.0\u00a0ms"),
        ("time", {"row": "max"}, "15.2\u00a0ms"),
        ("time", {"row": "min", "unit": False}, "2.0"),
        ("time", {"row": {"tokens": 512}, "scale": 1000, "unit": "µs"}, "4,000\u00a0µs"),
        ("time", {"row": {"name": "long", "tokens": 2048}, "digits": 3}, "15.250\u00a0ms"),
        ("time", {"row": -1, "over": 0}, "2"),
        ("time", {"row": "max", "over": "min", "digits": 1}, "7.6"),
        ("time", {"over": "tokens", "percent": True, "digits": 0}, "3\u00a0%"),
        ("tokens", {"row": 1}, "2,048"),
        ("share", {"percent": True}, "25\u00a0%"),
        ("share", {"row": 1}, "undefined"),
        ("name", {"row": 2}, "middle"),
    ],
)
def test_a_value_is_written_as_its_column_says(
    column: str, options: dict[str, Any], text: str
) -> None:
    assert value_text(RECORD, column, **options) == text


@pytest.mark.parametrize(
    ("column", "options", "message"),
    [
        ("speed", {}, "a/b has no column 'speed'; it has tokens, time, share, name"),
        ("time", {"row": 3}, "a/b has 3 rows, so no row 3"),
        ("time", {"row": {"tokens": 1}}, "a/b has no row with {'tokens': 1}; it has .*64"),
        ("time", {"row": "best"}, "row='best': expected a position, a dict, 'max' or 'min'"),
        ("name", {"row": "max"}, "column 'name' holds no number"),
        ("time", {"over": "name"}, "is no ratio"),
    ],
)
def test_a_value_that_is_not_there_is_refused(
    column: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InferlabError, match=message):
        value_text(RECORD, column, **options)


def test_a_machine_is_named_by_what_computed() -> None:
    gpu = {"name": "NVIDIA H200", "memory_bytes": 2**37}
    machine = {
        "device": "cuda",
        "num_threads": 8,
        "cpu": {"model": "Some CPU", "usable": 1},
        "memory": {"total_bytes": 2**34},
        "gpus": [gpu],
    }
    assert device_text(machine) == "NVIDIA H200"
    assert device_text({**machine, "device": "cpu"}) == "Some CPU, 8 threads"
    assert device_text({"device": "mps"}) == "mps"
    assert short_text(machine) == "Some CPU, 1 core, 16 GiB, NVIDIA H200"
    assert short_text({}) == "unknown processor, no GPU"


def test_the_card_shows_the_best_sustained_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    from inferlab import hardware

    rate = {"median": 1e12, "low": 1e12, "high": 9e12, "samples": [1e12, 1.5e12, 1.5e12, 9e12]}
    ceilings = {"device": "cuda", "matmul_flop_s": {"bfloat16": rate}, "read_bytes_s": rate}
    monkeypatch.setattr(hardware, "known_ceilings", lambda: {"cuda": ceilings})
    gpu = {"name": "NVIDIA H200", "memory_bytes": 2**37}
    monkeypatch.setattr("inferlab.site.machine.here", lambda: {"gpus": [gpu]})
    text = card()
    assert "<dt>Matrix products, bfloat16, CUDA</dt><dd>1.50 TFLOP/s</dd>" in text
    assert "<dt>Reading memory, CUDA</dt><dd>1500.0 GB/s</dd>" in text
    assert "<dd>NVIDIA H200, 128 GiB</dd>" in text


def test_sizes_have_a_unit_that_fits() -> None:
    assert bytes_text(3 * 2**29) == "1.50 GiB"
    assert bytes_text(5 * 2**20) == "5 MiB"


def test_code_that_is_no_python_is_shown_too() -> None:
    assert '<div class="language-yaml highlight">' in highlighted("a: 1\n", "x.yml")
    assert '<div class="language-text highlight">' in highlighted("a\n", "LICENSE")


def test_tex_becomes_mathml_with_whole_words() -> None:
    mathml = to_mathml(r"\mathrm{softmax}(x) < \frac{a}{b}", "inline")
    assert '<mi mathvariant="normal">softmax</mi>' in mathml
    assert r'alttext="\mathrm{softmax}(x) &lt; \frac{a}{b}"' in mathml


@pytest.mark.parametrize(
    ("tex", "message"),
    [
        (r"\frac{a}", "mfrac needs 2 arguments and has 1"),
        (r"\foo b", r"unknown command \\foo"),
        (r"\left( a", "Missing"),
        (r"a & b", "ParseError"),
    ],
)
def test_tex_that_would_be_shown_wrongly_is_refused(tex: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_mathml(tex, "inline")


def test_each_variable_of_the_palette_has_a_value_in_both_themes() -> None:
    css = (REPO / "docs/assets/inferlab.css").read_text(encoding="utf-8")
    script = (REPO / "docs/assets/mermaid-palette.js").read_text(encoding="utf-8")
    light, _, dark = css.partition('[data-md-color-scheme="slate"]')
    meanings = re.findall(r'"(\w+)"', script.partition("names = [")[2].partition("]")[0])
    assert meanings == ["prefill", "decode", "cache", "idle", "failure"]
    for name in {*re.findall(r"var\(--il-([\w-]+)\)", css + script), *meanings}:
        assert f"--il-{name}: #" in light, name
        assert f"--il-{name}: #" in dark.partition("}")[0], name


@pytest.mark.parametrize(("high", "noisy"), [(1.2, False), (1.7, True)])
def test_a_noisy_result_says_so(high: float, noisy: bool) -> None:
    from inferlab.site.result import _repeats

    cell = {"median": 1.0, "low": 0.9, "high": high, "samples": [0.9, 1.0, high]}
    text = _repeats({"run": {"repeats": 3}, "rows": [{"time": cell}]})
    assert ("noisy" in text) == noisy
    assert text.startswith("3 repeats, all within")
