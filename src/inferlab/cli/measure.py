"""`inferlab measure`: how fast prefill and decode are on this machine (compare llama-bench)."""

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from inferlab.cli import options
from inferlab.errors import InferlabError

if TYPE_CHECKING:
    from inferlab.engine.llm import LLM
    from inferlab.engine.measure import Sample
    from inferlab.engine.measure_batch import BatchSample

INTERRUPTED = 130
AnySample = TypeVar("AnySample", "Sample", "BatchSample")


def measure(
    prompt_tokens: Annotated[int, typer.Option(help="Length of the prompt.")] = 600,
    output_tokens: Annotated[int, typer.Option(help="Tokens to generate.")] = 64,
    repeats: Annotated[int, typer.Option(help="Measured requests, after one warm-up.")] = 5,
    model: options.Model = None,
    random: Annotated[
        str | None,
        typer.Option("--random", help="Random weights of a named shape (see: inferlab model list)"),
    ] = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    quantize: options.Quantize = "none",
    batch: Annotated[int, typer.Option(help="Requests served together.")] = 1,
    scheduling: Annotated[
        str, typer.Option(help="Of a batch: continuous, or static as the baseline.")
    ] = "continuous",
    no_prefix_cache: Annotated[
        bool, typer.Option("--no-prefix-cache", help="Of a batch: look for no common beginnings.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write JSON; - prints it.")
    ] = None,
) -> None:
    """Measure prefill and decode of one request at a time, each with a prompt never seen before.

    Prints medians with the lowest and highest of the repeats, and the share of what this machine's
    measured matmul rate (prefill) and memory bandwidth (decode) allow. With --batch, the output
    tokens a second of so many requests that come at once, prefill included, and the share of the
    time that the engine spends outside the model (overhead).
    """
    _check_writable(json_file)
    llm = _load(model, random, dtype, device, threads, quantize)
    tokens = (prompt_tokens, output_tokens)
    if batch == 1:
        result, finished = _measure_one(llm, tokens, repeats)
    else:
        served = {"scheduling": scheduling, "prefix_cache": not no_prefix_cache}
        result, finished = _measure_batch(llm, batch, tokens, repeats, served)
    if json_file is None or str(json_file) != "-":
        typer.echo(report(result))
    _write(json_file, result)
    if not finished:
        _say(f"interrupted: {result['repeats']} of {repeats} repeats were measured")
        raise typer.Exit(INTERRUPTED)


def _measure_one(llm: "LLM", tokens: tuple[int, int], repeats: int) -> tuple[dict[str, Any], bool]:
    """The result, and whether it was not interrupted."""
    from inferlab import hardware
    from inferlab.engine import measure as engine

    _say(f"measuring this machine's ceilings, unless known ({llm.device.type})")
    ceilings = hardware.ceilings(llm.device.type)
    started_at = _now()
    taken: list[Sample] = []
    finished = _collect(engine.samples(llm, *tokens, repeats), taken, repeats)
    result = engine.summarize(llm, taken, *tokens, ceilings)
    return result | {"complete": finished, "started_at": started_at, **_where()}, finished


def _measure_batch(
    llm: "LLM", batch: int, tokens: tuple[int, int], repeats: int, options: dict[str, Any]
) -> tuple[dict[str, Any], bool]:
    from inferlab.engine import measure_batch as engine

    started_at = _now()
    taken: list[BatchSample] = []
    samples = engine.batch_samples(llm, batch, *tokens, repeats, **options)
    finished = _collect(samples, taken, repeats)
    result = engine.summarize_batch(llm, taken, batch, *tokens) | options
    return result | {"complete": finished, "started_at": started_at, **_where()}, finished


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _load(
    model: str | None,
    random: str | None,
    dtype: str,
    device: str,
    threads: int | None,
    quantize: str,
) -> "LLM":
    from inferlab.engine.llm import LLM

    if model is not None and random is not None:
        raise InferlabError("--model and --random exclude each other: give one of them.")
    if random is not None:
        return LLM.random(
            random, dtype=dtype, device=device, num_threads=threads, quantize=quantize
        )
    return LLM(model, dtype=dtype, device=device, num_threads=threads, quantize=quantize)


def _collect(samples: "Iterator[AnySample]", taken: "list[AnySample]", repeats: int) -> bool:
    """Fill `taken` as samples come; False when the user stopped it. What was taken stays."""
    _say("warming up")
    try:
        for sample in samples:
            taken.append(sample)
            tpot = "" if sample.tpot_s is None else f", TPOT {sample.tpot_s * 1e3:.2f} ms"
            _say(f"[{len(taken)}/{repeats}] TTFT {sample.ttft_s * 1e3:.1f} ms{tpot}")
    except KeyboardInterrupt:
        if not taken:
            raise
        return False
    return True


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _where() -> dict[str, Any]:
    import torch

    from inferlab import hardware

    return {
        "machine": hardware.describe(),
        "noise": hardware.noise(),
        "num_threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "command": " ".join(["inferlab", *sys.argv[1:]]),
    }


def _check_writable(json_file: Path | None) -> None:
    """Find out before measuring, not after, that the result has no place to go."""
    if json_file is None or str(json_file) == "-":
        return
    if json_file.is_dir() or not json_file.absolute().parent.is_dir():
        raise InferlabError(f"--json {json_file}: not a file in an existing folder.")


def _write(json_file: Path | None, result: Mapping[str, Any]) -> None:
    from inferlab.files import write_atomic

    if json_file is None:
        return
    text = json.dumps(result, indent=2) + "\n"
    if str(json_file) == "-":
        typer.echo(text, nl=False)
    else:
        write_atomic(json_file, text)


def report(result: Mapping[str, Any]) -> str:
    """The result as a person reads it: where it was measured, then one line for each figure."""
    model, shares = result["model"], result.get("roofline", {})
    weights = model.get("weights", "")
    requests = f"{result['batch']} requests together, " if "batch" in result else ""
    head = (
        f"{model['name']}, {_stored(model)}, {model['device']} ({result['num_threads']} threads)"
        f"{', ' + weights if weights else ''}\n"
        f"{requests}{result['prompt_tokens']} prompt tokens, "
        f"{result['output_tokens']} output tokens, "
        f"median of {result['repeats']} [lowest - highest]\n"
    )
    rows = [
        ("prefill", "prefill_tok_s", 1, "tok/s"),
        ("decode", "decode_tok_s", 1, "tok/s"),
        ("output", "output_tok_s", 1, "tok/s"),
        ("TTFT", "ttft_s", 1e3, "ms"),
        ("TPOT", "tpot_s", 1e3, "ms"),
        ("overhead", "outside_share", 100, "%"),
    ]
    lines = [head]
    for name, key, scale, unit in rows:
        if key in result and (key != "output_tok_s" or "batch" in result):
            lines.append(_line(name, result[key], scale, unit, shares.get(f"{name}_share")))
    if result["noisy"]:
        lines.append(
            f"\nwarning: {' and '.join(result['noisy'])} varied too much to compare with other "
            "figures; something else used this machine. Close it and measure again."
        )
    return "\n".join(lines)


def _stored(model: Mapping[str, Any]) -> str:
    """The dtype, and in what form the weights are when it is another one."""
    quantized = model["quantize"]
    return f"{model['dtype']}" if quantized == "none" else f"{model['dtype']}, {quantized} weights"


def _line(
    name: str, spread: Mapping[str, Any] | None, scale: float, unit: str, share: float | None
) -> str:
    if spread is None:
        return f"{name:<8}{'-':>10} {unit:<6} (needs at least 2 output tokens)"
    middle, low, high = (spread[key] * scale for key in ("median", "low", "high"))
    bound = f"   {share:.0%} of the measured roofline" if share is not None else ""
    return f"{name:<8}{middle:>10.2f} {unit:<6}[{low:.2f} - {high:.2f}]{bound}"
