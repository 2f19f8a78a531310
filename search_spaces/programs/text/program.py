"""Convert a listing to a program whose function executes the statements with the builder, so that all rules apply.

Each ambiguity of the text is resolved and reported as a note. A fragment is completed to a program: undefined names
become inputs, and unused results become outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from search_spaces.hardware.dtypes import DType, dtype
from search_spaces.programs.builder import ARRAY_DTYPES, Argument, Builder, Program
from search_spaces.programs.language.ir import Array, ProgramError
from search_spaces.programs.text.execute import Execution
from search_spaces.programs.text.fragments import close
from search_spaces.programs.text.linalg import is_linalg, read_reduction
from search_spaces.programs.text.listing import Listing
from search_spaces.programs.text.reader import read
from search_spaces.programs.text.survey import ArrayInfo, Survey, names_of, survey, tile_offsets
from search_spaces.programs.text.tir import is_tir, read_tir


@dataclass(frozen=True)
class Reading:
    """The result of parsing a text.

    Attributes:
        listing: The statements; None for linalg and TensorIR.
        program: The program.
        sizes: Sizes whose values are in the text.
        notes: One line for each ambiguity that was resolved.
    """

    listing: Listing | None
    program: Program
    sizes: dict[str, int]
    notes: tuple[str, ...] = field(default=())


def parse(text: str, name: str = "", file: str = "text") -> Reading:
    """Parse a text.

    Raises:
        ProgramError: The text is invalid. The message is one line, with the position of the first error.
    """
    if is_linalg(text):
        reduction = read_reduction(text, file)
        program = reduction.program(name or ("matvec_listing" if reduction.n else "sums_listing"), f"{file}\0{text}")
        program = replace(program, source=file)
        return Reading(None, program, dict(program.defaults), reduction.notes)
    if is_tir(text):
        reading = read_tir(text, name, file)
        program = replace(reading.program, notes=reading.notes, source=file)
        return Reading(None, program, dict(program.defaults), reading.notes)
    listing = read(text, file)
    surveyed = close(survey(listing))
    _give_roles(surveyed)
    arrays = [a for a in surveyed.arrays.values() if a.role != "shared"]
    if all(a.role == "input" for a in arrays):
        raise ProgramError(f"{file}: the text stores nothing: add a store to run it")
    arguments = tuple((a.argument, Argument(a.sizes, _dtype(a, file), a.role)) for a in arrays)  # type: ignore[arg-type]
    sizes = _extents(arrays)

    def function(p: Builder, *reading: Array) -> None:
        given_sizes = {s: n for a in reading for s, n in zip(a.sizes, a.full, strict=True)}
        if surveyed.fixed and given_sizes != sizes:
            assignments = ", ".join(f"{n} = {v}" for n, v in sizes.items())
            raise ProgramError(f"{file}: the text is only valid for the sizes for which it was printed: {assignments}")
        Execution(surveyed, p, {a.name: m for a, m in zip(arrays, reading, strict=True)}, given_sizes).run()

    own = name or listing.name or "fragment"
    program = Program(
        own, function, arguments, f"{file}\0{text}", f"the listing {file}", tuple(sizes.items()), source=file
    )
    if set(program.sizes) == set(sizes):
        program.domains(sizes)  # executes the text once, which records all notes
    notes = tuple(dict.fromkeys((*listing.notes, *surveyed.notes)))
    return Reading(listing, replace(program, notes=notes), sizes, notes)


def _give_roles(survey: Survey) -> None:
    """Assign roles to arrays: an array is an output if the text stores to it, else an input.

    If several blocks store to the same position, or combine elements, the array is "inout".
    """
    axes = {n for s in survey.grid for n in s.results}
    for name in survey.stored:
        tile = survey.tiles.get(name)
        if tile is None:
            combined = any(s.op in ("xetile.atomic_rmw", "xetile.store_scatter") for s in survey.listing.walk())
            survey.arrays[name].role = "inout" if combined else "output"
            continue
        array = survey.arrays.get(survey.base(tile.base))
        if array is None or array.role or tile.statement.takes[0].shared:
            continue
        placed = set().union(*(names_of(p) for p in tile_offsets(survey, tile)))
        combined = any(
            s.op in ("xetile.atomic_rmw", "xetile.store_scatter") and name in map(str, s.operands)
            for s in survey.listing.walk()
        )
        array.role = "output" if axes <= placed and not combined else "inout"
    for array in survey.arrays.values():
        array.role = array.role or "input"


def _dtype(array: ArrayInfo, file: str) -> DType:
    try:
        return dtype(array.type.element, ARRAY_DTYPES)
    except ValueError as error:
        raise ProgramError(f"{file}: {array.name}: {error}") from error


def _extents(arrays: list[ArrayInfo]) -> dict[str, int]:
    """Return, by name, the sizes that are numbers in the text."""
    return {
        size: extent
        for a in arrays
        for size, extent in zip(a.sizes, a.dims, strict=True)
        if isinstance(extent, int)
    }  # fmt: skip
