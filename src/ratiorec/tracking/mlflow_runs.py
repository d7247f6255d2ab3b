"""MLflow: runs with settings, curves and figures, and the model itself."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ratiorec import __version__
from ratiorec.errors import MissingExtraError, StorageError
from ratiorec.model.artifact import Artifact
from ratiorec.tracking.tracker import figures, final_figures, flat
from ratiorec.training.fit import EpochFinished, StepTaken

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
    add_to_model(description, loader_module=__name__, data=_DATA)  # type: ignore[no-untyped-call, unused-ignore]
    description.add_flavor(FLAVOUR, data=_DATA, version=__version__)
    description.save(str(folder / "MLmodel"))
    (folder / "requirements.txt").write_text(f"ratiorec=={__version__}\n", encoding="ascii")


def load_model(path: str | Path) -> Artifact:
    """The model itself from a folder that `save_model` wrote."""
    return Artifact.load(Path(path) / _DATA)


class Recommending:
    """What MLflow serves: lists for users who are asked for."""

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


def _load_pyfunc(path: str) -> Recommending:
    """By this name MLflow asks for it."""
    return Recommending(Artifact.load(path))


EXPERIMENT = "ratiorec"
MODEL = "model"  # the folder of the run's artifacts that holds it
_PORTS = {"http": 80, "https": 443}
_PATIENCE_SECONDS = 5.0


class MLflowRun:
    """One run of an experiment; `store` is a database, a server, or what the environment says.

    Goes by a client of its own, so that a run of the caller's stays what it is.
    """

    def __init__(self, store: str | None = None, experiment: str = EXPERIMENT) -> None:
        self._store = store
        self._experiment = experiment
        self._client: Any = None
        self._run_id = ""

    @property
    def run_id(self) -> str:
        """By which the run is found in the store."""
        return self._run_id

    def begin(self, settings: Mapping[str, Any]) -> None:
        try:
            from mlflow import MlflowClient, get_tracking_uri
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise MissingExtraError(
                "MLflow is not installed",
                where="--track mlflow",
                found="no module mlflow",
                wanted="pip install 'ratiorec[mlflow]'",
            ) from None
        try:
            require_listener(self._store or get_tracking_uri())
            self._client = MlflowClient(tracking_uri=self._store)
            self._run_id = self._client.create_run(self._experiment_id()).info.run_id
        except (MlflowException, ImportError, OSError, ValueError) as error:
            raise StorageError(
                "the store of experiments cannot be opened",
                where=f"--track mlflow:{self._store or ''}",
                found=(str(error) or type(error).__name__).splitlines()[0],
                wanted="a database such as sqlite:///runs.db, or the URL of a server that runs",
            ) from error
        for name, value in flat(settings).items():
            self._client.log_param(self._run_id, name, value)

    def _experiment_id(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        if found is not None:
            return str(found.experiment_id)
        return str(self._client.create_experiment(self._experiment))

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        if isinstance(event, EpochFinished):
            self._log(figures(event.record), step=int(event.record["step"]))

    def finish(self, model: Artifact) -> None:

        self._log({f"model/{name}": v for name, v in final_figures(model).items()}, step=0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / MODEL
            save_model(model, path)
            self._client.log_artifacts(self._run_id, str(path), MODEL)

    def end(self, *, succeeded: bool) -> None:
        self._client.set_terminated(self._run_id, "FINISHED" if succeeded else "FAILED")

    def _log(self, told: Mapping[str, float], *, step: int) -> None:
        for name, value in told.items():
            # a name may have no @ in it
            self._client.log_metric(self._run_id, name.replace("@", "_at_"), value, step=step)


def require_listener(store: str) -> None:
    """See that somebody listens at the address of a server, as MLflow tries for minutes in silence.

    Raises:
        OSError: Nobody does.
        ValueError: It is no address.
    """
    address = urlsplit(store)
    if address.scheme not in _PORTS or not address.hostname:
        return
    proxies = getproxies()
    if (address.scheme in proxies or "all" in proxies) and not proxy_bypass(address.hostname):
        return  # another machine makes the connection, and this one may not be able to
    place = (address.hostname, address.port or _PORTS[address.scheme])
    socket.create_connection(place, _PATIENCE_SECONDS).close()
