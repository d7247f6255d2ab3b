"""MLflow runs: settings, curves, final figures, and the model itself."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ratiorec.errors import StorageError, require_extra
from ratiorec.model.artifact import Artifact
from ratiorec.tracking.flavour import save_model
from ratiorec.tracking.tracker import figures, final_figures, flat
from ratiorec.training.fit import EpochFinished, StepTaken

EXPERIMENT = "ratiorec"
MODEL = "model"  # the folder of the run's artifacts that holds it
_PORTS = {"http": 80, "https": 443}
_PATIENCE_SECONDS = 5.0


class MLflowRun:
    """One run of an experiment; `store` is a database, a server, or what the environment says.

    It has a client of its own, so that a run that the caller has open stays what it is.
    """

    def __init__(self, store: str | None = None, experiment: str = EXPERIMENT) -> None:
        self._store = store
        self._experiment = experiment
        self._client: Any = None
        self._run_id = ""

    @property
    def run_id(self) -> str:
        """The id by which the run is found in the store."""
        return self._run_id

    def begin(self, settings: Mapping[str, Any]) -> None:
        mlflow = require_extra("mlflow", "mlflow", where="--track mlflow")
        try:
            require_listener(self._store or mlflow.get_tracking_uri())
            self._client = mlflow.MlflowClient(tracking_uri=self._store)
            self._run_id = self._client.create_run(self._experiment_id()).info.run_id
        except (mlflow.MlflowException, ImportError, OSError, ValueError) as error:
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
    """Refuse the address of a server that does not listen: MLflow would retry for minutes.

    Raises:
        OSError: Nothing listens there.
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
