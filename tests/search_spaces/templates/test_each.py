import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.spaces import each as each_module
from search_spaces.spaces.columns import TextColumn
from search_spaces.spaces.each import each

WORDS = ("identity", "pad(8,1)", "transpose")


def test_many_rows_take_one_call_per_distinct_combination_of_plain_values() -> None:
    calls: list[tuple[int, str]] = []

    def one(tile: int, layout: str) -> int:
        assert type(tile) is int and type(layout) is str
        calls.append((tile, layout))
        return tile + len(layout)

    tile, layout = np.array([16, 32, 16, 64] * 9), TextColumn(np.array([0, 2, 0, 1] * 9), WORDS)
    assert each(one)(tile, layout).tolist() == [24, 41, 24, 72] * 9
    assert sorted(calls) == [(16, "identity"), (32, "transpose"), (64, "pad(8,1)")]


@pytest.mark.parametrize("rows", [1, 100])
def test_the_type_follows_from_the_results(rows: int) -> None:
    tile = np.arange(rows)
    assert each(lambda value: value < 3)(tile).dtype == np.bool_
    assert each(lambda value: 2 * value)(tile).dtype == np.int64
    assert each(lambda value: value / 3)(tile).tolist() == [value / 3 for value in range(rows)]


@pytest.mark.parametrize("rows", [1, 100])
def test_columns_may_be_given_by_name(rows: int) -> None:
    a, b = np.arange(rows), np.arange(rows) % 7
    assert each(lambda b, a: a - b)(a=a, b=b).tolist() == (a - b).tolist()
    assert each(lambda **sizes: sizes["a"] - sizes["b"])(b=b, a=a).tolist() == (a - b).tolist()


def test_each_has_the_parameters_of_the_function() -> None:
    assert list(inspect.signature(each(lambda tile, layout: 0)).parameters) == ["tile", "layout"]


@given(st.data(), st.integers(1, 30), st.sampled_from([8, 2**20, 2**40]), st.booleans(), st.booleans())
def test_each_agrees_with_the_row_by_row_function(
    data: st.DataObject, rows: int, largest: int, dense: bool, few: bool
) -> None:
    a, b = (data.draw(st.lists(st.integers(-largest, largest), min_size=rows, max_size=rows)) for _ in "ab")
    codes = data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(each_module, "_DENSE_KEYS", 1 << 22 if dense else 0)
        patch.setattr(each_module, "_FEW_ROWS", 30 if few else 0)
        result = each(lambda a, t, b: (a - 2 * b + len(t)) % 1009)(
            np.array(a), TextColumn(np.array(codes), WORDS), np.array(b)
        )
    assert result.tolist() == [(x - 2 * y + len(WORDS[t])) % 1009 for x, y, t in zip(a, b, codes, strict=True)]


def test_many_wide_columns_do_not_overflow() -> None:
    row = np.arange(512)
    first = (row // 2 + 128 * (row % 2)) % 256  # among 256**9 combinations, the first column's weight is 2**64
    other_rows = [row // 2] * 8
    assert each(lambda *values: values[0] - values[8])(first, *other_rows).tolist() == (first - other_rows[-1]).tolist()
