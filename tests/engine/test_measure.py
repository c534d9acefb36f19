"""What `inferlab measure` says, from samples to report, and what it keeps when it is stopped."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from inferlab import LLM, InferlabError, hardware
from inferlab.cli import measure as command
from inferlab.cli.main import app
from inferlab.engine import measure as engine
from inferlab.engine.measure import Sample
from inferlab.engine.measure_batch import batch_samples, summarize_batch

KEYS = ("median", "low", "high", "samples")
ASK = ["measure", "--random", "tiny", "--prompt-tokens", "20", "--repeats", "2", "--device", "cpu"]


def ceilings() -> hardware.Ceilings:
    """Round numbers: 1 TFLOP/s, 10 GB/s."""
    rate = {"median": 1e12, "low": 1e12, "high": 1e12, "samples": [1e12]}
    read = {"median": 1e10, "low": 1e10, "high": 1e10, "samples": [1e10]}
    return hardware.Ceilings("cpu", {"float32": rate, "bfloat16": rate}, read, read, "now", 1)


@pytest.fixture(autouse=True)
def known_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "ceilings", lambda *_args, **_options: ceilings())


def test_rates_are_tokens_over_times(llm: LLM) -> None:
    taken = [Sample(0.5, 0.01), Sample(0.4, 0.02), Sample(0.8, 0.03)]
    found = engine.summarize(llm, taken, 100, 8, ceilings())
    assert found["prefill_tok_s"] == {
        "median": 200.0, "low": 125.0, "high": 250.0, "samples": [200.0, 250.0, 125.0],
    }  # fmt: skip
    assert found["decode_tok_s"]["median"] == pytest.approx(50.0)
    assert found["ttft_s"]["samples"] == [0.5, 0.4, 0.8]
    assert found["tpot_s"]["median"] == 0.02
    assert found["noisy"] == ["prefill", "decode"]


def test_shares_compare_with_the_bound_of_the_work(llm: LLM) -> None:
    from inferlab import cost

    found = engine.summarize(llm, [Sample(0.5, 0.02)], 100, 8, ceilings())["roofline"]
    step = cost.decode_work(llm.config, 104, dtype="float32").lower_bound_s(1e12, 1e10)
    assert found["decode_share"] == pytest.approx(step / 0.02)
    whole = cost.prefill_work(llm.config, 100, dtype="float32").lower_bound_s(1e12, 1e10)
    assert found["prefill_share"] == pytest.approx(whole / 0.5)
    assert engine.summarize(llm, [Sample(0.5, 0.02)], 100, 8)["roofline"]["decode_share"] is None


def test_shares_of_quantized_weights_count_the_bytes_that_are_read() -> None:
    from inferlab import cost

    llm = LLM.random("tiny", dtype="float32", device="cpu", quantize="int4")
    found = engine.summarize(llm, [Sample(0.5, 0.02)], 100, 8, ceilings())["roofline"]
    work = cost.decode_work(llm.config, 104, weight_num_bytes=llm.model.step_bytes, dtype=llm.dtype)
    assert found["decode_share"] == pytest.approx(work.lower_bound_s(1e12, 1e10) / 0.02)


def test_measure_takes_fresh_prompts_and_counts_every_token(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[list[int]] = []
    stream = llm.stream

    def watched(prompt: Any, **options: Any) -> Iterator[Any]:
        prompts.append(prompt)
        return stream(prompt, **options)

    monkeypatch.setattr(llm, "stream", watched)
    found = engine.measure(llm, 20, 5, repeats=3)
    assert len(prompts) == 4, "one request warms up"
    assert len({tuple(prompt) for prompt in prompts}) == 4
    assert len(found["prefill_tok_s"]["samples"]) == found["repeats"] == 3
    assert all(rate > 0 for rate in found["decode_tok_s"]["samples"])


def test_one_output_token_has_no_decode_rate(llm: LLM) -> None:
    found = engine.measure(llm, 20, 1, repeats=1, ceilings=ceilings())
    assert found["decode_tok_s"] is None
    assert found["roofline"]["decode_share"] is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ((0, 1, 1), "prompt tokens must be at least 1, not 0"),
        ((1, 0, 1), "output tokens must be at least 1"),
        ((1, 1, 0), "repeats must be at least 1"),
        ((500, 100, 1), r"500 \+ 100 tokens are more than tiny takes: 512"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    llm: LLM, asked: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(InferlabError, match=message):
        list(engine.samples(llm, *asked))


def test_the_command_prints_a_report_and_writes_json(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    done = CliRunner().invoke(app, [*ASK, "--output-tokens", "4", "--json", str(target)])
    assert done.exit_code == 0, done.output
    assert "random weights, speed only" in done.stdout
    assert "of the measured roofline" in done.stdout
    assert "[2/2] TTFT" in done.stderr
    found = json.loads(target.read_text())
    for name in ("prefill_tok_s", "decode_tok_s", "ttft_s", "tpot_s"):
        assert set(found[name]) == set(KEYS)
    assert found["complete"] is True
    assert found["command"].startswith("inferlab ")
    assert found["machine"]["cpu"]


def test_the_report_names_quantized_weights() -> None:
    done = CliRunner().invoke(app, [*ASK, "--output-tokens", "2", "--quantize", "int8"])
    assert done.exit_code == 0, done.output
    assert ", int8 weights, cpu" in done.stdout


def test_json_to_standard_output_is_json_alone() -> None:
    done = CliRunner().invoke(app, [*ASK, "--output-tokens", "1", "--json", "-"])
    assert json.loads(done.stdout)["decode_tok_s"] is None


def test_the_report_says_what_one_token_cannot_tell() -> None:
    done = CliRunner().invoke(app, [*ASK, "--output-tokens", "1"])
    assert "needs at least 2 output tokens" in done.stdout


def test_an_interrupted_run_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_then_stop(*_: Any) -> Iterator[Sample]:
        yield Sample(0.1, 0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "samples", one_then_stop)
    target = tmp_path / "result.json"
    done = CliRunner().invoke(app, [*ASK, "--json", str(target)])
    assert done.exit_code == command.INTERRUPTED
    assert "1 of 2 repeats were measured" in done.stderr
    found = json.loads(target.read_text())
    assert (found["complete"], found["repeats"]) == (False, 1)


def test_interrupted_before_the_first_sample_there_is_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stop(*_: Any) -> Iterator[Sample]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(engine, "samples", stop)
    done = CliRunner().invoke(app, [*ASK, "--json", str(tmp_path / "result.json")])
    assert done.exit_code == command.INTERRUPTED
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "smollm2-135m"], "exclude each other"),
        (["--json", "/no/such/folder/x.json"], "not a file in an existing folder"),
        (["--dtype", "int3"], "no dtype 'int3'"),
        (["--quantize", "int3"], "no quantization 'int3'"),
        (["--random", "nothing"], "no shape 'nothing'"),
        (["--batch", "0"], "requests in a batch must be at least 1, not 0"),
        (["--batch", "2", "--scheduling", "none"], "no scheduling 'none'"),
    ],
)
def test_options_that_are_refused(options: list[str], message: str) -> None:
    done = CliRunner().invoke(app, [*ASK, *options])
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_noisy_results_carry_a_warning(llm: LLM) -> None:
    quiet = [Sample(0.5, 0.01), Sample(0.5, 0.01)]
    noisy = [Sample(0.5, 0.01), Sample(0.9, 0.01)]

    def report(taken: list[Sample]) -> str:
        found = engine.summarize(llm, taken, 10, 4, ceilings())
        return command.report(found | {"num_threads": 2})

    assert "warning" not in report(quiet)
    assert "warning: prefill varied too much" in report(noisy)


def test_one_requests_output_rate_counts_its_prefill(llm: LLM) -> None:
    found = engine.summarize(llm, [Sample(0.5, 0.1), Sample(0.5, None)], 10, 6)
    assert found["output_tok_s"]["samples"] == [6.0, 12.0]


@pytest.mark.parametrize("options", [[], ["--scheduling", "static", "--no-prefix-cache"]])
def test_a_batch_is_measured_together(tmp_path: Path, options: list[str]) -> None:
    target = tmp_path / "result.json"
    asked = [*ASK, "--output-tokens", "4", "--batch", "3", "--json", str(target), *options]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "3 requests together, 20 prompt tokens" in done.stdout
    assert "prefill" not in done.stdout
    found = json.loads(target.read_text())
    for name in ("output_tok_s", "ttft_s", "tpot_s", "outside_share"):
        assert set(found[name]) == set(KEYS)
    assert 0 < found["outside_share"]["median"] < 1
    assert found["prefix_cache"] is not bool(options)
    assert found["scheduling"] == ("static" if options else "continuous")


def test_a_batch_of_single_tokens_has_no_tpot(llm: LLM) -> None:
    taken = list(batch_samples(llm, 2, 20, 1, 2))
    assert [sample.tpot_s for sample in taken] == [None, None]
    assert summarize_batch(llm, taken, 2, 20, 1)["tpot_s"] is None
