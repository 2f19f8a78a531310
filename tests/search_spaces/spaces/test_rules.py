from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from search_spaces.spaces.columns import Columns
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Attribute, Rule

COLUMNS = Columns({"tile": [16, 32], "layout": [0, 1]}, {"layout": ("identity", "transpose")})


def test_evaluate_gives_the_column() -> None:
    double = Attribute("double", lambda tile: 2 * tile)
    assert double.needs == ("tile",) and double.evaluate(COLUMNS).tolist() == [32, 64]
    large = Rule("large", lambda tile: tile > 16, "{tile} is small")
    assert large.evaluate(COLUMNS).tolist() == [False, True]
    assert large.why_not({"tile": 16}) == "16 is small"


def test_texts_are_compared_and_mapped() -> None:
    rule = Rule("r", lambda tile, layout: (tile < 32) | (layout == "transpose"), "")
    assert rule.evaluate(COLUMNS).tolist() == [True, True]
    lengths = Attribute("lengths", each(lambda layout, tile: len(layout) * tile))
    assert lengths.needs == ("layout", "tile") and lengths.evaluate(COLUMNS).tolist() == [128, 288]


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS.take(np.array([], dtype=np.int64))], ids=["rows", "no rows"])
def test_columns_have_one_type_for_any_number_of_rows(columns: Columns) -> None:
    assert Attribute("odd", each(lambda tile: tile % 2 == 1)).evaluate(columns).dtype == np.int64
    assert Rule("even", each(lambda tile: tile % 2 == 0), "").evaluate(columns).dtype == np.bool_


def test_parameters_represent_the_columns_of_names() -> None:
    rule = Rule("r", lambda size, layout: size > 16, "{size} is less than {layout}", names={"size": "tile", "x": "y"})
    assert rule.needs == ("tile", "layout")
    assert rule.evaluate(COLUMNS).tolist() == [False, True]
    assert rule.why_not({"tile": 16, "layout": "identity"}) == "16 is less than identity"


def test_two_stars_represent_all_of_names() -> None:
    names = {"tile": "tile", "other": "layout"}
    rule = Rule("r", lambda **c: (c["tile"] > 16) & (c["other"] == "x"), lambda **v: f"broken by {v}", names=names)
    assert rule.needs == ("tile", "layout")
    assert rule.evaluate(COLUMNS).tolist() == [False, False]
    assert rule.why_not({"layout": "identity", "tile": 16}) == "broken by {'tile': 16, 'other': 'identity'}"


def test_bound_arguments_are_not_columns() -> None:
    def above(least: int, tile: np.ndarray) -> np.ndarray:
        return np.asarray(tile > least)

    for function in (partial(above, 16), partial(above, least=16), lambda tile, least=16: tile > least):
        rule = Rule("r", function, "")
        assert rule.needs == ("tile",) and rule.evaluate(COLUMNS).tolist() == [False, True]


def test_functions_of_the_same_code_have_defaults_of_their_own() -> None:
    def above(*bound: int) -> Callable[..., object]:
        def function(tile: np.ndarray, least: int) -> object:
            return tile > least

        function.__defaults__ = bound
        return function

    assert Rule("one", above(16), "").needs == ("tile",)
    assert Rule("two", above(), "").needs == ("tile", "least")
    assert Rule("three", above(32), "").evaluate(COLUMNS).tolist() == [False, False]


def test_a_reason_may_compute_from_some_of_the_values() -> None:
    rule = Rule("r", lambda tile, layout: tile > 16, lambda tile: f"{tile} is {16 - tile} too small")
    assert rule.why_not({"tile": 12, "layout": "identity"}) == "12 is 4 too small"


def test_a_rule_may_be_the_reasons_that_it_gives() -> None:
    def why_not(size: int, layout: str) -> str | None:
        return f"{size} under {layout}" if size == 16 else None

    rule = Rule.refusing("r", why_not, "small tiles", names={"size": "tile"})
    assert (rule.name, rule.needs, rule.doc) == ("r", ("tile", "layout"), "small tiles")
    assert rule.evaluate(COLUMNS).tolist() == [False, True]
    assert rule.why_not({"tile": 16, "layout": "identity"}) == "16 under identity"


@pytest.mark.parametrize("result", [np.array([1]), np.array([0.5, 1.0]), np.array(3)])
def test_an_attribute_of_the_wrong_shape_or_type_is_rejected(result: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"attribute bad returned .*: return 2 integers"):
        Attribute("bad", lambda tile: result).evaluate(COLUMNS)


@pytest.mark.parametrize("result", [np.array([1, 0]), np.array([True]), np.array(True)])
def test_a_rule_of_the_wrong_shape_or_type_is_rejected(result: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"rule bad returned .*: return 2 bools"):
        Rule("bad", lambda tile: result, "").evaluate(COLUMNS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rule("r", lambda: True, ""), "rule r needs at least one column"),
        (lambda: Rule("r", lambda **c: True, ""), "rule r needs at least one column"),
        (lambda: Attribute("a", lambda x, y: x, names={"x": "tile", "y": "tile"}), "attribute a takes a column twice"),
        (lambda: Attribute("a", lambda *tiles: tiles), r"\*tiles is not supported"),
        (lambda: Rule("", lambda tile: tile > 0, ""), "a rule needs a name"),
        (
            lambda: Rule("r", lambda tile: tile > 0, "{tiles} or {tile}"),
            "rule r has the unknown name 'tiles': use .* tile$",
        ),
        (lambda: Rule("r", lambda tile: tile > 0, "{}"), "rule r has the unknown name ''"),
        (lambda: Rule("r", lambda tile: tile > 0, lambda tile, size: ""), "rule r has the unknown name 'size'"),
    ],
)
def test_invalid_declarations_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
