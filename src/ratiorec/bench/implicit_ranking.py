"""The batch recommendation of the library implicit, on factors of ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from ratiorec.bench.timing import Way, once
from ratiorec.errors import MissingExtraError
from ratiorec.scorers import Indices, InnerProduct
from ratiorec.seen import Pairs, pairs_of


def implicit_ranking(model: InnerProduct, seen: Pairs, users: Indices, k: int) -> Way:
    """The k best items of these users, without what they have seen.

    Raises:
        MissingExtraError: implicit is not installed.
    """
    import scipy.sparse

    library = _library()
    with _one_blas_thread():
        ranker = library.AlternatingLeastSquares(model.users.shape[1])
    ranker.user_factors, ranker.item_factors = model.users, model.items
    rows, columns = pairs_of(seen, users)
    ones = np.ones(len(rows), np.float32)
    shape = (len(users), model.n_items)
    liked = scipy.sparse.csr_matrix((ones, (rows, columns)), shape=shape)
    return Way(once(lambda: ranker.recommend(users, liked, N=k)), _one_blas_thread)


def _library() -> Any:
    try:
        from implicit.cpu import als
    except ImportError as error:
        raise MissingExtraError(
            "implicit is not installed",
            where="rival implicit",
            found=f"no module {error.name}",
            wanted="pip install 'ratiorec[rivals]'",
        ) from error
    return als


def _one_blas_thread() -> Any:
    """implicit ranks blocks of users on threads of its own."""
    from threadpoolctl import threadpool_limits

    limits: Any = threadpool_limits
    return limits(1, "blas")
