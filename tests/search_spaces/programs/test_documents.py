"""The listings of the source documents, read unchanged from the folder AUTOSCHED_SEEDS.

Without that folder these tests are skipped. ``test_text.py`` reads our own listings, which have every construct of the
documents.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from listings import check_reading, check_refusal, notes_of

from search_spaces.layouts.nested_layout import NestedLayout

FOLDER = os.environ.get("AUTOSCHED_SEEDS", "")
DOCUMENTS = Path(__file__).parent / "documents"
PLACES = {
    title: (document, lines)
    for document, positions in tomllib.loads((DOCUMENTS / "places.toml").read_text("utf-8")).items()
    for title, lines in positions.items()
}
STORES_NOTHING = "stores nothing"
REFUSED = {
    **dict.fromkeys(("table update_tile_offset", "table prefetch_tile"), STORES_NOTHING),
    **dict.fromkeys((f"line {n}" for n in (123, 139, 234, 252, 261, 270)), STORES_NOTHING),
    "line 196": "a row-major memref has no tile of order [0, 1] (RFC, appendix 1)",
    "appendix 1 incorrect 1": "a column-major memref has no tile of order [1, 0] (RFC, appendix 1)",
    "appendix 1 incorrect 2": "a column-major memref has no tile of order [1, 0] (RFC, appendix 1)",
    "appendix 1 incorrect 3": "a row-major memref has no tile of order [0, 1] (RFC, appendix 1)",
    "plain, distributed": "expected a statement or '}', found '%8:3",  # per-thread code, the output of a compiler
}
ATTRIBUTE = "attribute"
READ = [title for title in PLACES if title not in REFUSED and title != ATTRIBUTE]

pytestmark = pytest.mark.skipif(not FOLDER, reason="AUTOSCHED_SEEDS names no folder with the source documents")


def listing(title: str) -> str:
    document, lines = PLACES[title]
    (file,) = Path(FOLDER).glob(f"{document}_*.txt")
    text = file.read_text("utf-8").splitlines()
    if len(lines) == 2:
        return "\n".join(text[lines[0] - 1 : lines[1]]) + "\n"
    *_, example = re.finditer(r"(?:%\w+ = )?xetile\.", text[lines[0] - 1])  # the last cell of a table row
    return text[lines[0] - 1][example.start() :]


@pytest.mark.parametrize("title", READ, ids=lambda v: v.replace(" ", "_"))
def test_every_listing_is_read(title: str) -> None:
    check_reading(listing(title))


@pytest.mark.parametrize("title", REFUSED, ids=lambda v: v.replace(" ", "_"))
def test_fragments_without_a_program_are_rejected(title: str) -> None:
    check_refusal(listing(title), REFUSED[title])


def test_notes_of_the_listings() -> None:
    golden = DOCUMENTS / "notes.golden"
    notes = notes_of({title: listing(title) for title in READ})
    assert notes == golden.read_text("utf-8"), "readings have changed: review each, then update the file"


def test_the_attribute_of_vector_ext() -> None:
    layout = NestedLayout.parse(listing(ATTRIBUTE))
    assert layout.subgroup_tile == (2, 1) and layout.thread_strides == (1, 16)
