"""ratiorec demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.cli import options as o

if TYPE_CHECKING:
    from ratiorec_lab.demo import Demonstration


EXAMPLES = """Example:

  ratiorec demo --out demo
"""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same demonstration.")] = 0,
    json: o.Json = False,
) -> None:
    """Train on synthetic pairs whose true ratio is known, and write a report."""
    from ratiorec.files import make_folder
    from ratiorec.progress import FitProgress
    from ratiorec_lab import demo as demonstration

    make_folder(out)
    with FitProgress() as progress:
        shown = demonstration.run(seed=seed, observe=progress)
    demonstration.write_report(shown, out / "report.html")
    result = _result(shown, out / "report.html")
    if json:
        o.print_json(result)
    else:
        _print(result)


def _result(shown: Demonstration, report: Path) -> dict[str, Any]:
    from ratiorec_lab.demo import METRICS, lists

    return {
        "metrics": {
            name: {metric: judged.value(metric) for metric in METRICS}
            for name, judged in shown.reports.items()
        },
        "ratio_correlation": shown.correlations,
        "recommendations": lists(shown),
        "report": str(report),
    }


def _print(result: dict[str, Any]) -> None:
    names = next(iter(result["metrics"].values()))
    typer.echo(f"{'':<18}" + "".join(f"{metric:>14}" for metric in names))
    for name, metrics in result["metrics"].items():
        typer.echo(f"{name:<18}" + "".join(f"{value:>14.4f}" for value in metrics.values()))
    typer.echo("\nSpearman correlation of estimated with true ratio, unlabelled pairs:")
    for name, correlation in result["ratio_correlation"].items():
        typer.echo(f"{name:<18}{correlation:>14.3f}")
    for shown in result["recommendations"]:
        typer.echo(f"\n{shown['user']}, who has {', '.join(shown['history'][:4])} …")
        for rank, (name, score) in enumerate(shown["recommended"], start=1):
            typer.echo(f"  {rank}. {name}  ({score:.2f})")
    typer.echo(f"\nreport: {result['report']}")
