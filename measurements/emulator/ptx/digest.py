"""Digest of PTX that does not depend on source lines."""

from __future__ import annotations

import hashlib


def instructions(text: str) -> list[str]:
    """Return PTX lines, but no comments, source positions, or constants that no instruction uses."""
    body = text[: text.find("\n\t.file")] if "\n\t.file" in text else text
    skipped = ("\t.loc", ".global", "//", "\t//")
    return [line for line in body.splitlines() if line.strip() and not line.startswith(skipped)]


def digest_of(text: str) -> str:
    """Return the SHA-256 (hex) of the instructions of PTX."""
    return hashlib.sha256("\n".join(instructions(text)).encode()).hexdigest()
