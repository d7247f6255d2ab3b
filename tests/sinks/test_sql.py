from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ratiorec.errors import StorageError
from ratiorec.sinks import Job, write_lists
from support.sink_places import Place, expected, small_model

MODEL = small_model()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_block_that_is_refused_half_way_changes_nothing(
    request: pytest.FixtureRequest, kind: str
) -> None:
    place: Place = request.getfixturevalue(f"{kind}_place")
    write_lists(Job.of(MODEL, MODEL.users.ids, 5), place.sink)
    job = Job.of(MODEL, MODEL.users.ids, 3)
    (block,) = job.blocks(0, 60)
    twice = replace(block.lists, ranks=np.where(block.lists.ranks == 3, 2, block.lists.ranks))
    with place.sink.open(job, resume=True, notify=print) as writing:
        with pytest.raises(StorageError, match="could not be written"):
            writing.write(replace(block, lists=twice))
        assert place.rows() == expected(MODEL, 5)
        assert writing.done.n_users == 0
        writing.write(block)
    assert place.rows() == expected(MODEL, 3)
