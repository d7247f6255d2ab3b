"""Triton's kernels become machine code for a card without there being one.

Its interpreter runs what its compiler refuses, such as a name with two types.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.triton_marks import needs_compiler

# a process of its own: the check of signatures must not touch what the compiler reads
COMPILED = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from ratiorec.encoders import fused_layers, propagation_kernels
from ratiorec.risk import positive_kernels, triton_positives
from ratiorec.risk.fused import triton_kernels
from ratiorec.risk.fused.triton_pointwise import GENERATORS, LINKS
from ratiorec.risk.fused.triton_tiles import usual_tiles

HOPPER = GPUTarget("cuda", 90, 32)


def compiled(kernel, types, constants, *, n_warps):
    names = kernel.arg_names
    assert set(names) == {*types, *constants}, set(names) ^ {*types, *constants}
    signature = {name: types.get(name, "constexpr") for name in names}
    places = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, places)
    return triton.compile(source, target=HOPPER, options={"num_warps": n_warps})



def layers():
    yield compiled(
        propagation_kernels.scale_rows,
        {"table": "*fp32", "scale": "*fp32", "scaled": "*bf16", "n_entries": "i32"},
        {"D": 64, "BLOCK": fused_layers.ENTRIES_AT_ONCE},
        n_warps=4,
    )
    for is_last in (False, True):
        yield compiled(
            propagation_kernels.next_layer,
            {name: "*i32" for name in ("order", "indptr", "indices")}
            | {name: "*fp32" for name in ("scale", "before", "total")}
            | {name: "*bf16" for name in ("source", "following")}
            | {"share": "fp32", "n_rows": "i32", "n_long": "i32"},
            {
                "D": 64,
                "PADDED_D": 64,
                "ROWS": fused_layers.ROWS_AT_ONCE,
                "NEIGHBOURS": fused_layers.NEIGHBOURS_AT_ONCE,
                "IS_LAST": is_last,
            },
            n_warps=fused_layers.N_WARPS,
        )


def positives():
    tables = {
        "score_pairs": "users items scores",
        "spread_scores": "users items slopes to_users to_items",
        "sum_by_user": "values sums",
    }
    for name, floats in tables.items():
        kernel = getattr(positive_kernels, name)
        indices = [n for n in ("bounds", "columns") if n in kernel.arg_names]
        yield compiled(
            kernel,
            {n: "*fp32" for n in floats.split()} | {n: "*i64" for n in indices},
            {"D": 64, "PADDED_D": 64, "PAIRS": triton_positives.PAIRS_AT_ONCE},
            n_warps=triton_positives.N_WARPS,
        )


def unlabelled():
    tiles = usual_tiles("fp16", 64, plain_weight=True)
    link, generator = next(iter(LINKS.values())), next(iter(GENERATORS.values()))
    for name, way in (("by_users", tiles.by_users), ("by_items", tiles.by_items)):
        kernel = getattr(triton_kernels, name)
        absent, halves, singles = (
            [n for n in names.split() if n in kernel.arg_names]
            for names in (
                "items_to_sum first_users first_items",
                "users items scaled_users",
                "candidates totals sums",
            )
        )
        yield compiled(
            kernel,
            {n: "*fp16" for n in halves}
            | {n: "*fp32" for n in singles}
            | {n: "i32" for n in ("n_users", "n_items", "n_columns_each")},
            dict.fromkeys(absent)
            | {
                "ROWS": way.n_rows,
                "COLUMNS": way.n_columns,
                "DIM": 64,
                "FIRST_DIM": None,
                "FACTOR": 1.0,
                "PRECISION": "tf32",
                "LINK": link,
                "GENERATOR": generator,
                "RATIO_POWER": 1.0,
                "FIRST_LINK": None,
            },
            n_warps=way.n_warps,
        )


for made in {"layers": layers, "positives": positives, "unlabelled": unlabelled}[sys.argv[1]]():
    print(len(made.asm["cubin"]))
"""


@needs_compiler
@pytest.mark.parametrize(
    ("kernels", "n_kernels"), [("layers", 3), ("positives", 3), ("unlabelled", 2)]
)
def test_the_kernels_become_machine_code(kernels: str, n_kernels: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, kernels], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    sizes = [int(line) for line in done.stdout.split()]
    assert len(sizes) == n_kernels
    assert min(sizes) > 0
