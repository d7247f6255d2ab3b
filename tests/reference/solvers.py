"""SolverSettings models from their definitions: loops over users and items, in double precision."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

Histories = Sequence[Collection[int]]
Matrix = NDArray[np.float64]


def users_of(histories: Histories, item: int) -> list[int]:
    return [user for user, items in enumerate(histories) if item in items]


def similarity(
    histories: Histories, i: int, j: int, *, shrinkage: float, user_exponent: float
) -> float:
    """What the users of both items weigh, over √(|U_i||U_j|) + shrinkage."""
    users_i, users_j = users_of(histories, i), users_of(histories, j)
    common = sum(len(histories[u]) ** -user_exponent for u in users_i if u in users_j)
    return common / (math.sqrt(len(users_i) * len(users_j)) + shrinkage) if common else 0.0


def nearest(
    histories: Histories, i: int, n_items: int, *, n: int, shrinkage: float, user_exponent: float
) -> dict[int, float]:
    """The n most similar items that share a user with item i; of equal ones the smaller index."""
    found = []
    for j in range(n_items):
        sim = similarity(histories, i, j, shrinkage=shrinkage, user_exponent=user_exponent)
        if j != i and sim > 0:
            # equal to the precision that a model keeps is equal
            found.append((-float(np.float32(sim)), j))
    return {j: -sim for sim, j in sorted(found)[:n]}


def neighbour_scores(
    histories: Histories, n_items: int, *, n: int, shrinkage: float, user_exponent: float
) -> Matrix:
    """s(u,i) = Σ of sim(i,j) over the items j of user u that are among the nearest of item i."""
    scores = np.zeros((len(histories), n_items))
    for i in range(n_items):
        near = nearest(histories, i, n_items, n=n, shrinkage=shrinkage, user_exponent=user_exponent)
        for user, items in enumerate(histories):
            scores[user, i] = sum(near[j] for j in items if j in near)
    return scores


def pair_matrix(histories: Histories, n_items: int) -> Matrix:
    matrix = np.zeros((len(histories), n_items))
    for user, items in enumerate(histories):
        for item in items:
            matrix[user, item] = 1
    return matrix


def item_weights(histories: Histories, n_items: int, *, l2: float) -> Matrix:
    """B_ij = −P_ij/P_jj for i ≠ j and 0 for i = j, P = (XᵀX + λI)⁻¹."""
    pairs = pair_matrix(histories, n_items)
    inverse = np.linalg.inv(pairs.T @ pairs + l2 * np.eye(n_items))
    weights = np.zeros((n_items, n_items))
    for i in range(n_items):
        for j in range(n_items):
            if i != j:
                weights[i, j] = -inverse[i, j] / inverse[j, j]
    return weights


def best_vectors(others: Matrix, histories: Histories, *, confidence: float, l2: float) -> Matrix:
    """Row by row (QᵀQ + a Q_uᵀQ_u + λI) p = (1 + a) Σ q_i."""
    rows = []
    for items in histories:
        matrix = others.T @ others + l2 * np.eye(others.shape[1])
        right = np.zeros(others.shape[1])
        for item in items:
            matrix = matrix + confidence * np.outer(others[item], others[item])
            right = right + (1 + confidence) * others[item]
        rows.append(np.linalg.solve(matrix, right))
    return np.array(rows)


def squared_loss(
    users: Matrix, items: Matrix, histories: Histories, *, confidence: float, l2: float
) -> float:
    """Σ_u Σ_i c_ui (x_ui − p_uᵀq_i)² + λ(Σ‖p_u‖² + Σ‖q_i‖²), pair by pair."""
    total = 0.0
    for u, liked in enumerate(histories):
        for i in range(len(items)):
            score = float(users[u] @ items[i])
            total += (1 + confidence) * (1 - score) ** 2 if i in liked else score**2
    return total + l2 * float((users**2).sum() + (items**2).sum())
