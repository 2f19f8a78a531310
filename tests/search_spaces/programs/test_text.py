"""Listings in the syntax of the documents can be parsed as they are. Programs have a canonical text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from listings import check_reading, check_refusal, notes_of, sections
from program_outcome import outcome
from random_programs import random_program, random_tiles

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.devices import device
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.template import template
from search_spaces.programs.text.compare import same
from search_spaces.programs.text.printer import text
from search_spaces.programs.text.program import parse

A100 = device("a100")
LISTINGS = {
    title: body
    for name in ("layouts", "reductions", "tiles")
    for title, body in sections((Path(__file__).parent / "listings" / f"{name}.txt").read_text("utf-8")).items()
}
ATTRIBUTE = LISTINGS.pop("attribute")
STORES_NOTHING = "stores nothing"
COLUMN_MAJOR = "a column-major memref has no tile of order [1, 0] (RFC, appendix 1)"
ROW_MAJOR = "a row-major memref has no tile of order [0, 1] (RFC, appendix 1)"
REFUSED = {
    "prefetch": STORES_NOTHING,
    "prefetch into a cache": STORES_NOTHING,
    "move": STORES_NOTHING,
    "move a descriptor": STORES_NOTHING,
    "maps alone": STORES_NOTHING,
    "a row-major tile of a column-major matrix": COLUMN_MAJOR,
    "a tile of a column-major matrix, without an order": COLUMN_MAJOR,
    "a column-major tile of a row-major matrix": ROW_MAJOR,
    "a column-major tile with a map": ROW_MAJOR,
    "compiler output for one thread": "expected a statement or '}', found '%lane:2",
}
READ = {title: body for title, body in LISTINGS.items() if not title.startswith("refused: ")}


@pytest.mark.parametrize("title", READ, ids=lambda v: v.replace(" ", "_"))
def test_every_listing_is_read(title: str) -> None:
    check_reading(READ[title])


@pytest.mark.parametrize("title", REFUSED, ids=lambda v: v.replace(" ", "_"))
def test_fragments_without_a_program_are_rejected(title: str) -> None:
    check_refusal(LISTINGS[f"refused: {title}"], REFUSED[title])


def test_every_listing_is_either_read_or_rejected() -> None:
    assert {title for title in LISTINGS if title not in READ} == {f"refused: {title}" for title in REFUSED}


def test_notes_of_the_listings() -> None:
    """Each interpretation of an ambiguous text gives one note; docs/explanation/layouts.md explains them."""
    golden = Path(__file__).parent / "listings" / "notes.golden"
    assert notes_of(READ) == golden.read_text("utf-8"), "readings have changed: review each, then update the file"


def test_the_attribute_of_vector_ext() -> None:
    layout = NestedLayout.parse(ATTRIBUTE)
    reading = parse(READ["to_layout"])
    (convert,) = [o for o, _ in reading.program.trace(reading.sizes, {}).walk() if type(o).__name__ == "Convert"]
    assert convert.result.map == layout and not convert.shared  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "circle",
    [
        "X = memref.alloc &X, [R, K] : memref<RxKxf16>;",
        "Y = memref.alloc &X, [R, K] : memref<RxKxf16>;\nX = memref.alloc &Y, [R, K] : memref<RxKxf16>;",
    ],
)
@pytest.mark.timeout(30)
def test_an_array_that_is_a_view_of_itself_is_that_array(circle: str) -> None:
    body = READ["a product of memrefs in pseudocode"].splitlines()
    check_reading("\n".join([circle, *body[1:]]))


@pytest.mark.timeout(30)
def test_cyclic_tile_aliases_are_rejected() -> None:
    moves = "".join(f"%{a} = update_tile_offset %{b}, %c0, %c16 : tile<64x16xf16>\n" for a, b in ("bc", "cb", "bd"))
    with pytest.raises(ProgramError):
        parse(f"%d = init_tile %x[%c0, %c0] : memref<64x64xf16> -> tile<64x16xf16>\n%b = 0\n{moves}")


@pytest.mark.parametrize("first", range(0, 48, 12))
def test_a_printed_program_is_read_back(first: int) -> None:
    for seed in range(first, first + 12):
        for tile_program in (random_program(seed), random_tiles(seed)):
            rng = random.Random(seed)
            sizes = {n: rng.randint(1, 200) for n in tile_program.sizes}
            chosen = {n: rng.choice(v) for n, v in tile_program.domains(sizes).items()}
            trace = tile_program.trace(sizes, chosen)
            printed = text(trace)
            reading = parse(printed)
            again = reading.program.trace(reading.sizes, chosen)
            assert not reading.notes, reading.notes
            assert same(trace, again) and text(again) == printed, printed


@pytest.mark.parametrize(
    ("listing", "reason"),
    [
        ("%1 = xetile.tile_mma %a, %b", "text:1: tile_mma: %a is undefined"),
        (
            "func.func @f(%a: memref<4x4xf16>) {\n %2 = load_tile %9 : tile<4x4xf16> -> vector<4x4xf16>\n}",
            "text:2: load_tile: %9 is undefined",
        ),
        ("xetile.store_tile", "the text stores nothing"),
        ("%1 = frobnicate %2", "text:1: expected an operation, a name or a number, found 'frobnicate %2'"),
        ("#m = #xetile.wg_map<sg_layout = [2, 2]>", "text:1: #xetile.wg_map: at position 33: expected ','"),
        ("#m = #xetile.wg_map<sg_layout = [2, 2]", "text:1: the closing bracket of #xetile.wg_map"),
        ("%0 = xetile.load_tile %1 : tile<8x>", "text:1: expected the type of an element"),
        (
            "%old = xetile.atomic_rmw <addf> %v, %t: vector<8x16xf32>, tile<8x16xf32> to vector<8x16xf32>\n"
            "store_tile %old, %out : vector<8x16xf32>, tile<8x16xf32>",
            "text:1: atomic_rmw: %old",
        ),
        (
            "%1 = xetile.transpose %0 : vector<2x4x8xf32> -> vector<2x8x4xf32>",
            "text:1: transpose: vector<2x4x8xf32>",
        ),
        (
            "#l = #iree_vector_ext.nested_layout<subgroup_tile = [1, 1, 1], batch_tile = [1, 1, 1], "
            "outer_tile = [1, 1, 1], thread_tile = [1, 4, 8], element_tile = [2, 1, 1], subgroup_strides = [0, 0, 0], "
            "thread_strides = [0, 8, 1]>\n"
            "%1 = iree_vector_ext.to_layout %0 to layout(#l) : vector<2x4x8xf32>",
            "text:2: iree_vector_ext.to_layout: dimensions with tiles [1, 1, 1, 1, 2]",
        ),
        (
            "%0 = linalg.generic ins(%x : tensor<6x64xf32>) outs(%y : tensor<6xf32>) attrs = {lowering_config = "
            "#iree_gpu.lowering_config<{workgroup = [2, 0], partial_reduction = [0, 32]}>} {\n"
            "^bb0(%a: f32, %s: f32):\n%n = arith.maximumf %s, %a : f32\nlinalg.yield %n : f32\n}",
            "text: linalg.generic: unsupported computation",
        ),
        (
            "scf.for %k = 0 to 64 step 8 {parts = 2, states = [s]} {\n}\n"
            "store_tile %v, %out : vector<8x16xf32>, tile<8x16xf32>",
            "text:1: scf.for: a split loop",
        ),
    ],
)
def test_invalid_listings_are_rejected(listing: str, reason: str) -> None:
    with pytest.raises(ProgramError) as refused:
        parse(listing)
    assert reason in str(refused.value) and "\n" not in str(refused.value)


def test_a_printed_program_holds_for_its_sizes() -> None:
    tile_program = random_tiles(3)
    sizes = {n: 96 for n in tile_program.sizes}
    reading = parse(text(tile_program.trace(sizes, {})))
    with pytest.raises(ProgramError, match="for which it was printed"):
        reading.program.trace({**sizes, "m": 97}, {})


@pytest.mark.parametrize(
    ("program_path", "sizes"),
    [
        ("seeds/gemm_two_caches.py", {"m": 300, "n": 200, "k": 256}),
        ("seeds/gemm_shared.py", {"m": 300, "n": 200, "k": 256}),
        ("seeds/gemm_reduction.py", {"m": 128, "n": 256, "k": 64}),
        ("seeds/nested_layout.py:through_shared_memory", {"m": 64, "n": 64}),
        ("seeds/matvec.py:matvec_expanded", {"m": 4, "n": 8, "k": 1024}),
        ("programs/attention.py:causal_attention", {"h": 4, "g": 2, "s": 200, "d": 64}),
        ("programs/int4_matmul.py", {"m": 40, "n": 72, "k": 64, "half": 32, "groups": 2}),
        ("programs/cross_entropy.py", {"m": 6, "n": 1100}),
        ("programs/decode_attention.py", {"b": 3, "g": 2, "r": 4, "d": 32, "pages": 7, "page": 32, "entries": 3}),
        ("programs/decode_small_pages.py", {"b": 3, "g": 2, "r": 4, "d": 8, "positions": 99, "width": 9, "entries": 3}),
        ("programs/grouped_matmul.py", {"m": 200, "k": 72, "n": 72, "e": 5, "ends": 6}),
        ("programs/moe_matmul.py", {"t": 50, "k": 72, "n": 72, "e": 4, "rows": 140, "tiles": 3}),
        ("programs/variable_length_attention.py", {"h": 4, "g": 2, "total": 190, "d": 32, "ends": 5}),
        ("programs/quantize_rows.py:quantize_rows", {"m": 6, "n": 100}),
    ],
)
def test_examples_print_and_read_back(program_path: str, sizes: dict[str, int]) -> None:
    example = load_program(str(Path(__file__).parents[3] / "examples" / program_path))
    trace = example.trace(sizes, {n: values[-1] for n, values in example.domains(sizes).items()})
    printed = parse(text(trace))
    again = printed.program.trace(printed.sizes, dict(trace.chosen))
    assert not printed.notes and same(trace, again) and text(again) == text(trace)


@pytest.mark.parametrize(
    "title",
    [
        "gather",
        "scatter",
        "a gather of a vector, with a mask",
        "a scatter to a tile of places, with a mask",
        "a vector to a layout",
        "a batch of matrices to a layout",
        "a layout for another compiler's product",
        "a strip at an index",
        "sums of rows",
        "expanded sums of rows",
        "a matvec of three columns",
    ],
)
def test_listings_that_run(title: str) -> None:
    reading = parse(READ[title])
    p = problem(reading.program, **{n: reading.sizes.get(n, 200) for n in reading.program.sizes})
    own = template(p.program)
    assert outcome(p, own.kernel(p, own.space(p, A100).sample(1, 1)[0], A100)) == "ok"
