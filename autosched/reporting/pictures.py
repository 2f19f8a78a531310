"""Pictures of layouts: the thread that owns each element of a tile, and the shared-memory bank of each word.

Drawing needs matplotlib (extra ``pictures``), which is imported only when a picture is drawn. No global matplotlib
state is changed.
"""

from __future__ import annotations

import colorsys
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autosched.reporting.panels import (
    Cell,
    Colour,
    Panel,
    cell_legend,
    checked_path,
    cyclic_colour,
    cyclic_legend,
    render,
    subgroup_colour,
)
from search_spaces.arrays import IntArray
from search_spaces.hardware.costs.bank_conflicts import ideal_wavefronts, wavefronts
from search_spaces.hardware.costs.transactions import BANK_BYTES, BANKS, PHASE_BYTES
from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.templates.drawing import Drawing


@dataclass(frozen=True)
class _Accesses:
    """Cycles of every warp access to a tile, with and without bank conflicts. An access covers one ``block``."""

    block: tuple[int, int]
    bytes: int
    cycles: IntArray
    ideal: IntArray

    @property
    def are_alike(self) -> bool:
        """True if no access has a bank conflict, and all accesses take the same number of cycles."""
        return bool((self.cycles == self.ideal).all() and (self.cycles == self.cycles.flat[0]).all())


def draw(drawings: Sequence[Drawing], path: str | Path) -> Path:
    """Draw several layouts below one another.

    Args:
        drawings: Layouts to draw.
        path: File to write, .svg or .png.

    Returns:
        ``path``.

    Raises:
        ValueError: There is nothing to draw, or a layout is invalid for ``draw_distribution`` or ``draw_bank_map``.
        ImportError: matplotlib is not installed.
    """
    target = checked_path(path)
    if not drawings:
        raise ValueError("no layouts to draw: give at least one")
    rows = []
    for drawing in drawings:
        first, *further_panels = panels(drawing)
        rows.append([dataclasses.replace(first, title=f"{drawing.title}: {first.title}"), *further_panels])
    return render(rows, target)


def panels(drawing: Drawing) -> list[Panel]:
    """Return the panels that show one layout.

    Raises:
        ValueError: For the same reasons as ``draw_distribution`` and ``draw_bank_map``.
    """
    if isinstance(drawing.layout, SharedLayout):
        return _bank_panels(drawing.layout, drawing.element_bytes, None, None)
    return _distribution_panels(drawing.layout, drawing.shape, None)


def draw_distribution(
    layout: NestedLayout | WgMap, path: str | Path, shape: Sequence[int] | None = None, subgroups: int | None = None
) -> Path:
    """Draw the subgroup that owns each part of a tile and, for a NestedLayout, the thread that owns each element.

    A NestedLayout gives two panels. The first panel shows the batches of the tile with their subgroups. The second
    panel shows one batch of one subgroup by thread (``t5`` is thread 5, ``r2`` the third of the thread's elements in
    the batch). A WgMap gives one panel; sub-tiles of later rounds are numbered.

    Args:
        layout: Layout of rank 1 or 2.
        path: File to write, .svg or .png.
        shape: Shape of the tile in elements. Required for a WgMap; a NestedLayout has a shape.
        subgroups: Number of subgroups. Default: just enough for the layout. If there are more, subgroups that hold
            copies are also shown.

    Returns:
        ``path``.

    Raises:
        ValueError: The suffix is neither .svg nor .png, the layout has rank 0 or above 2, or the tile is too large to
            be legible.
        ImportError: matplotlib is not installed.
    """
    target = checked_path(path)
    return render([_distribution_panels(layout, shape, subgroups)], target)


def _distribution_panels(
    layout: NestedLayout | WgMap, shape: Sequence[int] | None, subgroups: int | None
) -> list[Panel]:
    if isinstance(layout, WgMap):
        if shape is None:
            raise ValueError("a WgMap has no shape: pass the shape of the tile")
        title = f"sg_layout = {list(layout.sg_layout)}, sg_data = {list(layout.sg_data)}"
        cells = _wg_map_cells(layout, shape)
        size = (shape[0], shape[1])
        return [Panel(title, f"{size[0]} x {size[1]} tile", size, cells, legend=cell_legend(cells))]
    if layout.rank not in (1, 2):
        raise ValueError(f"the layout has rank {layout.rank}: only ranks 1 and 2 can be drawn")
    layout.verify(shape, None, subgroups)
    one, none = (1,), (0,)
    flat = layout if layout.rank == 2 else layout.append(one, one, one, one, one, none, none)
    rows, columns = (
        math.prod(levels) for levels in zip(flat.outer_tile, flat.thread_tile, flat.element_tile, strict=True)
    )
    size = (flat.shape[0], flat.shape[1])
    by_subgroup = _subgroup_cells(flat, subgroups or flat.subgroups)
    tile = Panel(
        "tile by subgroup",
        f"{size[0]} x {size[1]}, batches of {rows} x {columns}",
        size,
        by_subgroup,
        (rows, columns),
        cell_legend(by_subgroup),
    )
    batch = Panel(
        "one batch by thread",
        f"t: thread of {flat.threads}, r: its elements",
        (rows, columns),
        _thread_cells(flat),
        legend=cyclic_legend("thread", flat.threads),
    )
    return [tile, batch]


def draw_bank_map(
    layout: SharedLayout,
    path: str | Path,
    element_bytes: int,
    access: tuple[int, int] | None = None,
    access_bytes: int | None = None,
) -> Path:
    """Draw the bank of every 4-byte word of a tile, and next to it the bank conflicts of every access.

    Each block of elements shows the cycles (wavefronts) of the warp access to it. Green means no conflict. If no access
    has a conflict, only the subtitle states the cycles.

    Args:
        layout: Shared-memory layout of the tile.
        path: File to write, .svg or .png.
        element_bytes: Size of one element in bytes.
        access: Block of (rows, columns) elements that one warp access covers, with at most 32 lanes. Default: the block
            of one phase, with one lane per line of the layout. For accesses of 16 bytes, this block is one matrix of
            ldmatrix.
        access_bytes: Bytes that each lane accesses along a line of the layout (a row, or a column if transposed).
            Default: the number of contiguous bytes in the layout, at most 16.

    Returns:
        ``path``.

    Raises:
        ValueError: The suffix is neither .svg nor .png, the access does not divide the tile, its bytes are not
            contiguous, or the tile is too large to be legible.
        ImportError: matplotlib is not installed.
    """
    target = checked_path(path)
    return render([_bank_panels(layout, element_bytes, access, access_bytes)], target)


def _bank_panels(
    layout: SharedLayout, element_bytes: int, access: tuple[int, int] | None, access_bytes: int | None
) -> list[Panel]:
    accesses = _accesses(layout, element_bytes, access, access_bytes)
    degrees = np.unique(accesses.cycles / accesses.ideal).tolist()
    alike = f", {_cycles(int(accesses.cycles.flat[0]))} each" if accesses.are_alike else ""
    lost, total = accesses.cycles.sum() - accesses.ideal.sum(), accesses.cycles.sum()
    rows, columns = accesses.block
    shape = f"{layout.shape[0]} x {layout.shape[1]} tile of {element_bytes}-byte elements"
    words = _bank_cells(layout, element_bytes)
    # draw no outline for accesses that are narrower than a word
    outlines = accesses.block if rows >= words[0].rows and columns >= words[0].columns else None
    return [
        Panel(f"{layout.text}: bank of each word", shape, layout.shape, words, outlines, cyclic_legend("bank", BANKS)),
        Panel(
            "no conflicts" if not lost else f"conflicts cost {lost} of {total} cycles",
            f"warp accesses of {rows} x {columns} elements, {accesses.bytes} bytes a lane{alike}",
            layout.shape,
            _conflict_cells(accesses),
            legend=tuple((_heat(d), f"{d:g}-way conflict" if d > 1 else "no conflict") for d in degrees),
        ),
    ]


# Cells


def _wg_map_cells(wg_map: WgMap, shape: Sequence[int]) -> list[Cell]:
    owners, data = wg_map.owners(shape), wg_map.sg_data
    rounds = wg_map.rounds(shape)
    deal = {tuple(o): i for s in range(wg_map.subgroups) for i, o in enumerate(wg_map.offsets(shape, s))}
    cells = []
    for row, column in np.ndindex(owners.shape[:2]):
        origin = (row * data[0], column * data[1])
        note = f"\nround {deal[origin]}" if rounds != (1, 1) else ""
        owners_of_cell = owners[row, column].tolist()
        cells.append(
            Cell(
                *origin,
                *data,
                subgroup_colour(owners_of_cell[0]),
                f"subgroup{'s' * (len(owners_of_cell) > 1)} {_ids(owners_of_cell)}{note}",
            )
        )
    return cells


def _subgroup_cells(layout: NestedLayout, subgroups: int) -> list[Cell]:
    part = [n // s for n, s in zip(layout.shape, layout.subgroup_tile, strict=True)]
    virtual = layout.virtual_subgroup_ids(np.arange(subgroups))
    cells = []
    for index in np.ndindex(layout.subgroup_tile):
        owners_of_cell = np.flatnonzero((virtual == np.array(index)).all(axis=1)).tolist()
        text = f"subgroup{'s' * (len(owners_of_cell) > 1)} {_ids(owners_of_cell)}"
        cells.append(
            Cell(index[0] * part[0], index[1] * part[1], part[0], part[1], subgroup_colour(owners_of_cell[0]), text)
        )
    return cells


def _thread_cells(layout: NestedLayout) -> list[Cell]:
    """Return the cells of one batch: one per atom (element_tile), with the atom's thread and first register index."""
    one = (1,) * layout.rank
    batch = NestedLayout(
        one, one, layout.outer_tile, layout.thread_tile, layout.element_tile, (0,) * layout.rank, layout.thread_strides
    )
    _, threads, slots = batch.owners()
    atom = layout.element_tile
    span = math.prod(atom)
    virtual = batch.virtual_thread_ids(np.arange(batch.threads))
    cells = []
    for row in range(0, batch.shape[0], atom[0]):
        for column in range(0, batch.shape[1], atom[1]):
            thread, position = int(threads[row, column]), int(slots[row, column])
            copies = np.flatnonzero((virtual == virtual[thread]).all(axis=1)).tolist()
            registers = f"r{position}" if span == 1 else f"r{position}-{position + span - 1}"
            colour = cyclic_colour(thread / batch.threads)
            cells.append(Cell(row, column, atom[0], atom[1], colour, f"t{_ids(copies)}\n{registers}"))
    return cells


def _bank_cells(layout: SharedLayout, element_bytes: int) -> list[Cell]:
    """Return one cell for each word, which may contain several elements along a row or column."""
    words = layout.offsets().astype(np.int64) * element_bytes // BANK_BYTES
    per_word = max(1, BANK_BYTES // element_bytes)
    rows, columns = words.shape
    along_rows = columns % per_word == 0 and (words.reshape(rows, -1, per_word) == words[:, ::per_word, None]).all()
    across = not along_rows and rows % per_word == 0
    across = across and (words.T.reshape(columns, -1, per_word) == words.T[:, ::per_word, None]).all()
    step = (1, per_word) if along_rows else (per_word, 1) if across else (1, 1)
    cells = []
    for row in range(0, rows, step[0]):
        for column in range(0, columns, step[1]):
            bank = int(words[row, column] % BANKS)
            cells.append(Cell(row, column, *step, cyclic_colour(bank / BANKS), str(bank)))
    return cells


def _conflict_cells(accesses: _Accesses) -> list[Cell]:
    cells = []
    rows, columns = accesses.block
    for row, column in np.ndindex(accesses.cycles.shape):
        cycles = int(accesses.cycles[row, column])
        degree = cycles / float(accesses.ideal[row, column])
        text = _cycles(cycles) + (f"\n{degree:g}-way" if degree > 1 else "")
        text = "" if accesses.are_alike else text
        cells.append(Cell(row * rows, column * columns, rows, columns, _heat(degree), text))
    return cells


def _cycles(cycles: int) -> str:
    return f"{cycles} cycle{'s' * (cycles > 1)}"


def _heat(degree: float) -> Colour:
    heat = min(1.0, math.log2(degree) / 3)  # colours from green (no conflict) to red (8-way conflicts and more)
    return colorsys.hsv_to_rgb(0.36 * (1 - heat), 0.3 + 0.4 * heat, 0.96)


def _accesses(
    layout: SharedLayout, element_bytes: int, access: tuple[int, int] | None, access_bytes: int | None
) -> _Accesses:
    if element_bytes not in (1, 2, 4, 8, 16):
        raise ValueError(f"element_bytes must be 1, 2, 4, 8 or 16, not {element_bytes!r}")
    along_rows = layout.line_axis == "cols"
    lines = layout.offsets().astype(np.int64) if along_rows else layout.offsets().astype(np.int64).T
    together = layout.contiguity(layout.line_axis)
    width = min(16, together * element_bytes) if access_bytes is None else access_bytes
    each = width // element_bytes
    if each < 1 or width % element_bytes or together % each:
        raise ValueError(
            f"access_bytes is {width}, but only {together * element_bytes} bytes of a line of layout {layout.text} "
            f"are contiguous: use a multiple of {element_bytes} that divides {together * element_bytes}"
        )
    if access is None:
        across = math.gcd(lines.shape[0], PHASE_BYTES // max(width, BANK_BYTES))
        block = (across, each)
    else:
        block = access if along_rows else access[::-1]
    if min(block) < 1 or block[1] % each or lines.shape[0] % block[0] or lines.shape[1] % block[1]:
        raise ValueError(
            f"access {access} must divide the tile of {layout.shape[0]} x {layout.shape[1]} elements, and the "
            f"access's size along a line must be a multiple of {each}, the number of elements that one lane accesses"
        )
    lanes = block[0] * block[1] // each
    if lanes > WARP:
        raise ValueError(f"access {access} needs {lanes} lanes of {width} bytes, but a warp has {WARP}")
    starts = lines[:, ::each] * element_bytes
    blocks = starts.reshape(lines.shape[0] // block[0], block[0], lines.shape[1] // block[1], block[1] // each)
    warps = np.full((blocks.shape[0], blocks.shape[2], WARP), -1)
    warps[..., :lanes] = blocks.transpose(0, 2, 1, 3).reshape(blocks.shape[0], blocks.shape[2], lanes)
    cycles, ideal = wavefronts(warps, width), ideal_wavefronts(warps, width)
    if along_rows:
        return _Accesses(block, width, cycles, ideal)
    return _Accesses((block[1], block[0]), width, cycles.T, ideal.T)


def _ids(ids: list[int]) -> str:
    """Format ids as ``0, 1``, or as a range ``0-3`` for three or more consecutive ids. Shows at most three groups."""
    groups: list[list[int]] = []
    for i in ids:
        if groups and i == groups[-1][-1] + 1:
            groups[-1].append(i)
        else:
            groups.append([i])
    texts = [", ".join(map(str, g)) if len(g) < 3 else f"{g[0]}-{g[-1]}" for g in groups]
    return ", ".join(texts[:3] + ["..."] * (len(texts) > 3))
