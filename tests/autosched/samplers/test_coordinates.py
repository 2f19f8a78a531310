"""Coordinates of schedules for the Gaussian process."""

import numpy as np
import pytest

from autosched.samplers.bayes.coordinates import SpaceCoordinates
from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.space import Space
from search_spaces.spaces.union_space import UnionSpace


def columns(*parameters: Parameter) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    space = Space("toy", parameters, (), ())
    coordinates = SpaceCoordinates(space)
    schedules = space.sample(space.count(), 0)
    rows = coordinates.of(schedules)
    by_value = {
        str(schedule[parameters[0].name]): row for schedule, row in zip(schedules, rows, strict=True)
    }  # maps the first parameter's value to the schedule's row of coordinates
    return coordinates.names, by_value


def test_counts_are_spread_by_their_logarithms() -> None:
    names, rows = columns(ordinal("warps", (1, 3, 7)))
    assert names == ("warps",)
    assert [rows[v][0] for v in ("1", "3", "7")] == pytest.approx([0.0, 0.5, 1.0])


def test_sizes_other_than_powers_of_two_have_a_second_column() -> None:
    names, rows = columns(ordinal("threads", (32, 48, 64, 96, 128)))
    assert names == ("threads", "threads, factors of two")
    twos = {value: row[1] for value, row in rows.items()}
    assert twos == pytest.approx({"48": 0.0, "32": 1 / 3, "96": 1 / 3, "64": 2 / 3, "128": 1.0})


@pytest.mark.parametrize(
    "parameter",
    [
        ordinal("threads", (32, 64, 128)),  # all are powers of two, so a second column would repeat the first
        ordinal("unroll", (1, 2, 3, 4)),  # an unroll factor is not a size of a block or tile
        ordinal("method", (0, 32, 48)),  # includes 0, which is not a size
        ordinal("odd", (33, 35, 37)),
        categorical("kind", (32, 48, 64)),
        ordinal("order", ("a", "b", "c")),
    ],
)
def test_other_parameters_have_one_column(parameter: Parameter) -> None:
    assert columns(parameter)[0] == (parameter.name,)


def test_templates_share_columns_and_lack_those_of_others() -> None:
    first = Space("first", (ordinal("tile", (32, 48)), ordinal("stages", (1, 2))), (), ())
    second = Space("second", (ordinal("tile", (64, 96)), ordinal("warps", (4,))), (), ())
    coordinates = SpaceCoordinates(UnionSpace([first, second]))
    assert coordinates.names == ("template", "tile", "tile, factors of two", "stages", "warps")
    rows = {(s.template, s["tile"]): row for s in second.sample(2, 0) for row in coordinates.of([s])}
    assert rows["second", 64][:3] == pytest.approx([1.0, np.log2(65 / 33) / np.log2(97 / 33), 1.0])
    assert rows["second", 96][2] == pytest.approx(0.5)
    assert np.isnan(rows["second", 64][3]) and rows["second", 64][4] == 0.0
