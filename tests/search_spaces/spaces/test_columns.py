import numpy as np
import pytest

from search_spaces.spaces.columns import Columns, TextColumn

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


def test_a_column_of_texts_is_compared_with_texts() -> None:
    layout = example().column("layout")
    assert isinstance(layout, TextColumn) and len(layout) == 4
    assert (layout == "identity").tolist() == [True, False, True, False]
    assert (layout != "identity").tolist() == [False, True, False, True]
    assert (layout == "no such layout").tolist() == [False] * 4
    assert layout.tolist() == ["identity", "transpose", "identity", "pad(8,1)"]
    assert np.array_equal(example().column("tile"), example()["tile"])


def test_take_select_and_with_integers() -> None:
    c = example().with_integers("threads", np.array([1, 2, 3, 4]))
    assert c.take(np.array([3, 0])).decode("layout") == ["pad(8,1)", "identity"]
    assert c.take(np.array([True, False, False, True]))["threads"].tolist() == [1, 4]
    assert c.select(("threads", "tile")).names == ("threads", "tile")
    with pytest.raises(ValueError, match="column threads has 2 rows"):
        example().with_integers("threads", np.array([1, 2]))


def test_a_missing_column_is_reported_by_name() -> None:
    with pytest.raises(KeyError, match="no column 'sg' here, only layout, tile"):
        example()["sg"]
    with pytest.raises(KeyError, match="no column 'sg'"):
        example().select(("sg",))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "equal lengths"),
        ({"a": [[1]]}, "column a must be a 1-D array"),
        ({"a": [0.5]}, "column a must be a 1-D array of integers"),
        ({"layout": [3]}, r"column layout has a code outside 0\.\.2"),
        ({"layout": [-1]}, "column layout has a code outside"),
    ],
)
def test_invalid_columns_are_rejected(arrays: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Columns(arrays, {"layout": WORDS})  # type: ignore[arg-type]
