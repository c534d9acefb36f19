"""Into which pieces does the model's tokenizer cut a text?"""

from inferlab import LLM, lab

TEXT = "Tokenization isn't spelling: unbelievable, 2048, naïve, 東京 🙂"

tokenizer = LLM().tokenizer
ids = tokenizer.encode(TEXT)

rows = []
for position, token_id in enumerate(ids, 1):
    data = tokenizer.token_bytes(token_id)
    rows.append(
        {
            "position": position,
            "text": tokenizer.piece(token_id),
            "id": str(token_id),
            "bytes": len(data),
            "hex": data.hex(" "),
        }
    )

size = len(TEXT.encode())
longest = max(row["bytes"] for row in rows)
same = "the same text" if tokenizer.decode(ids) == TEXT else "a different text"
lab.record(
    rows=rows,
    columns=[
        lab.Column("position", "token", digits=0),
        lab.Column("text", "piece"),
        lab.Column("id", "id"),
        lab.Column("bytes", "bytes", digits=0),
        lab.Column("hex", "as bytes"),
    ],
    finding=f"{len(TEXT)} characters, {size} bytes, {len(ids)} tokens of 1 to {longest} "
    f"bytes; the ids turn back into {same}.",
    parameters={"text": TEXT, "vocab_size": tokenizer.vocab_size},
)
