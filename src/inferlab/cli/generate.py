"""`inferlab generate`: complete a text, or answer a message, and print the answer as it comes."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferlab.cli import options
from inferlab.errors import InferlabError

if TYPE_CHECKING:
    from inferlab.engine.request import Piece

Text = list[str]


def generate(
    prompt: Annotated[str, typer.Argument(help="The text to continue; - reads standard input.")],
    max_tokens: Annotated[int, typer.Option(help="Most tokens to generate.")] = 128,
    temperature: Annotated[float, typer.Option(help="0: always the likeliest token.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Keep the k likeliest tokens; 0 keeps all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Keep the fewest tokens that reach this probability.")
    ] = 1.0,
    min_p: Annotated[
        float, typer.Option(help="Drop tokens below this share of the likeliest one.")
    ] = 0.0,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1 makes tokens that came before less likely.")
    ] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Makes sampling repeatable.")] = None,
    stop: Annotated[
        Text | None, typer.Option(help="End before this text; may be given several times.")
    ] = None,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Go on after the model's own end.")
    ] = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Answer the prompt as a message, in the chat form.")
    ] = False,
    system: Annotated[str | None, typer.Option(help="With --chat: the system message.")] = None,
    model: options.Model = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    quantize: options.Quantize = "none",
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Recompute the whole text for each token.")
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Print TTFT, TPOT and tokens to standard error.")
    ] = False,
) -> None:
    """Continue a text with the model, and print the continuation alone, as it comes.

    Example: inferlab generate "The capital of France is" --max-tokens 8
    """
    from inferlab.engine.llm import LLM
    from inferlab.engine.request import SamplingParams

    params = SamplingParams(
        max_tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed,
        tuple(stop or ()), ignore_eos=ignore_eos,
    )  # fmt: skip
    asked = _asked(sys.stdin.read() if prompt == "-" else prompt, chat, system)
    llm = LLM(model, dtype=dtype, device=device, num_threads=threads, quantize=quantize)
    answer = llm.start(asked, params, use_cache=not no_cache)
    _print(answer.pieces())
    if stats:
        typer.echo(_stats(answer.trace, llm.describe()), err=True)


def _asked(prompt: str, chat: bool, system: str | None) -> Any:
    if system is not None and not chat:
        raise InferlabError("--system is a message of a conversation: add --chat.")
    if not chat:
        return prompt
    before = [{"role": "system", "content": system}] if system is not None else []
    return [*before, {"role": "user", "content": prompt}]


def _print(pieces: Iterator["Piece"]) -> None:
    last = ""
    for piece in pieces:
        sys.stdout.write(piece.text)
        sys.stdout.flush()
        last = piece.text or last
    if not last.endswith("\n"):
        sys.stdout.write("\n")


def _stats(trace: Any, model: dict[str, Any]) -> str:
    from inferlab.trace import metrics

    ttft_ns, tpot_s = metrics.ttft_ns(trace), metrics.tpot_s(trace)
    quantized = "" if model["quantize"] == "none" else f" with {model['quantize']} weights"
    stored = model["dtype"] + quantized
    ttft = "-" if ttft_ns is None else f"{ttft_ns / 1e6:.1f} ms"
    tpot = "-" if tpot_s is None else f"{tpot_s * 1e3:.1f} ms ({1 / tpot_s:.1f} tok/s)"
    return (
        f"{model['name']} in {stored} on {model['device']}: "
        f"{trace.usage.prompt_tokens} prompt tokens, {trace.usage.output_tokens} output tokens, "
        f"TTFT {ttft}, TPOT {tpot}, ended by {trace.finish_reason}"
    )
