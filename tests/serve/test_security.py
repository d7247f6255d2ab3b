from __future__ import annotations

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from ratiorec.errors import ConfigError
from ratiorec.serve.models import ModelInUse
from ratiorec.serve.security import HEADERS, Keys, given_key
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Limits, Service
from support.asgi_client import Client
from support.small_models import small_model

KEY, OTHER, ADMIN = "a-key-of-ada-1234", "a-key-of-bob-5678", "administrator-9012"


@pytest.fixture
def guarded(folder: Path) -> Client:
    keys, admin = Keys.of([KEY, OTHER]), Keys.of([ADMIN])
    return Client(create_app(Service.of(ModelInUse(folder), Limits(), keys=keys, admin=admin)))


@pytest.mark.parametrize("key", [KEY, OTHER])
@pytest.mark.parametrize("header", ["bearer", "api key"])
def test_who_knows_a_key_is_answered(guarded: Client, key: str, header: str) -> None:
    given = {"Authorization": f"Bearer {key}"} if header == "bearer" else {"X-API-Key": key}
    assert guarded.get("/v1/recommend/user1", given).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong-key-1234567"},
        {"Authorization": f"Basic {KEY}"},
        {"X-API-Key": KEY[:-1]},
        {"X-API-Key": ""},
        {"X-API-Key": ADMIN},
    ],
)
@pytest.mark.parametrize(
    "path",
    ["/v1/recommend/user1", "/v1/model", "/metrics", "/v1/items", "/metrics%0A", "/Metrics", "//"],
)
def test_who_knows_none_is_refused(guarded: Client, headers: dict[str, str], path: str) -> None:
    answer = guarded.get(path, headers)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert KEY not in str(answer.refusal)


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/", "/docs", "/openapi.json"])
def test_health_and_pages_need_no_key(guarded: Client, path: str) -> None:
    assert guarded.get(path).status == 200


@pytest.mark.parametrize("path", ["/metrics%0A", "/v1/users/user1/history%0A", "/v1/model%0A"])
def test_an_address_with_a_line_end_behind_it_is_none(guarded: Client, path: str) -> None:
    assert guarded.get(path, {"X-API-Key": KEY}).status == 404


def test_without_keys_everybody_may_ask(client: Client) -> None:
    assert client.get("/v1/model").status == 200


def test_only_the_administrator_may_reload(guarded: Client, folder: Path) -> None:
    small_model(1).save(folder)
    assert guarded.post("/v1/reload").status == 401
    assert guarded.post("/v1/reload", headers={"X-API-Key": KEY}).status == 401
    answer = guarded.post("/v1/reload", headers={"Authorization": f"Bearer {ADMIN}"})
    assert (answer.status, answer.json["swapped"]) == (200, True)


def test_without_an_administrator_nobody_may_reload(client: Client) -> None:
    answer = client.post("/v1/reload", headers={"Authorization": f"Bearer {ADMIN}"})
    assert answer.status == 403
    assert "--admin-token-file" in answer.refusal["found"]


@pytest.mark.parametrize("path", ["/", "/v1/model", "/nothing", "/v1/recommend/eve"])
def test_every_answer_has_the_security_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    for name, value in HEADERS:
        assert headers[name.decode()] == value.decode()
    assert "server" not in headers


def test_keys_are_kept_as_hashes_only() -> None:
    assert KEY not in repr(Keys.of([KEY]))
    assert Keys.of([KEY]).admit(KEY)
    assert not Keys.of([KEY]).admit(None)


def test_a_key_with_a_byte_that_is_no_ascii_is_refused_and_no_error() -> None:
    assert not Keys.of([KEY]).admit(given_key(Headers({"x-api-key": "é" + KEY})))


def test_a_file_of_keys_is_read_without_blanks_and_remarks(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# of ada\n{KEY}\n\n  {OTHER}\r\n")
    assert Keys.read(file) == Keys.of([KEY, OTHER])


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"\n# nothing\n", "no key"),
        (b"short\n", "a key that is short"),
        ("ä".encode() * 20, "a key that is short or not ASCII"),
    ],
)
def test_a_file_of_keys_that_guards_nothing_is_refused(
    tmp_path: Path, content: bytes | None, found: str
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=found) as refused:
        Keys.read(file)
    assert refused.value.where == str(file)
