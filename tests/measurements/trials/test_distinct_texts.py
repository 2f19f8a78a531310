"""Messages show different numbers as different texts, and integers exactly."""

from __future__ import annotations

import numpy as np
import pytest

from measurements.trials.comparison import compare, distinct_texts
from search_spaces.hardware.dtypes import SCALAR_DTYPES


@pytest.mark.parametrize("name", ["i32", "u32", "i64", "u64"])
def test_a_wrong_integer_is_shown_exactly(name: str) -> None:
    dtype = SCALAR_DTYPES[name]
    actual = np.full(4, 1_048_575, dtype.storage)
    reference = np.full(4, 1_048_576, dtype.storage if dtype.bits == 64 else np.float64)
    result = compare("bins", dtype, actual, reference, np.zeros(4))
    assert not result.ok
    assert "1048575, should be 1048576;" in result.reason


def test_integers_of_64_bits_keep_their_last_digit() -> None:
    most = 2**63 - 1
    result = compare("y", SCALAR_DTYPES["i64"], np.array([most]), np.array([most - 1], dtype=np.int64), np.zeros(1))
    assert f"{most}, should be {most - 1}" in result.reason


def test_floats_have_at_least_six_digits_and_are_distinguishable() -> None:
    assert distinct_texts(1.5, 2.25) == ("1.5", "2.25")
    one, other = distinct_texts(1_048_576.0, 1_048_576.125)
    assert one != other
    assert distinct_texts(float("nan"), 1.0) == ("nan", "1")


def test_a_fraction_that_an_integer_should_be_is_not_cut() -> None:
    result = compare("y", SCALAR_DTYPES["i32"], np.array([2], np.int32), np.array([2.5]), np.array([0.25]))
    assert "is 2, should be 2.5 within 0.25" in result.reason
