"""Each metric equals the result of a slow, direct computation from its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.trees.evaluation import (
    group_codes,
    rank_correlation,
    regret,
    top_k_recall,
)

SMALL = st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 6)), min_size=1, max_size=12)


def test_a_perfect_and_an_inverted_order() -> None:
    seconds = [1.0, 2.0, 4.0, 8.0]
    assert rank_correlation([0, 1, 2, 3], seconds) == pytest.approx(1.0)
    assert rank_correlation([3, 2, 1, 0], seconds) == pytest.approx(-1.0)
    assert regret([0, 1, 2, 3], seconds) == 0.0
    assert regret([3, 2, 1, 0], seconds) == pytest.approx(7.0)
    assert top_k_recall([3, 2, 1, 0], seconds, 2) == pytest.approx(0.25)
    assert top_k_recall([3, 2, 1, 0], seconds, 4) == 1.0


@given(SMALL)
def test_rank_correlation_is_pearson_of_average_ranks(rows: list[tuple[int, int]]) -> None:
    def ranks(values: list[int]) -> list[float]:
        return [sum(v < x for v in values) + (sum(v == x for v in values) - 1) / 2 for x in values]

    x, y = ranks([p for p, _ in rows]), ranks([s for _, s in rows])
    constant = len(set(x)) == 1 or len(set(y)) == 1
    expected = 0.0 if constant else float(np.corrcoef(x, y)[0, 1])
    assert rank_correlation([p for p, _ in rows], [s for _, s in rows]) == pytest.approx(expected, abs=1e-12)


@given(SMALL, st.integers(1, 12))
def test_recall_grows_with_k_and_ends_at_one(rows: list[tuple[int, int]], k: int) -> None:
    predicted, seconds = [p for p, _ in rows], [s for _, s in rows]
    assert 0 < top_k_recall(predicted, seconds, k) <= top_k_recall(predicted, seconds, k + 1) <= 1
    assert top_k_recall(predicted, seconds, len(rows)) == 1.0


def test_rows_with_equal_predictions_get_no_credit_for_their_order() -> None:
    assert top_k_recall([0.0] * 4, [1.0, 2.0, 3.0, 4.0], 1) == 0.25
    assert rank_correlation([0.0] * 4, [1.0, 2.0, 3.0, 4.0]) == 0.0


def test_group_codes_number_groups_as_they_appear() -> None:
    assert group_codes(["b", "a", "b"], 3).tolist() == [0, 1, 0]
    assert group_codes(None, 2).tolist() == [0, 0]
    with pytest.raises(ValueError, match="3 rows"):
        group_codes(["a"], 3)


@pytest.mark.parametrize(
    ("predicted", "seconds", "complaint"),
    [
        ([], [], "not empty"),
        ([1.0], [1.0, 2.0], "equal length"),
        ([float("nan")], [1.0], "predictions must be finite"),
        ([1.0], [float("inf")], "times must be positive"),
        ([1.0], [float("nan")], "times must be positive"),
        ([1.0], [0.0], "times must be positive"),
    ],
)
def test_invalid_columns_are_rejected(predicted: list[float], seconds: list[float], complaint: str) -> None:
    for metric in (rank_correlation, regret):
        with pytest.raises(ValueError, match=complaint):
            metric(predicted, seconds)
    with pytest.raises(ValueError, match="k must be at least 1"):
        top_k_recall([1.0], [1.0], 0)
