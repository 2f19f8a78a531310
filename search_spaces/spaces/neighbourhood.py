"""Moves of a search in a space: neighbours, mutation and crossover on matrices [n, parameters] of codes.

The space's rules are applied to all proposals at once. Only ``rng.random`` is used as a source of random numbers, so
that results do not depend on numpy's version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces.parameters import Parameter

FEW_NEIGHBOURS = 32
_MOST_MOVES = 1024  # maximum number of single moves that are combined into pairs; built-in spaces have fewer moves
ROUNDS = 4
TRIES = 16

Legal = Callable[[IntArray], BoolArray]


def check_rate(rate: float) -> None:
    """Raise ValueError for a mutation rate outside (0, 1]."""
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"a mutation rate cannot be {rate}: use a number in (0, 1]")


def check_pairs(a: Sequence[object], b: Sequence[object]) -> None:
    """Raise ValueError if the two lists of parents differ in length."""
    if len(a) != len(b):
        raise ValueError(f"crossover needs equally many first and second parents, not {len(a)} and {len(b)}")


def neighbours(parameters: Sequence[Parameter], tied: BoolArray, start: IntArray, legal: Legal) -> IntArray:
    """Return the legal rows one move away; if they are few, also rows in which two parameters of one rule have moved.

    Args:
        parameters: Parameters of the space.
        tied: [parameters, parameters], True at [i, j] with i < j if a rule depends on both parameters.
        start: Codes of the configuration to start from, [parameters].
        legal: Function that returns a mask of legal rows.

    Returns:
        Codes of the neighbours, [n, parameters].
    """
    steps = [p.neighbour_codes(int(code)) for p, code in zip(parameters, start, strict=True)]
    moved = np.repeat(np.arange(len(steps)), [len(codes) for codes in steps])
    to = np.array([code for codes in steps for code in codes], dtype=np.int64)
    neighbours_ = _moved(start, moved[:, None], to[:, None], legal)
    if len(neighbours_) < FEW_NEIGHBOURS:
        most = min(len(moved), _MOST_MOVES)
        some = np.arange(most) * len(moved) // most
        moved, to = moved[some], to[some]
        pairs = np.argwhere(tied[moved[:, None], moved])  # pairs of single moves whose parameters occur in one rule
        pairs = pairs[np.lexsort((*pairs.T[::-1], *moved[pairs].T[::-1]))]  # by changed parameters, then by values
        neighbours_ = np.concatenate([neighbours_, _moved(start, moved[pairs], to[pairs], legal)])
    return neighbours_


def _moved(start: IntArray, parameters: IntArray, codes: IntArray, legal: Legal) -> IntArray:
    """Return the legal rows among n copies of a row, in each of which k parameters are changed.

    In copy i, the parameters ``parameters[i]`` have the codes ``codes[i]``.
    """
    rows = np.tile(start, (len(parameters), 1))
    rows[np.arange(len(parameters))[:, None], parameters] = codes
    return rows[legal(rows)]


def mutate(
    parameters: Sequence[Parameter], parents: IntArray, rng: np.random.Generator, rate: float, legal: Legal
) -> IntArray:
    """Return one legal mutant of each parent; the parent if no legal mutant is found.

    Args:
        parameters: Parameters of the space.
        parents: Codes of the parents, [n, parameters].
        rng: Random generator for the moves.
        rate: Probability that a parameter moves. One parameter of each parent always moves. The probability is halved
            after each round.
        legal: Function that returns a mask of legal rows.

    Returns:
        Codes of the mutants, [n, parameters].
    """
    movable = np.array([i for i, p in enumerate(parameters) if len(p.values) > 1], dtype=np.int64)
    if not len(movable):
        return parents

    def propose(origin: IntArray, attempt: int) -> IntArray:
        rows = parents[origin]
        moves = rng.random(rows.shape) < rate / 2**attempt
        surely = movable[(rng.random(len(rows)) * len(movable)).astype(np.int64)]
        moves[np.arange(len(rows)), surely] = True
        moved = np.stack([p.mutate_codes(rows[:, i], rng) for i, p in enumerate(parameters)], axis=1)
        return np.where(moves, moved, rows)

    return _first_accepted(parents, propose, lambda children, origin: legal(children))


def crossover(a: IntArray, b: IntArray, rng: np.random.Generator, legal: Legal) -> IntArray:
    """Return, for each pair of rows, a legal child that differs from both rows; the row of ``a`` if none is found.

    The fraction of parameters that come from ``b`` differs between proposals, so that some children are similar to one
    parent.

    Args:
        a: Codes of the first parents, [n, parameters].
        b: Codes of the second parents, [n, parameters].
        rng: Random generator for the choices.
        legal: Function that returns a mask of legal rows.

    Returns:
        Codes of the children, [n, parameters].
    """

    def propose(origin: IntArray, attempt: int) -> IntArray:
        share = rng.random((len(origin), 1))
        return np.where(rng.random((len(origin), a.shape[1])) < share, b[origin], a[origin])

    def accept(children: IntArray, origin: IntArray) -> BoolArray:
        fresh: BoolArray = (children != a[origin]).any(axis=1) & (children != b[origin]).any(axis=1)
        fresh[fresh] = legal(children[fresh])
        return fresh

    return _first_accepted(a, propose, accept)


def _first_accepted(
    parents: IntArray,
    propose: Callable[[IntArray, int], IntArray],
    accept: Callable[[IntArray, IntArray], BoolArray],
) -> IntArray:
    """Return the first accepted proposal for each parent, or the parent. ``propose`` receives indices of parents."""
    result = parents.copy()
    waiting = np.arange(len(parents))
    for attempt in range(ROUNDS):
        if not len(waiting):
            break
        origin = np.repeat(waiting, TRIES)
        children = propose(origin, attempt)
        accepted = accept(children, origin).reshape(-1, TRIES)
        any_accepted = accepted.any(axis=1)
        first = accepted.argmax(axis=1)[any_accepted]
        result[waiting[any_accepted]] = children.reshape(len(waiting), TRIES, -1)[any_accepted, first]
        waiting = waiting[~any_accepted]
    return result
