"""Is tiled attention exact, or does it only come close?"""

import torch

from inferlab import LLM, lab
from inferlab.engine.generate import WholeText, forward
from inferlab.model.attention import attend_reference, attend_sdpa
from inferlab.model.flash_attention import attend_tiled

FORMS = {"standard": attend_reference, "tiled": attend_tiled, "SDPA": attend_sdpa}
num_tokens = lab.pick(quick=256, full=1024, smoke=24)
worst = {}


def exact(q, k, v):
    """The formula in double precision, where rounding does not show."""
    q, k, v = q.double(), *(x.double().repeat_interleave(len(q[0]) // len(k), 0) for x in (k, v))
    scores = torch.einsum("thd,hsd->hts", q, k) / q.shape[-1] ** 0.5
    later = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    return torch.einsum("hts,hsd->thd", scores.masked_fill(later, -torch.inf).softmax(-1), v)


class Compare(WholeText):
    """The model's own attention; compares all forms on what each layer is given."""

    def attend(self, layer, q, kv):
        keys, values = kv.transpose(0, 1).chunk(2)
        for dtype in (torch.float32, torch.bfloat16):
            given = q.to(dtype), keys.to(dtype), values.to(dtype)
            right = exact(*given)
            step = torch.finfo(dtype).eps * float(right.abs().max())
            for name, form in FORMS.items():
                error = float((form(*given).double() - right).abs().max())
                key = (str(dtype).removeprefix("torch."), name)
                worst[key] = max(worst.get(key, (0, 0)), (error / step, error))
        return super().attend(layer, q, kv)


llm = LLM(dtype="float32")
prompt = llm.random_prompt(num_tokens)
forward(llm.model, prompt, 0, Compare(llm.model, num_tokens))

rows = [
    {"dtype": dtype, "form": form, "steps": steps, "error": error}
    for (dtype, form), (steps, error) in worst.items()
]
columns = [
    lab.Column("dtype", "inputs in"),
    lab.Column("form", "attention"),
    lab.Column("steps", "largest error", "rounding steps", digits=2),
    lab.Column("error", "there, as a number"),
]
tiled, standard = worst["float32", "tiled"][0], worst["float32", "standard"][0]
finding = (f"In float32 tiled attention is off by at most {tiled:.1f} rounding steps, "
           f"standard attention by {standard:.1f}.")  # fmt: skip
chart = lab.Chart("hbar", "form", "steps", title=finding, series="dtype")
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=llm,
           parameters={"num_tokens": num_tokens, "layers": llm.config.num_layers})  # fmt: skip
