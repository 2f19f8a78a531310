"""How many schedules are out at a time."""

import pytest

from autosched.pace import LEAST, MOST, PER_GPU, FixedPace, Pace


def test_starts_small_and_grows_where_costs_are_unknown() -> None:
    sizes = [Pace().size(told) for told in range(0, 200, 10)]
    assert sizes[0] == LEAST and sizes[-1] == MOST and sizes == sorted(sizes)


def test_overlaps_once_twice_a_batch_is_a_quarter_of_what_was_told() -> None:
    pace = Pace()
    assert not pace.overlaps(4, 31) and pace.overlaps(4, 32)
    assert not pace.overlaps(16, 127) and pace.overlaps(16, 128)


def pace(compilers: int, compiling: float, measuring: float, proposing: float) -> Pace:
    made = Pace(compilers=compilers)
    for kind, seconds in (("compile", compiling), ("measure", measuring), ("propose", proposing)):
        made.note(kind, [seconds] * 8)
    return made


@pytest.mark.parametrize(
    ("compilers", "compiling", "measuring", "proposing", "size"),
    [
        (2, 0.3, 0.02, 0.02, 2),  # two compilers are the bottleneck: no more than they work on
        (16, 0.3, 0.02, 0.02, 15),  # the GPU keeps up with fifteen
        (64, 0.3, 0.02, 0.1, 3),  # a slow sampler keeps three compilers busy
        (64, 0.3, 1.0, 0.02, 1),  # a slow kernel: each result is worth waiting for
        (16, 0.0, 0.02, 0.02, 1),  # everything is compiled already
    ],
)
def test_no_more_than_what_keeps_the_machine_busy(
    compilers: int, compiling: float, measuring: float, proposing: float, size: int
) -> None:
    assert pace(compilers, compiling, measuring, proposing).size(1000) == size


@pytest.mark.parametrize(("compilers", "size"), [(2, 2), (6, 4), (16, 8)])
def test_starts_with_half_of_what_keeps_the_machine_busy_or_with_a_few(compilers: int, size: int) -> None:
    assert pace(compilers, 0.3, 0.02, 0.02).size(0) == size


def test_a_few_waits_do_not_count_as_cost() -> None:
    made = pace(16, 0.3, 0.02, 0.02)
    made.note("measure", [0.3] * 12)  # the first of each batch waited for its compiler
    assert made.size(1000) == 15


def test_several_gpus_get_several_each() -> None:
    assert Pace(gpus=4, compilers=2).size(1000) == 4 * PER_GPU


def test_a_fixed_pace_knows_no_costs() -> None:
    made = FixedPace(7)
    made.note("measure", [1.0])
    assert [made.size(told) for told in (0, 1000)] == [7, 7] and made.overlaps(7, 0)
