from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from ratiorec.cli.serve import LimitGroup
from ratiorec.serve.service import Limits
from ratiorec.serve.variants import TrafficSplit
from support.command_line import CommandLine
from support.serve_process import running
from support.small_models import small_model


def test_without_the_extra_the_command_that_adds_it_is_named(
    cli: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    refusal = cli("serve", model).refusal
    assert "uvicorn is not installed" in refusal
    assert "wanted: pip install 'ratiorec[serve]'" in refusal


def test_the_options_of_limits_are_the_limits_there_are() -> None:
    assert asdict(LimitGroup()) == asdict(Limits())


def test_a_folder_without_a_model_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    assert "there is no model" in cli("serve", tmp_path / "none", "--port", 0).refusal


def test_a_model_that_is_cut_short_is_refused(cli: CommandLine, model: Path) -> None:
    (arrays,) = model.glob("arrays-*")
    arrays.write_bytes(arrays.read_bytes()[:-1])
    assert "cut short" in cli("serve", model, "--port", 0).refusal


def test_a_taken_port_is_refused(cli: CommandLine, model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refusal = cli("serve", model, "--port", port).refusal
    assert f"--port {port}; found: Address already in use" in refusal


@pytest.mark.parametrize("option", ["--api-keys-file", "--admin-token-file"])
def test_a_file_of_keys_that_is_not_there_is_refused(
    cli: CommandLine, model: Path, option: str
) -> None:
    assert "where: no.txt" in cli("serve", model, "--port", 0, option, "no.txt").refusal


@pytest.mark.parametrize("option", ["--rank-seconds", "--drain-seconds", "--read-seconds"])
def test_no_time_at_all_is_refused(cli: CommandLine, model: Path, option: str) -> None:
    assert f"where: {option}; found: 0.0" in cli("serve", model, "--port", 0, option, 0).refusal


def test_the_address_is_printed_as_one_object(model: Path, tmp_path: Path) -> None:
    with running(model, tmp_path / "log") as server:
        assert server.json("/v1/model")["model"] == server.version
        assert server.port > 0


def test_the_address_is_printed_alone(
    cli: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratiorec.serve import server

    def only_announce(*_: object, announce: Callable[[], None], **__: object) -> None:
        announce()

    monkeypatch.setattr(server, "run", only_announce)
    assert cli("serve", model, "--port", 0).out.startswith("http://127.0.0.1:")


def test_the_limits_are_those_of_the_options(model: Path, tmp_path: Path) -> None:
    with running(model, tmp_path / "log", "--max-k", "3", "--max-users", "2") as server:
        limits = server.json("/v1/model")["limits"]
        assert (limits["max_k"], limits["max_users"]) == (3, 2)
        status, _, body = server.ask("GET", "/v1/recommend/0?k=4")
        assert (status, json.loads(body)["where"]) == (422, "k")


def test_users_are_searched_for_where_that_is_asked_for(model: Path, tmp_path: Path) -> None:
    with running(model, tmp_path / "log", "--user-search") as server:
        assert server.json("/v1/users?k=1")["users"]
        assert server.json("/v1/model")["user_search"] is True


def test_keys_of_a_file_guard_the_server(model: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a-key-of-sixteen\n")
    with running(model, tmp_path / "log", "--api-keys-file", str(tmp_path / "keys")) as server:
        assert server.ask("GET", "/v1/model")[0] == 401
        assert server.ask("GET", "/v1/model", headers={"X-API-Key": "a-key-of-sixteen"})[0] == 200


def test_variants_and_names_of_filters_and_rules_are_served(model: Path, tmp_path: Path) -> None:
    (tmp_path / "filters.toml").write_text("[filters]\nnamed = 'title is not missing'\n")
    (tmp_path / "rules.toml").write_text("[home]\ndiversity = 0.2\n")
    small_model().save(tmp_path / "other")
    files = ("--filters", str(tmp_path / "filters.toml"), "--rules", str(tmp_path / "rules.toml"))
    variants = (f"b={tmp_path / 'other'}", "--split", "a:25,b:75", "--split-salt", "spring")
    with running(f"a={model}", tmp_path / "log", *variants, *files) as server:
        card = server.json("/v1/model")
        assert [(one["name"], one["share"]) for one in card["variants"]] == [("a", 25), ("b", 75)]
        assert (list(card["filters"]), card["rules"]) == (["named"], ["home"])
        split = TrafficSplit({"a": 25, "b": 75}, "spring")
        for n in range(8):
            path = f"/v1/recommend/user{n}?on_unknown=fallback&rules=home&filter=@named"
            assert server.json(path)["variant"] == split.name_of(f"user{n}")
        versions = {one["name"]: one["model"] for one in card["variants"]}
        assert server.version == versions["a"]
        (started,) = server.events("started")
        assert started["variants"] == versions


def test_each_of_several_models_has_a_name_and_a_share(
    cli: CommandLine, model: Path, tmp_path: Path
) -> None:
    assert "NAME=DIR for each" in cli("serve", model, model).refusal
    several = (f"a={model}", f"b={model}", "--port", 0)
    assert "where: --split; found: none" in cli("serve", *several).refusal
    assert "add up to 100" in cli("serve", *several, "--split", "a:90,b:5").refusal
    assert cli("serve").code == 2


def test_names_that_the_model_cannot_answer_end_the_start(
    cli: CommandLine, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "filters.toml").write_text("[filters]\nfew = 'stock < 5'\n")
    refusal = cli("serve", model, "--port", 0, "--filters", "filters.toml").refusal
    assert "does not fit the filters and rules" in refusal
    assert "where: @few, character 1" in refusal
