from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from ratiorec.export.faiss_index import Faiss, Hnsw
from ratiorec.model.artifact import Artifact
from support.command_line import CommandLine, everything_in, full_disk
from support.postgres_server import PASSWORD, PostgresServer
from support.random_vectors import vector_model
from support.small_scorers import item_weights, random_rows
from support.vector_server import vector_server

__all__ = ["vector_server"]


def test_a_folder_is_written_and_its_recall_told(
    cli: CommandLine, model: Path, tmp_path: Path
) -> None:
    outcome = cli("export", model, "--to", "numpy", "-o", "out")
    assert (outcome.code, outcome.out) == (0, "")
    settings, recall, place = outcome.err.splitlines()
    assert settings == "numpy: search exact, dimension 4"
    assert recall == "recall@20 1.0000 of exact search, 60 users"
    assert " bytes in out, " in place
    assert np.load(tmp_path / "out" / "user_vectors.npy").shape == (60, 4)


def test_json_has_form_settings_recall_seconds_bytes_and_paths(
    cli: CommandLine, model: Path, tmp_path: Path
) -> None:
    options = ("-k", 5, "--sample", 7, "--seed", 3, "--min-recall", 1)
    found = cli("export", model, "--to", "parquet", "-o", "out", *options, "--json").json
    assert found.pop("seconds") > 0
    paths = [f"out/{name}" for name in ("README.txt", "items.parquet", "users.parquet")]
    assert found == {
        "form": "parquet",
        "settings": {"search": "exact", "dimension": 4},
        "vectors": "exact",
        "recall": 1,
        "k": 5,
        "sample": 7,
        "bytes": sum(path.stat().st_size for path in (tmp_path / "out").iterdir()),
        "paths": [*paths, "out/export.json"],
    }


def test_an_index_that_finds_too_little_is_refused_with_the_figure(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="the package faiss-cpu is not installed")
    vector_model(40, 2000, 16).save("model")
    monkeypatch.setattr("ratiorec.export.FORMS", {"faiss": Faiss((Hnsw(2, 2, (1,)),))})
    before = everything_in(tmp_path)
    outcome = cli("export", "model", "--to", "faiss", "-o", "out", "--json")
    assert "recall@20 0." in outcome.refusal
    assert "ef_search 1" in outcome.refusal
    assert everything_in(tmp_path) == before


def test_a_model_without_vectors_is_approximated_and_says_so(
    cli: CommandLine, tmp_path: Path
) -> None:
    plain, seen = vector_model(9, 14, 3), random_rows(9, 14)
    Artifact(item_weights(seen, 14), plain.users, plain.items, seen).save("model")
    options = ("--to", "numpy", "-o", "out", "-k", 3)
    refusal = cli("export", "model", *options, "--dimension", 1).refusal
    assert "of the model's own lists" in refusal
    assert not (tmp_path / "out").exists()
    outcome = cli("export", "model", *options, "--dimension", 1, "--min-recall", 0)
    settings, recall, _ = outcome.err.splitlines()
    assert settings == "numpy: search exact, dimension 1"
    assert recall.endswith(" of the model's own lists, by approximate vectors, 9 users")
    told = cli("export", "model", *options, "--min-recall", 0, "--json").json
    assert (told["vectors"], told["settings"]["dimension"]) == ("approximate", 9)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (("--to", "faiss"), "where: -o"),
        (("--to", "faiss", "-o", "out", "--url", "postgresql://a:hush@b/c"), "where: --url"),
        (("--to", "onnx", "-o", "out", "--table", "items"), "where: --table"),
        (("--to", "pgvector"), "where: --url"),
        (("--to", "pgvector", "--url", "postgresql://b/c", "-o", "out"), "where: -o"),
        (("--to", "pgvector", "--url", "sqlite:///c.db"), "where: --url"),
        (("--to", "pgvector", "--url", "postgresql://b/c", "--table", 'a"b'), "where: --table"),
        (("--to", "numpy", "-o", "out", "--min-recall", "95"), "where: --min-recall"),
        (("--to", "numpy", "-o", "out", "--k", "0"), "where: --k"),
        (("--to", "numpy", "-o", "out", "--sample", "0"), "where: --sample"),
        (("--to", "numpy", "-o", "out", "--dimension", "0"), "where: --dimension"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_a_model_is_read(
    cli: CommandLine, options: tuple[str, ...], where: str, tmp_path: Path
) -> None:
    refusal = cli("export", "no such model", *options).refusal
    assert where in refusal
    assert "hush" not in refusal
    assert everything_in(tmp_path) == {}


def test_a_form_that_does_not_exist_is_refused(cli: CommandLine, model: Path) -> None:
    outcome = cli("export", model, "--to", "annoy", "-o", "out")
    assert outcome.code == 2
    assert "faiss" in outcome.err


def test_a_foreign_folder_is_left_as_it_is(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    before = everything_in(tmp_path)
    assert "not an export" in cli("export", model, "--to", "numpy", "-o", model).refusal
    assert everything_in(tmp_path) == before


def test_a_full_disk_leaves_nothing(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("resource", reason="no limits of file sizes on this system")
    before = everything_in(tmp_path)
    with full_disk(500):
        outcome = cli("export", model, "--to", "numpy", "-o", "out")
    assert "could not write the folder" in outcome.refusal
    assert "where: out" in outcome.refusal
    assert everything_in(tmp_path) == before


def test_a_missing_extra_is_named_with_its_command(
    cli: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    refusal = cli("export", model, "--to", "faiss", "-o", "out").refusal
    assert "pip install 'ratiorec[ann]'" in refusal


def test_the_header_of_an_export_is_the_figure_that_was_told(
    cli: CommandLine, model: Path, tmp_path: Path
) -> None:
    told = cli("export", model, "--to", "numpy", "-o", "out", "--json").json
    header = json.loads((tmp_path / "out" / "export.json").read_text())
    assert {name: header[name] for name in ("form", "settings", "recall", "k", "sample")} == {
        name: told[name] for name in ("form", "settings", "recall", "k", "sample")
    }


def test_a_table_is_written_to_a_database(
    cli: CommandLine, model: Path, vector_server: PostgresServer
) -> None:
    url = vector_server.new_database()
    options = ("--to", "pgvector", "--url", url, "--table", "things", "-k", 5)
    found = cli("export", model, *options, "--json").json
    assert (found["form"], found["table"], found["paths"]) == ("pgvector", "things", [])
    assert found["recall"] >= 0.95
    assert vector_server.execute("SELECT count(*) FROM things", url) == [(40,)]
    told = cli("export", model, *options)
    assert " bytes in table things of postgresql://postgres@127.0.0.1" in told.err
    assert PASSWORD not in told.err
