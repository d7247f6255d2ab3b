"""The same model under implicit's names, so that changing one import is enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError, ModelError, UnknownIdError
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin.rules import folded
from ratiorec.plain import html_table
from ratiorec.scorers import FloatMatrix, Indices, InnerProduct, Scorer, by_cosine
from ratiorec.scorers.scorer import UserItems
from ratiorec.scorers.topk import Exact

if TYPE_CHECKING:
    import scipy.sparse


_PARAMETERS = ("preset", "seed", "device", "settings")
Answer = tuple[NDArray[np.int64], NDArray[np.float32]]


class RatioRec:
    """A recommender with implicit's methods and shapes; users and items are dense indices.

    Elsewhere in this package training returns a model, so nothing can be unfitted. Here `fit`
    changes the object because implicit's contract has it so, and the other methods refuse to
    work before it.

    An answer for one user or item is a pair of arrays [N], for several [n, N]. Where there are
    fewer than N items the arrays are filled up with the id -1 and the score -inf (implicit takes
    the least float32 as score); no item appears twice.

    Args:
        preset: The name of a configuration; "auto" chooses on held-out pairs.
        seed: The seed of all randomness in training.
        device: Where to train: "auto", "cpu", "cuda", …
        settings: Settings that differ from the preset's, such as {"solver": {"dimension": 32}}.
        **options: Fields of `ratiorec.FitOptions`, such as validation and max_seconds.
    """

    def __init__(
        self,
        preset: str = "auto",
        seed: int = 0,
        device: str = "auto",
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.preset = preset
        self.seed = seed
        self.device = device
        self.settings = settings
        self.options = _known(options)
        self._model: Artifact | None = None

    def __repr__(self) -> str:
        made = ", ".join(f"{name}={value!r}" for name, value in self._given().items())
        fitted = "not fitted" if self._model is None else repr(self._model)
        return f"RatioRec({made}): {fitted}"

    def _repr_html_(self) -> str:
        """The model in a notebook, or what the next `fit` takes."""
        if self._model is not None:
            return self._model._repr_html_()
        rows = [(name, repr(value)) for name, value in self._given().items()]
        return html_table([("RatioRec", "not fitted"), *rows])

    def _given(self) -> dict[str, Any]:
        return {name: value for name, value in self.get_params().items() if value is not None}

    @classmethod
    def of(cls, model: Artifact) -> RatioRec:
        """A trained model under implicit's names."""
        card = model.card
        estimator = cls(card.get("preset") or "auto", seed=card.get("seed") or 0)
        estimator._model = model
        return estimator

    @property
    def model(self) -> Artifact:
        """The trained model with all its methods."""
        if self._model is None:
            raise ModelError(
                "this recommender has not been fitted",
                where="RatioRec",
                found="no model",
                wanted="fit(user_items) or RatioRec.load(folder) first",
            )
        return self._model

    @property
    def user_factors(self) -> FloatMatrix:
        """One vector for each user."""
        return self._factors.users

    @property
    def item_factors(self) -> FloatMatrix:
        """One vector for each item."""
        return self._factors.items

    def fit(self, user_items: scipy.sparse.csr_array, show_progress: bool = True) -> RatioRec:
        """Train on a sparse matrix, users by items, whose entries other than 0 are the pairs."""
        from ratiorec.api import fit

        self._model = fit(
            Interactions.from_csr(user_items),
            preset=self.preset,
            settings=self.settings,
            seed=self.seed,
            device=self.device,
            progress=None if show_progress else False,
            **self.options,
        )
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the recommender was made with, by name; scikit-learn's `clone` asks for it."""
        del deep  # nothing in it has parameters of its own
        return {name: getattr(self, name) for name in _PARAMETERS} | self.options

    def set_params(self, **params: Any) -> RatioRec:
        """Change what the next `fit` takes."""
        options = {name: value for name, value in params.items() if name not in _PARAMETERS}
        self.options = self.options | _known(options)
        for name in params.keys() - options.keys():
            setattr(self, name, params[name])
        return self

    def recommend(
        self,
        userid: int | ArrayLike,
        user_items: scipy.sparse.csr_array | None = None,
        N: int = 10,  # noqa: N803
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        recalculate_user: bool = False,
        items: ArrayLike | None = None,
    ) -> Answer:
        """The N best items of a user or of several, with their scores.

        Args:
            userid: One user or several.
            user_items: Items to leave out, one row for each user asked about; the pairs of
                training where this is not given.
            N: How many items.
            filter_already_liked_items: Whether to leave those items out.
            filter_items: Items to list for nobody.
            recalculate_user: Whether the users are what `user_items` make of them; then `userid`
                may be anyone, known or not.
            items: The only items to list; those in `filter_items` are still left out.
        """
        scorer: Scorer = self.model.scorer
        if recalculate_user:
            scorer, users, seen = self._recalculated(np.atleast_1d(userid), user_items)
        else:
            users, seen = _checked(userid, scorer.n_users, "user"), self.model.seen
            if user_items is not None:
                seen = _rows(user_items, len(users), scorer.n_items)
                scorer, users = _Asked(scorer, users), np.arange(len(users))
        return _answer(
            Exact(N, filter_already_liked_items), scorer, users, userid, items, filter_items, seen
        )

    def similar_items(
        self,
        itemid: int | ArrayLike,
        N: int = 10,  # noqa: N803
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> Answer:
        """The N most similar items; as in implicit, the item itself is among them."""
        asked = _checked(itemid, self.model.scorer.n_items, "item")
        return _answer(Exact(N), self.model.similarity, asked, itemid, items, filter_items)

    def similar_users(
        self,
        userid: int | ArrayLike,
        N: int = 10,  # noqa: N803
        filter_users: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> Answer:
        """The N users nearest by cosine; as in implicit, the user itself is among them."""
        asked = _checked(userid, self.model.scorer.n_users, "user")
        scorer = by_cosine(self.user_factors)
        return _answer(Exact(N), scorer, asked, userid, users, filter_users)

    def save(self, path: str | Path) -> None:
        """Write the model into a folder, whole or not at all."""
        self.model.save(path)

    @classmethod
    def load(cls, path: str | Path) -> RatioRec:
        """A recommender from a folder that `save` or `ratiorec fit` wrote."""
        return cls.of(Artifact.load(path))

    def _recalculated(
        self, userid: NDArray[Any], user_items: Any
    ) -> tuple[Scorer, Indices, UserItems]:
        if user_items is None:
            raise ConfigError(
                "a user cannot be made of nothing",
                where="recommend, recalculate_user",
                found="no user_items",
                wanted="user_items with one row for each user asked about",
            )
        rows = _rows(user_items, len(userid), self.model.scorer.n_items)
        known = folded(self.model.scorer, self.model.rule, rows)
        return known.scorer, np.arange(len(userid)), rows

    @property
    def _factors(self) -> InnerProduct:
        scorer = self.model.scorer
        if isinstance(scorer, InnerProduct):
            return scorer
        raise ConfigError(
            "this kind of model has no factors",
            where="RatioRec",
            found=scorer.kind,
            wanted=InnerProduct.kind,
        )


def _known(options: dict[str, Any]) -> dict[str, Any]:
    """The options, once `fit` would take them: a wrong name is found before an hour of training."""
    from ratiorec.api import with_named
    from ratiorec.training.fit import FitOptions

    with_named(FitOptions(), options)
    return options


@dataclass(frozen=True, eq=False)
class _Asked:
    """Scores the users asked about, by their place in the query."""

    scorer: Scorer
    users: Indices

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return self.scorer.n_items

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        return self.scorer.scores(self.users[users], out=out)


def _answer(
    rank: Exact,
    scorer: Scorer,
    users: Indices,
    query: int | ArrayLike,
    allow: ArrayLike | None,
    deny: ArrayLike | None,
    seen: UserItems | None = None,
) -> Answer:
    """Ids and scores in the shape of the query: one asked, one row."""
    ranking = rank(
        scorer,
        users,
        seen=seen,
        allow=None if allow is None else _checked(allow, scorer.n_items, "listed"),
        deny=None if deny is None else _checked(deny, scorer.n_items, "filtered"),
    )
    if np.ndim(query) == 0:
        return ranking.items[0], ranking.scores[0]
    return ranking.items, ranking.scores


def _checked(indices: ArrayLike, n: int, kind: str) -> Indices:
    """Dense indices from outside: whole numbers from 0 to n-1."""
    given = np.atleast_1d(np.asarray(indices))
    if given.size == 0:
        return np.zeros(0, np.int64)
    fits = given.ndim == 1 and given.dtype.kind in "iu"
    if not fits or given.min() < 0 or given.max() >= n:
        raise UnknownIdError(
            f"no such {kind} index",
            where=f"{kind} indices",
            found=f"{given.min()} to {given.max()}" if fits else f"{given.dtype} {given.shape}",
            wanted=f"whole numbers from 0 to {n - 1}",
        )
    return given.astype(np.int64)


def _rows(user_items: Any, n_rows: int, n_items: int) -> UserItems:
    if user_items.shape != (n_rows, n_items):
        raise ConfigError(
            "the rows of items to leave out do not fit the query",
            where="user_items",
            found=f"a matrix {list(user_items.shape)}",
            wanted=f"[{n_rows}, {n_items}]: one row for each user asked about",
        )
    matrix = user_items.tocsr(copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return UserItems(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
