"""The limit on the number of trials in flight."""

import pytest

from autosched.tuning.in_flight import MAX_IN_FLIGHT, MIN_IN_FLIGHT, PER_GPU, InFlightLimit


def test_the_limit_starts_small_and_grows_with_unknown_costs() -> None:
    sizes = [InFlightLimit().size(num_reported) for num_reported in range(0, 200, 10)]
    assert sizes[0] == MIN_IN_FLIGHT and sizes[-1] == MAX_IN_FLIGHT and sizes == sorted(sizes)


def test_results_are_reported_in_order_with_unknown_costs() -> None:
    assert InFlightLimit().in_order and not InFlightLimit(compilers=16).in_order


def pace(compilers: int, compiling: float, measuring: float, proposing: float) -> InFlightLimit:
    limit = InFlightLimit(compilers=compilers)
    for kind, seconds in (("compile", compiling), ("measure", measuring), ("propose", proposing)):
        limit.note(kind, [seconds] * 8)
    return limit


@pytest.mark.parametrize(
    ("compilers", "compiling", "measuring", "proposing", "size"),
    [
        (2, 0.3, 0.02, 0.02, 2),  # two compilers are slower than the GPU, so two trials suffice
        (16, 0.3, 0.02, 0.02, 15),  # the GPU measures fifteen kernels while one compiles
        (64, 0.3, 0.02, 0.1, 3),  # a slow sampler proposes only three trials while one compiles
        (64, 0.3, 1.0, 0.02, 1),  # measuring is slow, so a proposal can wait for all earlier results
        (16, 0.0, 0.02, 0.02, 1),  # all modules are already compiled
    ],
)
def test_the_limit_is_the_number_that_keeps_the_machine_busy(
    compilers: int, compiling: float, measuring: float, proposing: float, size: int
) -> None:
    assert pace(compilers, compiling, measuring, proposing).size(1000) == size


@pytest.mark.parametrize(("compilers", "size"), [(2, 2), (6, 6), (16, 15)])
def test_the_limit_starts_at_the_number_that_keeps_the_machine_busy(compilers: int, size: int) -> None:
    assert pace(compilers, 0.3, 0.02, 0.02).size(0) == size


def test_trials_of_compiled_modules_need_no_compiler() -> None:
    limit = pace(8, 0.3, 0.01, 0.01)
    assert limit.size(1000) == 8
    limit.note("compile", [0.0] * 8)  # half of the modules are already compiled
    assert limit.size(1000) == 16


def test_a_batch_sampler_may_exceed_the_limit_by_one_batch() -> None:
    limit = pace(8, 0.3, 0.01, 0.01)
    assert limit.free_slots(1000, 3, 1) == (5, 1)
    assert limit.free_slots(1000, 3, 4) == (8, 4)
    assert InFlightLimit().free_slots(1000, 3, 4) == (MAX_IN_FLIGHT - 3, 4)
    assert InFlightLimit().free_slots(0, 0, 16) == (MIN_IN_FLIGHT, MIN_IN_FLIGHT // 2)


def test_a_few_slow_measurements_do_not_change_the_limit() -> None:
    limit = pace(16, 0.3, 0.02, 0.02)
    limit.note("measure", [5.0] * 7)
    assert limit.size(1000) == 15


def test_compilers_without_a_recorded_time_are_kept_busy() -> None:
    limit = InFlightLimit(compilers=16)
    limit.note("propose", [0.02] * 8)
    assert limit.size(1000) == 16


def test_several_gpus_get_several_each() -> None:
    assert InFlightLimit(gpus=4, compilers=2).size(1000) == 4 * PER_GPU
