from __future__ import annotations

from pathlib import Path

import pytest

from ratiorec.errors import ModelError
from ratiorec.serve.service import Metrics, Service
from support.asgi_client import Client
from support.small_models import small_model


def figures(client: Client) -> dict[str, float]:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_requests_are_counted_by_route_method_and_status(client: Client) -> None:
    for user in ("user1", "user2", "eve"):
        client.get(f"/v1/recommend/{user}")
    client.get("/anything/else")
    found = figures(client)
    route = 'method="GET",route="/v1/recommend/{user}"'
    assert found[f'ratiorec_requests_total{{{route},status="200",variant=""}}'] == 2
    assert found[f'ratiorec_requests_total{{{route},status="404",variant=""}}'] == 1
    other = 'method="GET",route="unmatched",status="404",variant=""'
    assert found[f"ratiorec_requests_total{{{other}}}"] == 1


def test_the_time_of_requests_is_counted(client: Client) -> None:
    client.get("/v1/recommend/user1")
    found = figures(client)
    labels = 'route="/v1/recommend/{user}",variant=""'
    assert found[f"ratiorec_request_seconds_count{{{labels}}}"] == 1
    assert found[f"ratiorec_request_seconds_sum{{{labels}}}"] > 0


def test_a_method_nobody_knows_makes_no_label_of_its_own() -> None:
    metrics = Metrics()
    for method in ("BREW", "PROPFIND"):
        metrics.count(route="unmatched", method=method, status=405, seconds=0.1)
    assert b'method="other",route="unmatched",status="405",variant=""} 2.0' in metrics.exposed()
    assert b"BREW" not in metrics.exposed()


def test_the_model_in_use_is_the_only_one_shown(client: Client, service: Service) -> None:
    first = service.models.first.current.version
    small_model(1).save(service.models.first.folder)
    reload(service)
    shown = [name for name in figures(client) if name.startswith("ratiorec_model_info")]
    assert len(shown) == 1
    assert service.models.first.current.version in shown[0]
    assert first not in shown[0]


def test_what_became_of_reloads_is_counted(client: Client, service: Service) -> None:
    reload(service)
    small_model(1).save(service.models.first.folder)
    reload(service)
    Path(service.models.first.folder, "model.json").write_bytes(b"{")
    with pytest.raises(ModelError):
        reload(service)
    found = figures(client)
    for outcome in ("unchanged", "swapped", "refused"):
        assert found[f'ratiorec_model_reloads_total{{outcome="{outcome}",variant=""}}'] == 1


def test_users_ranked_at_once_and_requests_that_wait_are_shown(client: Client) -> None:
    client.post("/v1/recommend", {"users": ["user1", "user2", "user3"]})
    found = figures(client)
    assert found["ratiorec_users_ranked_at_once_sum"] == 3
    assert found["ratiorec_waiting_requests"] == 0
    assert found["process_resident_memory_bytes"] > 0


def reload(service: Service) -> None:
    import asyncio

    asyncio.run(service.reload(service.models.first))
