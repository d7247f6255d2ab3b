"""Triton's kernels become machine code for a GPU without there being one.

Its interpreter runs what its compiler refuses, such as a name with two types.
"""

from __future__ import annotations

import subprocess
import sys

from support.triton_marks import needs_compiler

# a process of its own: the check of signatures must not touch what the compiler reads
COMPILED = """
from itertools import product
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from ratiorec.kernels.triton import positives, propagation, softmax, unlabelled_kernels
from ratiorec.kernels.triton.unlabelled import usual_tiles
from ratiorec.kernels.triton.unlabelled_kernels import GENERATORS, LINKS

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
        propagation.scale_rows,
        {"table": "*fp32", "scale": "*fp32", "scaled": "*bf16", "n_entries": "i32"},
        {"D": 64, "BLOCK": propagation.ENTRIES_AT_ONCE},
        n_warps=4,
    )
    for is_last in (False, True):
        yield compiled(
            propagation.next_layer,
            {name: "*i32" for name in ("order", "indptr", "indices")}
            | {name: "*fp32" for name in ("scale", "before", "total")}
            | {name: "*bf16" for name in ("source", "following")}
            | {"share": "fp32", "n_rows": "i32", "n_long": "i32"},
            {
                "D": 64,
                "PADDED_D": 64,
                "ROWS": propagation.ROWS_AT_ONCE,
                "NEIGHBOURS": propagation.NEIGHBOURS_AT_ONCE,
                "IS_LAST": is_last,
            },
            n_warps=propagation.N_WARPS,
        )


def of_positives():
    tables = {
        "score_pairs": "users items scores",
        "spread_scores": "users items slopes to_users to_items",
        "sum_by_user": "values sums",
    }
    for name, floats in tables.items():
        kernel = getattr(positives, name)
        indices = [n for n in ("bounds", "columns") if n in kernel.arg_names]
        yield compiled(
            kernel,
            {n: "*fp32" for n in floats.split()} | {n: "*i64" for n in indices},
            {n: v for n, v in positives.sizes(512).items() if n != "num_warps"},
            n_warps=positives.sizes(512)["num_warps"],
        )


def of_softmax():
    launch = softmax.SoftmaxTiles().launch(512)
    for kernel in (softmax.totals_of_blocks, softmax.probabilities):
        tables = {n: "*bf16" for n in ("users", "items", "shares") if n in kernel.arg_names}
        tables |= {n: "*fp32" for n in ("totals", "shifts") if n in kernel.arg_names}
        numbers = {n: "i32" for n in ("n_users", "n_items", "width") if n in kernel.arg_names}
        constants = {n: launch[n] for n in ("DIM", "ROWS", "COLUMNS", "STEP")}
        yield compiled(kernel, tables | numbers, constants, n_warps=launch["num_warps"])


def of_unlabelled():
    tiles = usual_tiles("fp16", 64, plain_weight=True)
    link, usual = next(iter(LINKS.values())), next(iter(GENERATORS.values()))
    generators = {None: usual, 0.4: unlabelled_kernels.power_divergence}
    passes = [("by_users", tiles.by_users), ("by_items", tiles.by_items)]
    for (exponent, generator), (name, way) in product(generators.items(), passes):
        kernel = getattr(unlabelled_kernels, name)
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
                "EXPONENT": exponent,
                "RATIO_POWER": 1.0,
                "FIRST_LINK": None,
            },
            n_warps=way.n_warps,
        )


for kernels in (layers, of_positives, of_softmax, of_unlabelled):
    print(kernels.__name__, *(len(made.asm["cubin"]) for made in kernels()))
"""


@needs_compiler
def test_the_kernels_become_machine_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    sizes = {name: [*map(int, each)] for name, *each in map(str.split, done.stdout.splitlines())}
    n_kernels = {name: len(each) for name, each in sizes.items()}
    assert n_kernels == {"layers": 3, "of_positives": 3, "of_softmax": 2, "of_unlabelled": 4}
    assert min(map(min, sizes.values())) > 0
