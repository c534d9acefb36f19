"""The arithmetic: cited figures, real tensors' bytes, and operations that PyTorch itself counts."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from inferlab import cost
from inferlab.engine.llm import LLM
from inferlab.errors import InferlabError
from inferlab.kv_cache.contiguous import ContiguousCache
from inferlab.model.attention import visible
from inferlab.model.config import SHAPES, ModelConfig

FIVE = ("smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b", "llama-3.1-8b", "llama-2-13b")
META = torch.device("meta")
GB = 10**9


def shape(name: str) -> cost.Shape:
    return SHAPES[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama-3.1-8b", 131_072),
        ("llama-2-13b", 819_200),
        ("qwen3-0.6b", 114_688),
        ("qwen2.5-0.5b", 12_288),
        ("smollm2-135m", 23_040),
    ],
)
def test_kv_bytes_per_token_of_known_models(name: str, expected: int) -> None:
    assert cost.kv_bytes_per_token(shape(name)) == expected
    assert cost.kv_bytes_per_token(shape(name), "float32") == 2 * expected
    assert cost.kv_bytes_per_token(shape(name), torch.float8_e4m3fn) == expected // 2


@pytest.mark.parametrize("name", FIVE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cache_bytes_equal_a_real_cache(name: str, dtype: torch.dtype) -> None:
    cache = ContiguousCache(SHAPES[name], 300, dtype, META)
    assert cost.kv_cache_bytes(shape(name), 300, dtype=dtype) == cache.nbytes
    assert cost.kv_cache_bytes(shape(name), 300, num_sequences=7, dtype=dtype) == 7 * cache.nbytes


@pytest.mark.parametrize("name", FIVE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_weight_bytes_equal_real_tensors(name: str, dtype: torch.dtype) -> None:
    shapes = SHAPES[name].tensor_shapes()
    tensors = {key: torch.empty(size, dtype=dtype, device=META) for key, size in shapes.items()}
    total = sum(tensor.nbytes for tensor in tensors.values())
    assert cost.weight_bytes(SHAPES[name].num_parameters, dtype) == total
    matrices = [t for key, t in tensors.items() if key.startswith("layers.") and len(t.shape) == 2]
    assert cost.layer_parameters(shape(name)) == sum(matrix.numel() for matrix in matrices)
    table = 0 if SHAPES[name].tie_embeddings else tensors["embed_tokens.weight"].nbytes
    streamed = cost.streamed_parameters(shape(name))
    assert cost.weight_bytes(streamed, dtype) == total - table


def test_bytes_equal_a_running_model() -> None:
    llm = LLM.random("tiny", dtype="float32", device="cpu")
    # Norms are kept in float32 either way, and this model is in float32 as a whole.
    assert llm.weight_bytes == cost.weight_bytes(llm.config.num_parameters, "float32")
    assert llm.new_cache(40).nbytes == cost.kv_cache_bytes(llm.config, 40, dtype="float32")


def test_raw_weights_of_eight_billion_parameters() -> None:
    assert cost.raw_weight_table() == {
        "float32": 32 * GB,
        "float16": 16 * GB,
        "bfloat16": 16 * GB,
        "int8": 8 * GB,
        "int4": 4 * GB,
    }


def test_groups_add_a_scale_each() -> None:
    assert cost.weight_bytes(256, "int4", group_size=32) == 128 + 8 * 2
    assert cost.weight_bytes(33, "int4", group_size=32) == 17 + 2 * 2


def test_unknown_dtype_is_named() -> None:
    with pytest.raises(InferlabError, match="'int3': expected one of float32"):
        cost.weight_bytes(1, "int3")


@pytest.mark.parametrize("name", FIVE)
def test_operations_equal_what_torch_counts(name: str) -> None:
    config, tokens = SHAPES[name], 24
    with FlopCounterMode(display=False) as counter:
        _multiply_as_a_model(config, tokens)
    counted = counter.get_total_flops()
    assert cost.forward_flops(shape(name), tokens, causal=False) == counted


def _multiply_as_a_model(config: ModelConfig, tokens: int) -> None:
    """All matrix products of a forward pass, without sparing what the mask hides."""
    for key, size in config.tensor_shapes().items():
        if key.startswith("layers.") and len(size) == 2:
            F.linear(torch.empty(tokens, size[1], device=META), torch.empty(size, device=META))
    for _ in range(config.num_layers):
        q = torch.empty(config.num_heads, tokens, config.head_dim, device=META)
        torch.bmm(torch.bmm(q, q.transpose(1, 2)), q)
    output = torch.empty(config.vocab_size, config.hidden_size, device=META)
    F.linear(torch.empty(1, config.hidden_size, device=META), output)


@pytest.mark.parametrize("window", [None, 1, 3, 8, 50])
@pytest.mark.parametrize(("tokens", "context"), [(1, 0), (7, 0), (1, 9), (5, 2), (12, 40)])
def test_causal_attention_counts_the_pairs_that_the_mask_shows(
    tokens: int, context: int, window: int | None
) -> None:
    small = ModelConfig("small", "mistral", 3, 64, 128, 4, 2, 16, 512, sliding_window=window)
    pairs = int(visible(tokens, context + tokens, window, torch.device("cpu")).sum())
    assert cost.attention_flops(small, tokens, context=context) == 4 * 3 * 64 * pairs


def test_causal_attention_is_half_of_full_attention() -> None:
    llama = shape("llama-3.1-8b")
    full = cost.attention_flops(llama, 4096, causal=False)
    assert full == 4 * 32 * 4096**2 * 4096  # 4 x layers x tokens^2 x hidden
    assert cost.attention_flops(llama, 4096) == pytest.approx(full / 2, rel=1e-3)


def test_windows_bound_attention_and_the_cache_that_a_step_reads() -> None:
    mistral = shape("mistral-7b")
    far, farther = (cost.decode_work(mistral, context) for context in (8192, 16384))
    assert far == farther
    assert far.num_bytes < cost.decode_work(shape("llama-3.1-8b"), 8192).num_bytes


def test_rule_of_thumb_is_close_for_a_large_model() -> None:
    llama = shape("llama-3.1-8b")
    estimate = cost.rule_of_thumb_flops(llama.num_parameters, 100)
    exact = cost.forward_flops(llama, 100, num_logits=100)
    assert exact == pytest.approx(estimate, rel=0.08)


def test_decode_is_bound_by_memory_and_prefill_by_computing() -> None:
    llama, h100 = shape("llama-3.1-8b"), cost.ACCELERATORS[1]
    rates = (h100.bf16_flop_s, h100.bandwidth_bytes_s)
    decode, prefill = cost.decode_work(llama, 1000), cost.prefill_work(llama, 1000)
    assert decode.limited_by(*rates) == "memory"
    assert decode.intensity_flop_per_byte < 1.2
    assert prefill.limited_by(*rates) == "compute"
    assert prefill.intensity_flop_per_byte > h100.ridge_flop_per_byte
    assert prefill.lower_bound_s(*rates) == cost.prefill_lower_bound_s(
        llama, 1000, flop_s=h100.bf16_flop_s
    )
    streamed = cost.weight_bytes(cost.streamed_parameters(llama), "bfloat16")
    assert decode.num_bytes == streamed + 1001 * 131_072
    assert decode.lower_bound_s(*rates) == decode.num_bytes / h100.bandwidth_bytes_s


def test_a_batch_shares_the_weights_and_not_the_cache() -> None:
    llama = shape("llama-3.1-8b")
    one, many = cost.decode_work(llama, 500), cost.decode_work(llama, 500, batch=16)
    assert many.flops == 16 * one.flops
    assert many.num_bytes - one.num_bytes == 15 * 501 * 131_072
    quantized = cost.decode_work(llama, 500, weight_num_bytes=4 * GB)
    assert quantized.num_bytes == 4 * GB + 501 * 131_072
    assert cost.prefill_work(llama, 8, context=2, weight_num_bytes=5).num_bytes == 5 + 10 * 131_072


def test_decode_step_takes_the_slower_of_memory_and_computing() -> None:
    def step(batch: int) -> float:
        return cost.decode_step_lower_bound_s(
            8e9, 16e9, 1e9, flop_s=1e15, bytes_s=2e12, batch=batch
        )

    assert step(1) == pytest.approx(17e9 / 2e12)
    assert step(4) == pytest.approx(20e9 / 2e12)
    compute_bound = cost.decode_step_lower_bound_s(
        8e9, 16e9, 0.0, flop_s=1e15, bytes_s=2e12, batch=1000
    )
    assert compute_bound == pytest.approx(2 * 1000 * 8e9 / 1e15)


def test_critical_batch_is_where_computing_meets_memory() -> None:
    flop_s, bytes_s = 989e12, 3.35e12
    assert cost.critical_batch(flop_s, bytes_s) == pytest.approx(295.2, abs=0.1)
    assert cost.critical_batch(flop_s, bytes_s, 0.5) == pytest.approx(73.8, abs=0.1)
    batch = cost.critical_batch(flop_s, bytes_s)
    assert 2 * batch * 8e9 / flop_s == pytest.approx(16e9 / bytes_s)


@pytest.mark.parametrize(
    ("name", "ridge"),
    [
        ("A100-80GB", 153),
        ("H100 SXM", 295),
        ("H200", 206),
        ("B200", 281),
        ("RTX 4090", 164),
        ("RTX 3090", 76),
        ("L4", 403),
        ("L40S", 419),
        ("MI300X", 247),
    ],
)
def test_ridge_points_of_datasheets(name: str, ridge: int) -> None:
    found = {accelerator.name: accelerator for accelerator in cost.ACCELERATORS}[name]
    assert round(found.ridge_flop_per_byte) == ridge
    assert found.source == "datasheet"
    assert 10 * GB < found.memory_bytes < 300 * GB


def test_every_accelerator_and_link_is_listed_once() -> None:
    assert len({accelerator.name for accelerator in cost.ACCELERATORS}) == 9
    assert len({link.name for link in cost.LINKS}) == len(cost.LINKS)
    slowest_memory = min(accelerator.bandwidth_bytes_s for accelerator in cost.ACCELERATORS)
    assert min(link.bytes_s for link in cost.LINKS) < slowest_memory


def test_sequences_that_fit_beside_the_weights() -> None:
    llama = shape("llama-3.1-8b")
    left = 0.9 * 80e9 - 2 * llama.num_parameters
    assert cost.sequences_that_fit(llama, 80e9, 8192) == int(left // (8192 * 131_072))
    assert cost.sequences_that_fit(llama, 16e9, 8192) == 0
    assert cost.sequences_that_fit(llama, 16e9, 8192, weight_dtype="int4") > 0


@pytest.mark.parametrize(
    ("acceptance", "drafted", "expected"),
    [
        (0.5, 1, 1.5),
        (0.5, 4, 1.938),
        (0.7, 3, 2.533),
        (0.7, 5, 2.941),
        (0.8, 4, 3.362),
        (0.8, 8, 4.329),
        (0.9, 4, 4.095),
        (0.0, 5, 1.0),
        (1.0, 5, 6.0),
        (0.6, 0, 1.0),
    ],
)
def test_speculative_tokens_per_step(acceptance: float, drafted: int, expected: float) -> None:
    assert cost.speculative_expected_tokens(acceptance, drafted) == pytest.approx(
        expected, abs=5e-4
    )
    by_hand = sum(acceptance**i for i in range(drafted + 1))  # each drafted token, then one more
    assert cost.speculative_expected_tokens(acceptance, drafted) == pytest.approx(by_hand)


def test_speculative_speedup_has_its_best_length() -> None:
    assert cost.speculative_speedup(0.8, 4, 0.1) == pytest.approx(3.3616 / 1.4)
    assert cost.speculative_speedup(0.8, 4, 0.0) == pytest.approx(3.3616)
    assert cost.best_num_draft_tokens(0.2, 0.5) == 0  # drafting never pays
    best = cost.best_num_draft_tokens(0.8, 0.1)
    for other in (best - 1, best + 1):
        assert cost.speculative_speedup(0.8, best, 0.1) > cost.speculative_speedup(0.8, other, 0.1)


@pytest.mark.parametrize(("acceptance", "drafted"), [(-0.1, 2), (1.1, 2), (math.nan, 2), (0.5, -1)])
def test_impossible_acceptance_is_refused(acceptance: float, drafted: int) -> None:
    with pytest.raises(InferlabError, match="must be from 0 to 1"):
        cost.speculative_expected_tokens(acceptance, drafted)


def test_tensor_parallelism_reduces_twice_per_layer() -> None:
    llama = shape("llama-3.1-8b")
    assert cost.all_reduce_count(llama.num_layers) == 64
    activations = torch.empty(3, 17, llama.hidden_size, dtype=torch.bfloat16, device=META)
    assert cost.all_reduce_bytes(3, 17, llama.hidden_size) == activations.nbytes
    assert cost.all_reduce_bytes(1, 1, 576, "float32") == 2304
    assert cost.all_reduce_lower_bound_s(1e9, 4, 1e9) == pytest.approx(1.5)
    assert cost.all_reduce_lower_bound_s(1e9, 1, 1e9) == 0


def test_flash_attention_accesses_less_the_larger_its_fast_memory() -> None:
    assert cost.standard_attention_accesses(1024, 64) == 1024 * 64 + 1024**2
    assert cost.flash_attention_accesses(1024, 64, 4096) == 1024**2 * 64**2 / 4096
    small, large = (cost.flash_attention_accesses(4096, 64, m) for m in (8192, 32768))
    assert small == 4 * large
    assert large < cost.standard_attention_accesses(4096, 64)
    with pytest.raises(InferlabError, match="d <= M <= N d"):
        cost.flash_attention_accesses(10, 64, 10_000)


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_paged_waste_is_at_most_one_block_less_a_slot(block_size: int) -> None:
    lengths = range(1, 4 * block_size + 1)  # whole blocks' worth: each remainder equally often
    waste = [cost.paged_waste_slots(length, block_size) for length in lengths]
    blocks = [math.ceil(length / block_size) for length in lengths]
    assert waste == [n * block_size - t for n, t in zip(blocks, lengths, strict=True)]
    assert max(waste) == block_size - 1
    assert sum(waste) / len(waste) == cost.mean_paged_waste_slots(block_size)


def test_contiguous_waste() -> None:
    assert cost.contiguous_waste_share(512, 2048) == 0.75
    with pytest.raises(InferlabError, match="do not fit a reservation of 4"):
        cost.contiguous_waste_share(5, 4)


def test_public_names_are_exported() -> None:
    assert all(hasattr(cost, name) for name in cost.__all__)
    assert sorted(cost.__all__, key=lambda n: (n[0].islower(), not n.isupper(), n)) == cost.__all__
