"""`inferlab model`: fetch the embedded model, and say what models are and what they take."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from inferlab.errors import InferlabError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Fetch the embedded model; list models; show one model's shape, size and checksum.",
)

BYTES_BF16 = 2
Row = tuple[str, ...]


@app.command()
def fetch(
    force: Annotated[bool, typer.Option("--force", help="Download even if it is there.")] = False,
) -> None:
    """Download the embedded model, check it, and keep it in the cache folder."""
    from inferlab.model import hub

    path = hub.fetch(progress=lambda line: typer.echo(line, err=True), force=force)
    typer.echo(str(path))


@app.command(name="list")
def list_models() -> None:
    """List the embedded model, the models on disk, and the shapes for random weights."""
    from inferlab.model import hub
    from inferlab.model.config import SHAPES

    typer.echo("Embedded (real weights):")
    _table([(name, _state(hub.models_dir() / p.file_name)) for name, p in hub.PACKAGES.items()])
    typer.echo("\nOn disk:")
    _table(_on_disk(hub.models_dir()) or [("nothing", f"in {hub.models_dir()}")])
    typer.echo("\nShapes (random weights, speed only):")
    head = ("name", "parameters", "bf16 weights", "KV per token", "context")
    _table([head, *(_shape_row(config) for config in SHAPES.values())])


def _state(path: Path) -> str:
    return str(path) if path.is_file() else "not downloaded yet: inferlab model fetch"


def _on_disk(folder: Path) -> list[Row]:
    rows: list[Row] = []
    for path in sorted(folder.glob("*")):
        if path.suffix == ".gguf":
            rows.append((path.name, f"{path.stat().st_size:,} bytes"))
        elif (path / "config.json").is_file():
            size = sum(file.stat().st_size for file in path.glob("*.safetensors"))
            rows.append((path.name + "/", f"{size:,} bytes of weights"))
    return rows


def _shape_row(config: Any) -> Row:
    return (
        config.name,
        f"{config.num_parameters:,}",
        _size(config.num_parameters * BYTES_BF16),
        f"{_kv_bytes(config):,} bytes",
        f"{config.max_model_len:,}",
    )


@app.command()
def info(
    name: Annotated[
        str | None, typer.Argument(help="A name, a .gguf file, or a folder with config.json.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a model's configuration, parameters, bytes, KV bytes per token, and checksum."""
    facts = model_facts(name)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    _table([(key, _shown(key, value)) for key, value in facts.items() if value not in (None, ())])


def model_facts(name: str | None) -> dict[str, Any]:
    """Return what `info` shows; a name whose weights are not on disk is described by its shape."""
    from inferlab.model import hub
    from inferlab.model.config import SHAPES
    from inferlab.model.describe import describe

    wanted = name or hub.default_model()
    package = hub.PACKAGES.get(wanted)
    absent = package is not None and not (hub.models_dir() / package.file_name).is_file()
    if absent or (wanted in SHAPES and package is None):
        where = "not downloaded yet" if absent else "none: random weights, speed only"
        return {"weights": where, **_config_facts(SHAPES[wanted])}
    try:
        found = describe(hub.resolve(wanted))
    except InferlabError as error:
        if not Path(wanted).exists():
            raise InferlabError(f"{error} Shapes: {', '.join(SHAPES)}.") from error
        raise
    return {
        "weights": str(found.path),
        **_config_facts(found.config),
        "stored_bytes": found.stored_bytes,
        "stored_as": [
            {"format": kind, "tensors": count, "bytes": size}
            for kind, (count, size) in found.mix.items()
        ],
        "sha256": found.sha256,
    }


def _config_facts(config: Any) -> dict[str, Any]:
    return {
        **asdict(config),
        "num_parameters": config.num_parameters,
        "bf16_weight_bytes": config.num_parameters * BYTES_BF16,
        "bf16_kv_bytes_per_token": _kv_bytes(config),
    }


def _kv_bytes(config: Any) -> int:
    """K and V of one token in every layer, in bf16."""
    return int(2 * config.num_layers * config.num_kv_heads * config.head_dim * BYTES_BF16)


def _shown(key: str, value: Any) -> str:
    if key == "stored_as":
        parts = (f"{v['tensors']} {v['format']} ({_size(v['bytes'])})" for v in value)
        return ", ".join(parts)
    if key == "sha256":
        return ", ".join(value.values())
    if key.endswith("_bytes"):
        return f"{value:,} ({_size(value)})"
    if key == "rope_scaling":
        trained = value["original_max_position_embeddings"]
        return f"{value['kind']}, factor {value['factor']:g}, trained on {trained:,} positions"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not key.endswith("_id") else str(value)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.2f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.1f} MiB"


def _table(rows: list[Row]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  " + "  ".join(cells).rstrip())
