"""The server as a process: it swaps models and ends without losing a request."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ratiorec.errors import ConfigError
from ratiorec.model.artifact import Artifact
from ratiorec.serve.models import version_of
from ratiorec.serve.server import address_of, bind
from support.serve_process import PATIENCE, Load, ServerProcess, running
from support.small_models import small_model

TOKEN = "administrator-9012"


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def version_in_use(server: ServerProcess) -> str:
    return str(server.json("/v1/model")["model"])


def test_a_port_that_is_free_is_found_and_a_taken_one_refused() -> None:
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        assert address_of(listener) == f"http://127.0.0.1:{port}"
        with pytest.raises(ConfigError, match=f"port {port}; found: Address already in use"):
            bind("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        bind("192.0.2.1", 0)
    with pytest.raises(ConfigError, match="cannot listen"):
        bind("no such host", 0)


def test_it_listens_on_loopback_only_and_never_loads_torch(folder: Path, tmp_path: Path) -> None:
    with running(folder, tmp_path / "log") as server:
        assert server.host == "127.0.0.1"
        assert server.version == version_of(folder) == version_in_use(server)
        maps = Path(f"/proc/{server.process.pid}/maps")
        if maps.exists():
            assert "torch" not in maps.read_text()


def test_limits_of_time_may_be_without_end(folder: Path, tmp_path: Path) -> None:
    names = ["idle-seconds", "drain-seconds", "read-seconds", "rank-seconds"]
    options = [part for name in names for part in (f"--{name}", "inf")]
    with running(folder, tmp_path / "log", *options) as server:
        assert server.json("/v1/recommend/user1")["items"]
        limits = server.json("/v1/model")["limits"]
        assert [limits[name.replace("-", "_")] for name in names] == [None] * 4
        assert server.stop() == 0


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0(folder: Path, tmp_path: Path, sig: int) -> None:
    with running(folder, tmp_path / "log") as server:
        server.json("/health/ready")
        assert server.stop(sig) == 0
        assert [line["event"] for line in server.events("ended")] == ["ended"]


def test_twenty_swaps_under_load_lose_no_request(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    options = ("--no-watch", "--admin-token-file", str(tmp_path / "token"))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with running(folder, tmp_path / "log", *options) as server:
        load = Load(server, "/v1/recommend/user1?k=5")
        with load.going():
            for seed in range(1, 21):
                small_model(seed).save(folder)
                status, _, body = server.ask("POST", "/v1/reload", headers=headers)
                assert (status, json.loads(body)["swapped"]) == (200, True)
                load.wait_for(10)
        assert load.failures == []
        assert len(load.versions) >= 20
        assert len(server.events("model swapped")) == 20


def test_a_watched_folder_is_swapped_under_load(folder: Path, tmp_path: Path) -> None:
    with running(folder, tmp_path / "log", "--watch-seconds", "0.05") as server:
        load = Load(server, "/v1/recommend/user1?k=5")
        with load.going():
            for seed in (1, 2, 3):
                small_model(seed).save(folder)
                new = version_of(folder)
                eventually(lambda new=new: version_in_use(server) == new)  # type: ignore[misc]
        assert load.failures == []


def test_pairs_taken_in_by_the_command_line_are_served_without_losing_a_request(
    folder: Path, tmp_path: Path
) -> None:
    new_pairs = tmp_path / "today.csv"
    new_pairs.write_text("user,item\nzoe,item3\nzoe,item4\nuser1,item9\nuser1,jam\n")
    with running(folder, tmp_path / "log", "--watch-seconds", "0.05") as server:
        assert server.ask("GET", "/v1/recommend/zoe")[0] == 404
        load = Load(server, "/v1/recommend/user1?k=5")
        with load.going():
            command = [sys.executable, "-m", "ratiorec.cli", "update", str(folder), str(new_pairs)]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
            eventually(lambda: server.ask("GET", "/v1/recommend/zoe")[0] == 200)
            listed = server.json("/v1/recommend/zoe?k=31")["items"]
        assert load.failures == []
    items = {row["item_id"] for row in listed}
    assert "jam" in items
    assert not items & {"item3", "item4"}


def test_an_answer_comes_from_one_model_from_beginning_to_end(folder: Path, tmp_path: Path) -> None:
    artifacts = [small_model(seed) for seed in (0, 1)]
    expected = {}
    for artifact in artifacts:
        artifact.save(folder)
        expected[version_of(folder)] = artifact.recommend(["user1"], 5).to_dicts()
    with running(folder, tmp_path / "log", "--watch-seconds", "0.05") as server:
        finished = threading.Event()

        def swap() -> None:
            while not finished.is_set():
                for artifact in artifacts:
                    artifact.save(folder)
                    time.sleep(0.06)

        writer = threading.Thread(target=swap)
        writer.start()
        seen = set()
        end = time.monotonic() + PATIENCE
        while len(seen) < 2 and time.monotonic() < end:
            answer = server.json("/v1/recommend/user1?k=5")
            seen.add(answer["model"])
            rows = [{"user_id": "user1"} | row for row in answer["items"]]
            assert rows == expected[answer["model"]]
        finished.set()
        writer.join()
        assert len(seen) == 2


def test_a_broken_model_is_refused_and_the_old_one_goes_on(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    options = ("--watch-seconds", "0.05", "--admin-token-file", str(tmp_path / "token"))
    with running(folder, tmp_path / "log", *options) as server:
        first = server.version
        small_model(1).save(tmp_path / "new")
        (arrays,) = (tmp_path / "new").glob("arrays-*")
        (folder / arrays.name).write_bytes(arrays.read_bytes()[:-50])
        (folder / "model.json").write_bytes((tmp_path / "new" / "model.json").read_bytes())
        eventually(lambda: len(server.events("model refused")) >= 1)
        assert version_in_use(server) == first
        headers = {"Authorization": f"Bearer {TOKEN}"}
        status, _, body = server.ask("POST", "/v1/reload", headers=headers)
        refusal = json.loads(body)
        assert status == 409
        assert "cut short" in refusal["what"]
        assert refusal["found"].endswith("bytes")
        assert server.json("/health/ready") == {"status": "ready"}
        small_model(2).save(tmp_path / "whole")
        for file in (tmp_path / "whole").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        eventually(lambda: version_in_use(server) == version_of(tmp_path / "whole"))


def test_a_model_that_folds_nobody_in_is_refused_at_a_swap_and_at_the_start(
    folder: Path, tmp_path: Path
) -> None:
    broken = replace(small_model(1), settings={"solver": {"kind": "wmf"}})
    with running(folder, tmp_path / "log", "--watch-seconds", "0.05") as server:
        broken.save(folder)
        eventually(lambda: len(server.events("model refused")) >= 1)
        assert version_in_use(server) == server.version
        body = json.dumps({"histories": [["item1"]], "k": 3}).encode()
        headers = {"Content-Type": "application/json"}
        assert server.ask("POST", "/v1/recommend", body, headers)[0] == 200
    command = [sys.executable, "-m", "ratiorec.cli", "serve", str(folder), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ratiorec: the model does not say how it was trained")


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from support.small_models import small_model
for seed in range(10**6):
    small_model(seed).save(sys.argv[1])
    print(seed, flush=True)
"""


def test_a_writer_that_is_killed_again_and_again_loses_nothing(
    folder: Path, tmp_path: Path
) -> None:
    """kill -9 in the middle of a swap: the folder holds a whole model, and the server serves."""
    tests = Path(__file__).parent.parent
    with running(folder, tmp_path / "log", "--watch-seconds", "0.05") as server:
        load = Load(server, "/v1/recommend/user1?k=5", n_clients=2)
        with load.going():
            for n_models in (1, 2, 3):
                writer = subprocess.Popen(
                    [sys.executable, "-c", WRITER, str(folder), str(tests)], stdout=subprocess.PIPE
                )
                assert writer.stdout is not None
                for _ in range(n_models):
                    writer.stdout.readline()
                writer.kill()
                writer.wait(PATIENCE)
                writer.stdout.close()
                assert len(Artifact.load(folder).recommend(["user1"], 5)) == 5
        assert load.failures == []
        assert server.events("model refused") == []
        eventually(lambda: version_in_use(server) == version_of(folder))


def test_a_server_that_is_killed_leaves_the_model_as_it_was(folder: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with running(folder, tmp_path / "log", "--watch-seconds", "0.05") as server:
        load = Load(server, "/v1/recommend/user1?k=5", n_clients=2)
        with load.going():
            load.wait_for(5)
            server.process.kill()
            server.process.wait(PATIENCE)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    with running(folder, tmp_path / "log2") as server:
        assert server.json("/health/ready") == {"status": "ready"}


def test_a_server_that_is_told_to_end_under_load_answers_every_request(
    folder: Path, tmp_path: Path
) -> None:
    with running(folder, tmp_path / "log") as server:
        load = Load(server, "/v1/recommend/user1?k=5", n_clients=8)
        with load.going():
            load.wait_for(50)
            assert server.stop() == 0
        assert load.failures == []
        assert load.n_answered > 50
        assert load.refused_to_connect > 0  # it has stopped to accept, and clients have noticed


def test_a_request_on_a_resting_connection_is_answered_while_the_server_ends(
    folder: Path, tmp_path: Path
) -> None:
    head = b"GET /v1/recommend/user1 HTTP/1.1\r\nHost: h\r\n\r\n"
    with running(folder, tmp_path / "log") as server:
        address = (server.host, server.port)
        with (
            socket.create_connection(address, timeout=PATIENCE) as fresh,
            socket.create_connection(address, timeout=PATIENCE) as used,
        ):
            used.sendall(head)
            answer = b""
            while not answer.endswith(b"]}"):
                answer += used.recv(65536)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.4)
            for client in (fresh, used):
                client.sendall(head)
                answer = b""
                while chunk := client.recv(65536):
                    answer += chunk
                assert answer.startswith(b"HTTP/1.1 200")
                assert b"connection: close" in answer
        assert server.process.wait(PATIENCE) == 0


def test_a_client_that_holds_its_connection_cannot_hold_the_server(
    folder: Path, tmp_path: Path
) -> None:
    options = ("--drain-seconds", "1", "--read-seconds", "60")
    with running(folder, tmp_path / "log", *options) as server:
        head = b"POST /v1/recommend HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"
        with socket.create_connection((server.host, server.port), timeout=PATIENCE) as client:
            client.sendall(head)
            eventually(lambda: server.json("/health/live") == {"status": "alive"})
            started = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - started < 20
            assert client.recv(65536).startswith(b"HTTP/1.1 503")


def test_memory_stays_flat_over_many_requests(folder: Path, tmp_path: Path) -> None:
    """A short run; benchmarks/serve_load.py has the long one."""

    def resident() -> float:
        text = server.ask("GET", "/metrics")[2].decode()
        line = next(line for line in text.splitlines() if line.startswith("process_resident"))
        return float(line.split()[1]) / 2**20

    with running(folder, tmp_path / "log", "--log-level", "error") as server:
        load = Load(server, "/v1/recommend/user1?k=5", n_clients=4)
        with load.going():
            load.wait_for(500)
            before = resident()
            load.wait_for(1000)
            after = resident()
        assert load.failures == []
        assert after - before < 4  # one kilobyte for each request would be one megabyte
