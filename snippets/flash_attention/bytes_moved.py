"""How many bytes move between memory and the tiles, and what does the formula say?"""

import torch

from inferlab import cost, lab
from inferlab.model.flash_attention import TileTrace, attend_tiled

DIM = 64
length = lab.pick(quick=1024, full=4096, smoke=256)
blocks = lab.pick(quick=[16, 32, 64, 128, 256], full=[16, 32, 64, 128, 256, 512], smoke=[32, 64])
q, k, v = torch.randn(length, 1, DIM), *torch.randn(2, 1, length, DIM)  # one head, float32
# Standard attention writes the scores, reads them, writes the weights, reads them.
standard_mb = 4 * cost.standard_attention_accesses(length, DIM) * 4 / 1e6

rows = []
for block in blocks:
    trace = TileTrace()
    attend_tiled(q, k, v, query_block=block, key_block=block, trace=trace)
    held = 4 * block * DIM  # M: the tile's queries, keys, values and output, as numbers
    predicted = 4 * cost.flash_attention_accesses(length, DIM, held) + 3 * length * DIM
    rows.append(
        {
            "block": block,
            "tiles": trace.num_computed,
            "moved_mb": trace.moved_bytes / 1e6,
            "formula_mb": predicted * 4 / 1e6,
            "standard_mb": standard_mb,
            "tile_kib": (held * 4 + trace.score_bytes) / 2**10,
        }
    )

first, last = rows[0], rows[-1]
columns = [
    lab.Column("block", "queries and keys of a tile", digits=0),
    lab.Column("tiles", "tiles computed", digits=0),
    lab.Column("moved_mb", "counted", "MB", digits=2),
    lab.Column("formula_mb", "by the formula", "MB", digits=2),
    lab.Column("standard_mb", "standard attention", "MB", digits=2),
    lab.Column("tile_kib", "fast memory for a tile", "KiB", digits=0),
]
finding = (
    f"One head over {length:,} tokens moves {first['moved_mb']:.1f} MB in tiles of "
    f"{first['block']} x {first['block']} and {last['moved_mb']:.1f} MB in tiles of "
    f"{last['block']} x {last['block']}; standard attention moves {standard_mb:.1f} MB."
)
chart = lab.Chart("line", "block", "moved_mb", title=finding, bound="standard_mb",
                  log_x=True)  # fmt: skip
lab.record(rows=rows, columns=columns, finding=finding, chart=chart,
           parameters={"length": length, "head_dim": DIM})  # fmt: skip
