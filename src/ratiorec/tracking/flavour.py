"""MLflow flavour: a model as MLflow keeps models, which loads without torch.

save_model(model, "folder")
mlflow.pyfunc.load_model("folder").predict(["ann", "bob"])
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ratiorec import __version__
from ratiorec.model.artifact import Artifact

FLAVOUR = "ratiorec"
_DATA = "data"  # the model folder inside that of MLflow


def save_model(model: Artifact, path: str | Path) -> None:
    """Write the model with MLflow's description beside it."""
    from mlflow.models import Model, ModelSignature
    from mlflow.pyfunc import add_to_model
    from mlflow.types import DataType, ParamSchema, ParamSpec

    folder = Path(path)
    folder.mkdir(parents=True)
    model.save(folder / _DATA)
    # what is not declared does not reach `predict`
    parameters = [
        ParamSpec("k", DataType.long, 20),
        ParamSpec("exclude_seen", DataType.boolean, default=True),
        ParamSpec("on_unknown", DataType.string, "raise"),
    ]
    description = Model(signature=ModelSignature(params=ParamSchema(parameters)))
    # MLflow imports this module by its name when it loads the model, so neither may change
    add_to_model(description, loader_module=__name__, data=_DATA)  # type: ignore[no-untyped-call, unused-ignore]
    description.add_flavor(FLAVOUR, data=_DATA, version=__version__)
    description.save(str(folder / "MLmodel"))
    (folder / "requirements.txt").write_text(f"ratiorec=={__version__}\n", encoding="ascii")


def load_model(path: str | Path) -> Artifact:
    """The model itself from a folder that `save_model` wrote."""
    return Artifact.load(Path(path) / _DATA)


class PyfuncModel:
    """A model as MLflow serves it: lists for the users asked for."""

    def __init__(self, model: Artifact) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """A frame of user_id, item_id, score and rank.

        `model_input` is a list of users, or a frame whose first column has them; `params` may
        have `k`, `exclude_seen` and `on_unknown`, as `Artifact.recommend` has.
        """
        users: Sequence[Any] = (
            model_input.iloc[:, 0].tolist() if hasattr(model_input, "iloc") else list(model_input)
        )
        return self.model.recommend(users, **(params or {})).to_pandas()


def _load_pyfunc(path: str) -> PyfuncModel:
    """The entry point that MLflow calls by this name."""
    return PyfuncModel(Artifact.load(path))
