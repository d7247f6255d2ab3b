"""Options of tables of items and users, which `fit` and `items` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratiorec.errors import ConfigError, DataError

if TYPE_CHECKING:
    from ratiorec.catalogue.tables import IdTable
    from ratiorec.data.vocabulary import Vocabulary

_KINDS = (
    "number, category, tags, text or vector, where the kind that is found is not right; repeatable."
)


@dataclass(frozen=True)
class ColumnGroup:
    """Which column of a table is what."""

    id_column: Annotated[str | None, typer.Option(help="Column of ids in the item table.")] = None
    title_column: Annotated[str | None, typer.Option(help="Column of titles in it.")] = None
    column_kind: Annotated[
        list[str] | None, typer.Option(help=f"Kind of a column in it: {_KINDS}", metavar="C=KIND")
    ] = None
    user_id_column: Annotated[str | None, typer.Option(help="Column of ids in the user table.")] = (
        None
    )
    user_column_kind: Annotated[
        list[str] | None, typer.Option(help="Kind of a column in it.", metavar="C=KIND")
    ] = None

    def read(
        self, items: str | None, users: str | None, on_bad_rows: Any
    ) -> tuple[IdTable | None, IdTable | None]:
        """The tables of items and of users, each None where no file is named."""
        from ratiorec.catalogue.tables import IdTable

        found: list[IdTable | None] = [None, None]
        if items is not None:
            found[0] = IdTable.read(
                items,
                id_column=self.id_column,
                title_column=self.title_column,
                column_kinds=_kinds(self.column_kind or (), "--column-kind"),
                on_bad_rows=on_bad_rows,
            )
        if users is not None:
            with told_of_users():
                found[1] = IdTable.read(
                    users,
                    kind="user",
                    id_column=self.user_id_column,
                    column_kinds=_kinds(self.user_column_kind or (), "--user-column-kind"),
                    on_bad_rows=on_bad_rows,
                )
        return found[0], found[1]


@contextmanager
def told_of_users() -> Iterator[None]:
    """Let an error name the options of the user table."""
    try:
        yield
    except (DataError, ConfigError) as error:
        for option in ("--id-column", "--column-kind"):
            error.where = error.where.replace(option, f"--user-{option[2:]}")
            error.wanted = error.wanted.replace(option, f"--user-{option[2:]}")
        raise


def require_tables_known(
    tables: tuple[IdTable | None, IdTable | None], items: Vocabulary, users: Vocabulary
) -> None:
    """Refuse a table that has none of these ids."""
    from ratiorec.model.tables import require_known

    item_table, user_table = tables
    if item_table is not None:
        require_known(item_table, items)
    if user_table is not None:
        with told_of_users():
            require_known(user_table, users)


def _kinds(words: Sequence[str], where: str) -> dict[str, Any]:
    """Kinds by column.

    >>> _kinds(["price=number"], "--column-kind")
    {'price': 'number'}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, _, kind = word.rpartition("=")
        if not name:
            raise ConfigError(
                "this names no column with its kind",
                where=where,
                found=repr(word),
                wanted="COLUMN=KIND, as price=number",
            )
        found[name] = kind
    return found
