"""Triton kernels of the unlabelled term: the two passes over all pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import triton
import triton.language as tl

from ratiorec.kernels import pointwise
from ratiorec.kernels.pointwise import (
    EXPONENTIAL,
    KULLBACK_LEIBLER,
    LEAST_SQUARES,
    LOGISTIC,
    SOFTPLUS,
    Generator,
    Link,
)

NATS_PER_BIT = tl.constexpr(0.6931471805599453)


@triton.jit
def softplus(bits):
    """r̂ = log(1 + eˢ) and its slope 1/(1 + e⁻ˢ) = e^(s − r̂)."""
    e = tl.exp2(-tl.abs(bits))
    # log₂(1 + e)/e on [0, 1], the polynomial of least relative error: 1.3e-6
    series = 0.0204011853
    series = series * e - 0.0957975488
    series = series * e + 0.215284546
    series = series * e - 0.339089029
    series = series * e + 0.477668379
    series = series * e - 0.721159474
    series = series * e + 1.44269321
    ratio_bits = tl.maximum(bits, 0.0) + series * e
    return ratio_bits * NATS_PER_BIT, tl.exp2(bits - ratio_bits)


@triton.jit
def exponential(bits):
    """r̂ = eˢ, which is its own slope."""
    ratio = tl.exp2(bits)
    return ratio, ratio


@triton.jit
def least_squares(ratio, exponent: tl.constexpr):
    """ℓ± = r̂²/2 and ℓ±′ = r̂."""
    return ratio * ratio * 0.5, ratio


@triton.jit
def kullback_leibler(ratio, exponent: tl.constexpr):
    """ℓ± = r̂ and ℓ±′ = 1."""
    return ratio, tl.full(ratio.shape, 1.0, tl.float32)


@triton.jit
def log2_of(x, less_one):
    """log₂ x of a positive number, given x − 1 as well, which knows more digits near x = 1."""
    bits = x.to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23  # of x by a factor between √½ and √2
    t = (bits - (exponent << 23)).to(tl.float32, bitcast=True) - 1
    t = tl.where(exponent == 0, less_one, t)
    # log₂(1 + t)/t on [√½ − 1, √2 − 1], the polynomial of least relative error: 1.1e-6
    series = 0.171624561
    series = series * t - 0.269320217
    series = series * t + 0.295699521
    series = series * t - 0.359371644
    series = series * t + 0.480626768
    series = series * t - 0.721363576
    series = series * t + 1.44269645
    return series * t + exponent.to(tl.float32)


@triton.jit
def logistic(ratio, exponent: tl.constexpr):
    """ℓ± = log(1 + r̂) and ℓ±′ = 1/(1 + r̂)."""
    root = tl.rsqrt(1 + ratio)  # its square takes less than a division
    return log2_of(1 + ratio, ratio) * NATS_PER_BIT, root * root


@triton.jit
def power(ratio, exponent: tl.constexpr):
    """r̂^γ."""
    if exponent == 0:
        result = tl.full(ratio.shape, 1.0, tl.float32)
    elif exponent == 1:
        result = ratio
    elif exponent == 2:
        result = ratio * ratio
    else:
        result = tl.exp2(exponent * log2_of(ratio, ratio - 1))
    return result


@triton.jit
def power_divergence(ratio, exponent: tl.constexpr):
    """ℓ± = r̂^(1+b)/(1+b) and ℓ±′ = r̂^b."""
    slope = power(ratio, exponent)
    return slope * ratio * (1 / (1 + exponent)), slope


# what a kernel is given: a jitted function, of a type that the compiler does not publish
DeviceFunction = Callable[..., Any]

LINKS: Mapping[Link, DeviceFunction] = MappingProxyType(
    {SOFTPLUS: softplus, EXPONENTIAL: exponential}
)
GENERATORS: Mapping[Generator, DeviceFunction] = MappingProxyType(
    {
        LEAST_SQUARES: least_squares,
        KULLBACK_LEIBLER: kullback_leibler,
        LOGISTIC: logistic,
    }
)


def device_generator(generator: Generator) -> DeviceFunction | None:
    """Its losses on a GPU, compiled for its exponent if it has one; None for one's own."""
    b = generator.exponent
    is_power = b is not None and generator is pointwise.power_divergence(b)
    found: DeviceFunction | None = power_divergence if is_power else GENERATORS.get(generator)
    return found


SMALLEST = tl.constexpr(1.1754943508222875e-38)  # that float32 holds with all its digits


@triton.jit
def rounded(x, DROPPED_BITS: tl.constexpr):
    """The nearest number without the last bits of the fraction, halves to even."""
    if DROPPED_BITS > 0:
        bits = x.to(tl.int32, bitcast=True)
        bits += (1 << (DROPPED_BITS - 1)) - 1 + ((bits >> DROPPED_BITS) & 1)
        x = ((bits >> DROPPED_BITS) << DROPPED_BITS).to(tl.float32, bitcast=True)
    return x


@triton.jit
def pack(
    table,
    packed,
    scale,
    n_rows,
    n_columns,
    row_stride,
    column_stride,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    DROPPED_BITS: tl.constexpr,
):
    """The table times `scale`, rounded and padded."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    column = tl.arange(0, DIM)[None, :]
    there = (row < n_rows) & (column < n_columns)
    x = tl.load(table + row * row_stride + column * column_stride, mask=there, other=0.0)
    x = rounded(x.to(tl.float32) * scale, DROPPED_BITS)
    tl.store(packed + row * DIM + column, x.to(packed.dtype.element_ty))


@triton.jit
def block(table, first_row, ROWS: tl.constexpr, DIM: tl.constexpr):
    """Consecutive rows of a packed table."""
    places = tl.arange(0, ROWS)[:, None] * DIM + tl.arange(0, DIM)[None, :]
    return tl.load(table + tl.cast(first_row, tl.int64) * DIM + places)


@triton.jit
def scores(rows, columns, FACTOR: tl.constexpr, PRECISION: tl.constexpr):
    """All rows with all columns, summed in float32."""
    products = tl.dot(rows, tl.trans(columns), input_precision=PRECISION)
    return products if FACTOR == 1 else products * FACTOR


@triton.jit
def by_users(
    users,
    items,
    items_to_sum,
    candidates,
    first_users,
    first_items,
    totals,
    sums,
    n_users,
    n_items,
    n_columns_each,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DIM: tl.constexpr,
    FIRST_DIM: tl.constexpr,
    FACTOR: tl.constexpr,
    PRECISION: tl.constexpr,
    LINK: tl.constexpr,
    GENERATOR: tl.constexpr,
    EXPONENT: tl.constexpr,
    RATIO_POWER: tl.constexpr,
    FIRST_LINK: tl.constexpr,
):
    """Z_u = Σ w⁻, S_u = Σ w⁻ℓ± and Q_u = Σ w⁻ℓ±′link′e_i over a share of the items."""
    first_row = tl.program_id(0) * ROWS
    own = block(users, first_row, ROWS, DIM)
    if FIRST_LINK is not None:
        own_first = block(first_users, first_row, ROWS, FIRST_DIM)
    weights = tl.zeros([ROWS], tl.float32)
    losses = tl.zeros([ROWS], tl.float32)
    gradient = tl.zeros([ROWS, DIM], tl.float32)
    start = tl.program_id(1) * n_columns_each
    for column in tl.range(start, tl.minimum(start + n_columns_each, n_items), COLUMNS):
        vectors = block(items, column, COLUMNS, DIM)
        ratio, link_slope = LINK(scores(own, vectors, FACTOR, PRECISION))
        loss, loss_slope = GENERATOR(ratio, EXPONENT)
        count = tl.load(candidates + column + tl.arange(0, COLUMNS))
        weight = power(ratio, RATIO_POWER) * count[None, :]
        if FIRST_LINK is not None:
            others = block(first_items, column, COLUMNS, FIRST_DIM)
            weight *= FIRST_LINK(scores(own_first, others, FACTOR, PRECISION))[0]
        if RATIO_POWER == 0 and FIRST_LINK is None:
            weights += tl.sum(count, 0)
        else:
            weights += tl.sum(weight, 1)
        losses += tl.sum(weight * loss, 1)
        if items_to_sum is not None:
            vectors = block(items_to_sum, column, COLUMNS, DIM)
        slope = (weight * (loss_slope * link_slope)).to(vectors.dtype)
        gradient = tl.dot(slope, vectors, gradient, input_precision=PRECISION)
    row = first_row + tl.arange(0, ROWS)
    share = tl.program_id(1).to(tl.int64) * n_users
    tl.store(totals + 2 * share + row, weights, mask=row < n_users)
    tl.store(totals + 2 * share + n_users + row, losses, mask=row < n_users)
    places = (share + row)[:, None] * DIM + tl.arange(0, DIM)[None, :]
    tl.store(sums + places, gradient, mask=row[:, None] < n_users)


@triton.jit
def settle(
    totals,
    sums,
    users,
    bound,
    value,
    to_users,
    scaled_users,
    divisor,
    n_users,
    n_columns,
    row_stride,
    column_stride,
    n_shares,
    SELF_NORMALISED: tl.constexpr,
    ROWS: tl.constexpr,
    DIM: tl.constexpr,
    DROPPED_BITS: tl.constexpr,
):
    """R±_u = S_u/Z_u, (g_u/Z_u)·Q_u, and the packed users times g_u/Z_u."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place = row.to(tl.int64)[:, None]
    column = tl.arange(0, DIM)[None, :]
    there = row < n_users
    weights = tl.zeros([ROWS], tl.float32)
    losses = tl.zeros([ROWS], tl.float32)
    gradient = tl.zeros([ROWS, DIM], tl.float32)
    for share in range(n_shares):
        weights += tl.load(totals + 2 * share * n_users + row, mask=there, other=0.0)
        losses += tl.load(totals + (2 * share + 1) * n_users + row, mask=there, other=0.0)
        rows = sums + (tl.cast(share, tl.int64) * n_users + place) * DIM
        gradient += tl.load(rows + column, mask=there[:, None], other=0.0)
    normaliser = tl.maximum(weights, SMALLEST) if SELF_NORMALISED else divisor
    mean = losses / normaliser
    tl.store(value + row, mean, mask=there)
    above = mean > tl.load(bound + row, mask=there, other=0.0)
    scale = tl.where(above, 1 / (n_users * normaliser), 0.0)[:, None]
    known = there[:, None] & (column < n_columns)
    tl.store(to_users + place * n_columns + column, scale * gradient, mask=known)
    x = tl.load(users + place * row_stride + column * column_stride, mask=known, other=0.0)
    x = rounded(scale * x.to(tl.float32), DROPPED_BITS)
    tl.store(scaled_users + place * DIM + column, x.to(scaled_users.dtype.element_ty))


@triton.jit
def by_items(
    items,
    users,
    scaled_users,
    candidates,
    first_items,
    first_users,
    sums,
    n_items,
    n_users,
    n_columns_each,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DIM: tl.constexpr,
    FIRST_DIM: tl.constexpr,
    FACTOR: tl.constexpr,
    PRECISION: tl.constexpr,
    LINK: tl.constexpr,
    GENERATOR: tl.constexpr,
    EXPONENT: tl.constexpr,
    RATIO_POWER: tl.constexpr,
    FIRST_LINK: tl.constexpr,
):
    """Σ_u (g_u/Z_u) w⁻ℓ±′link′e_u over a share of the users."""
    first_row = tl.program_id(0) * ROWS
    own = block(items, first_row, ROWS, DIM)
    if FIRST_LINK is not None:
        own_first = block(first_items, first_row, ROWS, FIRST_DIM)
    gradient = tl.zeros([ROWS, DIM], tl.float32)
    start = tl.program_id(1) * n_columns_each
    for column in tl.range(start, tl.minimum(start + n_columns_each, n_users), COLUMNS):
        vectors = block(users, column, COLUMNS, DIM)
        ratio, link_slope = LINK(scores(own, vectors, FACTOR, PRECISION))
        _, loss_slope = GENERATOR(ratio, EXPONENT)
        slope = power(ratio, RATIO_POWER) * (loss_slope * link_slope)
        if FIRST_LINK is not None:
            others = block(first_users, column, COLUMNS, FIRST_DIM)
            slope *= FIRST_LINK(scores(own_first, others, FACTOR, PRECISION))[0]
        scaled = block(scaled_users, column, COLUMNS, DIM)
        gradient = tl.dot(slope.to(scaled.dtype), scaled, gradient, input_precision=PRECISION)
    row = first_row + tl.arange(0, ROWS)
    # c_i and g_u/Z_u belong to a row and a column: they cost nothing outside the loop
    gradient *= tl.load(candidates + row)[:, None]
    share = tl.program_id(1).to(tl.int64) * n_items
    places = (share + row)[:, None] * DIM + tl.arange(0, DIM)[None, :]
    tl.store(sums + places, gradient, mask=row[:, None] < n_items)
