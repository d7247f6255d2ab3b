"""ratiorec plan: what a training by several processes will take, before any machine is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ratiorec.cli import options as o
from ratiorec.errors import require_range, unknown_choice
from ratiorec.plain import text_table

if TYPE_CHECKING:
    from ratiorec.distributed.counts import Bytes
    from ratiorec.distributed.plan import Plan
    from ratiorec.settings import Settings


EXAMPLES = """Examples:

  ratiorec plan --users 1e8 --items 1e7 --pairs 1e9 --dim 64 --device h200 --n 8

  ratiorec plan --users 1e6 --items 1e5 --pairs 2e7 --preset softmax --device cpu --n 2 --json
"""
PRESETS = ("dregn-cf", "softmax")
MIB, GIB = 2**20, 2**30


def plan(
    users: Annotated[float, typer.Option(help="Users; 1e8 is a number, too.")],
    items: Annotated[float, typer.Option(help="Items.")],
    pairs: Annotated[float, typer.Option(help="Pairs of a user and an item.")],
    device: Annotated[str, typer.Option(help="Where: h200, or cpu as it was measured.")] = "h200",
    n: Annotated[float, typer.Option("--n", help="Processes, one for each GPU.")] = 1,
    preset: Annotated[str, typer.Option(help="dregn-cf or softmax.")] = "dregn-cf",
    dim: Annotated[float | None, typer.Option(help="Length of vectors; else the preset's.")] = None,
    layers: Annotated[int | None, typer.Option(help="Layers; else the preset's.")] = None,
    batch: Annotated[
        float | None, typer.Option(help="Users of a batch of all processes; else the preset's.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Memory, exchange and seconds of a training by several processes, in advance."""
    from ratiorec.distributed.counts import SharedTraining
    from ratiorec.distributed.plan import Plan, PlannedDevice, whole_number

    settings = _settings(preset, dim=dim, layers=layers, batch=batch)
    sizes = {"n_users": users, "n_items": items, "n_pairs": pairs, "n_ranks": n}
    flags = ("--users", "--items", "--pairs", "--n")
    counts = {
        name: whole_number(flag, size)
        for (name, size), flag in zip(sizes.items(), flags, strict=True)
    }
    planned = Plan(SharedTraining.of(settings, **counts), PlannedDevice.named(device))
    if json:
        o.print_json(planned.to_json())
    else:
        typer.echo("\n\n".join(_parts(planned)))


def _settings(
    preset: str, *, dim: float | None, layers: int | None, batch: float | None
) -> Settings:
    """Those of the preset, with what was asked for."""
    from ratiorec.config import named_settings
    from ratiorec.distributed.plan import whole_number
    from ratiorec.settings import Settings

    if preset not in PRESETS:
        raise unknown_choice("no plan for this preset", preset, PRESETS, where="--preset")
    changes = []
    if dim is not None:
        changes.append(f"encoder.dimension={whole_number('--dim', dim)}")
    if layers is not None:
        require_range("--layers", layers, at_least=0)
        changes.append(f"encoder.n_layers={layers}")
    if batch is not None:
        changes.append(f"batches.n_users={whole_number('--batch', batch)}")
        changes.append("batches.min_steps_per_epoch=1")
    _, settings = named_settings(preset, assignments=changes)
    assert isinstance(settings, Settings)
    return settings


def _parts(planned: Plan) -> list[str]:
    """The paragraphs for people."""
    training, device = planned.training, planned.device
    told = planned.to_json()
    n_processes = f"{training.n_ranks} process{'es' if training.n_ranks > 1 else ''}"
    fits = "fits" if planned.fits else "DOES NOT FIT"
    together = " by all processes" if device.kind == "cpu" and training.n_ranks > 1 else ""
    memory = _table(f"memory of each of {n_processes}", planned.device_bytes)
    parts = [
        f"{memory}\n{fits} into the {device.memory_gib:g} GiB of {device.name}{together}; "
        f"the largest part is: {told['memory']['largest']}"
    ]
    if planned.host_bytes:
        parts.append(_table("host, of each process", planned.host_bytes))
    parts.append(
        f"at the end the first process puts the model together: {_size(training.joining())} "
        "of the host's memory beside that"
    )
    seconds = told["seconds"]
    parts.append(
        text_table(
            [
                ["a step", ""],
                ["sent by a process", _size(training.bytes_sent)],
                ["messages", f"{training.n_messages}"],
                ["compute", _time(seconds["compute"])],
                ["exchange", _time(seconds["exchange"])],
                ["both", _time(seconds["step"])],
                [f"an epoch of {training.n_steps:,} steps", _time(seconds["epoch"])],
            ]
        )
    )
    parts.append("\n".join(f"note: {note}" for note in device.notes))
    return parts


def _table(heading: str, parts: Bytes) -> str:
    rows = [[name, _size(size)] for name, size in parts.items()]
    return text_table([[heading, ""], *rows, ["together", _size(sum(parts.values()))]])


def _size(n_bytes: float) -> str:
    """In MiB, or GiB where it is more than one."""
    return f"{n_bytes / GIB:,.2f} GiB" if n_bytes >= GIB else f"{n_bytes / MIB:,.2f} MiB"


def _time(seconds: float) -> str:
    """With a unit that leaves few digits."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
