"""The batch recommendation of the library implicit, on factors of ours."""

from __future__ import annotations

import numpy as np

from ratiorec.scorers import Indices, InnerProduct
from ratiorec.scorers.user_items import Pairs, pairs_of
from ratiorec.solvers.implicit_als import implicit_library, one_blas_thread
from ratiorec_lab.bench.timing import Way, once


def implicit_ranking(model: InnerProduct, seen: Pairs, users: Indices, k: int) -> Way:
    """The k best items of these users, without what they have seen.

    Raises:
        MissingExtraError: implicit is not installed.
    """
    import scipy.sparse

    library = implicit_library()
    with one_blas_thread():
        ranker = library.AlternatingLeastSquares(model.users.shape[1])
    ranker.user_factors, ranker.item_factors = model.users, model.items
    rows, columns = pairs_of(seen, users)
    ones = np.ones(len(rows), np.float32)
    shape = (len(users), model.n_items)
    liked = scipy.sparse.csr_matrix((ones, (rows, columns)), shape=shape)
    return Way(once(lambda: ranker.recommend(users, liked, N=k)), one_blas_thread)
