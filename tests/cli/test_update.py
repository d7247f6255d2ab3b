from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.data.interactions import Interactions
from ratiorec.files import LOCK, sole_writer
from ratiorec.model.artifact import Artifact
from support.command_line import CommandLine, everything_in
from support.random_vectors import vector_model


@pytest.fixture
def today(tmp_path: Path) -> Path:
    """Two pairs of a known user, one of a new user, and one of a new item."""
    path = tmp_path / "today.csv"
    path.write_text(
        "user_id,item_id\nDora-003,item-007\nDora-003,item-011\nZoe,item-007\nZoe,jam\n",
        encoding="utf-8",
    )
    return path


def known_pairs(model: Artifact, user: int) -> set[int]:
    return set(model.seen.indices[model.seen.indptr[user] : model.seen.indptr[user + 1]].tolist())


def test_the_model_is_replaced_by_one_that_has_the_pairs(
    cli: CommandLine, model: Path, today: Path
) -> None:
    before = Artifact.load(model)
    n_new = len({7, 11} - known_pairs(before, 3)) + 2
    outcome = cli("update", model, today)
    assert outcome.code == 0
    counted, since, place = outcome.out.splitlines()
    assert counted.startswith(f"{n_new} new pairs, 1 new users and 1 new items in ")
    assert since == f"{n_new} pairs since the model was trained"
    assert place == f"model: {model}"
    after = Artifact.load(model)
    assert after.users.ids.tolist() == [*before.users.ids, "Zoe"]
    assert after.items.ids.tolist() == [*before.items.ids, "jam"]
    pairs = Interactions.from_pairs(
        ["Dora-003", "Dora-003", "Zoe", "Zoe"], ["item-007", "item-011", "item-007", "jam"]
    )
    expected = before.update(pairs)
    rows = np.arange(len(after.users))
    assert np.array_equal(after.scorer.scores(rows), expected.scorer.scores(rows))
    assert cli("recommend", model, "--user", "Zoe", "-k", 3, "--json").json["recommendations"]


def test_json_says_what_came_in_and_the_old_model_stays_where_another_is_named(
    cli: CommandLine, model: Path, today: Path
) -> None:
    untouched = everything_in(model)
    found = cli("update", model, today, "-o", "newer", "--json").json
    assert found.pop("seconds") > 0
    n_new = len({7, 11} - known_pairs(Artifact.load(model), 3)) + 2
    assert found == {
        "model": "newer",
        "pairs": n_new,
        "users": 1,
        "items": 1,
        "pairs_since_training": n_new,
    }
    assert everything_in(model) == untouched
    again = cli("update", "newer", today, "--json").json
    assert (again["pairs"], again["users"], again["items"]) == (0, 0, 0)
    assert again["pairs_since_training"] == n_new


def test_the_same_file_again_leaves_the_same_bytes(
    cli: CommandLine, model: Path, today: Path
) -> None:
    cli("update", model, today)
    first = everything_in(model)
    assert cli("update", model, today).code == 0
    assert everything_in(model) == first


def test_only_what_the_pairs_touch_changes_where_asked(
    cli: CommandLine, model: Path, today: Path
) -> None:
    before = Artifact.load(model).scorer.arrays()
    assert cli("update", model, today, "-o", "still", "--only-touched").code == 0
    assert cli("update", model, today, "-o", "moved").code == 0
    still, moved = (Artifact.load(name).scorer.arrays() for name in ("still", "moved"))
    n_items = len(before["items"])
    assert np.array_equal(still["items"][:n_items], before["items"])
    assert not np.array_equal(moved["items"][:n_items], before["items"])


def test_what_cannot_be_taken_in_is_told_and_the_model_stays(
    cli: CommandLine, model: Path, tmp_path: Path
) -> None:
    vector_model(n_users=9, n_items=8, dimension=4).save("numbers")
    folders = (model, tmp_path / "numbers")
    untouched = [everything_in(folder) for folder in folders]
    (tmp_path / "names.csv").write_text("user_id,item_id\nada,jam\n", encoding="utf-8")
    outcome = cli("update", "numbers", "names.csv")
    assert outcome.code == 2
    assert "item ids are of two kinds" in outcome.err
    outcome = cli("update", model, "nowhere.csv")
    assert outcome.code == 2
    assert "nowhere.csv" in outcome.err
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("mine", encoding="utf-8")
    assert cli("update", model, "names.csv", "-o", "out").code == 2
    assert cli("update", "no-model", "names.csv").code == 2
    assert [everything_in(folder) for folder in folders] == untouched


def test_data_with_a_test_part_are_refused(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    for name, line in (("train.txt", "0 1 2\n1 0\n"), ("test.txt", "0 0\n")):
        (tmp_path / "both" / name).write_text(line, encoding="utf-8")
    outcome = cli("update", model, "both")
    assert outcome.code == 2
    assert "a training and a test part" in outcome.err


def test_it_loads_no_torch(model: Path, today: Path) -> None:
    code = (
        "import sys; from ratiorec.cli.app import main\n"
        "try: main()\n"
        "finally: print('torch' in sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "update", str(model), str(today)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.splitlines()[-1] == "False"


def test_a_file_without_pairs_is_no_mistake(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    untouched = everything_in(model)
    (tmp_path / "quiet.csv").write_text("user_id,item_id\n", encoding="utf-8")
    found = cli("update", model, "quiet.csv", "--json").json
    assert (found["pairs"], found["pairs_since_training"]) == (0, 0)
    (tmp_path / "cut.csv").write_text("", encoding="utf-8")
    assert cli("update", model, "cut.csv").code == 2
    assert everything_in(model) == untouched


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of this kind on Windows")
def test_two_at_once_lose_no_pair(
    cli: CommandLine, model: Path, today: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes at the worst moment: the first has made its model and is about to save."""
    later, said, save = tmp_path / "later.csv", tmp_path / "said", Artifact.save
    later.write_text("user_id,item_id\nYan,item-003\n", encoding="utf-8")
    others: list[subprocess.Popen[bytes]] = []

    def save_late(self: Artifact, folder: Path) -> None:
        with said.open("wb") as file:
            command = [sys.executable, "-m", "ratiorec", "update", str(model), str(later)]
            others.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file))
        while others[0].poll() is None and b"waiting" not in said.read_bytes():
            time.sleep(0.01)
        save(self, folder)

    monkeypatch.setattr(Artifact, "save", save_late)
    assert cli("update", model, today).code == 0
    assert others[0].wait(60) == 0
    assert {"Yan", "Zoe"} <= set(Artifact.load(model).users.ids.tolist())
    assert f"waiting for another command that writes to {model} (process {os.getpid()}, since " in (
        said.read_text(encoding="utf-8")
    )
    assert not (model / LOCK).exists()


def test_a_model_that_is_being_updated_is_read_all_the_same(cli: CommandLine, model: Path) -> None:
    with sole_writer(model):
        assert cli("recommend", model, "--user", "Dora-003", "--json").code == 0


@pytest.mark.parametrize("spelling", ["the same", "dots", "link"])
def test_a_model_that_was_replaced_meanwhile_is_not_put_back(
    cli: CommandLine, model: Path, today: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    (model.parent / "link").symlink_to(model)
    target = {"the same": model, "dots": model / ".." / "model", "link": model.parent / "link"}
    other = Artifact.load(model).update(Interactions.from_pairs(["Yan"], ["item-003"]))
    take_in, saved = Artifact.update, []

    def slow(self: Artifact, pairs: Interactions, **options: Any) -> Artifact:
        if not saved:  # somebody else writes while the first update is under way
            other.save(model)
            saved.append(True)
        return take_in(self, pairs, **options)

    monkeypatch.setattr(Artifact, "update", slow)
    outcome = cli("update", model, today, "-o", target[spelling])
    assert outcome.code == 0
    assert "the model was replaced meanwhile" in outcome.err
    assert {"Yan", "Zoe"} <= set(Artifact.load(model).users.ids.tolist())


def test_a_model_that_never_stands_still_is_left_alone(
    cli: CommandLine, model: Path, today: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in, written = Artifact.update, []

    def slow(self: Artifact, pairs: Interactions, **options: Any) -> Artifact:
        written.append(len(written))
        pair = Interactions.from_pairs([f"user {len(written)}"], ["item-003"])
        take_in(Artifact.load(model), pair).save(model)
        return take_in(self, pairs, **options)

    monkeypatch.setattr(Artifact, "update", slow)
    outcome = cli("update", model, today)
    assert outcome.code == 2
    assert "one writer at a time" in outcome.err
    assert "Zoe" not in Artifact.load(model).users.ids.tolist()


def test_pairs_go_into_the_model_that_a_link_points_to_in_the_end(
    cli: CommandLine, model: Path, today: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, take_in, untouched = tmp_path / "current", Artifact.update, everything_in(model)
    Artifact.load(model).update(Interactions.from_pairs(["Yan"], ["item-003"])).save("next")
    link.symlink_to(model)

    def switched(self: Artifact, pairs: Interactions, **options: Any) -> Artifact:
        link.unlink(missing_ok=True)
        link.symlink_to("next")
        return take_in(self, pairs, **options)

    monkeypatch.setattr(Artifact, "update", switched)
    assert cli("update", link, today).code == 0
    assert everything_in(model) == untouched
    assert {"Yan", "Zoe"} <= set(Artifact.load("next").users.ids.tolist())
