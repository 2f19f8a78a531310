"""Listings of the documents, read as they stand, and the canonical text of programs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from random_programs import random_program, random_tiles

from autosched.programs.loading import load_program
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.text.compare import same
from search_spaces.programs.text.printer import text
from search_spaces.programs.text.program import parse
from search_spaces.programs.text.reader import read

DOCUMENTS = Path(__file__).parent / "documents"

# Fragments that no program follows from, and what the reader says about them.
REFUSED = {
    "table update_tile_offset": "stores nothing",
    "table prefetch_tile": "stores nothing",
    "line 123": "stores nothing",
    "line 139": "stores nothing",
    "line 196": "a row-major memref has no tile of order [0, 1] (RFC, appendix 1)",
    "line 234": "stores nothing",
    "line 252": "stores nothing",
    "line 261": "stores nothing",
    "line 270": "stores nothing",
    "appendix 1 incorrect 1": "a column-major memref has no tile of order [1, 0] (RFC, appendix 1)",
    "appendix 1 incorrect 2": "a column-major memref has no tile of order [1, 0] (RFC, appendix 1)",
    "appendix 1 incorrect 3": "a row-major memref has no tile of order [0, 1] (RFC, appendix 1)",
    "plain, distributed": "expected a statement or '}', found '%8:3",  # per-thread code that a compiler made
}


def sections(name: str) -> dict[str, str]:
    parts = ("\n" + (DOCUMENTS / f"{name}.txt").read_text("utf-8")).split("\n== ")[1:]
    return {title: body for title, _, body in (part.partition("\n") for part in parts)}


LISTINGS = [(d, title) for d in ("xetile", "vector_ext", "reduction") for title in sections(d) if title != "attribute"]


@pytest.mark.parametrize(("document", "title"), LISTINGS, ids=lambda v: v.replace(" ", "_"))
def test_every_listing_is_read(document: str, title: str) -> None:
    body = sections(document)[title]
    if document == "xetile":
        listing = read(body)
        again = read(str(listing))
        assert again == listing and str(again) == str(listing) and not again.notes
    if title in REFUSED:
        with pytest.raises(ProgramError) as refused:
            reading = parse(body)
            reading.program.trace({n: reading.sizes.get(n, 256) for n in reading.program.sizes}, {})
        assert REFUSED[title] in str(refused.value)
        return
    reading = parse(body)
    sizes = {n: reading.sizes.get(n, 256) for n in reading.program.sizes}
    trace = reading.program.trace(sizes, {})
    printed = parse(text(trace))
    assert not printed.notes
    assert same(trace, printed.program.trace(printed.sizes, {}))


def test_notes_of_the_listings() -> None:
    """One line for each reading that was taken: those that the page on layouts explains."""
    found = []
    for document, title in LISTINGS:
        if title not in REFUSED:
            found += [f"== {title}", *parse(sections(document)[title], file="line").notes, ""]
    golden = DOCUMENTS / "notes.golden"
    assert "\n".join(found) == golden.read_text("utf-8"), "readings have changed: look at each, then renew the file"


def test_the_attribute_of_vector_ext() -> None:
    layout = NestedLayout.parse(sections("vector_ext")["attribute"])
    reading = parse(sections("vector_ext")["to_layout"])
    (convert,) = [o for o, _ in reading.program.trace(reading.sizes, {}).walk() if type(o).__name__ == "Convert"]
    assert convert.result.map == layout and not convert.shared  # type: ignore[union-attr]


@pytest.mark.parametrize("first", range(0, 48, 12))
def test_a_printed_program_is_read_back(first: int) -> None:
    for seed in range(first, first + 12):
        for made in (random_program(seed), random_tiles(seed)):
            rng = random.Random(seed)
            sizes = {n: rng.randint(1, 200) for n in made.sizes}
            chosen = {n: rng.choice(v) for n, v in made.domains(sizes).items()}
            trace = made.trace(sizes, chosen)
            printed = text(trace)
            reading = parse(printed)
            again = reading.program.trace(reading.sizes, chosen)
            assert not reading.notes, reading.notes
            assert same(trace, again) and text(again) == printed, printed


@pytest.mark.parametrize(
    ("listing", "reason"),
    [
        ("%1 = xetile.tile_mma %a, %b", "text:1: tile_mma: %a is defined nowhere, and has no type"),
        (
            "func.func @f(%a: memref<4x4xf16>) {\n %2 = load_tile %9 : tile<4x4xf16> -> vector<4x4xf16>\n}",
            "text:2: load_tile: %9 is defined nowhere in the function",
        ),
        ("xetile.store_tile", "the text stores nothing, so there is nothing to run"),
        ("%1 = frobnicate %2", "text:1: expected an operation, a name or a number, found 'frobnicate %2'"),
        ("#m = #xetile.wg_map<sg_layout = [2, 2]>", "text:1: #xetile.wg_map: at position 33: expected ','"),
        ("#m = #xetile.wg_map<sg_layout = [2, 2]", "text:1: the bracket of #xetile.wg_map is never closed"),
        ("%0 = xetile.load_tile %1 : tile<8x>", "text:1: expected the type of an element"),
    ],
)
def test_refusals(listing: str, reason: str) -> None:
    with pytest.raises(ProgramError) as refused:
        parse(listing)
    assert reason in str(refused.value) and "\n" not in str(refused.value)


def test_a_printed_program_holds_for_its_sizes() -> None:
    made = random_tiles(3)
    sizes = {n: 96 for n in made.sizes}
    reading = parse(text(made.trace(sizes, {})))
    with pytest.raises(ProgramError, match="holds for these sizes alone"):
        reading.program.trace({**sizes, "m": 97}, {})


@pytest.mark.parametrize(
    ("place", "sizes"),
    [
        ("seeds/gemm_two_caches.py", {"m": 300, "n": 200, "k": 256}),
        ("seeds/gemm_shared.py", {"m": 300, "n": 200, "k": 256}),
        ("seeds/gemm_reduction.py", {"m": 128, "n": 256, "k": 64}),
        ("seeds/nested_layout.py:through_shared_memory", {"m": 64, "n": 64}),
        ("seeds/matvec.py:matvec_expanded", {"m": 4, "n": 8, "k": 1024}),
        ("programs/attention.py:causal_attention", {"h": 4, "g": 2, "s": 200, "d": 64}),
        ("programs/int4_matmul.py", {"m": 40, "n": 72, "k": 64, "half": 32, "groups": 2}),
        ("programs/cross_entropy.py", {"m": 6, "n": 1100}),
    ],
)
def test_examples_print_and_read_back(place: str, sizes: dict[str, int]) -> None:
    made = load_program(str(Path(__file__).parents[3] / "examples" / place))
    trace = made.trace(sizes, {n: values[0] for n, values in made.domains(sizes).items()})
    printed = parse(text(trace))
    again = printed.program.trace(printed.sizes, dict(trace.chosen))
    assert not printed.notes and same(trace, again) and text(again) == text(trace)
