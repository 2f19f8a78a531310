"""The numbers on docs/how-to/run-time.md agree with the code, and the identifiers on the page exist."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import autosched
from autosched.dispatch import lookup
from autosched.dispatch.database import NotTuned, StaleSchedule
from autosched.dispatch.provenance import KernelProvenance, Kind
from autosched.samplers.first_choices import model_choice
from autosched.tuning.winner import paired_timing
from search_spaces.operators import distance

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "how-to" / "run-time.md").read_text("utf-8").split())


def test_numbers_of_the_page_equal_the_code() -> None:
    for text in (
        f" {model_choice.SAMPLES} samples",
        f"At most {lookup.MOST_TRIED} ",
        f" {lookup.NEIGHBOUR_SLACK:g} times ",
        f"at least {distance.OTHER_DEVICE:g}.",
        f"increases by {distance.UNKNOWN_DEVICE:g}.",
        f"distance above {distance.MAX_DOUBLINGS:g} ",
        f"more than {100 * paired_timing.TIE:g}%",
    ):
        assert text in PAGE, text


def test_functions_of_the_page_exist() -> None:
    names = re.search(r"`matmul`, .*? accept arrays", PAGE)
    assert names is not None
    for name in re.findall(r"`(\w+)`", names[0]):
        assert callable(getattr(autosched, name))
    fields = {field.name for field in dataclasses.fields(KernelProvenance)}
    assert {"kind", "origin", "distance", "differences", "stale", "refused"} <= fields
    assert all(f"**{kind.value.capitalize()}**" in PAGE or f"(`{kind.value}`)" in PAGE for kind in Kind)
    assert all(f"`{category.__name__}`" in PAGE for category in (NotTuned, StaleSchedule))
