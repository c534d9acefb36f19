"""The public face: answers, streams, chats, probabilities, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inferlab import LLM, InferlabError, SamplingParams, hardware
from inferlab.engine import placement
from inferlab.model.config import SHAPES
from inferlab.trace import metrics

PROMPT = "Hello, world"


@pytest.fixture(scope="module")
def real() -> LLM:
    return LLM("smollm2-135m", dtype="float32", device="cpu")


def test_a_completion_holds_text_ids_reason_and_trace(llm: LLM) -> None:
    done = llm.generate(PROMPT, max_tokens=12)
    assert len(done.token_ids) == 12
    assert done.finish_reason == "length"
    assert done.text == llm.tokenizer.decode(done.token_ids)
    assert done.prompt_token_ids == llm.tokenizer.encode(PROMPT)
    trace = done.trace
    assert (trace.status, trace.finish_reason) == ("ok", "length")
    assert trace.usage.output_tokens == 12
    assert trace.usage.prompt_tokens == len(done.prompt_token_ids)
    assert trace.sent_ns < trace.chunks[0].t_ns <= (trace.end_ns or 0)


def test_without_a_cache_the_answer_is_the_same(llm: LLM) -> None:
    plain = llm.generate(PROMPT, max_tokens=20, use_cache=False)
    assert llm.generate(PROMPT, max_tokens=20).token_ids == plain.token_ids


def test_sampled_answers_repeat_with_their_seed_with_and_without_cache(llm: LLM) -> None:
    params = SamplingParams(20, temperature=1.0, top_k=50, top_p=0.9, min_p=0.01, seed=3,
                            repetition_penalty=1.2)  # fmt: skip
    one = llm.generate(PROMPT, params)
    assert llm.generate(PROMPT, params).token_ids == one.token_ids
    assert llm.generate(PROMPT, params, use_cache=False).token_ids == one.token_ids
    assert llm.generate(PROMPT, params, seed=4).token_ids != one.token_ids


def test_a_list_of_texts_is_answered_one_by_one(llm: LLM) -> None:
    texts = ["a", "bcd"]
    alone = [llm.generate(text, max_tokens=4).token_ids for text in texts]
    assert [done.token_ids for done in llm.generate(texts, max_tokens=4)] == alone


def test_token_ids_are_a_prompt_too(llm: LLM) -> None:
    ids = llm.tokenizer.encode(PROMPT)
    assert llm.generate(ids, max_tokens=4).token_ids == llm.generate(PROMPT, max_tokens=4).token_ids


def test_stop_ids_and_strings_end_the_answer(llm: LLM) -> None:
    whole = llm.generate(PROMPT, max_tokens=12)
    third = whole.token_ids[2]
    first_at = whole.token_ids.index(third)
    done = llm.generate(PROMPT, max_tokens=12, stop_token_ids=(third,))
    assert done.token_ids == whole.token_ids[: first_at + 1]
    assert done.finish_reason == "stop"
    assert done.text == llm.tokenizer.decode(whole.token_ids[:first_at])


@pytest.mark.weights
def test_a_stop_string_is_not_part_of_the_text(real: LLM) -> None:
    whole = real.generate("The capital of France is", max_tokens=8)
    assert whole.text.startswith(" Paris")
    done = real.generate("The capital of France is", max_tokens=8, stop="aris")
    assert (done.text, done.finish_reason) == (" P", "stop")
    assert metrics.ttft_ns(done.trace) is not None


@pytest.mark.weights
def test_chat_ends_by_itself_and_streams_the_same(real: LLM) -> None:
    messages = [{"role": "user", "content": "What is 2+2? Answer with one number."}]
    done = real.chat(messages, max_tokens=60)
    assert done.finish_reason == "stop"
    assert "4" in done.text
    assert done.token_ids[-1] in real.tokenizer.eos_token_ids
    pieces = list(real.stream(messages, max_tokens=60))
    assert "".join(piece.text for piece in pieces) == done.text
    assert [piece.token_id for piece in pieces] == done.token_ids


@pytest.mark.weights
def test_a_stream_never_shows_half_a_character(real: LLM) -> None:
    prompt = "Repeat: 🙂🙃 中文 🙂🙃 中文 🙂🙃 中文"
    pieces = list(real.stream(prompt, max_tokens=40, temperature=1.5, seed=1))
    text = "".join(piece.text for piece in pieces)
    assert text == real.generate(prompt, max_tokens=40, temperature=1.5, seed=1).text
    assert all("\ufffd" not in piece.text for piece in pieces[:-1]) or "\ufffd" in text


@pytest.mark.weights
def test_the_embedded_model_describes_itself(real: LLM) -> None:
    told = real.describe()
    assert told["name"] == "smollm2-135m"
    assert len(told["sha256"]) == 64
    assert told["num_parameters"] == 134_515_008
    assert told["weight_bytes"] == real.weight_bytes == 4 * 134_515_008


def test_tokens_without_text_count_with_the_next_text(llm: LLM) -> None:
    """A byte vocabulary makes many tokens that are only a part of a character."""
    done = llm.generate(PROMPT, max_tokens=60, temperature=1.0, seed=2)
    counted = sum(chunk.num_tokens or 0 for chunk in done.trace.chunks)
    silent = [chunk for chunk in done.trace.chunks if chunk.channel == "none"]
    last_text = max(i for i, chunk in enumerate(done.trace.chunks) if chunk.channel == "content")
    assert len(done.trace.chunks) == 60
    assert counted == last_text + 1
    assert silent
    assert all(chunk.num_tokens is None for chunk in silent)


def test_a_stream_that_is_left_early_is_cancelled(llm: LLM) -> None:
    answer = llm.start(PROMPT, SamplingParams(max_tokens=50))
    pieces = answer.pieces()
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert answer.trace.status == "cancelled"
    assert answer.trace.usage.output_tokens == 1


def test_a_failure_stands_in_the_trace(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = llm.start(PROMPT, SamplingParams(max_tokens=5))
    monkeypatch.setattr(llm.model, "forward", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(answer.pieces())
    assert answer.trace.status == "failed"
    assert "ZeroDivisionError" in (answer.trace.error or "")


def test_the_context_limits_the_answer_and_the_prompt(llm: LLM) -> None:
    ids = llm.random_prompt(508)
    done = llm.generate(ids, max_tokens=100)
    assert (len(done.token_ids), done.finish_reason) == (4, "length")
    with pytest.raises(InferlabError, match=r"the prompt has 512 tokens; tiny takes 512"):
        llm.generate(llm.random_prompt(512))


def test_the_distribution_is_sorted_and_scaled_by_temperature(llm: LLM) -> None:
    found = llm.next_token_distribution(PROMPT, top=5)
    probabilities = [token.probability for token in found]
    assert probabilities == sorted(probabilities, reverse=True)
    assert len(found) == 5
    full = llm.next_token_distribution(PROMPT, top=100_000)
    assert sum(token.probability for token in full) == pytest.approx(1.0, abs=1e-4)
    hot = llm.next_token_distribution(PROMPT, top=1, temperature=2.0)[0]
    assert hot.token_id == found[0].token_id
    assert hot.probability < found[0].probability
    with pytest.raises(InferlabError, match="top must be at least 1"):
        llm.next_token_distribution(PROMPT, top=0)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "no tokens"),
        ([512], "512 is not a token id"),
        ([-1], "-1 is not a token id"),
        ([1.5], "not a token id"),
        ("", "no token to start from"),
        ([True], "True is not a token id"),
        (None, "a prompt is a text or a list of token ids, not None"),
        (5, "not 5"),
        (b"bytes", "not b'bytes'"),
    ],
)
def test_prompts_that_are_refused(llm: LLM, prompt: Any, message: str) -> None:
    with pytest.raises(InferlabError, match=message):
        llm.generate(prompt)


@pytest.mark.parametrize("kind", [tuple, np.array, torch.tensor])
def test_integers_of_other_libraries_are_token_ids(llm: LLM, kind: Any) -> None:
    ids = llm.random_prompt(6)
    done = llm.generate(kind(ids), max_tokens=3)
    assert done.token_ids == llm.generate(ids, max_tokens=3).token_ids
    assert all(type(token) is int for token in done.prompt_token_ids)


def test_a_model_that_cannot_fit_is_refused_before_it_is_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = {"available_bytes": 2**30, "limit_bytes": None}
    monkeypatch.setattr(hardware, "describe", lambda: {"memory": memory})
    message = r"llama-3\.1-8b needs 15\.0 GiB .* in bfloat16, and cpu has 1\.0 GiB free"
    with pytest.raises(InferlabError, match=message):
        LLM.random("llama-3.1-8b", dtype="bfloat16", device="cpu")
    monkeypatch.setitem(memory, "available_bytes", 2**20)
    with pytest.raises(InferlabError, match=r"0\.5 GiB for its weights in float32"):
        LLM("smollm2-135m", dtype="float32", device="cpu")
    monkeypatch.setitem(memory, "available_bytes", None)  # unknown: nothing to say
    LLM.random("tiny", device="cpu")


def test_a_gpu_is_asked_for_its_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10, 20))
    place = placement.Placement(torch.device("cuda"), torch.bfloat16)
    with pytest.raises(InferlabError, match=r"cuda has 0\.0 GiB free"):
        placement.require_memory(SHAPES["tiny"], place)


@pytest.mark.weights
def test_an_empty_text_starts_from_bos(real: LLM) -> None:
    done = real.generate("", max_tokens=2)
    assert done.prompt_token_ids == [real.tokenizer.bos_token_id]


def test_random_prompts_are_ordinary_repeatable_and_different(llm: LLM) -> None:
    one, two = llm.random_prompt(50, seed=1), llm.random_prompt(50, seed=2)
    assert one == llm.random_prompt(50, seed=1) != two
    assert all(llm.tokenizer.token_bytes(token) for token in one)
    with pytest.raises(InferlabError, match="at least 1 token"):
        llm.random_prompt(0)


def test_random_weights_say_so_and_follow_their_seed() -> None:
    build = {"dtype": "float32", "device": "cpu"}
    one, same = LLM.random("tiny", **build), LLM.random("tiny", **build)
    other = LLM.random("tiny", seed=1, **build)
    ids = one.random_prompt(5)
    logits = [m.forward(ids, m.new_cache(5)) for m in (one, same, other)]
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[0], logits[2])
    assert one.describe()["weights"] == "random weights, speed only"
    assert LLM.random("llama-3.2-1b", num_layers=1, **build).config.num_layers == 1
    assert one.weight_bytes == 4 * one.config.num_parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float8"}, "no dtype 'float8'"),
        ({"dtype": "float16"}, "float16 is for GPUs"),
        ({"device": "tpu"}, "no device 'tpu'"),
        ({"num_threads": 0}, "num_threads must be at least 1"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InferlabError, match=message):
        LLM.random("tiny", **({"device": "cpu"} | options))


def test_unknown_shapes_and_absent_devices_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InferlabError, match=r"no shape 'gpt-5'.*llama-3\.1-8b"):
        LLM.random("gpt-5")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InferlabError, match="a CUDA GPU"):
        LLM.random("tiny", device="cuda")


def test_auto_takes_the_gpu_and_the_fastest_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(cuda: bool, mps: bool, bf16: bool = True) -> tuple[str, torch.dtype]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bf16)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
        place = placement.choose("auto", "auto")
        return place.device.type, place.dtype

    assert chosen(True, False) == ("cuda", torch.bfloat16)
    assert chosen(True, True, bf16=False) == ("cuda", torch.float16)
    assert chosen(False, True) == ("mps", torch.float16)
    assert chosen(False, False) == ("cpu", torch.bfloat16)
    assert chosen(False, False, bf16=False) == ("cpu", torch.float32)


def test_num_threads_is_what_pytorch_uses() -> None:
    before = torch.get_num_threads()
    try:
        LLM.random("tiny", device="cpu", num_threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_folder_is_described_by_the_checksum_of_each_file(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(b"x")
    (tmp_path / "config.json").write_text("{}")
    found = placement.checksums(tmp_path)
    assert isinstance(found, dict)
    assert list(found) == ["a.safetensors"]


def test_synchronize_waits_for_the_device(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    llm.synchronize()  # nothing to wait for on a CPU
    waited: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: waited.append(device.type))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    for kind in ("cuda", "mps"):
        monkeypatch.setattr(llm, "device", torch.device(kind))
        llm.synchronize()
    assert waited == ["cuda", "mps"]
