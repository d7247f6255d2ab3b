"""The least that one training step must do, part by part, as far as it is known."""

from __future__ import annotations

import numpy as np
import torch

from ratiorec.batches.users import UserBatches
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.lightgcn import LightGCN
from ratiorec.encoders.mult_vae import MultVAE
from ratiorec.encoders.ngcf import NGCF
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.settings import Settings
from ratiorec_lab.bench.ceilings import Floor
from ratiorec_lab.bench.propagation import floor_of_products, graph_size
from ratiorec_lab.bench.risk import floor_of_term

_PASSES_OF_ADAM = 7  # parameter, gradient and two moments are read, all but the gradient written


def propagation_floor(settings: Settings, data: Interactions) -> Floor:
    """The products of the graph, forwards; backwards there are as many."""
    encoder = settings.encoder
    if not isinstance(encoder, LightGCN | NGCF):
        return Floor()
    loops = isinstance(encoder, LightGCN) and encoder.self_loops
    size = graph_size(data, self_loops=loops) | {"dimension": encoder.dimension}
    return floor_of_products(size, encoder.n_layers)


def risk_floor(settings: Settings, data: Interactions) -> Floor:
    """The unlabelled term of one batch, value and gradient."""
    encoder, batches = settings.encoder, settings.batches
    has_term = isinstance(settings.risk, DensityRatio | WeightedDRE | WeightedPU)
    if not has_term or isinstance(encoder, MultVAE) or not isinstance(batches, UserBatches):
        return Floor()
    epochs = batches(data, device=torch.device("cpu"))
    batch = next(iter(epochs(np.random.default_rng(0))))
    n_users, n_items = len(batch.users), len(batch.candidates)
    return floor_of_term({"users": n_users, "items": n_items, "dimension": encoder.dimension})


def optimiser_floor(n_parameters: int) -> Floor:
    """Adam passes over its tables."""
    return Floor.of(n_bytes=4 * _PASSES_OF_ADAM * n_parameters)


def step_floor(settings: Settings, data: Interactions, n_parameters: int) -> Floor:
    """All of it; what else a step does is not counted, so the floor may lie too low."""
    products = propagation_floor(settings, data)
    return (
        products.then(risk_floor(settings, data)).then(products).then(optimiser_floor(n_parameters))
    )
