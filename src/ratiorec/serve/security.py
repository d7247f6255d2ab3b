"""Access: API keys, and what a browser may do with the answers."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ratiorec.errors import ConfigError
from ratiorec.serve.errors import RefusedError, as_response

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)
RELOAD = "/v1/reload"  # has a token of its own
_OPEN = frozenset({"/", "/docs", "/openapi.json", "/health/live", "/health/ready", RELOAD})
_PAGES = "/static/"

_SHORTEST_KEY = 16


@dataclass(frozen=True)
class Keys:
    """Secrets of which a caller must know one; only their hashes are kept."""

    hashes: tuple[bytes, ...]

    @classmethod
    def of(cls, keys: Iterable[str]) -> Keys:
        """Keys as they are written."""
        return cls(tuple(_hash(key) for key in keys))

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The keys of a file, one a line; blank lines and those that begin with # do not count."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise _bad_file(path, f"a file that cannot be read ({type(error).__name__})") from error
        keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not keys:
            raise _bad_file(path, "no key")
        if any(len(key) < _SHORTEST_KEY or not key.isascii() for key in keys):
            raise _bad_file(path, "a key that is short or not ASCII")
        return cls.of(keys)

    def admit(self, given: str | None) -> bool:
        """Whether this is one of the keys; the time taken does not tell how near it came."""
        hashed = _hash(given or "")
        matches = [hmac.compare_digest(hashed, known) for known in self.hashes]
        return given is not None and any(matches)


def given_key(headers: Headers) -> str | None:
    """The secret of `Authorization: Bearer …` or of `X-API-Key`."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret:
        return secret.strip()
    return headers.get("x-api-key")


def require_admin(admin: Keys | None, headers: Headers) -> None:
    """Refuse whoever is not the administrator."""
    if admin is None:
        raise RefusedError(
            "reloading on request is switched off",
            status=403,
            where=RELOAD,
            found="a server that was started without --admin-token-file",
            wanted="a server with that option, or a change to the folder that it watches",
        )
    if not admin.admit(given_key(headers)):
        raise _unknown_key("the administrator's token")


def require_user_search(*, is_on: bool) -> None:
    """Refuse to search for users, unless that has been asked for."""
    if not is_on:
        raise RefusedError(
            "searching for users is switched off",
            status=403,
            where="/v1/users",
            found="a server that was started without --user-search",
            wanted="a server with that option, or the whole id of a user",
        )


@dataclass(frozen=True)
class RequireKey:
    """Lets only those ask who know a key; health and pages alone are for all."""

    app: ASGIApp
    keys: Keys | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._admits(scope):
            await self.app(scope, receive, send)
        else:
            await as_response(_unknown_key("an API key"))(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        if scope["type"] != "http" or self.keys is None or _is_open(scope["path"]):
            return True
        return self.keys.admit(given_key(Headers(scope=scope)))


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith(_PAGES)


def _unknown_key(wanted: str) -> RefusedError:
    return RefusedError(
        "the request has no key that is known",
        status=401,
        where="Authorization or X-API-Key",
        found="no key, or another one",
        wanted=f"{wanted}, as Authorization: Bearer KEY",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _bad_file(path: Path, found: str) -> ConfigError:
    return ConfigError(
        "the file of keys cannot be used",
        where=str(path),
        found=found,
        wanted=f"UTF-8 text, one key a line, each of {_SHORTEST_KEY} ASCII characters or more",
    )


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
