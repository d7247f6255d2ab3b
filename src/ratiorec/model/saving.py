"""What of a model a folder holds, and the model's parts again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.model.profiles import describe_users, pack_users, unpack_users
from ratiorec.model.store import describe, pack, part_of, unpack
from ratiorec.scorers import SCORERS
from ratiorec.scorers.scorer import UserItems

if TYPE_CHECKING:
    from ratiorec.model.artifact import Artifact

_ITEM_TABLE, _USER_TABLE = "item.table.", "user.table."


def content_of(model: Artifact) -> dict[str, Any]:
    """All but the arrays."""
    return {
        "scorer": model.scorer.kind,
        "users": describe(model.users),
        "items": describe(model.items),
        "settings": model.settings,
        "card": model.card,
        "n_cold": model.n_cold,
        "item_table": model.item_table.describe(),
        "user_table": model.user_table.describe(),
        **({} if model.new_users is None else {"new_users": describe_users(model.new_users)}),
    }


def arrays_of(model: Artifact) -> dict[str, NDArray[Any]]:
    """The arrays by name."""
    arrays = {f"scorer.{name}": array for name, array in model.scorer.arrays().items()}
    arrays |= {"seen.indptr": model.seen.indptr, "seen.indices": model.seen.indices}
    arrays |= pack(model.users) | pack(model.items)
    arrays |= {} if model.new_users is None else pack_users(model.new_users)
    arrays |= model.item_table.arrays(_ITEM_TABLE) | model.user_table.arrays(_USER_TABLE)
    return arrays | (model.item_map.arrays() if model.item_map is not None else {})


def fields_in(content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The fields of the model; what a folder from before does not name is not there."""
    seen = UserItems(arrays["seen.indptr"], arrays["seen.indices"])
    users, items = (unpack(kind, content[f"{kind}s"], arrays) for kind in ("user", "item"))
    item_table, user_table = (
        Attributes.from_arrays(len(ids), content.get(key, []), arrays, prefix)
        for ids, key, prefix in (
            (items, "item_table", _ITEM_TABLE),
            (users, "user_table", _USER_TABLE),
        )
    )
    return {
        "scorer": SCORERS[content["scorer"]].from_arrays(part_of(arrays, "scorer."), seen),
        "users": users,
        "items": items,
        "seen": seen,
        "settings": dict(content["settings"]),
        "card": dict(content["card"]),
        "item_table": item_table,
        "user_table": user_table,
        "n_cold": content.get("n_cold", 0),
        "new_users": unpack_users(content["new_users"], arrays) if "new_users" in content else None,
    }
