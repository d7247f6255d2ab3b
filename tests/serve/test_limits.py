from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path

import pytest

from ratiorec.cli.serve import LimitGroup
from ratiorec.errors import ConfigError
from ratiorec.serve.errors import RefusedError
from ratiorec.serve.models import ModelInUse
from ratiorec.serve.server import create_app
from ratiorec.serve.service import HEAD_BYTES, Limits, Service
from support.asgi_client import Client


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_a_limit_of_nothing_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"where: {name}; found: 0;"):
        Limits(**{name: 0})


def test_what_is_just_within_the_limits_is_let_through() -> None:
    limits = Limits(max_k=10, max_users=3, max_rows=20, max_history=2, max_listed=2)
    limits.check_length(10, 2)
    limits.check_histories([["a", "b"]])
    limits.check_listed(["a", "b"], "deny")
    limits.check_listed(None, "deny")


@pytest.mark.parametrize(
    ("k", "n_lists", "where"),
    [(11, 1, "k"), (1, 4, "users or histories"), (7, 3, "k times users or histories")],
)
def test_lists_beyond_a_limit_are_refused(k: int, n_lists: int, where: str) -> None:
    with pytest.raises(RefusedError) as refused:
        Limits(max_k=10, max_users=3, max_rows=20).check_length(k, n_lists)
    assert (refused.value.status, refused.value.where) == (422, where)


def test_a_long_history_is_refused_with_its_place() -> None:
    with pytest.raises(RefusedError, match=r"histories\[4\]; found: 3; wanted: at most 2"):
        Limits(max_history=2).check_histories(["a", "ab", "a", "b", "abc"])


def test_a_long_list_of_items_is_refused_by_its_name() -> None:
    with pytest.raises(RefusedError, match="where: allow; found: 3; wanted: at most 2"):
        Limits(max_listed=2).check_listed("abc", "allow")


def test_a_length_that_is_not_given_is_within_the_limit(folder: Path) -> None:
    client = Client(create_app(Service.of(ModelInUse(folder), Limits(max_k=2), user_search=True)))
    for path in (
        *("/v1/recommend/user3", "/v1/similar/item3", "/v1/users/user3/history"),
        *("/v1/items", "/v1/users"),
    ):
        found = client.get(path).json
        assert len(found.get("items") or found["users"]) == 2, path
        assert client.get(path, k=3).refusal["where"] == "k"
    (one,) = client.post("/v1/recommend", {"users": ["user3"]}).json["lists"]
    assert len(one["items"]) == 2


def documented() -> dict[str, float]:
    """The first numbers of the table of limits, by option."""
    page = Path(__file__).parents[2] / "docs" / "production.md"
    section = page.read_text("utf-8").partition("## Limits")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ")][1:]
    return {name.strip(" `"): float(value.replace(",", "")) for name, value in rows}


def test_the_table_of_limits_has_every_default_of_the_command_and_of_the_server() -> None:
    defaults = {f"--{name.replace('_', '-')}": value for name, value in asdict(Limits()).items()}
    assert documented() == defaults | {"(fixed)": HEAD_BYTES}
    assert asdict(LimitGroup()) == asdict(Limits())
