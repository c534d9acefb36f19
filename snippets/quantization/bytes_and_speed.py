"""How much faster do fewer bits per weight read a prompt and write an answer?"""

from statistics import median

from inferlab import LLM, lab
from inferlab.trace import tpot_s, ttft_ns

device = "cuda" if lab.ceilings().device == "cuda" else "cpu"  # where the kernels are
prompt_tokens, output_tokens = lab.pick(quick=(128, 17), full=(600, 65), smoke=(80, 3))
stored = lab.pick(
    quick=["float32", "bfloat16", "int8", "int4"],
    full=["float32", "bfloat16", "int8", "int4"],
    smoke=["bfloat16", "int4"],
)
models = {
    name: LLM(device=device, dtype="bfloat16", quantize=name)
    if name.startswith("int")
    else LLM(device=device, dtype=name)
    for name in stored
}
reading = {name: [] for name in stored}
writing = {name: [] for name in stored}
for repeat in range(lab.repeats() + 1):
    for name, llm in models.items():  # in turn, so that a noisy moment hits all alike
        prompt = llm.random_prompt(prompt_tokens, seed=repeat)
        trace = llm.generate(prompt, max_tokens=output_tokens, ignore_eos=True).trace
        if repeat > 0:  # the first run warms up
            reading[name].append(prompt_tokens * 1e9 / ttft_ns(trace))
            writing[name].append(1 / tpot_s(trace))

bandwidth = lab.ceilings().best_read_bytes_s
rows = [
    {
        "stored": name,
        "step_mb": llm.model.step_bytes / 1e6,
        "prefill": reading[name],
        "decode": writing[name],
        "most": bandwidth / llm.model.step_bytes,
        "used": 100 * median(writing[name]) * llm.model.step_bytes / bandwidth,
    }
    for name, llm in models.items()
]
whole, small = next(r for r in rows if r["stored"] == "bfloat16"), rows[-1]
finding = (
    f"With {whole['step_mb'] / small['step_mb']:.1f} times fewer bytes per step, int4 writes "
    f"{median(small['decode']) / median(whole['decode']):.1f} times as fast as bfloat16, and reads "
    f"a prompt {median(small['prefill']) / median(whole['prefill']):.2f} times as fast."
)
columns = [
    lab.Column("stored", "weights in"),
    lab.Column("step_mb", "read per step", "MB", digits=0),
    lab.Column("prefill", "prefill", "tok/s", digits=0),
    lab.Column("decode", "decode", "tok/s", digits=1, at_most="most"),
    lab.Column("most", "bandwidth allows", "tok/s", digits=0),
    lab.Column("used", "of it reached", "%", digits=0),
]
chart = lab.Chart("bar", "stored", "decode", finding, bound="most", roles={"decode": "decode"})
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=models[stored[-1]])
