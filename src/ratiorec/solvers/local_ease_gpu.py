"""Local EASE on a GPU that can hold a matrix over all pairs of items."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.kernels.blocks import Matrix, cut
from ratiorec.machine import Device
from ratiorec.scorers import Neighbours
from ratiorec.solvers.ease import require_solved
from ratiorec.solvers.neighbours import Nearest, activity_weights
from ratiorec.solvers.settings import LocalEASE

_SYSTEMS_ON_GPU = 512


def fits_whole(n_items: int, device: Device) -> bool:
    """Whether a GPU can hold what the common users of any two items weigh, and as much again."""
    return 2 * 4 * n_items**2 < torch.cuda.mem_get_info(str(device))[0]


@torch.no_grad()
def solve_by_whole_matrix(
    data: Interactions, settings: LocalEASE, n: int, device: Device
) -> Neighbours:
    """The same where the whole matrix of common users is at hand: reading it is all there is."""
    place = torch.device(str(device))
    gram = _whole_gram(data, settings.activity_exponent, place)
    degrees = torch.from_numpy(np.maximum(data.item_degrees, 1)).to(place, torch.float32)
    ridges = torch.from_numpy(settings.ridges(data.item_degrees)).to(place)
    popularity = torch.from_numpy(settings.popularity(data.item_degrees)).to(place)
    counts, neighbours, weights = [], [], []
    for items in cut(data.n_items, _SYSTEMS_ON_GPU):
        cosines = gram[items] / (degrees[items, None] * degrees).sqrt()
        cosines[
            torch.arange(len(cosines), device=place),
            torch.arange(items.start, items.stop, device=place),
        ] = 0
        nearest, near = cosines.topk(n)
        there = nearest > 0
        systems = gram[near.unsqueeze(-1), near.unsqueeze(-2)]
        # a place without a neighbour stands alone, and its weight is 0
        systems *= there.unsqueeze(-1) & there.unsqueeze(-2)
        systems.diagonal(dim1=1, dim2=2).add_(ridges[near])
        right = gram[items].gather(1, near) * there
        factors, failed = torch.linalg.cholesky_ex(systems)
        require_solved(not bool(failed.any()), settings)
        found = torch.cholesky_solve(right.unsqueeze(-1), factors).squeeze(-1)
        found *= popularity[near] / popularity[items, None]
        counts.append(there.sum(1).cpu().numpy())
        neighbours.append(near[there].cpu().numpy().astype(np.int32))
        weights.append(found[there].cpu().numpy())
    return Nearest(*map(np.concatenate, (counts, neighbours, weights))).as_scorer(data)


def _whole_gram(data: Interactions, exponent: float, device: torch.device) -> Tensor:
    """Xᵀ diag(w) X, some columns at a time."""
    import scipy.sparse

    shape = (data.n_users, data.n_items)
    users = activity_weights(data, exponent)
    values = np.ones(data.n_pairs) if users is None else users[data.pair_users]
    pairs = scipy.sparse.csr_array(
        (values.astype(np.float32), data.indices, data.indptr), shape=shape
    )
    by_item = pairs.T.tocsr()
    indptr, users_of = by_item.indptr.astype(np.int64), by_item.indices.astype(np.int32)
    weighted = Matrix(indptr, users_of, by_item.data, data.n_users, device)
    gram = torch.empty((data.n_items, data.n_items), device=device)
    for items in cut(data.n_items, _SYSTEMS_ON_GPU):
        rows = users_of[indptr[items.start] : indptr[items.stop]].astype(np.int64)
        places = np.repeat(np.arange(items.stop - items.start), np.diff(indptr)[items])
        columns = torch.zeros((data.n_users, items.stop - items.start), device=device)
        columns[torch.from_numpy(rows).to(device), torch.from_numpy(places).to(device)] = 1
        gram[:, items] = weighted.multiply(columns)
    return gram
