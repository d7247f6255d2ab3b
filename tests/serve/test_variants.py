"""Variants: who gets which model, and what is told of it."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratiorec.errors import ConfigError, ModelError
from ratiorec.serve.models import RequestNames
from ratiorec.serve.routes import Exchange
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Limits, Service, start_logging
from ratiorec.serve.variants import TrafficSplit, Variants, named_folders
from support.asgi_client import Client
from support.small_models import small_model

IDS = [f"customer-{n}" for n in range(20_000)]


def drawn(**shares: float) -> list[str]:
    split = TrafficSplit(shares)
    return [split.name_of(identifier) for identifier in IDS]


def moves(before: list[str], after: list[str]) -> set[tuple[str, str]]:
    return {(old, new) for old, new in zip(before, after, strict=True) if old != new}


# --- the split -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shares", [{"a": 90, "b": 10}, {"a": 50, "b": 20, "c": 30}, {"a": 98.5, "b": 1.5}]
)
def test_shares_are_as_asked_for(shares: dict[str, float]) -> None:
    found, statistic = drawn(**shares), 0.0
    for name, share in shares.items():
        wanted = share / 100 * len(IDS)
        statistic += (found.count(name) - wanted) ** 2 / wanted
    assert statistic < 13.8  # chi square, two degrees of freedom, one in a thousand


def test_a_larger_share_takes_from_the_first_alone() -> None:
    assert moves(drawn(a=90, b=10), drawn(a=80, b=20)) == {("a", "b")}
    three = drawn(a=80, b=10, c=10)
    assert moves(drawn(a=90, b=10), three) == {("a", "c")}
    assert moves(three, drawn(a=70, b=20, c=10)) == {("a", "b")}
    assert moves(three, drawn(a=45, b=45, c=10)) == {("a", "b")}
    assert moves(three, drawn(a=70, b=10, c=20)) == {("a", "c")}
    five = drawn(a=60, b=10, c=10, d=10, e=10)
    assert moves(five, drawn(a=55, b=10, c=15, d=10, e=10)) == {("a", "c")}
    assert moves(five, drawn(a=65, b=10, c=10, d=5, e=10)) == {("d", "a")}


def test_places_are_shared_out_even_where_shares_run_into_one_another() -> None:
    for shares in ({"a": 0, "b": 70, "c": 30}, {"a": 1, "b": 24, "c": 25, "d": 25, "e": 25}):
        owners = TrafficSplit(shares)._places
        counted = [int((owners == place).sum()) / 100 for place in range(len(shares))]
        assert counted == list(shares.values())


def test_an_id_written_otherwise_gets_the_same_variant() -> None:
    split = TrafficSplit({"a": 50, "b": 50})
    for n in range(50):
        uuid = f"{n:08x}-9abc-def0-1234-56789abcdef0"
        assert split.name_of(uuid.upper()) == split.name_of(uuid)
        assert split.name_of(f"{n}.0") == split.name_of(str(n)) == split.name_of(n)
    assert len({split.name_of(text.upper()) for text in IDS[:50]}) == 2
    assert any(split.name_of(text.upper()) != split.name_of(text) for text in IDS[:50])


def test_the_same_id_gets_the_same_variant_in_another_process() -> None:
    program = (
        "from ratiorec.serve.variants import TrafficSplit\n"
        "split = TrafficSplit({'a': 60, 'b': 40}, 'spring')\n"
        "print(''.join(split.name_of(f'customer-{n}') for n in range(500)))"
    )
    options = {"capture_output": True, "text": True, "check": True}
    runs = [subprocess.run([sys.executable, "-c", program], **options) for _ in range(2)]  # type: ignore[call-overload]
    here = TrafficSplit({"a": 60, "b": 40}, "spring")
    expected = "".join(here.name_of(identifier) for identifier in IDS[:500])
    assert [run.stdout.strip() for run in runs] == [expected] * 2


def test_another_salt_draws_anew_and_a_number_is_its_digits() -> None:
    first, second = (TrafficSplit({"a": 50, "b": 50}, salt) for salt in ("", "spring"))
    same = sum(first.name_of(one) == second.name_of(one) for one in IDS)
    assert 0.48 < same / len(IDS) < 0.52
    assert all(first.name_of(n) == first.name_of(str(n)) for n in range(100))
    assert first.name_of("\ud800") in "ab"


@pytest.mark.parametrize(
    ("text", "names", "found"),
    [
        (None, ["a", "b"], "none"),
        ("a:90", ["a", "b"], "'a:90'"),
        ("a:90,b:10,c:0", ["a", "b"], "'a:90,b:10,c:0'"),
        ("a:50,a:50", ["a"], "'a:50,a:50'"),
        ("a:90,b:ten", ["a", "b"], "'a:90,b:ten'"),
        ("a:90,b:20", ["a", "b"], "a:90,b:20"),
        ("a:110,b:-10", ["a", "b"], "a:110,b:-10"),
        ("a:99.995,b:0.005", ["a", "b"], "a:99.995,b:0.005"),
        ("a:inf,b:nan", ["a", "b"], "a:inf,b:nan"),
        ("a:100", [""], "'a:100'"),
    ],
)
def test_what_is_no_split_is_refused(text: str | None, names: list[str], found: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrafficSplit.read(text, names)
    assert (caught.value.where, caught.value.found) == ("--split", found)


def test_a_split_is_read_in_the_order_of_the_models() -> None:
    assert TrafficSplit.read("b:10, a:90", ["a", "b"]) == TrafficSplit({"a": 90, "b": 10})
    assert list(TrafficSplit.read("b:10, a:90", ["a", "b"]).shares) == ["a", "b"]
    assert TrafficSplit.read(None, ["a"]).name_of("ada") == "a"


def test_folders_have_names_where_there_are_several() -> None:
    assert named_folders(["models/x=1"]) == {"": Path("models/x=1")}
    assert named_folders(["./a=b"]) == {"": Path("a=b")}
    assert named_folders(["a=models/x=1"]) == {"a": Path("models/x=1")}
    assert list(named_folders(["b=one", "a=two"])) == ["b", "a"]
    for texts in (["one", "two"], ["a=one", "two"], ["a=one", "a=two"], ["a=", "b=two"]):
        with pytest.raises(ConfigError, match="a name of its own"):
            named_folders(texts)


# --- several models --------------------------------------------------------------------------


@pytest.fixture
def service(tmp_path: Path) -> Service:
    """Variant a knows twenty users, b fifteen of them; half of them get the one, half the other."""
    small_model(0).save(tmp_path / "a")
    small_model(1, n_users=15).save(tmp_path / "b")
    folders = {"a": tmp_path / "a", "b": tmp_path / "b"}
    return Service.of(
        Variants.read(folders, TrafficSplit({"a": 50, "b": 50}), RequestNames()), Limits()
    )


@pytest.fixture
def client(service: Service) -> Client:
    return Client(create_app(service))


def users_of(service: Service, variant: str) -> list[str]:
    ids = [f"user{n}" for n in range(20)]
    return [user for user in ids if service.models.split.name_of(user) == variant]


def test_each_user_is_answered_by_the_model_of_her_variant(
    client: Client, service: Service
) -> None:
    for variant, model in service.models.models.items():
        known = model.current.artifact.users.ids
        for user in [user for user in users_of(service, variant) if user in known]:
            answer = client.get(f"/v1/recommend/{user}", k=3).json
            assert answer["variant"] == variant
            assert answer["model"] == model.current.version
            wanted = model.current.artifact.recommend([user], 3).answer_ids.tolist()
            assert [row["item_id"] for row in answer["items"]] == wanted
            assert client.get(f"/v1/users/{user}/history").json["variant"] == variant


def test_an_id_in_json_and_in_an_address_gets_the_same_variant(service: Service) -> None:
    choose = service.models.chosen
    assert all(choose(None, n) is choose(None, str(n)) for n in range(-3, 50))
    assert {choose(None, n).variant for n in range(50)} == {"a", "b"}


def test_a_request_keeps_the_models_it_began_with(service: Service) -> None:
    asking = Exchange(service, {})
    before = asking.model("b")
    small_model(2).save(service.models.named("b").folder)
    assert service.models.named("b").reload() is True
    assert asking.model("b") is before
    assert Exchange(service, {}).model("b") is not before


def test_a_named_variant_comes_before_the_split(client: Client, service: Service) -> None:
    (user, *_) = users_of(service, "a")
    assert client.get(f"/v1/recommend/{user}", variant="b").json["variant"] == "b"
    for path in (f"/v1/users/{user}/history", "/v1/similar/item1", "/v1/items", "/v1/map"):
        assert client.get(path, variant="b").json["variant"] == "b"
    for path in ("/v1/similar/item1", "/v1/items", "/v1/map", "/v1/model"):
        assert client.get(path).json["variant"] == "a"
    why = {"history": ["item1"], "item": "item2"}
    assert client.post("/v1/why", why | {"variant": "b"}).json["variant"] == "b"
    assert client.post("/v1/why", why).json["variant"] == "a"
    answer = client.get("/v1/items", variant="c")
    assert (answer.status, answer.refusal["wanted"]) == (422, "one of a, b")


def test_one_model_has_no_variant_in_its_answers(tmp_path: Path) -> None:
    small_model().save(tmp_path / "m")
    folders = named_folders([str(tmp_path / "m")])
    variants = Variants.read(folders, TrafficSplit.read(None, list(folders)), RequestNames())
    client = Client(create_app(Service.of(variants, Limits())))
    assert "variant" not in client.get("/v1/recommend/user1").json
    answer = client.get("/v1/recommend/user1", variant="b")
    assert (answer.status, answer.refusal["where"]) == (422, "variant")


def test_a_user_unknown_to_her_variant_is_as_on_unknown_says(
    client: Client, service: Service
) -> None:
    user = next(user for user in users_of(service, "b") if int(user[4:]) >= 15)
    assert client.get(f"/v1/recommend/{user}").status == 404
    given = client.get(f"/v1/recommend/{user}", on_unknown="fallback").json
    assert (given["variant"], given["fallback"]) == ("b", True)


def test_users_of_one_request_each_get_their_variant_in_the_order_asked_for(
    client: Client, service: Service
) -> None:
    users = [f"user{n}" for n in range(20)]
    asked = {"users": users, "k": 3, "on_unknown": "skip"}
    answer = client.post("/v1/recommend", asked).json
    assert (answer["model"], answer["variant"]) == (None, None)
    known = [u for u in users if service.models.split.name_of(u) == "a" or int(u[4:]) < 15]
    assert [one["user_id"] for one in answer["lists"]] == known
    for one in answer["lists"]:
        alone = client.get(f"/v1/recommend/{one['user_id']}", k=3).json
        assert one == alone
    assert client.post("/v1/recommend", asked | {"on_unknown": "raise"}).status == 404
    one_variant = client.post("/v1/recommend", asked | {"variant": "a"}).json
    assert one_variant["variant"] == "a"
    assert "variant" not in one_variant["lists"][0]


def test_histories_are_those_of_a_visitor_or_go_to_the_first(client: Client) -> None:
    asked = {"histories": [["item1"], ["item2"]], "k": 2}
    assert client.post("/v1/recommend", asked).json["variant"] == "a"
    seen = {
        visitor: {
            client.post("/v1/recommend", asked | {"visitor": visitor}).json["variant"]
            for _ in range(2)
        }
        for visitor in ("v1", "v2", "v3", "v4", "v5", "v6")
    }
    assert all(len(variants) == 1 for variants in seen.values())
    assert set.union(*seen.values()) == {"a", "b"}


def test_the_card_lists_the_variants(client: Client, service: Service) -> None:
    versions = {name: one.current.version for name, one in service.models.models.items()}
    variants = [{"name": name, "share": 50, "model": versions[name]} for name in "ab"]
    assert client.get("/v1/model").json["variants"] == variants
    card = client.get("/v1/model", variant="b").json
    assert (card["variant"], card["n_users"], card["model"]) == ("b", 15, versions["b"])


def test_the_log_and_the_figures_tell_variants_apart(client: Client, service: Service) -> None:
    stream = io.StringIO()
    start_logging("info", stream)
    a, b = users_of(service, "a")[0], users_of(service, "b")[0]
    for user in (a, b, a):
        client.get(f"/v1/recommend/{user}")
    client.post("/v1/recommend", {"users": [a, b]})
    client.get("/v1/items", k="x")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["variant"] for line in lines] == ["a", "b", "a", None, None]
    assert lines[0]["model"] == service.models.named("a").current.version
    shown = client.get("/metrics").body.decode()
    labels = 'method="GET",route="/v1/recommend/{user}",status="200"'
    assert f'ratiorec_requests_total{{{labels},variant="a"}} 2.0' in shown
    assert f'ratiorec_requests_total{{{labels},variant="b"}} 1.0' in shown
    for name in "ab":
        version = service.models.named(name).current.version
        assert f'variant="{name}",version="{version}"}} 1.0' in shown


# --- new models ------------------------------------------------------------------------------


def test_a_variant_reloads_by_itself(client: Client, service: Service) -> None:
    a, b = service.models
    before = a.current
    small_model(2).save(b.folder)
    assert asyncio.run(service.reload(b)) is True
    assert a.current is before
    assert b.current.variant == "b"
    assert b.current.artifact.card["seed"] == 2
    shown = client.get("/metrics").body.decode()
    assert 'ratiorec_model_reloads_total{outcome="swapped",variant="b"} 1.0' in shown
    assert shown.count("ratiorec_model_info{") == 2


def test_all_are_reloaded_though_one_is_refused(service: Service) -> None:
    a, b = service.models
    (a.folder / "model.json").write_bytes(b"{")
    small_model(2).save(b.folder)
    with pytest.raises(ModelError):
        asyncio.run(service.reload_all([a, b]))
    assert (a.current.artifact.card["seed"], b.current.artifact.card["seed"]) == (0, 2)


def test_a_reload_on_request_is_of_all_or_of_one(tmp_path: Path, service: Service) -> None:
    from ratiorec.serve.security import Keys

    keys: dict[str, Any] = {"headers": {"Authorization": f"Bearer {'k' * 16}"}}
    admin = Service.of(service.models, Limits(), admin=Keys.of(["k" * 16]))
    client = Client(create_app(admin))
    a, b = service.models
    small_model(2).save(a.folder)
    small_model(3).save(b.folder)
    one = client.post("/v1/reload?variant=b", b"", **keys).json
    version = b.current.version
    assert one == {
        "model": version,
        "swapped": True,
        "variants": [{"name": "b", "model": version, "swapped": True}],
    }
    both = client.post("/v1/reload", b"", **keys).json
    assert [row["swapped"] for row in both["variants"]] == [True, False]
    assert (both["model"], both["swapped"]) == (a.current.version, True)
    assert client.post("/v1/reload?variant=c", b"", **keys).status == 422
    assert client.post("/v1/reload?force=1", b"", **keys).status == 422
