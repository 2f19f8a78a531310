"""Redistribute a tile without shared memory: by moves between registers of a thread or lanes of a warp."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from search_spaces.hardware.fragments import WARP
from search_spaces.programs.language.distribution import Distribution


@dataclass(frozen=True)
class Renamed:
    """A move within threads: new register r has the value of old register ``table[r]`` of the same thread."""

    table: tuple[int, ...]


@dataclass(frozen=True)
class Shuffled:
    """A move within warps: new register r has the value of old register ``table[r]`` of lane ``lane ^ masks[r]``."""

    table: tuple[int, ...]
    masks: tuple[int, ...]


Move = Renamed | Shuffled


@lru_cache(maxsize=2**14)
def move(source: Distribution, target: Distribution, warps: int) -> Move | None:
    """Return the register moves between two distributions; None if they need shared memory.

    The target may have additional rows or columns. Registers of additional elements have arbitrary values.
    """
    have, want = source.elements(warps), target.elements(warps)
    if source.shape != target.shape:
        return _move_to_larger(source, target, warps)
    threads, lanes = np.arange(len(have)), np.arange(WARP)
    # For each lane of warp 0 and each element: the first register that holds the element, or -1.
    register_of = np.full((WARP, math.prod(source.shape)), -1)
    registers = np.arange(source.registers)[::-1]
    register_of[lanes[:, None], have[:WARP, registers]] = registers
    table = register_of[lanes[:, None], want[:WARP]]
    if (table >= 0).all() and (table == table[:1]).all() and (have[:, table[0]] == want).all():
        return Renamed(tuple(table[0].tolist()))
    partners = lanes ^ lanes[:, None]  # partners[mask, lane]: the lane to shuffle from
    pairs = []
    for r in range(want.shape[1]):
        held = register_of[partners, want[:WARP, r]]
        masks = np.flatnonzero((held[:, 0] >= 0) & (held == held[:, :1]).all(axis=1))
        fits = (m for m in masks.tolist() if (have[threads ^ m, held[m, 0]] == want[:, r]).all())
        mask = next(fits, None)
        if mask is None:
            return None
        pairs.append((int(held[mask, 0]), mask))
    return Shuffled(tuple(r for r, _ in pairs), tuple(m for _, m in pairs))


def _move_to_larger(source: Distribution, target: Distribution, warps: int) -> Move | None:
    """Return the register moves that extend a tile by rows or columns; None if they need shared memory."""
    have, threads = source.elements(warps), np.arange(warps * WARP)
    rows, columns = np.divmod(target.elements(warps), target.shape[1])
    inside = (rows < source.shape[0]) & (columns < source.shape[1])
    want, pairs = rows * source.shape[1] + columns, list[tuple[int, int]]()
    for r in range(target.registers):
        one = int(inside[:, r].argmax())  # some thread whose register r holds an element of the source tile
        if not inside[one, r]:
            pairs.append((0, 0))
            continue
        held = ((int(q), m) for m in range(WARP) for q in np.flatnonzero(have[one ^ m] == want[one, r])[:1])
        fits = ((q, m) for q, m in held if ((have[threads ^ m, q] == want[:, r]) | ~inside[:, r]).all())
        pair = next(fits, None)
        if pair is None:
            return None
        pairs.append(pair)
    table, masks = tuple(q for q, _ in pairs), tuple(m for _, m in pairs)
    return Shuffled(table, masks) if any(masks) else Renamed(table)
