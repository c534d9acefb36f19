"""Do the weights change while a model answers, and what memory does that save?"""

import hashlib
from collections.abc import Iterator

import torch

from inferlab import LLM, lab

OUTPUT_TOKENS = lab.pick(quick=32, full=128, smoke=4)
# Bytes for each parameter; training in mixed precision with Adam (arXiv 1910.02054, section 3.1).
INFERENCE = {"weights": 2, "gradients": 0, "optimizer": 0}
TRAINING = {"weights": 2, "gradients": 2, "optimizer": 12}


def tensors(part: object) -> Iterator[torch.Tensor]:
    """Every tensor within a part of the model."""
    if isinstance(part, torch.Tensor):
        yield part.to_dense() if part.is_mkldnn else part
    elif isinstance(part, list):
        for item in part:
            yield from tensors(item)
    elif hasattr(part, "__dict__"):
        yield from tensors(list(vars(part).values()))


def checksum(llm: LLM) -> str:
    """SHA-256 over every number of the weights."""
    found = hashlib.sha256()
    for tensor in tensors([llm.model.embedding, llm.model.layers, llm.model.norm, llm.model.head]):
        found.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return found.hexdigest()


llm = LLM()
before = checksum(llm)
llm.generate("Learn this: the capital of France is Lyon.", max_tokens=OUTPUT_TOKENS)
after = checksum(llm)
with_gradient = sum(tensor.requires_grad for tensor in tensors(llm.model.layers))

millions = llm.config.num_parameters / 1e6
rows = [
    {"use": use, **{part: size * millions for part, size in sizes.items()},
     "total": sum(sizes.values()) * millions}
    for use, sizes in (("inference", INFERENCE), ("training", TRAINING))
]  # fmt: skip
lab.record(
    rows=rows,
    columns=[lab.Column("use", "use")]
    + [lab.Column(part, part, "MB", digits=0) for part in (*TRAINING, "total")],
    finding=f"The weights' checksum is {'the same' if before == after else 'NOT the same'} before "
    f"and after an answer, and {with_gradient} tensors ask for a gradient.",
    chart=lab.Chart("hbar", "use", tuple(TRAINING), options={"stacked": True}, y_label="memory",
                    title=f"{rows[0]['total']:,.0f} MB to answer, "
                          f"{rows[1]['total']:,.0f} MB to train"),
    model=llm,
    notes=[f"SHA-256 before: {before[:16]}…", f"SHA-256 after: {after[:16]}…",
           "The memory is computed: bytes for each parameter times parameters, in 16 bits."],
)  # fmt: skip
