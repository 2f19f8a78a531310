"""Headroom of one problem, computed from synthetic evidence with a known answer.

There is a test for each kind of kernel that may be in use today.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.samplers.first_choices.model_choice import default_choice
from autosched.worth.evidence import Evidence
from autosched.worth.headroom import CannotEstimate, Estimator, Today
from autosched.worth.libraries import LibraryTime
from measurements.trials.shipped import ShippedRecordings
from search_spaces.hardware.devices import device
from search_spaces.operators.row_reduction import Softmax

H100 = device("h100")
PROBLEM = Softmax(4096, 4096, dtype="f16")
OTHER = Softmax(4096, 8192, dtype="f16").key()

MakeEstimator = Callable[..., Estimator]


@pytest.fixture
def estimator(tmp_path: Path) -> MakeEstimator:
    """Return a function that makes an estimator with one search as evidence.

    In this search the model underestimates times by a factor of 1.5, and its choice is 25% slower than the best.
    """

    def make(**options: object) -> Estimator:
        searches = [Evidence(OTHER, (1.5, 1.875, 3.0), (1.1, 1.0, 2.0))]
        fields = {"searches": searches, "comparisons": (), "shipped": ShippedRecordings(tmp_path), **options}
        return Estimator(H100, **fields)  # type: ignore[arg-type]

    return make


def test_an_untuned_problem_has_the_regret_of_the_models_choice(estimator: MakeEstimator) -> None:
    estimate = estimator().estimate(PROBLEM)
    choice = default_choice(PROBLEM, H100)
    assert choice is not None
    assert estimate.today is Today.NOT_TUNED and not estimate.measured
    assert estimate.expected == pytest.approx(0.2)  # 1 - 1 / 1.25
    assert estimate.seconds == pytest.approx(1.5 * 1.25 * choice.seconds)


def test_measured_seconds_are_compared_with_the_corrected_model(estimator: MakeEstimator) -> None:
    choice = default_choice(PROBLEM, H100)
    assert choice is not None
    best = 1.5 * choice.seconds
    slow, at_best, below = (estimator().estimate(PROBLEM, seconds) for seconds in (4 * best, best, best / 10))
    assert slow.today is Today.TIMED and slow.measured and slow.seconds == 4 * best
    assert slow.expected == pytest.approx(0.75)
    assert at_best.expected == 0.0
    assert below.expected == 0.0


def test_no_headroom_goes_below_the_roofline(estimator: MakeEstimator) -> None:
    roof = PROBLEM.min_bytes / H100.dram_bandwidth
    estimate = estimator(searches=[Evidence(OTHER, (1e-3, 2e-3), (1.0, 2.0))]).estimate(PROBLEM, 2 * roof)
    assert estimate.draws.max() == pytest.approx(0.5)


def test_a_librarys_headroom_comes_from_measured_comparisons(estimator: MakeEstimator) -> None:
    exact = LibraryTime("h100", "torch", 0.5, PROBLEM.key())
    other = LibraryTime("h100", "torch", 0.9, OTHER)
    assert estimator(library=True, comparisons=[exact, other]).estimate(PROBLEM).expected == pytest.approx(0.5)
    assert estimator(library=True, comparisons=[other]).estimate(PROBLEM).expected == pytest.approx(0.1)
    faster = LibraryTime("h100", "torch", 1.5, PROBLEM.key())
    assert estimator(library=True, comparisons=[faster]).estimate(PROBLEM).expected == 0.0


def test_a_tuned_problem_gains_the_benefit_of_a_longer_search() -> None:
    recorded = Softmax(4096, 8192, dtype="f16")  # autosched ships a recording of this problem
    estimate = Estimator(H100).estimate(recorded)
    assert estimate.today is Today.TUNED and estimate.measured
    assert 0.0 <= estimate.expected < 0.2
    slow = Estimator(H100).estimate(recorded, 2 * estimate.seconds)
    assert slow.expected == pytest.approx(0.5, abs=1e-6)  # the caller's kernel takes twice as long as the best trial


def test_without_evidence_there_is_no_estimate(estimator: MakeEstimator) -> None:
    with pytest.raises(CannotEstimate):
        estimator(searches=[]).estimate(PROBLEM)


def test_the_interval_holds_the_middle_of_the_draws(estimator: MakeEstimator) -> None:
    estimate = estimator(searches=[Evidence(OTHER, (1.0, r), (1.0, 0.5)) for r in np.linspace(1.1, 2.0, 10)]).estimate(
        PROBLEM
    )
    low, high = estimate.interval
    assert low < estimate.expected < high
