"""Real stores: TensorBoard's files read by TensorBoard, MLflow's by MLflow."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratiorec.model.artifact import Artifact
from support.command_line import CommandLine

# MLflow and TensorBoard warn of one another's and of their own packages
pytestmark = pytest.mark.filterwarnings("ignore")
SETTINGS = ("--preset", "dre-mf", "--set", "training.epochs=2", "--set", "encoder.dimension=4")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    rows = [(u, i) for u in range(12) for i in range(15) if (u + i) % 3 == 0]
    path.write_text("user,item\n" + "".join(f"u{u},i{i}\n" for u, i in rows))
    return path


@pytest.fixture
def store(tmp_path: Path) -> str:
    for module in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(module)
    return f"sqlite:///{tmp_path / 'runs.db'}"


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def only_run(store: str) -> Any:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name("ratiorec")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return run


def test_tensorboard_reads_the_curves_of_a_fit(
    cli: CommandLine, pairs: Path, tmp_path: Path
) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = tmp_path / "curves"
    cli("fit", str(pairs), "-o", str(tmp_path / "m"), *SETTINGS, "--track", f"tensorboard:{folder}")
    curves = accumulators.EventAccumulator(str(folder)).Reload()
    written = records_of(tmp_path / "m.training.jsonl")
    searched = [record for record in written if record["phase"] == "search"]
    told = curves.Scalars("search/risk")
    assert [point.step for point in told] == [record["step"] for record in searched]
    assert [point.value for point in told] == pytest.approx([r["risk"] for r in searched])
    model = Artifact.load(tmp_path / "m")
    (final,) = curves.Scalars("model/validation/recall@20")
    assert final.value == pytest.approx(model.card["validation"]["recall@20"])


def test_mlflow_has_settings_curves_figures_and_the_model(
    cli: CommandLine, pairs: Path, tmp_path: Path, store: str
) -> None:
    cli("fit", str(pairs), "-o", "m", *SETTINGS, "--seed", "3", "--track", f"mlflow:{store}")
    run = only_run(store)
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == "3"
    assert run.data.params["settings.encoder.dimension"] == "4"
    model = Artifact.load(tmp_path / "m")
    told = run.data.metrics["model/validation/recall_at_20"]
    assert told == pytest.approx(model.card["validation"]["recall@20"])
    from mlflow import MlflowClient

    curve = MlflowClient(tracking_uri=store).get_metric_history(run.info.run_id, "search/risk")
    assert [point.step for point in curve] == sorted({point.step for point in curve})
    folder = Path(run.info.artifact_uri.removeprefix("file://")) / "model"
    again = subprocess.run(
        [sys.executable, "-c", LOADED, str(folder)], capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    listed = json.loads(again.stdout.splitlines()[-1])
    for found, expected in zip(listed, model.recommend(["u0", "u5"], k=3).to_dicts(), strict=True):
        assert found == expected | {"score": pytest.approx(expected["score"])}


LOADED = """
import json, sys
import mlflow.pyfunc

model = mlflow.pyfunc.load_model(sys.argv[1])
lists = model.predict(["u0", "u5"], params={"k": 3})
assert "torch" not in sys.modules
print(json.dumps(json.loads(lists.to_json(orient="records", double_precision=15))))
"""


def test_a_fit_that_fails_is_a_failed_run(
    cli: CommandLine, pairs: Path, tmp_path: Path, store: str
) -> None:
    diverging = ("--set", "training.learning_rate=1e30")
    done = cli("fit", str(pairs), "-o", "m", *SETTINGS, *diverging, "--track", f"mlflow:{store}")
    assert done.code == 2
    assert "diverged" in done.err
    assert only_run(store).info.status == "FAILED"


def test_a_store_that_cannot_be_opened_is_told_before_training(
    cli: CommandLine, pairs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("mlflow")
    where = f"mlflow:sqlite:///{pairs}/runs.db"  # a file is no folder
    done = cli("fit", str(pairs), "-o", str(tmp_path / "m"), *SETTINGS, "--track", where)
    assert done.code == 2
    assert "the store of experiments cannot be opened" in done.err
    assert not (tmp_path / "m").exists()


@pytest.fixture
def silent_server(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address at which nobody listens, and to which no other machine connects."""
    pytest.importorskip("mlflow")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"http://127.0.0.1:{closed.getsockname()[1]}"


def test_a_server_that_does_not_listen_is_told_at_once(
    cli: CommandLine, pairs: Path, tmp_path: Path, silent_server: str
) -> None:
    """Left to itself, MLflow would try for minutes."""
    track = ("--track", f"mlflow:{silent_server}")
    refusal = cli("fit", pairs, "-o", tmp_path / "m", *SETTINGS, *track).refusal
    assert f"cannot be opened (where: --track mlflow:{silent_server}; found: " in refusal
    assert "Connection refused" in refusal
    assert not (tmp_path / "m").exists()


def test_a_server_of_the_environment_that_does_not_listen_is_told_at_once(
    cli: CommandLine,
    pairs: Path,
    tmp_path: Path,
    silent_server: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", silent_server)
    refusal = cli("fit", pairs, "-o", tmp_path / "m", *SETTINGS, "--track", "mlflow").refusal
    assert "Connection refused" in refusal


def test_an_address_that_cannot_be_is_refused(
    cli: CommandLine, pairs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("mlflow")
    track = ("--track", "mlflow:http://127.0.0.1:99999")
    refusal = cli("fit", pairs, "-o", tmp_path / "m", *SETTINGS, *track).refusal
    assert "found: Port out of range 0-65535; wanted: a database such as" in refusal
