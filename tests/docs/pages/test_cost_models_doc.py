"""docs/explanation/cost-models.md lists exactly the features of the code, with the meanings that the code states."""

import re
from pathlib import Path

import pytest

from autosched.tuning import warm_start
from cost_models.features import FEATURE_VERSION, FEATURES, meaning

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "cost-models.md").read_text("utf-8")


def test_every_feature_is_listed_with_its_meaning() -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", PAGE, re.MULTILINE))
    fixed = {name: text for name, text in rows.items() if not re.search(r"[A-Z]{4}", name)}
    assert fixed == {feature.name: feature.doc for feature in FEATURES}
    for name, text in rows.items():
        assert meaning(name) == text.replace("\\|", "|")
    assert f"## Features, version {FEATURE_VERSION}\n" in PAGE


def test_a_name_that_no_column_can_have_has_no_meaning() -> None:
    with pytest.raises(KeyError):
        meaning("weather")


def test_limits_equal_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"at least {warm_start.FEWEST_TIMES} such times" in text
    assert f"at most {warm_start.MOST_TIMES:,}" in text
