from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories
from ratiorec.config import to_table
from ratiorec.encoders.settings import Factorisation
from ratiorec.errors import ModelError
from ratiorec.losses.density_ratio import DensityRatio, UniformWeights
from ratiorec.model.artifact import Artifact
from ratiorec.serve import models
from ratiorec.serve.models import ModelInUse, read_served, signature_of, version_of
from ratiorec.settings import Settings, SolverSettings, Training, UserBatches
from ratiorec.solvers.settings import WMF
from support.small_models import numbered_model, small_model

OF_A_RATIO = to_table(
    Settings(
        encoder=Factorisation(4),
        risk=DensityRatio(weights=UniformWeights()),
        batches=UserBatches(20, min_steps_per_epoch=1),
        training=Training(l2=0.1),
    )
)
OF_WMF = to_table(SolverSettings(WMF(confidence=1.0, l2=0.1)))
WITHOUT_CONFIDENCE = OF_WMF | {"solver": {"kind": "wmf"}}
WITH_TEXT = OF_WMF | {"solver": OF_WMF["solver"] | {"l2": "x"}}


def cut_arrays(folder: Path) -> None:
    (file,) = folder.glob("arrays-*.safetensors")
    file.write_bytes(file.read_bytes()[:-100])


def test_a_model_is_known_by_what_its_folder_holds(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    assert read_served(folder).version == version_of(tmp_path / "copy")
    small_model(1).save(folder)
    assert version_of(folder) != version_of(tmp_path / "copy")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no model"):
        ModelInUse(tmp_path / "none")


@pytest.mark.parametrize("settings", [{}, OF_A_RATIO, OF_WMF])
def test_what_folding_in_needs_is_there_before_the_first_request(
    artifact: Artifact, tmp_path: Path, settings: dict[str, Any]
) -> None:
    replace(artifact, settings=settings).save(tmp_path / "m")
    served = read_served(tmp_path / "m").artifact
    assert "rule" in vars(served)
    assert vars(served)["rule"] is served.rule is not None


def test_what_lists_by_attributes_need_is_there_before_the_first_request(
    artifact: Artifact, tmp_path: Path
) -> None:
    segments = Categories.of([("gold", "new")[place % 2] for place in range(len(artifact.users))])
    known = artifact.with_users(Attributes(len(artifact.users), {"segment": segments}))
    known.save(tmp_path / "m")
    assert "users_alike" in vars(read_served(tmp_path / "m").artifact)


@pytest.mark.parametrize(
    ("settings", "card", "found"),
    [
        (OF_A_RATIO, {"fold_in": {"ridge": "x", "usual_length": None}}, "could not convert"),
        (WITHOUT_CONFIDENCE, {}, "a setting is missing .*found: no .*confidence"),
        (WITH_TEXT, {}, "a setting has the wrong type .*solver.l2"),
    ],
    ids=["a ridge that is no number", "a setting that is missing", "a setting that is no number"],
)
def test_a_model_that_folds_nobody_in_is_refused_and_the_old_one_stays(
    artifact: Artifact, folder: Path, settings: dict[str, Any], card: dict[str, Any], found: str
) -> None:
    used = ModelInUse(folder)
    first = used.current
    replace(artifact, settings=settings, card=card).save(folder)
    with pytest.raises(ModelError, match=f"found: .*{found}"):
        used.reload()
    assert used.current is first
    with pytest.raises(ModelError):
        ModelInUse(folder)


@pytest.mark.parametrize(("n_users", "n_items"), [(0, 3), (2, 0)])
def test_a_model_without_users_or_items_is_taken(
    tmp_path: Path, n_users: int, n_items: int
) -> None:
    numbered_model(n_users=n_users, n_items=n_items).save(tmp_path / "m")
    served = read_served(tmp_path / "m").artifact
    assert (len(served.users), len(served.items)) == (n_users, n_items)


def test_an_unchanged_folder_is_not_taken_again(folder: Path) -> None:
    used = ModelInUse(folder)
    first = used.current
    assert not used.has_changed()
    assert used.reload() is False
    assert used.current is first


def test_a_new_model_takes_the_place_of_the_old(folder: Path) -> None:
    used = ModelInUse(folder)
    first = used.current
    small_model(1).save(folder)
    assert used.has_changed()
    assert used.reload() is True
    assert used.current.version == version_of(folder) != first.version
    assert used.current.artifact.card["seed"] == 1
    assert not used.has_changed()


def test_a_link_that_is_moved_to_another_model_is_a_change(folder: Path, tmp_path: Path) -> None:
    small_model(1).save(tmp_path / "other")
    link = tmp_path / "current"
    link.symlink_to(folder)
    used = ModelInUse(link)
    link.unlink()
    link.symlink_to(tmp_path / "other")
    assert used.has_changed()
    assert used.reload() is True


def test_a_model_that_is_cut_short_is_refused_and_the_old_one_stays(folder: Path) -> None:
    used = ModelInUse(folder)
    first = used.current
    small_model(1).save(folder)
    cut_arrays(folder)
    with pytest.raises(ModelError, match="cut short"):
        used.reload()
    assert used.current is first
    assert not used.has_changed()  # it has been looked at, and is not read again for nothing


def test_arrays_that_are_cut_under_the_same_header_are_noticed(folder: Path) -> None:
    used = ModelInUse(folder)
    cut_arrays(folder)
    assert used.has_changed()
    with pytest.raises(ModelError, match="cut short"):
        used.reload()
    assert len(used.current.artifact.recommend(["user1"], 3)) == 3


def test_a_model_that_comes_whole_after_a_refusal_is_taken(folder: Path, tmp_path: Path) -> None:
    used = ModelInUse(folder)
    small_model(1).save(tmp_path / "new")
    shutil.copy(tmp_path / "new" / "model.json", folder)  # the header first, as a copy might
    with pytest.raises(ModelError, match="arrays of the model are missing"):
        used.reload()
    (arrays,) = (tmp_path / "new").glob("arrays-*")
    shutil.copy(arrays, folder)
    assert used.has_changed()
    assert used.reload() is True


def test_a_folder_that_vanishes_leaves_the_model_in_use(folder: Path) -> None:
    used = ModelInUse(folder)
    shutil.rmtree(folder)
    assert used.has_changed()
    with pytest.raises(ModelError, match="no such folder"):
        used.reload()
    assert len(used.current.artifact.recommend(["user1"], 3)) == 3


def test_a_file_that_a_writer_has_not_finished_is_no_change(folder: Path) -> None:
    before = signature_of(folder)
    (folder / ".model.json.0123456789ab.tmp").write_bytes(b"half")
    assert signature_of(folder) == before


def test_a_file_rewritten_with_as_many_bytes_is_a_change(folder: Path) -> None:
    before = signature_of(folder)
    header = folder / "model.json"
    content = header.read_bytes()
    header.write_bytes(content)
    os.utime(header, ns=(1, 1))
    assert signature_of(folder) != before


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Artifact.load

    def replaced_meanwhile(path: Path) -> Artifact:
        artifact = load(path)
        if artifact.card["seed"] == 0:
            small_model(1).save(path)
        return artifact

    monkeypatch.setattr(models.Artifact, "load", replaced_meanwhile)
    served = read_served(folder)
    assert served.artifact.card["seed"] == 1
    assert served.version == version_of(folder)


def test_a_model_that_never_stands_still_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(range(1000))
    monkeypatch.setattr(models, "version_of", lambda path: str(next(versions)))
    with pytest.raises(ModelError, match="replaced all the time"):
        read_served(folder)


def test_two_reloads_at_once_take_the_model_once(folder: Path) -> None:
    used = ModelInUse(folder)
    small_model(1).save(folder)
    outcomes: list[bool] = []
    threads = [threading.Thread(target=lambda: outcomes.append(used.reload())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False, False, False, True]


def test_a_folder_changed_at_random_never_costs_the_model_in_use(
    folder: Path, tmp_path: Path
) -> None:
    """`tests/test_folder.py` has a thousand of these for loading alone."""
    used = ModelInUse(folder)
    first = used.current
    files = sorted(folder.iterdir())
    whole = {file: file.read_bytes() for file in files}
    n_refused = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        file = files[seed % len(files)]
        blob = bytearray(whole[file])
        blob[rng.integers(len(blob))] ^= int(rng.integers(1, 256))
        file.write_bytes(blob[: rng.integers(len(blob))] if seed % 3 == 0 else blob)
        try:
            used.reload()
        except ModelError:
            n_refused += 1
        assert used.current.artifact.settings == first.artifact.settings
        assert len(used.current.artifact.recommend(["user1"], 3)) == 3
        file.write_bytes(whole[file])
    assert n_refused > 50
