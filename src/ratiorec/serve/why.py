"""Why an item is recommended: what its score would be without each item of the history."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.artifact import Artifact
from ratiorec.errors import ConfigError
from ratiorec.serve.answers import named_items, native_id
from ratiorec.serve.models import Served
from ratiorec.serve.ranking import USERS_AT_ONCE, Id
from ratiorec.serve.service import Service


async def contributions(
    service: Service, model: Served, history: Sequence[Id], item_id: Id
) -> dict[str, Any]:
    """What each item of a history adds to the score of an item, the largest first.

    The contribution of j is s(H, i) − s(H ∖ {j}, i), both users being folded in.

    Raises:
        ConfigError: The history is empty.
        UnknownIdError: The item, or one of the history, is unknown.
    """
    items = model.artifact.items
    wanted = int(items.indices([item_id])[0])
    found = list(dict.fromkeys(items.indices(history).tolist()))
    if not found:
        raise ConfigError(
            "the history is empty", where="history", found="[]", wanted="one item or more"
        )
    whole = [native_id(items, index) for index in found]
    rows = [whole, *([*whole[:place], *whole[place + 1 :]] for place in range(len(whole)))]
    blocks = [
        await service.ranker.call(
            partial(_scores, model.artifact, rows[start : start + USERS_AT_ONCE], wanted)
        )
        for start in range(0, len(rows), USERS_AT_ONCE)
    ]
    score, *without = np.concatenate(blocks).tolist()
    parts = [
        {**row, "contribution": score - rest}
        for row, rest in zip(named_items(items, found), without, strict=True)
    ]
    parts.sort(key=lambda part: -part["contribution"])
    return {**named_items(items, [wanted])[0], "score": score, "history": parts}


def _scores(artifact: Artifact, histories: Sequence[Sequence[Id]], item: int) -> NDArray[Any]:
    """The score of one item for each history; an empty one is nobody's."""
    known = artifact.fold_in(histories, on_unknown="skip")
    return known.scorer.scores(np.arange(len(known)))[:, item].astype(np.float64)
