"""The headroom of a program is summed over the program's problems."""

import numpy as np
import pytest

from autosched.worth.headroom import DRAWS, Headroom, Today
from autosched.worth.program import ProgramPart, program_worth
from search_spaces.operators.copy import Copy


def part(seconds: float, headroom: float, count: float = 1.0) -> ProgramPart:
    return ProgramPart(Headroom(Copy(8, 8), Today.TIMED, seconds, True, np.full(DRAWS, headroom)), count)


def test_gains_are_weighted_by_time_and_count() -> None:
    worth = program_worth([part(1.0, 0.1, count=3), part(2.0, 0.5), part(5.0, 0.0)])
    assert worth.seconds == 10.0
    assert worth.expected == pytest.approx(0.13)  # the program takes 10 s, and its kernels save 0.3 s and 1.0 s
    assert [p.saved for p in worth.parts] == pytest.approx([1.0, 0.3, 0.0])
    assert sum(worth.share(p) for p in worth.parts) == pytest.approx(1.0)


def test_the_rest_of_the_program_dilutes_the_gain() -> None:
    worth = program_worth([part(1.0, 0.5)], program_seconds=100.0)
    assert worth.expected == pytest.approx(0.005)
    assert not worth.worth_it()
    assert program_worth([part(1.0, 0.5)]).worth_it()


def test_a_program_cannot_be_faster_than_its_calls() -> None:
    with pytest.raises(ValueError, match="calls alone take"):
        program_worth([part(2.0, 0.5)], program_seconds=1.0)


def test_the_first_problems_bring_most_of_the_gain() -> None:
    parts = [part(1.0, 0.9), part(1.0, 0.08), part(1.0, 0.01)]
    assert program_worth(parts).first == (parts[0],)
    assert program_worth([part(1.0, 0.0)]).first == ()


def test_errors_of_problems_are_independent() -> None:
    """The interval for many equal problems is narrower than the interval for one problem."""
    draws = np.random.default_rng(0).uniform(0.0, 0.4, DRAWS)
    one = ProgramPart(Headroom(Copy(8, 8), Today.NOT_TUNED, 1.0, False, draws), 1.0)

    def width(number: int) -> float:
        low, high = program_worth([one] * number).interval
        return high - low

    assert width(16) < 0.5 * width(1)
