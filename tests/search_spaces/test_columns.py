import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.spaces import columns as columns_module
from search_spaces.spaces.columns import Columns

WORDS = ("identity", "pad(8,1)", "transpose")


def example() -> Columns:
    return Columns({"tile": [16, 32, 16, 64], "layout": [0, 2, 0, 1]}, {"layout": WORDS})


def test_integers_are_values_and_texts_are_codes() -> None:
    c = example()
    assert len(c) == 4 and c.names == ("layout", "tile") and list(c) == ["layout", "tile"]
    assert c["tile"].tolist() == [16, 32, 16, 64] and c["tile"].dtype == np.int64
    assert c["layout"].tolist() == [0, 2, 0, 1] and c["layout"].dtype == np.int64
    assert c.is_text("layout") and not c.is_text("tile")
    assert c.decode("layout") == ["identity", "transpose", "identity", "pad(8,1)"]
    assert c.decode("tile") == [16, 32, 16, 64]


def test_codes_of_integers_are_decoded() -> None:
    c = Columns.coded({"tile": np.array([1, 0, 1], dtype=np.uint8)}, {"tile": (16, 32)}, 3)
    assert c["tile"].tolist() == [32, 16, 32] and c["tile"].dtype == np.int64
    assert c.decode("tile") == [32, 16, 32]


def test_map_calls_once_per_distinct_combination_with_plain_values() -> None:
    calls: list[tuple[int, str]] = []

    def one(tile: int, layout: str) -> int:
        assert type(tile) is int and type(layout) is str
        calls.append((tile, layout))
        return tile + len(layout)

    assert example().map(("tile", "layout"), one).tolist() == [24, 41, 24, 72]
    assert sorted(calls) == [(16, "identity"), (32, "transpose"), (64, "pad(8,1)")]


def test_map_gives_the_type_asked_for() -> None:
    assert example().map("layout", lambda text: text == "identity", bool).tolist() == [True, False, True, False]
    assert example().map("tile", lambda tile: tile / 3, np.float64)[0] == pytest.approx(16 / 3)


def test_map_of_no_rows_is_empty() -> None:
    assert example().take(np.array([], dtype=np.int64)).map("tile", lambda tile: 1 // 0, bool).shape == (0,)


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 30), st.booleans())
def test_map_is_the_row_by_row_function(data: st.DataObject, rows: int, dense: bool) -> None:
    arrays = {n: data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=rows, max_size=rows)) for n in "ab"}
    arrays["t"] = data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    c = Columns(arrays, {"t": WORDS})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_DENSE_KEYS", 1 << 22 if dense else 0)
        mapped = c.map(("a", "t", "b"), lambda a, t, b: (a - 2 * b + len(t)) % 1009)
    assert mapped.tolist() == [(a - 2 * b + len(WORDS[t])) % 1009 for a, b, t in zip(*arrays.values(), strict=True)]


def test_map_of_many_wide_columns_does_not_overflow() -> None:
    row = np.arange(512)
    arrays = {"c0": (row // 2 + 128 * (row % 2)) % 256}  # of 256**9 combinations the first column has the weight 2**64
    arrays.update({f"c{i}": row // 2 for i in range(1, 9)})
    mapped = Columns(arrays).map(tuple(arrays), lambda *values: values[0] - values[8])
    assert mapped.tolist() == (arrays["c0"] - arrays["c8"]).tolist()


def test_take_select_and_with_integers() -> None:
    c = example().with_integers("threads", np.array([1, 2, 3, 4]))
    assert c.take(np.array([3, 0])).decode("layout") == ["pad(8,1)", "identity"]
    assert c.take(np.array([True, False, False, True]))["threads"].tolist() == [1, 4]
    assert c.select(("threads", "tile")).names == ("threads", "tile")
    with pytest.raises(ValueError, match="column threads has 2 rows, the others 4"):
        example().with_integers("threads", np.array([1, 2]))


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="no column 'sg' here, only layout, tile: list it in `needs`"):
        example()["sg"]
    with pytest.raises(KeyError, match="no column 'sg'"):
        example().select(("sg",))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "one length"),
        ({"a": [[1]]}, "column a must be a 1-D array"),
        ({"a": [0.5]}, "column a must be a 1-D array of integers"),
        ({"layout": [3]}, r"column layout has a code outside 0\.\.2"),
        ({"layout": [-1]}, "column layout has a code outside"),
    ],
)
def test_bad_columns_are_refused(arrays: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Columns(arrays, {"layout": WORDS})  # type: ignore[arg-type]
