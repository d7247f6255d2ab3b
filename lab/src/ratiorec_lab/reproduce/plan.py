"""What is to be reproduced: the protocol, the data sets, the seeds, and which cells follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ratiorec.errors import ConfigError
from ratiorec.settings import SolverSettings
from ratiorec_lab.reproduce.cells import Cell, cell_of
from ratiorec_lab.reproduce.names import PAPER_DATASETS, SMALL
from ratiorec_lab.reproduce.protocols import PAPER, VALIDATED, Changes, require_protocol


@dataclass(frozen=True)
class Plan:
    """Options of a reproduction; curves, sensitivity and search take the first seed alone.

    `whole_grid` searches all combinations of the paper's ranges and not a selection of them.
    """

    protocol: str = VALIDATED
    datasets: tuple[str, ...] = PAPER_DATASETS
    seeds: tuple[int, ...] = (0,)
    whole_grid: bool = False

    def __post_init__(self) -> None:
        require_protocol(self.protocol)
        for option, values in (("--seeds", self.seeds), ("--datasets", self.datasets)):
            if not values or len(set(values)) < len(values):
                raise ConfigError(
                    "nothing is listed, or something twice",
                    where=option,
                    found=", ".join(map(str, values)) or "nothing",
                    wanted="each once, with commas between them",
                )
        if min(self.seeds) < 0:
            raise ConfigError(
                "a seed cannot be negative",
                where="--seeds",
                found=str(min(self.seeds)),
                wanted="0 or more",
            )

    @property
    def is_quick(self) -> bool:
        """Whether this only shows that everything works."""
        return self.datasets == (SMALL,)

    def among(self, *preferred: str) -> tuple[str, ...]:
        """The preferred data sets as far as they are planned; else all that are."""
        return tuple(name for name in self.datasets if name in preferred) or self.datasets

    def cells(self, preset: str, dataset: str) -> Iterator[Cell]:
        """The runs of a preset that are judged on the test part, one for each seed."""
        for seed in self.seeds:
            cell = cell_of(preset, dataset, protocol=self.protocol, seed=seed)
            if cell is None:
                return
            yield cell
            if _is_seedless(cell):
                return

    def curves(self, preset: str, dataset: str) -> Iterator[Cell]:
        """The runs of a preset that have validation figures along the way, one for each seed.

        Under `validated` these are the runs of the tables; under `paper`, where nothing is
        validated, they are runs of their own.
        """
        for seed in self.seeds:
            on_validation = self.protocol == PAPER
            cell = cell_of(
                preset, dataset, protocol=self.protocol, seed=seed, on_validation=on_validation
            )
            if cell is None:
                return
            yield cell

    def first_curve(self, preset: str, dataset: str) -> Cell | None:
        """The same for the first seed."""
        return next(self.curves(preset, dataset), None)

    def changed(self, preset: str, dataset: str, changes: Changes) -> Cell | None:
        """A run with some settings changed, judged on validation pairs alone; the first seed."""
        return cell_of(
            preset,
            dataset,
            protocol=self.protocol,
            seed=self.seeds[0],
            changes=changes,
            on_validation=True,
        )


def _is_seedless(cell: Cell) -> bool:
    """Whether no seed can change the test figures: solved in one sweep, with nothing to choose."""
    settings = cell.settings
    return isinstance(settings, SolverSettings) and settings.solver.n_sweeps == 1
