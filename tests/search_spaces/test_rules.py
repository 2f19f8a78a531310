import numpy as np
import pytest

from search_spaces.spaces.columns import Columns
from search_spaces.spaces.rules import Attribute, Rule

COLUMNS = Columns({"tile": [16, 32]})


def test_evaluate_gives_the_column() -> None:
    double = Attribute("double", ("tile",), lambda c: 2 * c["tile"])
    assert double.evaluate(COLUMNS).tolist() == [32, 64]
    large = Rule("large", ("tile",), lambda c: c["tile"] > 16, lambda v: f"{v['tile']} is small")
    assert large.evaluate(COLUMNS).tolist() == [False, True]


@pytest.mark.parametrize("result", [np.array([1]), np.array([0.5, 1.0]), np.array(3)])
def test_an_attribute_of_the_wrong_shape_or_type_is_refused(result: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"attribute bad gave .*: give 2 integers"):
        Attribute("bad", ("tile",), lambda c: result).evaluate(COLUMNS)


@pytest.mark.parametrize("result", [np.array([1, 0]), np.array([True]), np.array(True)])
def test_a_rule_of_the_wrong_shape_or_type_is_refused(result: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"rule bad gave .*: give 2 bools"):
        Rule("bad", ("tile",), lambda c: result, lambda v: "").evaluate(COLUMNS)


def test_needs_are_checked() -> None:
    with pytest.raises(ValueError, match="rule r needs at least one column"):
        Rule("r", (), lambda c: np.ones(len(c), dtype=bool), lambda v: "")
    with pytest.raises(ValueError, match="attribute a lists a column twice"):
        Attribute("a", ("tile", "tile"), lambda c: c["tile"])
    with pytest.raises(ValueError, match="a rule needs a name"):
        Rule("", ("tile",), lambda c: c["tile"] > 0, lambda v: "")
