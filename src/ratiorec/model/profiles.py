"""Users without history: what users who are alike by their attributes have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Column, Numbers, OwnVectors, Tags, Texts
from ratiorec.catalogue.content import Content
from ratiorec.catalogue.ridge import Ridge, Taught
from ratiorec.catalogue.tables import IdTable
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, unknown_choice
from ratiorec.machine import one_blas_thread
from ratiorec.model.store import describe, pack, unpack
from ratiorec.scorers import FloatMatrix, Indices, Mix
from ratiorec.scorers.scorer import UserItems, history_rows

if TYPE_CHECKING:
    import scipy.sparse

_MOST_TEACHERS = 2**14
_ITEMS_TOLD = 256
Profile = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class ByProfile:
    """The score of an item is the share of users like this one who have it (theory: K4)."""

    mix: Mix
    histories: scipy.sparse.csr_array  # of the users who teach [n_known, n_items]

    @property
    def n_users(self) -> int:
        return self.mix.n_new

    @property
    def n_items(self) -> int:
        return int(self.histories.shape[1])

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The histories of known users, each times how much it counts for these."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        counts = self.mix.features @ np.ascontiguousarray(self.mix.gains[users].T)
        out[...] = (self.histories.T @ counts).T
        return out


@dataclass(frozen=True, eq=False)
class UsersAlike:
    """The users of a model by whom new ones are known: some thousand who have pairs."""

    columns: Attributes  # without rows
    content: Content
    taught: Taught
    histories: scipy.sparse.csr_array

    @classmethod
    def of(cls, table: Attributes, seen: UserItems, n_items: int) -> UsersAlike:
        """Users at even distances, and the ridge by which they tell one another best."""
        teach = np.flatnonzero(np.diff(seen.indptr))
        teach = teach[:: max(1, -(-len(teach) // _MOST_TEACHERS))]
        histories = history_rows(seen, teach, n_items)
        everyone = np.ones(len(teach), bool)
        n_having = np.bincount(histories.indices, minlength=n_items)
        told = np.argsort(-n_having, kind="stable")[:_ITEMS_TOLD]
        content = Content.of(table.take(teach), everyone)
        with one_blas_thread():
            ridge = Ridge.chosen(content, everyone, histories[:, told].toarray())
            taught = ridge.taught(content, everyone)
        return cls(table.take(teach[:0]), content.rows(0, 0), taught, histories)

    def scorer(self, new: Attributes) -> ByProfile:
        """Scores for users of whom these attributes are known."""
        content = self.content.of_others(self.columns.followed_by(new))
        with one_blas_thread():
            mix = self.taught.mix(content)
        return ByProfile(mix, self.histories)


def known_by_table(
    users: Indices, user_ids: NDArray[Any], new: IdTable, ids: Vocabulary
) -> tuple[Indices, Attributes]:
    """Users, -2 - j in place of -1 where one is in a table, and the j-th of them; none at all.

    `ids` are those of the table, to be searched.
    """
    unknown = np.flatnonzero(users < 0)
    places = ids.indices(user_ids[unknown], on_unknown="skip")
    wanted, own = np.unique(places[places >= 0], return_inverse=True)
    found = users.copy()
    found[unknown[places >= 0]] = -2 - own
    return found, new.attributes.take(wanted)


def profile_table(profiles: Sequence[Profile], like: Attributes) -> Attributes:
    """Profiles as rows of a table of users; what one does not name is missing.

    Raises:
        ConfigError: A profile names no attribute of users, or has a value of another kind.
    """
    for place, profile in enumerate(profiles):
        for name in profile:
            if name not in like.columns:
                what = "no such attribute of users"
                raise unknown_choice(what, name, like.columns, where=f"profiles[{place}]")
    columns = {
        name: _column(column, name, [profile.get(name) for profile in profiles])
        for name, column in like.columns.items()
    }
    return Attributes(len(profiles), columns)


def _column(like: Column, name: str, values: list[Any]) -> Column:
    """A column of the same kind with these values; None where one is missing."""
    for place, value in enumerate(values):
        if value is not None and not _fits(like, value):
            raise ConfigError(
                "a profile has a value of another kind",
                where=f"profiles[{place}], {name}",
                found=f"{value!r:.80}",
                wanted=f"a value of kind {like.kind}, as in the table of users",
            )
    if isinstance(like, Numbers):
        return Numbers(np.array([np.nan if v is None else float(v) for v in values], np.float64))
    if isinstance(like, Categories):
        return Categories.of(values)
    if isinstance(like, Tags):
        return Tags.of([value or [] for value in values])
    if isinstance(like, OwnVectors):
        nothing = [np.nan] * like.values.shape[1]
        rows = [nothing if value is None else value for value in values]
        return OwnVectors(np.array(rows, np.float32).reshape(len(rows), like.values.shape[1]))
    return Texts(_objects(values))


def _fits(like: Column, value: Any) -> bool:
    if isinstance(like, Numbers):
        return _is_number(value, np.float64)
    if isinstance(like, Categories | Texts):
        return isinstance(value, str)
    if not isinstance(value, list | tuple | np.ndarray):
        return False
    if isinstance(like, Tags):
        return all(isinstance(tag, str) for tag in value)
    numbers = [_is_number(number, np.float32) for number in value]
    return len(numbers) == like.values.shape[1] and all(numbers)


def _is_number(value: Any, kind: type[np.floating[Any]]) -> bool:
    """Whether it is a finite number, and no larger than those of this kind."""
    if isinstance(value, np.integer | np.floating):
        value = value.item()
    most = float(np.finfo(kind).max)
    return isinstance(value, int | float) and -most <= value <= most


def _objects(values: list[Any]) -> NDArray[np.object_]:
    found = np.empty(len(values), object)
    found[:] = values
    return found


_PREFIX, _KIND = "new_users.", "new_user"


def describe_users(table: IdTable) -> dict[str, Any]:
    """Users of whom attributes alone are known, for the header of a model folder."""
    ids = Vocabulary(table.ids, _KIND)
    return {"ids": describe(ids), "columns": table.attributes.describe()}


def pack_users(table: IdTable) -> dict[str, NDArray[Any]]:
    """The same as arrays."""
    return pack(Vocabulary(table.ids, _KIND)) | table.attributes.arrays(_PREFIX)


def unpack_users(described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> IdTable:
    """The table again."""
    ids = unpack(_KIND, described["ids"], arrays).ids
    columns = Attributes.from_arrays(len(ids), described["columns"], arrays, _PREFIX)
    return IdTable(ids, None, columns)


def users_with(
    new: IdTable | None, table: Attributes, before: Vocabulary, now: Vocabulary
) -> Attributes:
    """The table of users when more are known, the old ones first."""
    places = np.where(np.arange(len(now)) < len(before), np.arange(len(now)), -1)
    if new is None:
        return table.take(places)
    of_new = Vocabulary(new.ids, "user").indices(now.ids[len(before) :], on_unknown="skip")
    places[len(before) :] = np.where(of_new >= 0, len(before) + of_new, -1)
    return table.followed_by(new.attributes).take(places)
