from __future__ import annotations

import socket

import pytest

from ratiorec.tracking.mlflow_runs import require_listener


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return int(closed.getsockname()[1])


def test_an_address_is_good_where_somebody_listens(closed_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_listener(f"http://127.0.0.1:{server.getsockname()[1]}/runs")
        server.settimeout(5)
        connection, _ = server.accept()
        connection.close()
    for scheme in ("http", "https"):
        with pytest.raises(ConnectionRefusedError):
            require_listener(f"{scheme}://127.0.0.1:{closed_port}")


def test_an_address_that_another_machine_connects_to_is_not_tried(
    closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *place: tried.append(place))
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128")
    require_listener(f"http://127.0.0.1:{closed_port}")
    assert tried == []


@pytest.mark.parametrize("store", ["sqlite:///runs.db", "databricks", "./mlruns", "http://"])
def test_what_is_no_address_of_a_server_is_not_tried(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *place: tried.append(place))
    require_listener(store)
    assert tried == []
