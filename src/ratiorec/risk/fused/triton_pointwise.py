"""Links, generators and weights as device functions, which the kernels are given as data.

A score arrives in bits, s·log₂e: the exponential function of the hardware is 2^x, and the factor
costs nothing where the vectors of the users are rounded anyway.

Instructions for a pair, special ones + plain ones, as compiled for sm_90:

    softplus            2 + 10   2^x twice; the series is 6 of the plain ones
    exponential         1 + 0
    least squares       0 + 2    loss and slope; without the loss 0 + 1
    Kullback–Leibler    0 + 0
    logistic            1 + 18   loss and slope; without the loss 1 + 3
    weight              0 + 1    for γ = 0 and γ = 1, else 1 + 17; and the link of a first model

A multiprocessor begins 16 special ones in a clock, or 128 plain ones: at two special ones the
passes need 16/128 of a clock for these, and 23/128 and 18/128 for all instructions (softplus,
least squares, γ = 1, all around it included). A logarithm instead of the series would be a third
special one, and lose the digits of r̂ ≈ eˢ far below 0, which the series keeps without a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import triton
import triton.language as tl

from ratiorec.risk.bregman import KULLBACK_LEIBLER, LEAST_SQUARES, LOGISTIC, Generator
from ratiorec.scores import EXPONENTIAL, SOFTPLUS, Link

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
def least_squares(ratio):
    """ℓ± = r̂²/2 and ℓ±′ = r̂."""
    return ratio * ratio * 0.5, ratio


@triton.jit
def kullback_leibler(ratio):
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
def logistic(ratio):
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
    else:
        result = tl.exp2(exponent * log2_of(ratio, ratio - 1))
    return result


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
