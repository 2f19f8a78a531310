"""Check listings of tile programs: each section of a text is parsed, printed and parsed again."""

from __future__ import annotations

import pytest

from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.text.compare import same
from search_spaces.programs.text.printer import text
from search_spaces.programs.text.program import parse
from search_spaces.programs.text.reader import read


def sections(content: str) -> dict[str, str]:
    """Return the listings of a text by title; titles are the lines that begin with ``==``."""
    parts = ("\n" + content).split("\n== ")[1:]
    return {title: body for title, _, body in (part.partition("\n") for part in parts)}


def check_reading(body: str) -> None:
    """Check that a listing can be parsed, and that parsing its printed form gives the same program and no notes."""
    if "linalg.generic" not in body:
        listing = read(body)
        again = read(str(listing))
        assert again == listing and str(again) == str(listing) and not again.notes
    reading = parse(body)
    sizes = {n: reading.sizes.get(n, 256) for n in reading.program.sizes}
    trace = reading.program.trace(sizes, {})
    printed = parse(text(trace))
    assert not printed.notes
    assert same(trace, printed.program.trace(printed.sizes, {}))


def check_refusal(body: str, reason: str) -> None:
    """Check that a listing is refused for the given reason."""
    with pytest.raises(ProgramError) as refused:
        reading = parse(body)
        reading.program.trace({n: reading.sizes.get(n, 256) for n in reading.program.sizes}, {})
    assert reason in str(refused.value)


def notes_of(listings: dict[str, str]) -> str:
    """Return a text with the title of every listing, each followed by the listing's notes."""
    lines: list[str] = []
    for title, body in listings.items():
        lines += [f"== {title}", *parse(body, file="line").notes, ""]
    return "\n".join(lines)
