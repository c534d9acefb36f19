"""What does a query know of its answer after each block of keys?"""

from itertools import pairwise

from inferlab import LLM, lab
from inferlab.engine.generate import WholeText, forward
from inferlab.model.attention import attend_reference
from inferlab.model.flash_attention import TileTrace, attend_tiled

text = """A block of keys comes in, and a query compares itself with each of them. Some are close,
most are not. It cannot know yet whether a closer one is still to come. So it keeps the largest
score that it has seen, and a sum that is right for this largest score. When a larger one comes,
it scales the sum down, and goes on as if it had known all along. The question at the end is"""
LAYER, HEAD, BLOCK = 10, 0, 16
seen = {}


class Watch(WholeText):
    """The model's own attention; keeps what one layer is given."""

    def attend(self, layer, q, kv):
        if layer == LAYER:
            seen["q"], (seen["k"], seen["v"]) = q[-1:], kv.transpose(0, 1).chunk(2)
        return super().attend(layer, q, kv)


llm = LLM(dtype="float32")
prompt = llm.tokenizer.encode(text)
forward(llm.model, prompt, 0, Watch(llm.model, len(prompt)))

trace = TileTrace()
attend_tiled(seen["q"], seen["k"], seen["v"], key_block=BLOCK, trace=trace)
answer = attend_reference(seen["q"], seen["k"], seen["v"])[0, HEAD]  # (D,)
rows = [
    {
        "keys": step.tile.keys.stop,
        "largest": step.largest,
        "total": step.total,
        "distance": float((step.output - answer).norm() / answer.norm()),
    }
    for step in trace.steps
]

columns = [
    lab.Column("keys", "keys seen", digits=0),
    lab.Column("largest", "largest score so far, m", digits=3),
    lab.Column("total", "sum so far, l", digits=3),
    lab.Column("distance", "distance of O / l from the answer"),
]
risen = sum(a["largest"] < b["largest"] for a, b in pairwise(rows))
finding = (
    f"After {rows[0]['keys']} of {len(prompt)} keys the answer so far is off by "
    f"{rows[0]['distance']:.2g} of its length, after the last by {rows[-1]['distance']:.0e}; the "
    f"largest score rose {risen} times on the way."
)
chart = lab.Chart("line", "keys", "distance", title=finding)
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=llm,
           parameters={"layer": LAYER, "head": HEAD, "key_block": BLOCK})  # fmt: skip
