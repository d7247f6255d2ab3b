"""Mult-VAE: a user is what a variational autoencoder makes of his positives."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ratiorec.batches.users import AnyBatch, Batch
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Encoder, dropout, rows_of
from ratiorec.encoders.settings import MultVAE
from ratiorec.errors import ConfigError
from ratiorec.scorers import Autoencoder, StoredScorer
from ratiorec.scorers.scorer import Pairs
from ratiorec.shapes import Embeddings, Scalar, UserFactors


class MultVAEEncoder(Encoder):
    """x_u → tanh → N(μ, σ²) → tanh → scores (theory: E6).

    `to_latent` gives μ in its first half and log σ² in its second. `item_out` holds the bias of
    an item behind its vector, since an inner product with (o_u, 1) adds it.
    """

    def __init__(
        self,
        item_in: Tensor,
        to_latent: Tensor,
        from_latent: Tensor,
        item_out: Tensor,
        *,
        dropout: float,
        anneal_steps: int,
    ) -> None:
        super().__init__()
        latent, hidden = from_latent.shape
        self.item_in = nn.Parameter(item_in)
        self.bias_in = nn.Parameter(item_in.new_zeros(hidden))
        self.to_latent = nn.Parameter(to_latent)
        self.bias_latent = nn.Parameter(item_in.new_zeros(2 * latent))
        self.from_latent = nn.Parameter(from_latent)
        self.bias_hidden = nn.Parameter(item_in.new_zeros(hidden))
        self.item_out = nn.Parameter(functional.pad(item_out, (0, 1)))
        self.register_buffer("n_steps", torch.zeros((), dtype=torch.int64, device=item_in.device))
        self.n_steps: Tensor
        self.dropout = dropout
        self.anneal_steps = anneal_steps
        self._divergence: Tensor = item_in.new_zeros(())

    @classmethod
    def of(
        cls,
        data: Interactions,
        settings: MultVAE,
        *,
        rng: np.random.Generator,
        device: torch.device,
    ) -> MultVAEEncoder:
        """The encoder before its first step."""
        shapes = (
            (data.n_items, settings.hidden),
            (settings.hidden, 2 * settings.latent),
            (settings.latent, settings.hidden),
            (data.n_items, settings.hidden),
        )
        tables = (torch.from_numpy(settings.init(*shape, rng=rng)).to(device) for shape in shapes)
        return cls(*tables, dropout=settings.dropout, anneal_steps=settings.anneal_steps)

    def forward(self, batch: AnyBatch) -> Embeddings:
        hidden = self._hidden(_whole_users(batch))
        mean, log_variance = torch.addmm(self.bias_latent, hidden, self.to_latent).chunk(2, -1)
        self._divergence = from_standard_normal(mean, log_variance)
        code = mean
        if self.training:
            self.n_steps += 1
            # in single precision for the reason that dropout has
            normal = torch.randn(
                mean.shape, generator=self.noise, device=mean.device, dtype=torch.float32
            )
            code = mean + (log_variance / 2).exp() * normal
        out = torch.tanh(torch.addmm(self.bias_hidden, code, self.from_latent))
        return Embeddings(functional.pad(out, (0, 1), value=1.0), self.item_out)

    def _hidden(self, batch: Batch) -> UserFactors:
        """tanh(x_u·item_in + bias_in), x_u of length 1, by its positives alone."""
        rows, n_users = batch.rows, len(batch.users)
        users = torch.arange(n_users, device=rows.device)
        first = torch.searchsorted(rows, users)
        n_positives = torch.searchsorted(rows, users, right=True) - first
        entries = n_positives.to(self.item_in.dtype).rsqrt()[rows.clamp_max(n_users - 1)]
        entries = torch.where(rows < n_users, entries, 0)  # behind the last user are spare places
        entries = dropout(entries, self.dropout if self.training else 0.0, noise=self.noise)
        items = batch.candidates[batch.columns]
        if rows.device.type == "cuda":  # what a recorded step can hold
            near = rows_of(self.item_in, items) * entries[:, None]
            total = near.new_zeros(n_users + 1, near.shape[1]).index_add(0, rows, near)[:n_users]
        else:  # without a copy of those rows of the table
            total = functional.embedding_bag(
                items, self.item_in, first, mode="sum", per_sample_weights=entries
            )
        return torch.tanh(total + self.bias_in)

    def penalty(self, batch: AnyBatch) -> Scalar:
        """The divergence of the codes, slowly let in: · min(1, t/T) (theory: R22)."""
        del batch  # its codes were made in `forward`
        share = self.n_steps.to(self._divergence.dtype) / self.anneal_steps
        return self._divergence * share.clamp_max(1)

    @torch.no_grad()
    def scorer(self, histories: Pairs) -> StoredScorer:
        latent = len(self.from_latent)
        parts = {
            "item_in": self.item_in,
            "bias_in": self.bias_in,
            "to_latent": self.to_latent[:, :latent],
            "bias_latent": self.bias_latent[:latent],
            "from_latent": self.from_latent,
            "bias_hidden": self.bias_hidden,
            "item_out": self.item_out[:, :-1],
            "bias_out": self.item_out[:, -1],
        }
        # copies: training goes on to change the parameters
        arrays = {name: part.cpu().clone().numpy() for name, part in parts.items()}
        return Autoencoder(**arrays, histories=histories)


def from_standard_normal(mean: UserFactors, log_variance: UserFactors) -> Scalar:
    """KL(N(μ, σ²) ‖ N(0, 1)) = ½ Σ_k (μ² + σ² − log σ² − 1), mean over users (theory: R22)."""
    terms = mean.square() + torch.expm1(log_variance) - log_variance
    return terms.sum(-1).mean() / 2


def _whole_users(batch: AnyBatch) -> Batch:
    if not isinstance(batch, Batch):
        raise ConfigError(
            "an autoencoder reads all positives of a user",
            where="batches",
            found=type(batch).__name__,
            wanted="batches of users",
        )
    return batch
