import numpy as np
import pytest

from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.recorded_space import RecordedSpace
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import EmptySpace, Space

SPACE = Space(
    "toy",
    (ordinal("x", (1, 2, 4, 8, 16)), ordinal("y", (1, 2, 4, 8, 16)), categorical("letter", ("a", "b", "c"))),
    (),
    (Rule("order", lambda x, y: x <= y, "{x} is more than {y}"),),
)
LISTED = SPACE.sample(12, 3)
SUBSET = RecordedSpace(SPACE, LISTED)
ALL = SPACE.sample(SPACE.count(), 0)


def test_the_space_contains_each_listed_schedule_once() -> None:
    assert SUBSET.count() == 12
    assert set(SUBSET.sample(100, 1)) == set(LISTED)
    assert len(SUBSET.sample(100, 1)) == 12
    assert SUBSET.schedules(SUBSET.unrank(range(12))) == LISTED
    assert [s in LISTED for s in ALL] == SUBSET.allowed(SUBSET.columns(ALL)).tolist()
    assert RecordedSpace(SPACE, [*LISTED, *LISTED]).count() == 12


def test_a_longer_sample_extends_a_shorter_one() -> None:
    assert SUBSET.sample(9, 5)[:4] == SUBSET.sample(4, 5)
    assert SUBSET.sample(9, 5) != SUBSET.sample(9, 6)


def test_the_fingerprint_equals_that_of_the_full_space() -> None:
    assert SUBSET.fingerprint == SPACE.fingerprint
    assert SUBSET.encoded_names == SPACE.encoded_names


def test_moves_stay_in_the_list_and_move() -> None:
    rng = np.random.default_rng(0)
    for moved in (SUBSET.mutate(LISTED, rng), SUBSET.crossover(LISTED, LISTED[::-1], rng)):
        assert len(moved) == 12
        assert set(moved) <= set(LISTED)
    assert all(a != b for a, b in zip(SUBSET.mutate(LISTED, rng), LISTED, strict=True))


def test_neighbours_are_the_others_nearest_first() -> None:
    def distance(schedule: Schedule) -> int:
        return sum(a != b for a, b in zip(schedule.items, LISTED[0].items, strict=True))

    neighbours = SUBSET.neighbours(LISTED[0])
    assert set(neighbours) == set(LISTED[1:])
    assert [distance(s) for s in neighbours] == sorted(distance(s) for s in neighbours)
    assert SUBSET.neighbours(LISTED[0], 3) == neighbours[:3]


def test_a_list_of_one_schedule_has_no_neighbours() -> None:
    alone = RecordedSpace(SPACE, LISTED[:1])
    assert alone.mutate(LISTED[:1], np.random.default_rng(0)) == LISTED[:1]
    assert alone.neighbours(LISTED[0]) == []


def test_unknown_and_illegal_schedules_are_excluded() -> None:
    illegal = LISTED[0].replace(x=16, y=1)
    unknown = LISTED[0].replace(letter="z")
    foreign = Schedule("other", LISTED[0].items)
    assert RecordedSpace(SPACE, [illegal, unknown, foreign, LISTED[1]]).sample(9, 0) == [LISTED[1]]
    with pytest.raises(EmptySpace, match="none of the 3 listed"):
        RecordedSpace(SPACE, [illegal, unknown, foreign])


def test_invalid_arguments_are_rejected() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="cannot draw -1"):
        SUBSET.sample(-1, 0)
    with pytest.raises(ValueError, match="rank"):
        SUBSET.unrank([12])
    with pytest.raises(ValueError, match="rate"):
        SUBSET.mutate(LISTED, rng, 0.0)
    with pytest.raises(ValueError, match="parents"):
        SUBSET.crossover(LISTED, LISTED[1:], rng)
