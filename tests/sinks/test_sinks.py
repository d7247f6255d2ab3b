"""What every sink keeps to, whichever it is."""

from __future__ import annotations

from typing import Any

import pytest

from ratiorec.errors import DataError
from ratiorec.sinks import Job, Tally, write_lists
from support.sink_places import Place, PulledPlugError, expected, small_model, stop_after

STRANGE = [
    "",
    "\\N",
    "a\n\\.\nb",
    '"',
    "it's",
    "'); DROP TABLE recommendations; --",
    "ü,🙂",
    "\t",
    "\r",
]


def test_the_rows_are_those_of_recommend(place: Place) -> None:
    model = small_model()
    tally = write_lists(Job.of(model, model.users.ids, 5), place.sink, users_at_a_time=7)
    assert place.rows() == expected(model)
    assert tally == Tally(n_users=60, n_rows=59 * 5, n_without=1)


def test_strange_ids_arrive_as_they_are(place: Place) -> None:
    model = small_model(STRANGE, [f"{text}!" for text in STRANGE])
    write_lists(Job.of(model, model.users.ids, 5), place.sink, users_at_a_time=3)
    assert place.rows() == expected(model)


def test_an_interrupted_job_goes_on_after_its_last_block(place: Place) -> None:
    model, said, ranked = small_model(), [], []
    job = Job.of(model, model.users.ids, 5)
    with pytest.raises(PulledPlugError):
        write_lists(
            job, place.sink, users_at_a_time=10, progress=stop_after(35), notify=said.append
        )
    assert said == ["30 of 60 users are written; the same command goes on after them"]
    said.clear()
    tally = write_lists(
        job,
        place.sink,
        users_at_a_time=10,
        progress=lambda done, total: ranked.append((done, total)),
        notify=said.append,
    )
    assert said == ["30 users were written before; going on after them"]
    assert ranked == [(40, 60), (50, 60), (60, 60)]
    assert place.rows() == expected(model)
    assert tally == Tally(n_users=60, n_rows=59 * 5, n_without=1)


def test_an_interrupted_job_may_go_on_in_blocks_of_another_size(place: Place) -> None:
    model = small_model()
    job = Job.of(model, model.users.ids, 5)
    for users, end in ((10, 25), (7, 50)):
        with pytest.raises(PulledPlugError):
            write_lists(job, place.sink, users_at_a_time=users, progress=stop_after(end))
    write_lists(job, place.sink, users_at_a_time=1)
    assert place.rows() == expected(model)


@pytest.mark.parametrize("change", ["k", "exclude_seen", "deny", "model"])
def test_another_request_or_model_starts_anew_and_says_so(place: Place, change: str) -> None:
    model, said = small_model(), []
    first = Job.of(model, model.users.ids, 5)
    with pytest.raises(PulledPlugError):
        write_lists(first, place.sink, users_at_a_time=10, progress=stop_after(35))
    other = small_model(n_items=39) if change == "model" else model
    options: dict[str, Any] = {
        "k": {"k": 3},
        "exclude_seen": {"exclude_seen": False},
        "deny": {"deny": [1039]},
        "model": {},
    }[change]
    asked = {"k": 5} | options
    tally = write_lists(Job.of(other, other.users.ids, **asked), place.sink, notify=said.append)
    assert said == ["an unfinished run of another model or request is given up"]
    assert tally.n_users == 60
    assert place.rows() == expected(other, **asked)


def test_a_job_may_be_started_anew(place: Place) -> None:
    model, said = small_model(), []
    job = Job.of(model, model.users.ids, 5)
    with pytest.raises(PulledPlugError):
        write_lists(job, place.sink, users_at_a_time=10, progress=stop_after(35))
    write_lists(job, place.sink, resume=False, notify=said.append)
    assert said == []
    assert place.rows() == expected(model)


def test_a_finished_job_run_again_gives_the_same_rows(place: Place) -> None:
    model, said = small_model(), []
    job = Job.of(model, model.users.ids, 5)
    for _ in range(2):
        tally = write_lists(job, place.sink, users_at_a_time=25, notify=said.append)
        assert tally.n_users == 60
        assert place.rows() == expected(model)
    assert said == []


def test_a_shorter_list_leaves_no_tail_of_the_longer_one(place: Place) -> None:
    model = small_model()
    write_lists(Job.of(model, model.users.ids, 9, exclude_seen=False), place.sink)
    write_lists(Job.of(model, model.users.ids, 4), place.sink)
    assert place.rows() == expected(model, 4)  # the last user, who has seen everything, is gone


def test_a_user_named_twice_is_listed_once(place: Place) -> None:
    model = small_model()
    write_lists(Job.of(model, [3, 0, 3], 2), place.sink)
    rows = [row for row in expected(model, 2) if row[0] in (0, 3)]
    assert place.rows() == rows


def test_unknown_users_keep_the_type_of_their_neighbours(place: Place) -> None:
    model = small_model()
    users = [*model.users.ids[:20].tolist(), "nobody"]
    job = Job.of(model, users, 2, on_unknown="fallback")
    write_lists(job, place.sink, users_at_a_time=8)
    assert {row[0] for row in place.rows()} == {str(user) for user in users}


def test_a_job_without_users_is_refused(place: Place) -> None:
    job = Job.of(small_model(), ["nobody"], on_unknown="skip")
    with pytest.raises(DataError, match="nothing to write"):
        write_lists(job, place.sink)
