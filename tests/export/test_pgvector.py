"""Vectors in a real PostgreSQL with pgvector, and what happens without."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, MissingExtraError, StorageError
from ratiorec.export import ExportTrial, Pgvector, Vectors, export_to_postgres
from ratiorec.export.pgvector import IndexPlan, VectorTable, as_text, plans_for
from ratiorec.model.artifact import Artifact
from support.postgres_server import PASSWORD, PostgresServer
from support.random_vectors import vector_model
from support.small_scorers import item_weights, random_rows
from support.vector_server import has_vector

HOSTILE = ['items"; DROP TABLE users; --', "items; --", "", "a.b", "é", "1st", "x" * 64, 'a"b']
WEAK = IndexPlan("ivfflat", {"lists": 60}, "ivfflat.probes", (1,))


def names_in(server: PostgresServer, url: str) -> list[str]:
    """Tables and indices in the public schema."""
    found = server.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
        "AND relkind IN ('r', 'i') ORDER BY relname",
        url,
    )
    return [name for (name,) in found]


def rows_in(server: PostgresServer, url: str, table: str = "items") -> list[tuple[Any, ...]]:
    return server.execute(f'SELECT item_id, embedding::text FROM "{table}" ORDER BY 1', url)


def write_weak(model: Artifact, url: str) -> None:
    vectors = Vectors.of(model)
    replace(Pgvector.at(url), plans=(WEAK,)).write(vectors, ExportTrial()(vectors))


def test_items_are_found_by_a_query_as_exact_search_finds_them(
    vector_server: PostgresServer,
) -> None:
    url = vector_server.new_database()
    model = vector_model(60, 1500, 8)
    done = export_to_postgres(model, url)
    assert done.measured.settings["index"] == "hnsw"
    assert done.measured.settings["hnsw.ef_search"] >= 40
    assert done.measured.recall >= 0.95
    assert done.n_bytes > 1500 * 8 * 4
    assert PASSWORD not in str(done.to_dict())
    vector = as_text(model.scorer.arrays()["users"][7])
    best = vector_server.execute(
        f"SELECT item_id, -(embedding <#> '{vector}') FROM items ORDER BY embedding <#> '{vector}' "
        "LIMIT 1",
        url,
    )
    expected = model.recommend("user 7", 1)
    assert best[0][0] == expected.answer_ids[0]
    assert best[0][1] == pytest.approx(float(expected.scores[0]), rel=1e-5)


def test_vectors_arrive_to_the_last_digit(vector_server: PostgresServer) -> None:
    url = vector_server.new_database()
    model = vector_model(5, 30, 3)
    export_to_postgres(model, url)
    rows = rows_in(vector_server, url)
    assert [identifier for identifier, _ in rows] == list(range(1000, 1030))
    found = np.array([text.strip("[]").split(",") for _, text in rows], np.float32)
    np.testing.assert_array_equal(found, model.scorer.arrays()["items"])


def test_text_ids_arrive_whatever_they_hold(vector_server: PostgresServer) -> None:
    url = vector_server.new_database()
    ids = ["a'; DROP TABLE items; --", 'quo"te', "tab\tand\nline", "\\N", "", "emoji 🦉", "{},%s"]
    plain = vector_model(5, len(ids), 3)
    items = Vocabulary(np.array(ids, object), "item")
    done = export_to_postgres(replace(plain, items=items), url)
    assert done.measured.recall == 1
    assert {identifier for identifier, _ in rows_in(vector_server, url)} == set(ids)


def test_recall_is_measured_through_the_index(
    vector_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = []
    search = VectorTable.search

    def explained(table: VectorTable, vector: str, k: int) -> list[Any]:
        query = f"EXPLAIN SELECT item_id FROM {table._new} ORDER BY embedding <#> %s LIMIT %s"
        plans.append(str(table._run(query, vector, k).fetchall()))
        return search(table, vector, k)

    monkeypatch.setattr(VectorTable, "search", explained)
    export_to_postgres(
        vector_model(4, 30, 3), vector_server.new_database(), trial=ExportTrial(min_recall=0)
    )
    assert plans
    assert all("_idx" in plan for plan in plans)


def test_an_index_that_finds_too_little_leaves_nothing(vector_server: PostgresServer) -> None:
    url = vector_server.new_database()
    with pytest.raises(ConfigError, match=r"recall@20 0\.\d{4}.*index ivfflat, lists 60"):
        write_weak(vector_model(50, 3000, 16), url)
    assert names_in(vector_server, url) == []


def test_an_index_that_finds_too_little_leaves_the_old_table(
    vector_server: PostgresServer,
) -> None:
    url = vector_server.new_database()
    export_to_postgres(vector_model(5, 30, 3), url)
    before = rows_in(vector_server, url), names_in(vector_server, url)
    with pytest.raises(ConfigError, match="finds too little"):
        write_weak(vector_model(50, 3000, 16), url)
    assert (rows_in(vector_server, url), names_in(vector_server, url)) == before


def test_a_later_export_takes_the_place_of_the_first_with_its_rights(
    vector_server: PostgresServer,
) -> None:
    url = vector_server.new_database()
    export_to_postgres(vector_model(5, 30, 3), url)
    role = f"reader_{url.rsplit('_', 1)[1]}"
    vector_server.execute(f'CREATE ROLE "{role}"', url)
    vector_server.execute(f'GRANT SELECT ON items TO "{role}" WITH GRANT OPTION', url)
    vector_server.execute("GRANT SELECT ON items TO PUBLIC", url)
    export_to_postgres(vector_model(6, 44, 5), url)
    assert len(rows_in(vector_server, url)) == 44
    assert len(names_in(vector_server, url)) == 3
    rights = "SELECT array_to_string(relacl, ' ') FROM pg_class WHERE relname = 'items'"
    acl = vector_server.execute(rights, url)[0][0].split()
    assert f"{role}=r*/postgres" in acl
    assert "=r/postgres" in acl


def test_the_table_says_what_was_measured(vector_server: PostgresServer) -> None:
    url = vector_server.new_database()
    export_to_postgres(vector_model(5, 30, 3), url)
    comment = vector_server.execute("SELECT obj_description('items'::regclass)", url)[0][0]
    assert comment.startswith('ratiorec export: {"settings": {"index": "hnsw"')


def test_approximate_vectors_are_measured_through_the_index_and_called_so(
    vector_server: PostgresServer,
) -> None:
    url, plain = vector_server.new_database(), vector_model(60, 200, 8)
    seen = random_rows(60, 200)
    model = replace(plain, scorer=item_weights(seen, 200), seen=seen)
    done = export_to_postgres(model, url, trial=ExportTrial(k=5, min_recall=0.3), dimension=40)
    assert done.vectors == "approximate"
    assert 0.3 <= done.measured.recall <= 1
    comment = vector_server.execute("SELECT obj_description('items'::regclass)", url)[0][0]
    assert '"vectors": "approximate"' in comment


def test_a_table_in_another_schema_is_replaced_there(vector_server: PostgresServer) -> None:
    url = vector_server.new_database()
    export_to_postgres(vector_model(5, 30, 3), url)
    vector_server.execute("CREATE SCHEMA app", url)
    export_to_postgres(vector_model(5, 44, 3), f"{url}?options=-csearch_path%3Dapp%2Cpublic")
    assert len(rows_in(vector_server, url)) == 44
    assert vector_server.execute("SELECT to_regclass('app.items')", url) == [(None,)]


def test_an_extension_in_a_schema_of_its_own_is_found(vector_server: PostgresServer) -> None:
    url = vector_server.new_database()
    vector_server.execute('CREATE SCHEMA "My Extensions"', url)
    vector_server.execute('CREATE EXTENSION vector SCHEMA "My Extensions"', url)
    assert export_to_postgres(vector_model(5, 30, 3), url).measured.recall == 1
    assert export_to_postgres(vector_model(5, 31, 3), url).measured.recall == 1


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE items (item_id text, price real)",
        "CREATE TABLE items (item_id bigint, embedding text)",
        "CREATE VIEW items AS SELECT 1 AS item_id, '[1]'::vector AS embedding",
    ],
)
def test_another_table_of_the_name_is_left_as_it_is(
    vector_server: PostgresServer, statement: str
) -> None:
    url = vector_server.new_database()
    vector_server.execute("CREATE EXTENSION vector", url)
    vector_server.execute(statement, url)
    before = names_in(vector_server, url)
    with pytest.raises(StorageError, match=r"left as it is.*another table"):
        export_to_postgres(vector_model(5, 30, 3), url)
    assert names_in(vector_server, url) == before


def test_a_table_that_something_depends_on_stays(vector_server: PostgresServer) -> None:
    url = vector_server.new_database()
    export_to_postgres(vector_model(5, 30, 3), url)
    vector_server.execute("CREATE VIEW seen AS SELECT item_id FROM items", url)
    with pytest.raises(StorageError, match=r"the rows could not be written.*view seen depends"):
        export_to_postgres(vector_model(5, 31, 3), url)
    assert len(rows_in(vector_server, url)) == 30


def test_a_role_without_rights_is_told_so(vector_server: PostgresServer) -> None:
    url = vector_server.new_database()
    name = url.rsplit("/", 1)[1]
    vector_server.execute(f"CREATE ROLE guest_{name} LOGIN PASSWORD '{PASSWORD}'", url)
    with pytest.raises(StorageError, match="permission denied"):
        export_to_postgres(vector_model(5, 30, 3), vector_server.url(name, user=f"guest_{name}"))
    assert names_in(vector_server, url) == []


def test_a_server_without_the_extension_is_told_what_it_lacks(postgres: PostgresServer) -> None:
    if has_vector(postgres):
        pytest.skip("the PostgreSQL here has pgvector")
    url = postgres.new_database()
    with pytest.raises(StorageError, match="the server has no pgvector") as error:
        export_to_postgres(vector_model(5, 30, 3), url)
    assert "postgresql-NN-pgvector" in error.value.wanted
    assert PASSWORD not in str(error.value)
    assert names_in(postgres, url) == []


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg", reason="the package psycopg is not installed")
    with pytest.raises(StorageError, match="the rows could not be written") as error:
        export_to_postgres(vector_model(5, 30, 3), "postgresql://ada:hush@127.0.0.1:1/shop")
    assert error.value.where == "postgresql://ada@127.0.0.1:1/shop"
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("table", HOSTILE)
def test_a_name_that_would_need_escaping_is_no_table(table: str) -> None:
    with pytest.raises(ConfigError, match="where: table"):
        Pgvector.at("postgresql://db/shop", table)


@pytest.mark.parametrize(
    "url", ["sqlite:///a.db", "items.parquet", "mysql://a:hush@b/c", "", "postgresql://a b:hush@c"]
)
def test_another_address_than_one_of_postgresql_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="where: url") as error:
        Pgvector.at(url)
    assert "hush" not in str(error.value)


def test_a_missing_driver_is_named_with_the_command_that_adds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"to=.pgvector..*ratiorec\[postgres\]"):
        export_to_postgres(vector_model(5, 30, 3), "postgresql://db/shop")


def test_vectors_too_long_for_an_index_are_refused() -> None:
    with pytest.raises(ConfigError, match="2,001 dimensions"):
        export_to_postgres(vector_model(2, 3, 2001), "postgresql://db/shop")


def test_the_index_follows_from_the_size_and_the_extension() -> None:
    first, second = plans_for(2**20, 64, has_hnsw=True)
    assert (first.method, first.options) == ("hnsw", {"m": 16, "ef_construction": 64})
    assert (second.method, second.options) == ("hnsw", {"m": 32, "ef_construction": 128})
    (large,) = plans_for(2**20 + 1, 64, has_hnsw=True)
    assert large.options == {"lists": 1024}
    (older,) = plans_for(64_000, 64, has_hnsw=False)
    assert (older.options, older.strengths) == ({"lists": 64}, (2, 4, 8, 16, 32))
    assert older.definition == "USING ivfflat (embedding vector_ip_ops) WITH (lists = 64)"
    assert plans_for(10, 64, has_hnsw=False)[0].strengths == (1,)


def test_an_index_of_more_links_is_tried_when_the_first_finds_too_little(
    vector_server: PostgresServer,
) -> None:
    url = vector_server.new_database()
    vectors = Vectors.of(vector_model(50, 3000, 16))
    graph = plans_for(3000, 16, has_hnsw=True)[1]
    target = replace(Pgvector.at(url), plans=(WEAK, graph))
    measured, _ = target.write(vectors, ExportTrial()(vectors))
    assert measured.settings["m"] == 32
    assert len(names_in(vector_server, url)) == 3
    (definition,) = vector_server.execute(
        "SELECT indexdef FROM pg_indexes WHERE indexdef LIKE '%embedding%'", url
    )
    assert "USING hnsw (embedding vector_ip_ops) WITH (m='32'" in definition[0]


def test_cells_are_built_where_the_server_allows_little_memory(
    vector_server: PostgresServer,
) -> None:
    url = vector_server.new_database() + "?options=-cmaintenance_work_mem%3D1MB"
    (plan,) = plans_for(90_000, 16, has_hnsw=False)
    vectors = Vectors.of(vector_model(50, 3000, 16))
    measured, _ = replace(Pgvector.at(url), plans=(plan,)).write(
        vectors, ExportTrial(min_recall=0)(vectors)
    )
    assert measured.settings["lists"] == 90


def test_cells_reach_the_threshold_too(vector_server: PostgresServer) -> None:
    vectors = Vectors.of(vector_model(50, 3000, 16))
    target = Pgvector.at(vector_server.new_database())
    strong = replace(WEAK, strengths=(1, 60))
    measured, _ = replace(target, plans=(strong,)).write(vectors, ExportTrial()(vectors))
    assert (measured.recall, measured.settings["ivfflat.probes"]) == (1, 60)
