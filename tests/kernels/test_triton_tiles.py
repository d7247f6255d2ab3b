from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ratiorec.kernels.triton.unlabelled import BYTES_OF_SUMS, LARGEST_BLOCK, Tiles, cut, usual_tiles

tiles_of_any_size = st.builds(
    Tiles,
    n_rows=st.sampled_from([16, 64, 128]),
    n_columns=st.sampled_from([16, 64, 128]),
    n_warps=st.just(4),
    n_stages=st.just(2),
    n_resident=st.integers(1, 4),
)


@given(
    n_rows=st.integers(1, 10**6),
    n_columns=st.integers(1, 10**6),
    dim=st.sampled_from([16, 64, 256]),
    tiles=tiles_of_any_size,
    n_processors=st.integers(1, 200),
)
@example(29_858, 40_981, 256, Tiles(128, 64, 8, 3, 2), 132)  # more shares would be quicker
def test_every_row_and_column_is_in_one_share_and_the_shares_fit(
    n_rows: int, n_columns: int, dim: int, tiles: Tiles, n_processors: int
) -> None:
    n_blocks, n_shares, n_each = cut(n_rows, n_columns, dim, tiles, n_processors=n_processors)
    assert (n_blocks - 1) * tiles.n_rows < n_rows <= n_blocks * tiles.n_rows
    assert (n_shares - 1) * n_each < n_columns <= n_shares * n_each
    assert n_each % tiles.n_columns == 0
    assert n_shares == 1 or 4 * n_shares * n_rows * dim <= BYTES_OF_SUMS


def test_shares_are_such_that_no_multiprocessor_idles_for_long() -> None:
    for n_users in (2_500, 9_500, 29_858):
        tiles = usual_tiles("bf16", 64, plain_weight=True)
        for n_rows, n_columns, of_pass in [
            (n_users, 40_981, tiles.by_users),
            (40_981, n_users, tiles.by_items),
        ]:
            n_blocks, n_shares, n_each = cut(n_rows, n_columns, 64, of_pass, n_processors=132)
            n_rounds = -(-n_blocks * n_shares // (132 * of_pass.n_resident))
            taken = n_rounds * n_each * of_pass.n_rows * 132 * of_pass.n_resident
            assert n_rows * n_columns > 0.9 * taken


@pytest.mark.parametrize("products", ["fp16", "bf16", "tf32", "ieee"])
@pytest.mark.parametrize("dim", [1, 16, 64, 65, 128, 256, 300])
def test_there_are_tiles_for_every_dimension(products: str, dim: int) -> None:
    plain = usual_tiles(products, dim, plain_weight=True)
    computed = usual_tiles(products, dim, plain_weight=False)
    for tiles, narrower in zip(plain, computed, strict=True):
        assert narrower.n_columns <= tiles.n_columns <= LARGEST_BLOCK
        assert tiles.n_rows <= LARGEST_BLOCK
        assert 64 <= tiles.n_registers <= 255
