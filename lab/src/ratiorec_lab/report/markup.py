"""Markup that is safe to put into a page: text is escaped once, here."""

from __future__ import annotations

import html
import re
from typing import NewType

Markup = NewType("Markup", str)
"""Text that is already markup; a plain `str` never is."""

# XML has no way to write these, not even as a reference.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape(text: str) -> Markup:
    """Plain text as markup, also fit for an attribute.

    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return Markup(html.escape(clean(text)))


def clean(text: str) -> str:
    """The text without characters that no file of markup can hold."""
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def join(*parts: Markup) -> Markup:
    """Pieces of markup, one after another."""
    return Markup("".join(parts))


def tag(name: str, *content: Markup, **attributes: str | float | None) -> Markup:
    """One element; an attribute that is None is left out.

    `class_` stands for `class`, and an underscore inside a name for a hyphen.

    >>> tag("text", escape("a<b"), text_anchor="end", class_="tick", x=1.50)
    '<text text-anchor="end" class="tick" x="1.5">a&lt;b</text>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(content)}</{name}>")


def _attribute(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{round(value, 2):g}"
