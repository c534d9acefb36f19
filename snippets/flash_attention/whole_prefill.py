"""How much sooner is a whole prompt processed when attention is computed in tiles?"""

from statistics import median

from inferlab import LLM, lab
from inferlab.engine.generate import WholeText, forward
from inferlab.model.attention import attend_reference, attend_sdpa
from inferlab.model.flash_attention import attend_tiled

forms = {"standard": attend_reference, "tiled": attend_tiled, "SDPA": attend_sdpa}
lengths = lab.pick(quick=[128, 512], full=[128, 512, 1024, 2048, 4096], smoke=[16, 32])


class With(WholeText):
    """The model's pass over a whole text, with another attention."""

    def __init__(self, model, num_tokens, form):
        super().__init__(model, num_tokens)
        self.form = form

    def attend(self, layer, q, kv):
        keys, values = kv.transpose(0, 1).chunk(2)
        return self.form(q, keys, values)


llm = LLM()
rows, same = [], 0
for length in lengths:
    prompt = llm.random_prompt(length, seed=length)
    runs = {
        name: lambda form=form, ids=prompt: forward(llm.model, ids, 0,
                                                    With(llm.model, len(ids), form))
        for name, form in forms.items()
    }  # fmt: skip
    tokens = {int(run().argmax()) for run in runs.values()}
    same += len(tokens) == 1
    times = lab.interleave(
        runs, lab.repeats(quick=3, full=5), warmup=0, synchronize=llm.synchronize
    )
    for name, seconds in times.items():
        row = {"length": length, "form": name, "time_ms": [s * 1e3 for s in seconds]}
        rows.append(row | {"gain": median(times["standard"]) / median(seconds)})

last = {row["form"]: row["gain"] for row in rows[-len(forms) :]}
columns = [
    lab.Column("length", "tokens", digits=0),
    lab.Column("form", "attention"),
    lab.Column("time_ms", "time of the prompt", "ms", digits=0),
    lab.Column("gain", "times as fast as standard", digits=2),
]
finding = (
    f"A prompt of {lengths[-1]:,} tokens is processed {last['tiled']:.2f} times as fast with tiled "
    f"attention as with standard attention, and {last['SDPA']:.2f} times with SDPA; the next token "
    f"was the same for {same} of {len(lengths)} prompts."
)
chart = lab.Chart("line", "length", "gain", title=finding, series="form", log_x=True)
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=llm,
           parameters={"lengths": lengths})  # fmt: skip
