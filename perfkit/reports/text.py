"""Text that people see: shortening long names, and making control characters visible."""

from __future__ import annotations

import unicodedata

NAME_LIMIT = 100  # characters of a name that a table shows; machines get the whole


def shorten(text: str, limit: int = NAME_LIMIT) -> str:
    """`text` in at most `limit` characters. The middle goes: the ends are what tells template names apart."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail - 1]}…{text[len(text) - tail :]}"


def visible(text: str) -> str:
    """`text` in one line: white space becomes a space, other control characters their escape.

    A kernel name must not move the cursor, colour the terminal, or reorder the text around it.
    """
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character in "\n\r\t\v\f\u2028\u2029\u0085":
        return " "
    # Cc: control; Cf: format (bidirectional overrides, zero width); Cs: lone surrogates, not encodable.
    if unicodedata.category(character) in ("Cc", "Cf", "Cs"):
        return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"
    return character
