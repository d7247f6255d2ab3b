"""The paper's method, DREGN-CF, in one file of plain PyTorch, to be read from top to bottom.

Items are ranked by an estimate r̂ of the density ratio p(i|u,+)/p(i|u): the softplus of an inner
product of LightGCN vectors, fitted by weighted least squares. Ids such as R2 are formulas of
docs/theory.md. Axes: U users, I items, N nodes (both), d dimensions; B users, C items of a batch.

    python examples/paper.py FOLDER --device cuda  # with train.txt, test.txt: user item item …
    python examples/paper.py FOLDER --validation 0.1 --epochs 200  # chooses its number of epochs
"""

import json
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

Positives = list[np.ndarray]  # I_u⁺ of every user u: item indices, each once
PUBLISHED = {"gowalla": "0.1810, 0.1541", "yelp2018": "0.0687, 0.0564"}  # recall@20, nDCG@20
RECIPE = {"epochs": 60, "batch": 2500, "rate": 0.01, "l2": 0.06}  # the authors', for Gowalla


def read(folder: Path) -> tuple[Positives, Positives, int]:
    """The positives of every user in train.txt and in test.txt, and the number of items."""
    parts = []
    for name in ("train.txt", "test.txt"):
        lines = [line.split() for line in (folder / name).read_text().splitlines()]
        parts.append({int(x[0]): np.unique(np.array(x[1:], np.int64)) for x in lines if x})
    n_users = 1 + max(user for part in parts for user in part)
    n_items = 1 + max(int(items.max(initial=-1)) for part in parts for items in part.values())
    train, test = ([part.get(u, np.empty(0, np.int64)) for u in range(n_users)] for part in parts)
    return train, test, n_items


def graph(positives: Positives, n_items: int) -> Tensor:
    """Â = D^-½ (A + I) D^-½ over users and items, users first; sparse [N, N] (E1)."""
    users = np.repeat(np.arange(len(positives)), [len(items) for items in positives])
    pairs = np.stack([users, len(positives) + np.concatenate(positives)])  # half of A [2, pairs]
    loops = np.tile(np.arange(len(positives) + n_items), (2, 1))  # the identity [2, N]
    places = np.concatenate([pairs, pairs[::-1], loops], axis=1)
    scale = (1 / np.sqrt(np.bincount(places[0]))).astype(np.float32)  # the diagonal of D^-½ [N]
    values = scale[places[0]] * scale[places[1]]
    return torch.sparse_coo_tensor(places, values, check_invariants=True).coalesce()


def propagate(adjacency: Tensor, table: Tensor, n_layers: int = 3) -> Tensor:
    """LightGCN: the mean of E⁰, ÂE⁰, …, Â^L E⁰; [N, d] (E3)."""
    layers = [table]
    for _ in range(n_layers):
        layers.append(torch.sparse.mm(adjacency, layers[-1]))
    return torch.stack(layers).mean(0)


def inclusion_probability(item_degrees: Tensor, n_users: int, n_drawn: int) -> Tensor:
    """s(i) = 1 − C(n_i⁻, |U_B|)/C(|U|, |U_B|), how likely item i is a candidate; [I] (P1)."""
    lacking = (n_users - item_degrees).double()  # n_i⁻ [I]
    certain = lacking < n_drawn  # somebody drawn has the item: 1, where the paper prints 0
    everybody, lacking = torch.full_like(lacking, n_users), lacking.clamp_min(n_drawn)
    log_missed = torch.lgamma(lacking + 1) - torch.lgamma(lacking - n_drawn + 1)
    log_missed += torch.lgamma(everybody - n_drawn + 1) - torch.lgamma(everybody + 1)
    return (-torch.expm1(log_missed)).where(~certain, 1.0)


class Batch(NamedTuple):
    """Users drawn without replacement; the union of their positives are the candidates (P2)."""

    users: Tensor  # U_B [B]
    items: Tensor  # I_B [C]
    liked: Tensor  # 1 for i ∈ I_u⁺, else 0 [B, C]
    prior: Tensor  # π_u = |I_u⁺|/|I| [B]
    inclusion: Tensor  # s(i) [C]


def membership(positives: Positives, users: np.ndarray, like: Tensor) -> Tensor:
    """Whether i ∈ I_u⁺, on the device of `like`, which has a row for each item; [B, I]."""
    rows = np.repeat(np.arange(len(users)), [len(positives[u]) for u in users])
    columns = np.concatenate([positives[u] for u in users])
    member = like.new_zeros((len(users), len(like)), dtype=torch.bool)
    member[torch.from_numpy(rows), torch.from_numpy(columns)] = True
    return member


def batch_of(users: np.ndarray, positives: Positives, item_degrees: Tensor) -> Batch:
    """The batch of these users, given |U_i⁺| of all items [I]."""
    n_users = sum(len(items) > 0 for items in positives)  # nobody else is drawn
    inclusion = inclusion_probability(item_degrees, n_users, len(users)).float()  # [I]
    liked = membership(positives, users, item_degrees)  # [B, I]
    prior = liked.sum(1) / len(item_degrees)
    items = liked.any(0).nonzero().squeeze(1)
    rows = torch.from_numpy(users).to(items.device)
    return Batch(rows, items, liked[:, items].float(), prior, inclusion[items])


def mean(weights: Tensor, values: Tensor) -> Tensor:
    """Σ_i w v / Σ_i w, self-normalised; [B] from [B, C] (R1, R3)."""
    return (weights * values).sum(1) / weights.sum(1)


def risk(users: Tensor, items: Tensor, batch: Batch, upper_bound: float = 70.0) -> Tensor:
    """The ranking uLSIF risk, by the vectors of a batch's users [B, d] and items [C, d] (R5)."""
    ratio = torch.nn.functional.softplus(users @ items.T)  # r̂ [B, C] (S1, S2)
    loss = ratio.square() / 2  # ℓ±(r̂) [B, C] (B4), while ℓ₊(r̂) = −r̂ (B3)
    w_minus = ratio.detach().clamp_min(1e-30)  # r̂ without gradient [B, C] (W3)
    w_plus = batch.liked / w_minus  # 1/r̂ for positives, 0 elsewhere [B, C] (W3)
    by_plus = mean(w_plus, loss)  # Ê₊[w⁺ ℓ±] [B] (R1)
    by_minus = mean(batch.liked * w_minus, loss)  # Ê₊[w⁻ ℓ±] [B] (R1)
    gain = mean(w_plus, ratio)  # −Ê₊[w⁺ ℓ₊] [B] (R1)
    unlabelled = mean(w_minus / batch.inclusion, loss)  # Ê[w⁻ ℓ±], a_i = 1/s(i) [B] (R3, C2)
    bound = by_plus / upper_bound  # R^cor [B] (C3)
    corrected = bound + (unlabelled - bound).relu()  # [B] (C4)
    return (batch.prior * (by_plus - by_minus) - gain + corrected).mean()  # (R2, R5)


def objective(table: Tensor, adjacency: Tensor, n_users: int, batch: Batch, l2: float) -> Tensor:
    """The risk + λ·(½ mean ‖e_u⁰‖² + ½ mean ‖e_i⁰‖²), means over the batch (R6)."""
    vectors, squares = propagate(adjacency, table), table.square().sum(1)  # [N, d], [N]
    items = n_users + batch.items  # rows of the candidates [C]
    penalty = squares[batch.users].mean() / 2 + squares[items].mean() / 2
    return risk(vectors[batch.users], vectors[items], batch) + l2 * penalty


def metrics(users: Tensor, items: Tensor, train: Positives, test: Positives, k: int = 20) -> tuple:
    """Recall@k and nDCG@k of vectors [U, d] and [I, d], means over users with test items."""
    recall, ndcg = [], []
    gains = 1 / torch.arange(2, k + 2, device=items.device).double().log2()  # by rank [k]
    judged = np.flatnonzero([len(relevant) for relevant in test])
    for block in np.array_split(judged, len(judged) // 1024 + 1):
        scores = users[torch.from_numpy(block).to(users.device)] @ items.T  # [B, I] (S1)
        scores[membership(train, block, items)] = -torch.inf
        best = scores.sort(descending=True, stable=True).indices[:, :k]  # ties by index [B, k]
        relevant = membership(test, block, items)  # [B, I]
        hits, n_relevant = relevant.gather(1, best).double(), relevant.sum(1)  # [B, k], [B]
        recall.append(hits.sum(1) / n_relevant)  # [B] (M1)
        ideal = gains.cumsum(0)[n_relevant.clamp_max(k) - 1]  # [B]
        ndcg.append(hits @ gains[: hits.shape[1]] / ideal)  # [B] (M2)
    return torch.cat(recall).mean().item(), torch.cat(ndcg).mean().item()


def training(positives: Positives, n_items: int, epochs: int, options: Namespace) -> Iterator:
    """Train; gives the epoch and the vectors of users [U, d] and items [I, d] after each."""
    rng, shape = np.random.default_rng(options.seed), (len(positives), n_items)
    halves = [0.1 * np.sqrt(6 / (n + 64)) * rng.uniform(-1, 1, (n, 64)) for n in shape]  # (E2)
    table = torch.from_numpy(np.concatenate(halves)).float().to(options.device).requires_grad_()
    adjacency = graph(positives, n_items).to(options.device)
    degrees = np.bincount(np.concatenate(positives), minlength=n_items)  # |U_i⁺| [I]
    item_degrees = torch.from_numpy(degrees).to(options.device)
    optimizer = torch.optim.Adam([table], lr=options.rate)
    drawn = np.flatnonzero([len(items) for items in positives])
    n_steps = max(-(-len(drawn) // options.batch), min(10, len(drawn)))
    started = time.monotonic()
    for epoch in range(1, epochs + 1):
        total = torch.zeros((), device=options.device)
        for users in np.array_split(rng.permutation(drawn), n_steps):  # everybody once (P2)
            batch = batch_of(users, positives, item_degrees)
            value = objective(table, adjacency, len(positives), batch, options.l2)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.detach() / n_steps
        now, seconds = total.item(), (time.monotonic() - started) / epoch  # item() waits for steps
        pace = f"{n_steps / seconds:.1f} steps/s, {seconds * (epochs - epoch):.0f} s left"
        print(f"epoch {epoch}/{epochs}, risk and L2 {now:.4f}, {pace}", file=sys.stderr)
        yield epoch, *propagate(adjacency, table.detach()).split(shape)


def best_epoch(positives: Positives, n_items: int, options: Namespace) -> int:
    """The epoch, of every fifth, with the best nDCG@20 on a held-out share of the positives."""
    rng, share, best = np.random.default_rng(options.seed), options.validation, (0.0, 0)
    split = [np.split(rng.permutation(x), [int(share * len(x) + 0.5)]) for x in positives]
    held_out, kept = ([halves[side] for halves in split] for side in (0, 1))
    for epoch, *vectors in training(kept, n_items, options.epochs, options):
        if epoch % 5 == 0 or epoch == options.epochs:
            best = max(best, (metrics(*vectors, kept, held_out)[1], epoch))
            print(f"best validation nDCG@20 {best[0]:.4f} in epoch {best[1]}", file=sys.stderr)
        if epoch >= best[1] + 20:  # four in a row were no better
            break
    return best[1]


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    for name, default in (RECIPE | {"validation": 0.0, "seed": 0, "device": "cpu"}).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    train, test, n_items = read(options.folder)
    started = time.monotonic()
    epochs = best_epoch(train, n_items, options) if options.validation else options.epochs
    *_, (_, users, items) = training(train, n_items, epochs, options)
    seconds = round(time.monotonic() - started, 3)
    recall, ndcg = metrics(users, items, train, test)
    result = {"recall@20": recall, "ndcg@20": ndcg, "seconds": seconds, "epochs": epochs}
    print(json.dumps(result) if options.json else f"recall@20, nDCG@20: {recall:.4f}, {ndcg:.4f}")
    print("published:", PUBLISHED.get(options.folder.resolve().name, "nothing"), file=sys.stderr)
