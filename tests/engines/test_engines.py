"""What every engine keeps to, and what Ray does when workers, drivers and models fail."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Numbers, Tags
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.engines import Engine, OneProcess, RayCluster, Spread, cluster, spread_lists
from ratiorec.errors import (
    ConfigError,
    EngineError,
    RatiorecError,
    StorageError,
    UnknownIdError,
)
from ratiorec.model.artifact import Artifact
from ratiorec.sinks import FolderOfParts, Job, Tally, place_of, sink_of, write_lists
from support.faulty_work import Fails, KillsItsProcess, WithFault
from support.sink_places import PulledPlugError, expected, in_parquet, small_model, stop_after
from support.small_scorers import Maker, blend, inner_product, random_rows, walk

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None or sys.platform == "win32",
    reason="needs pip install 'ratiorec[ray]'",
)
ENGINES = ["local", pytest.param("ray", marks=needs_ray)]
N_WORKERS = 2


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    """The one Ray of this process, started as a command starts it: that takes seconds."""
    with pytest.MonkeyPatch.context() as patch:  # workers find the support of the tests
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        with cluster.connected(n_cores=N_WORKERS) as ray:
            yield ray


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "local":
        return OneProcess()
    request.getfixturevalue("ray")
    return RayCluster(n_workers=N_WORKERS, n_attempts=2)


@pytest.fixture
def model(tmp_path: Path) -> Artifact:
    found = small_model()
    found.save(tmp_path / "model")
    return found


@pytest.fixture
def spread(tmp_path: Path, engine: Engine) -> Spread:
    return Spread(FolderOfParts(place_of(str(tmp_path / "lists"))), engine, tmp_path / "model")


def parts_in(folder: Path) -> dict[tuple[int, int], Path]:
    """The parts by the users in them, whatever the job."""
    found = sorted(folder.glob("part-*.parquet"))
    return {(int(path.name[5:17]), int(path.name[18:30])): path for path in found}


@pytest.mark.parametrize("maker", [inner_product, blend, walk], ids=lambda make: make.__name__)
def test_a_dataset_is_row_for_row_what_one_process_writes(
    maker: Maker, engine: Engine, tmp_path: Path
) -> None:
    seen = random_rows(53, 30)
    items = Vocabulary(np.array([f"item-{i}" for i in range(30)], object), "item")
    users = Vocabulary(np.array([f"user-{u}" for u in range(53)], object), "user")
    model = Artifact(maker(seen, 30), users, items.with_names([f"{i}." for i in range(30)]), seen)
    tags = Tags.of([["new"] if i % 3 else [] for i in range(30)])
    model = model.with_items(Attributes(30, {"price": Numbers(np.arange(30.0)), "tags": tags}))
    model.save(tmp_path / "model")
    job = Job.of(model, model.users.ids, k=7, deny=["item-3"], attributes="all")
    spread = Spread(FolderOfParts(place_of(str(tmp_path / "lists"))), engine, tmp_path / "model")
    tally = spread_lists(job, spread, users_at_a_time=10)
    assert tally == write_lists(job, sink_of(str(tmp_path / "lists.parquet")))
    assert list(parts_in(tmp_path / "lists")) == [
        *((start, start + 10) for start in range(0, 50, 10)),
        (50, 53),
    ]
    assert pq.read_table(tmp_path / "lists").equals(pq.read_table(tmp_path / "lists.parquet"))
    ranked: list[int] = []
    assert spread_lists(job, spread, progress=lambda done, _: ranked.append(done)) == tally
    assert ranked == []


def test_only_parts_that_are_missing_or_cut_short_are_ranked_again(
    model: Artifact, spread: Spread, tmp_path: Path
) -> None:
    """Of a job for users by name, who are sent along, unknown ones too."""
    said: list[str] = []
    ranked: list[tuple[int, int]] = []
    folder = tmp_path / "lists"
    job = Job.of(model, [*model.users.ids[::2].tolist(), "nobody"], 5, on_unknown="fallback")
    with pytest.raises(PulledPlugError):
        spread_lists(job, spread, users_at_a_time=4, progress=stop_after(18), notify=said.append)
    assert said == ["20 of 31 users are written; the same command goes on after them"]
    assert not (folder / "_SUCCESS").exists()
    lost, cut, *whole = kept = parts_in(folder)
    kept[lost].unlink()
    kept[cut].write_bytes(kept[cut].read_bytes()[:-40])
    written = {span: kept[span].stat().st_mtime_ns for span in whole}
    n_kept = sum(stop - start for start, stop in whole)
    tally = spread_lists(
        job,
        spread,
        users_at_a_time=1_000,
        progress=lambda done, total: ranked.append((done, total)),
        notify=said.append,
    )
    assert said[1:] == [
        "going on in the blocks that were begun with: 4 users",
        f"{n_kept} users were written before; going on with the others",
    ]
    assert len(ranked) == 8 - len(whole)
    assert ranked[-1] == (31, 31)
    assert {span: parts_in(folder)[span].stat().st_mtime_ns for span in whole} == written
    assert tally == write_lists(job, sink_of(str(tmp_path / "lists.parquet")))
    assert pq.read_table(folder).equals(pq.read_table(tmp_path / "lists.parquet"))
    counts = {"users": 31, "rows": tally.n_rows}
    assert json.loads((folder / "_SUCCESS").read_text()) == counts


def test_a_block_that_fails_is_named_and_the_others_are_kept(
    model: Artifact, spread: Spread, tmp_path: Path
) -> None:
    said: list[str] = []
    job = Job.of(model, model.users.ids, 5)
    faulty = Spread(spread.dataset, WithFault(spread.engine, Fails(40)), spread.model)
    kind = StorageError if isinstance(spread.engine, OneProcess) else EngineError
    with pytest.raises(kind, match=r"no room \(where: the moon") as caught:
        spread_lists(job, faulty, users_at_a_time=20, notify=said.append)
    if kind is EngineError:
        assert "the block of users 41 to 60 failed, 2 times" in str(caught.value)
    # a block that another worker has in hand when the job ends may be there or not, told or not
    kept = list(parts_in(tmp_path / "lists"))
    assert kept == [(0, 20), (20, 40)] or (kind is EngineError and set(kept) < {(0, 20), (20, 40)})
    told = [f"{n} of 60 users are written; the same command goes on after them" for n in (20, 40)]
    assert said in ([told[1]], *([[], [told[0]]] if kind is EngineError else []))
    assert len(kept) >= (said == [told[0]]) + 2 * (said == [told[1]])
    spread_lists(job, Spread(spread.dataset, OneProcess(), spread.model))
    assert in_parquet(tmp_path / "lists") == expected(model)


@pytest.mark.parametrize("kind", [EngineError, StorageError, ConfigError, UnknownIdError])
def test_an_error_travels_between_processes_as_it_is(kind: type[RatiorecError]) -> None:
    error = kind("no room", where="the moon", found="dust", wanted="--room")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.message) == (kind, error.message)


# Ray alone


@pytest.fixture
def on_ray(ray: Any, tmp_path: Path) -> Callable[..., Spread]:
    """A dataset that Ray workers fill, with a fault or without."""

    def made(fault: Any = None, *, model: Path | None = None, **options: Any) -> Spread:
        engine: Engine = RayCluster(n_workers=N_WORKERS, **options)
        engine = engine if fault is None else WithFault(engine, fault)
        folder = tmp_path / "model" if model is None else model
        return Spread(FolderOfParts(place_of(str(tmp_path / "lists"))), engine, folder)

    return made


@needs_ray
def test_a_worker_that_is_killed_loses_and_repeats_no_user(
    on_ray: Callable[..., Spread], model: Artifact, tmp_path: Path
) -> None:
    said: list[str] = []
    spread = on_ray(KillsItsProcess(16, tmp_path / "killed"), notify=said.append)
    tally = spread_lists(Job.of(model, model.users.ids, 5), spread, users_at_a_time=8)
    assert (tmp_path / "killed").exists()
    (told,) = said
    assert told.startswith("the block of users 17 to 24 failed (")
    assert tally == Tally(n_users=60, n_rows=59 * 5, n_without=1)
    assert in_parquet(tmp_path / "lists") == expected(model)


@needs_ray
def test_a_model_that_workers_cannot_read_or_that_is_another_ends_the_job_by_name(
    on_ray: Callable[..., Spread], model: Artifact, tmp_path: Path
) -> None:
    job = Job.of(model, model.users.ids, 5)
    spread = on_ray(model=tmp_path / "absent", n_attempts=1)
    with pytest.raises(EngineError, match=r"a worker could not start.*there is no model"):
        spread_lists(job, spread)
    small_model(n_items=39).save(tmp_path / "other")
    spread = on_ray(model=tmp_path / "other", n_attempts=1)
    with pytest.raises(EngineError, match="a worker has found another model"):
        spread_lists(job, spread)
    assert parts_in(tmp_path / "lists") == {}


@needs_ray
def test_workers_of_another_version_are_refused(
    on_ray: Callable[..., Spread], model: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "__version__", "0.0.9")
    with pytest.raises(ConfigError, match=r"another version of ratiorec.*wanted: 0\.0\.9"):
        spread_lists(Job.of(model, model.users.ids, 5), on_ray())


@needs_ray
def test_a_cluster_without_room_is_told_of(
    on_ray: Callable[..., Spread], model: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(told: str) -> None:
        raise PulledPlugError(told)

    monkeypatch.setattr(cluster, "_SECONDS_OF_SILENCE", 0.1)
    spread = on_ray(cores_per_worker=64, notify=end)
    with pytest.raises(PulledPlugError, match="waits for 64 free cores"):
        spread_lists(Job.of(model, model.users.ids, 5), spread)


@needs_ray
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_ray_of_ones_own_listens_to_this_machine_alone_and_has_no_dashboard(ray: Any) -> None:
    own = {pid for pid in _processes() if _is_below(pid)}
    sockets = {name for pid in own for name in _sockets_of(pid)}
    heard = [
        fields[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in map(str.split, Path(table).read_text().splitlines()[1:])
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets
    ]
    assert len(heard) > 3  # Ray's own are among them
    loopback = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
    assert [address for address in heard if address.split(":")[0] not in loopback] == []
    assert ray.util.get_node_ip_address() == "127.0.0.1"
    environments = [Path(f"/proc/{pid}/environ") for pid in own - {os.getpid()}]
    told = [path.read_bytes() for path in environments if path.exists()]
    assert sum(b"RAY_USAGE_STATS_ENABLED=0" in text for text in told) > 3
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _is_below(pid: int) -> bool:
    """Whether this is one of the processes that this one has started, itself included."""
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def _sockets_of(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(descriptor.readlink())


@contextlib.contextmanager
def command(folder: Path, *words: object) -> Iterator[subprocess.Popen[str]]:
    """A command that writes the lists of many users one by one; killed at the end of the block."""
    options = ("--all", "-k", 5, "--block-users", 1, "-o", "lists", "--engine", "ray", *words)
    with subprocess.Popen(
        [sys.executable, "-m", "ratiorec.cli", "recommend", "model", *map(str, options)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@needs_ray
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_after_the_driver_is_killed_its_workers_end_and_the_same_job_goes_on(
    ray: Any, tmp_path: Path
) -> None:
    model, said = small_model(n_users=300), []
    model.save(tmp_path / "model")
    address = ray.get_runtime_context().gcs_address
    with command(tmp_path, "--engine-address", address, "--workers", 1) as process:
        wait_until(lambda: len(parts_in(tmp_path / "lists")) > 4, process)
        assert _workers()
    n_written = len(parts_in(tmp_path / "lists"))
    assert 4 < n_written < 300
    end = time.monotonic() + 30
    while _workers():
        assert time.monotonic() < end
        time.sleep(0.1)
    spread = Spread(
        FolderOfParts(place_of(str(tmp_path / "lists"))), OneProcess(), tmp_path / "model"
    )
    spread_lists(Job.of(model, model.users.ids, 5), spread, notify=said.append)
    n_kept = int(said[-1].split()[0])
    assert n_written <= n_kept < 300
    assert said[-1] == f"{n_kept} users were written before; going on with the others"
    assert in_parquet(tmp_path / "lists") == expected(model)


def _workers() -> list[int]:
    """The processes of this one's Ray that rank."""
    found = []
    for pid in filter(_is_below, _processes()):
        with contextlib.suppress(OSError):
            if "RankingWorker" in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
    return found


@needs_ray
def test_ctrl_c_ends_in_good_order(ray: Any, tmp_path: Path) -> None:
    small_model(n_users=600).save(tmp_path / "model")
    address = ray.get_runtime_context().gcs_address
    with command(tmp_path, "--engine-address", address, "--workers", 1) as process:
        wait_until(lambda: len(parts_in(tmp_path / "lists")) >= 5, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "of 600 users are written; the same command goes on" in err
    assert "Traceback" not in err
    assert not (tmp_path / "lists" / "_SUCCESS").exists()


@needs_ray
def test_an_engine_without_workers_is_refused() -> None:
    with pytest.raises(ConfigError, match="an engine needs workers"):
        RayCluster(n_workers=0)


@needs_ray
def test_a_ray_that_is_not_there_is_told(tmp_path: Path) -> None:
    small_model().save(tmp_path / "model")
    with command(tmp_path, "--engine-address", "127.0.0.1:1") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.splitlines()[-1].startswith("ratiorec: Ray could not be reached (where: ")
