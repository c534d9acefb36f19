"""Which block of queries meets which block of keys, and which tiles are never computed?"""

from inferlab import LLM, lab
from inferlab.engine.generate import WholeText, forward
from inferlab.model.flash_attention import TileTrace, attend_tiled

num_tokens = lab.pick(quick=480, full=480, smoke=60)
block = lab.pick(quick=64, full=64, smoke=16)
trace = TileTrace()


class Tiled(WholeText):
    """The model's own attention, computed in tiles; the first layer's are traced."""

    def attend(self, layer, q, kv):
        keys, values = kv.transpose(0, 1).chunk(2)
        return attend_tiled(q, keys, values, query_block=block, key_block=block,
                            trace=trace if layer == 0 else None)  # fmt: skip


llm = LLM()
prompt = llm.random_prompt(num_tokens)
forward(llm.model, prompt, 0, Tiled(llm.model, num_tokens))

rows, order = [], 0
role = {"whole": "prefill", "masked": "neutral", "skipped": "idle"}
for tile in trace.tiles:
    order += tile.kind != "skipped"
    rows.append(
        {
            "lane": f"{tile.queries.start} to {tile.queries[-1]}",
            "start": tile.keys.start,
            "end": tile.keys.stop,
            "kind": tile.kind,
            "order": None if tile.kind == "skipped" else order,
            "label": "" if tile.kind == "skipped" else str(order),
            "role": role[tile.kind],
        }
    )

columns = [
    lab.Column("lane", "queries at"),
    lab.Column("start", "keys from", digits=0, instant=True),
    lab.Column("end", "keys before", digits=0, instant=True),
    lab.Column("kind", "tile"),
    lab.Column("order", "computed as number", digits=0),
]
finding = (
    f"Of {len(trace.tiles)} tiles, {trace.num_computed} are computed and "
    f"{len(trace.tiles) - trace.num_computed} skipped; at no moment does a head hold more than "
    f"{max(tile.pairs for tile in trace.tiles):,} of its {num_tokens**2:,} scores."
)
names = {"prefill": "computed", "neutral": "computed, partly masked", "idle": "skipped"}
chart = lab.Chart("timeline", title=finding, x_label="position of the keys",
                  y_label="position of the queries", options={"names": names})  # fmt: skip
lab.record(rows=rows, columns=columns, finding=finding, chart=chart, model=llm,
           parameters={"num_tokens": num_tokens, "block": block})  # fmt: skip
