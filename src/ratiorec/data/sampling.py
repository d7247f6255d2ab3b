"""How likely an item is to be a candidate of a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def inclusion_probability(
    item_degrees: NDArray[np.int64], *, n_users: int, n_drawn: int
) -> NDArray[np.float64]:
    """s(i) = 1 − C(n_i⁻, |U_B|) / C(|U|, |U_B|), n_i⁻ the users without item i (theory: P1).

    An item that some drawn user must have is certain: n_i⁻ < |U_B| gives 1.

    >>> inclusion_probability(np.array([0, 1, 3]), n_users=4, n_drawn=2).round(6).tolist()
    [0.0, 0.5, 1.0]
    """
    from scipy.special import gammaln

    others = (n_users - np.asarray(item_degrees)).astype(np.float64)
    certain = others < n_drawn
    others = np.where(certain, n_drawn, others)
    log_missed = (
        gammaln(others + 1)
        - gammaln(others - n_drawn + 1)
        - gammaln(n_users + 1)
        + gammaln(n_users - n_drawn + 1)
    )
    return np.where(certain, 1.0, np.clip(-np.expm1(log_missed), 0.0, 1.0))
