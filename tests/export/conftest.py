"""A PostgreSQL server that has pgvector, and one as this machine has it."""

from __future__ import annotations

from support.postgres_server import postgres
from support.vector_server import vector_server

__all__ = ["postgres", "vector_server"]
