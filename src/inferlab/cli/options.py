"""Options that several commands share: one name, one meaning, one help text."""

from typing import Annotated

import typer

Model = Annotated[
    str | None, typer.Option(help="A name, a .gguf file or a folder. [$INFERLAB_MODEL]")
]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16, float16 or auto (the fastest here).")]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps or auto.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads.")]
Quantize = Annotated[
    str, typer.Option(help="Weights as none, int8, int4 (groups of 32), int4-64 or int4-128.")
]
