"""How does the time per output token grow with the bytes of the weights?"""

from statistics import median

from inferlab import LLM, cost, lab

on_gpu = lab.ceilings().device == "cuda"
shapes = lab.pick(
    quick=[("smollm2-135m", 10), ("smollm2-135m", 30), ("smollm2-360m", 16), ("smollm2-360m", 32)],
    full=[("smollm2-135m", 10), ("smollm2-135m", 30), ("smollm2-360m", 32), ("smollm2-1.7b", 24)],
    smoke=[("tiny", 1), ("tiny", 2)],
)
if on_gpu:  # weights of a few hundred megabytes are over before a large GPU has warmed up
    shapes = [("llama-3.2-1b", 8), ("llama-3.2-1b", 16), ("llama-3.2-3b", 14), ("llama-3.2-3b", 28)]
prompt_tokens, output_tokens = lab.pick(quick=(16, 17), full=(16, 65), smoke=(4, 9))
models = [LLM.random(shape, num_layers=layers) for shape, layers in shapes]
times = [[] for _ in models]
for repeat in range(lab.repeats() + 1):
    for number, llm in enumerate(models):  # in turn, so that a noisy moment hits all alike
        prompt = llm.random_prompt(prompt_tokens, seed=repeat)
        chunks = llm.generate(prompt, max_tokens=output_tokens, ignore_eos=True).trace.chunks
        decode_ns = chunks[-1].t_ns - chunks[0].t_ns
        if repeat > 0:  # the first run warms up
            times[number].append(decode_ns / 1e6 / (output_tokens - 1))

bandwidth = lab.ceilings().best_read_bytes_s
rows = []
for (shape, layers), llm, per_token_ms in zip(shapes, models, times, strict=True):
    step = cost.decode_work(llm.config, prompt_tokens, dtype=llm.dtype)
    rows.append(
        {
            "shape": shape,
            "layers": layers,
            "weight_mb": llm.weight_bytes / 1e6,
            "per_token_ms": per_token_ms,
            "least_ms": step.num_bytes / bandwidth * 1e3,
            "gb_s": step.num_bytes / median(per_token_ms) / 1e6,
        }
    )

first, last = rows[0], rows[-1]
columns = [
    lab.Column("shape", "random weights of"),
    lab.Column("layers", "layers", digits=0),
    lab.Column("weight_mb", "weights", "MB", digits=0),
    lab.Column("per_token_ms", "time per token", "ms", digits=2, at_least="least_ms"),
    lab.Column("least_ms", "least possible", "ms", digits=2),
    lab.Column("gb_s", "bytes streamed", "GB/s", digits=1, at_most=bandwidth / 1e9),
]
finding = (
    f"With {last['weight_mb'] / first['weight_mb']:.1f} times the weights, a token takes "
    f"{median(last['per_token_ms']) / median(first['per_token_ms']):.1f} times as long."
)
chart = lab.Chart("line", "weight_mb", "per_token_ms", title=finding, bound="least_ms")
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=models[-1])
