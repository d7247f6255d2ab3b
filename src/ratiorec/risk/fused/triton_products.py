"""What the kernels multiply on tensor cores: numbers of few bits, or whole ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

BITS_PER_NAT = math.log2(math.e)


class Number(NamedTuple):
    """What is multiplied: a type, and how much of a float32 it keeps."""

    dtype: torch.dtype
    dropped_bits: int  # of the 23 in the fraction


class Products(NamedTuple):
    """What goes into the products; all sums are float32."""

    scores: Number
    gradients: Number
    precision: str  # what the compiler calls it where the type is float32

    @property
    def users_factor(self) -> float:
        """What users are multiplied with before; what is not rounded stays as it is."""
        return BITS_PER_NAT if self.scores.dropped_bits else 1.0


_BF16, _FP16 = Number(torch.bfloat16, 16), Number(torch.float16, 13)
_TF32, _FP32 = Number(torch.float32, 13), Number(torch.float32, 0)

# fp16 has the digits of tf32 at the speed of bf16, and range enough for vectors (65,504); what
# multiplies them in a gradient may be any power of e, and has the range of bf16
PRODUCTS: Mapping[str, Products] = MappingProxyType(
    {
        "fp16": Products(_FP16, _BF16, "ieee"),
        "bf16": Products(_BF16, _BF16, "ieee"),
        "tf32": Products(_TF32, _TF32, "tf32"),
        "ieee": Products(_FP32, _FP32, "ieee"),
    }
)
