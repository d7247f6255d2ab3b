"""Neighbours kept by the map of the items, and what it costs to save a model with it.

    python -m ratiorec_lab.studies.item_map --data gowalla

One model is fitted to the training pairs. Its map (theory: V1) and the two principal axes are
judged by the same figure, and the folder is written with either: the difference is the map's.
`processor_seconds` are those of all threads; run it with OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import ratiorec as rr
from ratiorec.data.benchmarks import load
from ratiorec.scorers.item_map import ItemMap
from ratiorec.scorers.neighbour_embedding import seconds_to_map
from ratiorec_lab.studies.study import measured, parser, tell


def main() -> None:
    """Fit once, then save with the plane and with the map."""
    options = parser(__doc__)
    options.add_argument("--data", default="gowalla")
    options.add_argument("--preset", default="wmf")
    options.add_argument("--max-seconds", type=float, default=300)
    options.add_argument("--data-dir", default=None)
    asked = options.parse_args()
    dataset = load(asked.data, data_dir=asked.data_dir)
    model = rr.fit(
        dataset.train,
        preset=asked.preset,
        max_seconds=asked.max_seconds,
        device="cpu",
        progress=False,
    )
    plane = replace(model)
    object.__setattr__(plane, "item_map", ItemMap.plane_of(model.scorer))
    with tempfile.TemporaryDirectory() as folder:
        without = measured(lambda: plane.save(Path(folder, "plane")))
        with_map = measured(lambda: model.save(Path(folder, "map")))
    found = model.item_map
    assert found is not None
    vectors = getattr(model.scorer, "item_vectors")  # noqa: B009 (not every scorer has them)
    n_items, dimension = vectors.shape
    tell(
        {
            "dataset": asked.data,
            "preset": asked.preset,
            "items": n_items,
            "dimension": dimension,
            "neighbours_kept": found.kept,
            "kept_by_plane": found.kept_by_plane,
            "shown_by_plane": found.shown,
            "foretold_seconds": round(seconds_to_map(n_items, dimension), 2),
            "save_with_plane": without,
            "save_with_map": with_map,
        }
    )


if __name__ == "__main__":
    main()
